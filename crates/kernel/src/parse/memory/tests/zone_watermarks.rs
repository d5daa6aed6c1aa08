use super::super::*;

#[test]
fn each_zone_has_one_watermark() {
    let text = b"Node 0, zone      DMA\n  per-node stats\n      nr_dirty 5\n  pages free     2813\n        boost    0\n\
        \x20       min      5\n        low      6\nNode 11, zone   Normal\n        min      70\n";
    let expected = [(0, 5), (11, 70)].map(|(node, min)| Watermark { node, min });
    assert_eq!(zone_watermarks(text).unwrap(), expected);
    assert_eq!(zone_watermarks(b"Node x, zone DMA\n").unwrap_err().line, 1);
    assert_eq!(
        zone_watermarks(b"Node 0, zone DMA\n min -1\n")
            .unwrap_err()
            .line,
        2
    );
}
