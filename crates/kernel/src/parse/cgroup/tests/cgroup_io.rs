use super::super::*;

const DISK: Device = Device {
    major: 259,
    minor: 0,
};

#[test]
fn v2_gives_bytes_by_device_and_skips_idle_ones() {
    let text =
        b"8:16 \n259:0 rbytes=1459200 wbytes=314773504 rios=192 wios=353 dbytes=0 dios=0\n7:0\n";
    assert_eq!(
        io_v2(text).unwrap(),
        [DeviceIo {
            device: DISK,
            read_bytes: 1_459_200,
            write_bytes: 314_773_504
        }]
    );
    let same_line = b"8:16 259:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0 cost.usage=5\n";
    assert_eq!(
        io_v2(same_line).unwrap(),
        [DeviceIo {
            device: DISK,
            read_bytes: 1,
            write_bytes: 2
        }]
    );
}

#[test]
fn v1_io_statistics_have_the_same_structure() {
    let text =
        b"259:0 Read 4096\n259:0 Write 8192\n259:0 Sync 12288\n259:0 Async 0\n259:0 Total 12288\n\
        8:0 Read 1\n8:0 Write 0\nTotal 12289\n";
    let list = io_v1(text).unwrap();
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
    assert!(io_v1(b"Total 0\n").unwrap().is_empty());
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
    assert_eq!(io_v2(v2).unwrap(), [other]);
    assert_eq!(io_v1(v1).unwrap(), [other]);
}

#[test]
fn a_device_whose_numbers_are_unknown_is_left_out() {
    let v2 = b"(unknown) rbytes=1 wbytes=2\n(unknown) \n8:0 (unknown) rbytes=3 wbytes=4\n(unknown) 259:0 rbytes=5 wbytes=6\n";
    let v1 = b"(unknown) Read 1\n(unknown) Total 1\n259:0 Read 5\n259:0 Write 6\nTotal 12\n";
    let other = DeviceIo {
        device: DISK,
        read_bytes: 5,
        write_bytes: 6,
    };
    assert_eq!(io_v2(v2).unwrap(), [other]);
    assert_eq!(io_v1(v1).unwrap(), [other]);
}

#[test]
fn a_line_without_a_device_is_an_error() {
    assert!(io_v2(b"rbytes=1 wbytes=2\n").is_err());
    assert!(io_v2(b"8:0 rbytes=x wbytes=2\n").is_err());
    assert!(io_v1(b"sda Read 1\n").is_err());
}
