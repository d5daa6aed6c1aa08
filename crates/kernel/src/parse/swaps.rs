use std::path::PathBuf;

use super::mountinfo::unescape;
use crate::{
    ParseError,
    text::{count, rows, signed, words},
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Swap {
    /// Such as `/dev/zram0` or `/swapfile`; ends in ` (deleted)` after the file was removed.
    pub device: PathBuf,
    /// `partition` or `file`.
    pub kind: String,
    /// In bytes.
    pub size: u64,
    /// In bytes.
    pub used: u64,
    pub priority: i64,
}

/// Without devices with an underflowed amount.
pub fn parse(text: &[u8]) -> Result<Vec<Swap>, ParseError> {
    rows(text, 1, "expected a swap device", swap)
}

/// The inner `None` is a device with an underflowed amount.
fn swap(line: &[u8]) -> Option<Option<Swap>> {
    let mut words = words(line);
    let device = unescape(words.next()?);
    let kind = String::from_utf8_lossy(words.next()?).into_owned();
    let mut kilobytes = || count(words.next()?);
    let (size, used) = (kilobytes()?, kilobytes()?);
    let priority = signed(words.next()?)?;
    let bytes = |kilobytes: Option<u64>| kilobytes?.checked_mul(1024);
    Some(bytes(size).zip(bytes(used)).map(|(size, used)| Swap {
        device,
        kind,
        size,
        used,
        priority,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swap_devices_with_spaces_parse_and_no_swap_is_an_empty_list() {
        let text = b"Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
            /dev/zram0                              partition\t8388604\t\t1024\t\t100\n\
            /mnt/swap\\040file                       file\t\t2097148\t\t0\t\t-2\n";
        let swaps = parse(text).unwrap();
        assert_eq!(
            (swaps[0].size, swaps[0].used, swaps[0].priority),
            (8_388_604 << 10, 1 << 20, 100)
        );
        assert_eq!(swaps[1].device, PathBuf::from("/mnt/swap file"));
        assert_eq!((swaps[1].kind.as_str(), swaps[1].priority), ("file", -2));
        assert_eq!(
            parse(b"Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"),
            Ok(Vec::new())
        );
        let below_zero = b"Filename\n/dev/sda partition 4 -4 -2\n/dev/sdb partition 8 4 -3\n";
        assert_eq!(parse(below_zero).unwrap().len(), 1);
        assert_eq!(
            parse(b"Filename\n/dev/sda2 partition many 0 -2\n")
                .unwrap_err()
                .line,
            2
        );
    }
}
