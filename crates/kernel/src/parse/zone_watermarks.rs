//! `min` watermarks of `/proc/zoneinfo`: pages reserved for the kernel.

use crate::{
    ParseError,
    text::{lines, number, words},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watermark {
    pub node: u32,
    /// In pages.
    pub min: u64,
}

pub fn parse(text: &[u8]) -> Result<Vec<Watermark>, ParseError> {
    let mut found = Vec::new();
    let mut node = None;
    for line in lines(text) {
        if let Some(rest) = line.text.strip_prefix(b"Node ") {
            let digits = rest.split(|&byte| byte == b',').next().unwrap_or_default();
            let number = number(digits).and_then(|number| u32::try_from(number).ok());
            node = Some(number.ok_or_else(|| line.error("expected the number of a node"))?);
            continue;
        }
        let mut parts = words(line.text);
        if let (Some(node), Some(b"min"), Some(value)) = (node, parts.next(), parts.next()) {
            let min = number(value).ok_or_else(|| line.error("expected a number"))?;
            found.push(Watermark { node, min });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_zone_has_one_watermark() {
        let text = b"Node 0, zone      DMA\n  per-node stats\n      nr_dirty 5\n  pages free     2813\n        boost    0\n\
            \x20       min      5\n        low      6\nNode 11, zone   Normal\n        min      70\n";
        let expected = [(0, 5), (11, 70)].map(|(node, min)| Watermark { node, min });
        assert_eq!(parse(text).unwrap(), expected);
        assert_eq!(parse(b"Node x, zone DMA\n").unwrap_err().line, 1);
        assert_eq!(parse(b"Node 0, zone DMA\n min -1\n").unwrap_err().line, 2);
    }
}
