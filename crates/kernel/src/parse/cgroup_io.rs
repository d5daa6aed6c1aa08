use std::fmt;

use crate::{
    ParseError,
    text::{count, lines, number, words},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Device {
    pub major: u32,
    pub minor: u32,
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceIo {
    pub device: Device,
    pub read_bytes: u64,
    pub write_bytes: u64,
}

/// `io.stat`. Devices without counters (only configured) or with an underflowed counter are left
/// out.
pub fn parse_v2(text: &[u8]) -> Result<Vec<DeviceIo>, ParseError> {
    let mut list = Vec::new();
    for line in lines(text) {
        let (mut device, mut read, mut write) = (None, None, None);
        for word in words(line.text) {
            let value = |prefix: &[u8]| word.strip_prefix(prefix).map(count);
            if let Some(bytes) = value(b"rbytes=") {
                read = bytes.ok_or_else(|| line.error("expected a number"))?;
            } else if let Some(bytes) = value(b"wbytes=") {
                write = bytes.ok_or_else(|| line.error("expected a number"))?;
            } else if !word.contains(&b'=') {
                // Linux 5.x may write the names of idle devices on the line of the next busy one.
                device = Some(parse_device(word).ok_or_else(|| line.error("expected a device"))?);
            }
        }
        let device = device.ok_or_else(|| line.error("expected a device"))?;
        if let (Some(read_bytes), Some(write_bytes)) = (read, write) {
            list.push(DeviceIo {
                device,
                read_bytes,
                write_bytes,
            });
        }
    }
    Ok(list)
}

/// `blkio.throttle.io_service_bytes(_recursive)`, without devices with an underflowed counter.
pub fn parse_v1(text: &[u8]) -> Result<Vec<DeviceIo>, ParseError> {
    let mut list: Vec<DeviceIo> = Vec::new();
    let mut underflowed: Vec<Device> = Vec::new();
    for line in lines(text).filter(|line| !line.text.starts_with(b"Total")) {
        let mut words = words(line.text);
        let (Some(device), Some(operation), Some(bytes)) = (
            words.next().and_then(parse_device),
            words.next(),
            words.next().and_then(count),
        ) else {
            return Err(line.error("expected a device, an operation and a number"));
        };
        if list.last().is_none_or(|last| last.device != device) {
            list.push(DeviceIo {
                device,
                read_bytes: 0,
                write_bytes: 0,
            });
        }
        match (list.last_mut(), operation, bytes) {
            (Some(io), b"Read", Some(bytes)) => io.read_bytes = bytes,
            (Some(io), b"Write", Some(bytes)) => io.write_bytes = bytes,
            (_, b"Read" | b"Write", None) => underflowed.push(device),
            _ => {}
        }
    }
    list.retain(|io| !underflowed.contains(&io.device));
    Ok(list)
}

pub(crate) fn parse_device(word: &[u8]) -> Option<Device> {
    let mut numbers = word
        .splitn(2, |&b| b == b':')
        .map(|digits| u32::try_from(number(digits)?).ok());
    Some(Device {
        major: numbers.next()??,
        minor: numbers.next()??,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: Device = Device {
        major: 259,
        minor: 0,
    };

    #[test]
    fn v2_gives_bytes_by_device_and_skips_idle_ones() {
        let text = b"8:16 \n259:0 rbytes=1459200 wbytes=314773504 rios=192 wios=353 dbytes=0 dios=0\n7:0\n";
        assert_eq!(
            parse_v2(text).unwrap(),
            [DeviceIo {
                device: DISK,
                read_bytes: 1_459_200,
                write_bytes: 314_773_504
            }]
        );
        let same_line =
            b"8:16 259:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0 cost.usage=5\n";
        assert_eq!(
            parse_v2(same_line).unwrap(),
            [DeviceIo {
                device: DISK,
                read_bytes: 1,
                write_bytes: 2
            }]
        );
    }

    #[test]
    fn v1_io_statistics_have_the_same_structure() {
        let text = b"259:0 Read 4096\n259:0 Write 8192\n259:0 Sync 12288\n259:0 Async 0\n259:0 Total 12288\n\
            8:0 Read 1\n8:0 Write 0\nTotal 12289\n";
        let list = parse_v1(text).unwrap();
        assert_eq!(
            list[0],
            DeviceIo {
                device: DISK,
                read_bytes: 4096,
                write_bytes: 8192
            }
        );
        assert_eq!(
            (
                list.len(),
                list[1].read_bytes,
                list[1].device.to_string().as_str()
            ),
            (2, 1, "8:0")
        );
        assert!(parse_v1(b"Total 0\n").unwrap().is_empty());
    }

    #[test]
    fn a_device_with_a_counter_below_zero_is_left_out() {
        let v2 = b"8:0 rbytes=-4096 wbytes=1\n259:0 rbytes=5 wbytes=6 dios=-1\n";
        let v1 = b"8:0 Read 1\n8:0 Write 18446744073709547520\n259:0 Read 5\n259:0 Write 6\n259:0 Async -1\n";
        let other = DeviceIo {
            device: DISK,
            read_bytes: 5,
            write_bytes: 6,
        };
        assert_eq!(parse_v2(v2).unwrap(), [other]);
        assert_eq!(parse_v1(v1).unwrap(), [other]);
    }

    #[test]
    fn a_line_without_a_device_is_an_error() {
        assert!(parse_v2(b"rbytes=1 wbytes=2\n").is_err());
        assert!(parse_v2(b"8:0 rbytes=x wbytes=2\n").is_err());
        assert!(parse_v1(b"sda Read 1\n").is_err());
    }
}
