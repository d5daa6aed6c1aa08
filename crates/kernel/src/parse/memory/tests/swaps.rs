use super::super::*;

#[test]
fn swap_devices_with_spaces_parse_and_no_swap_is_an_empty_list() {
    let text = b"Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
        /dev/zram0                              partition\t8388604\t\t1024\t\t100\n\
        /mnt/swap\\040file                       file\t\t2097148\t\t0\t\t-2\n";
    let list = swaps(text).unwrap();
    assert_eq!(
        (list[0].size, list[0].used, list[0].priority),
        (8_388_604 << 10, 1 << 20, 100)
    );
    assert_eq!(list[1].device, PathBuf::from("/mnt/swap file"));
    assert_eq!((list[1].kind.as_str(), list[1].priority), ("file", -2));
    assert_eq!(
        swaps(b"Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"),
        Ok(Vec::new())
    );
    let below_zero = b"Filename\n/dev/sda partition 4 -4 -2\n/dev/sdb partition 8 4 -3\n";
    assert_eq!(swaps(below_zero).unwrap().len(), 1);
    assert_eq!(
        swaps(b"Filename\n/dev/sda2 partition many 0 -2\n")
            .unwrap_err()
            .line,
        2
    );
}
