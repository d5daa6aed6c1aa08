//! `Mems_allowed_list` of `/proc/PID/status`: the NUMA nodes of the task's cpuset.

use super::cpu_list;
use crate::ParseError;
use crate::text::lines;

/// `None` without the line: a kernel without cpusets.
pub fn parse(text: &[u8]) -> Result<Option<Vec<u32>>, ParseError> {
    for line in lines(text) {
        if let Some(value) = line.text.strip_prefix(b"Mems_allowed_list:") {
            let nodes = cpu_list::in_line(value);
            return Ok(Some(
                nodes.ok_or_else(|| line.error("expected a list such as 0-3,8"))?,
            ));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_captured_status_allows_node_0() {
        let text = include_bytes!("../../tests/text/linux-6.18/pid_status");
        assert_eq!(parse(text), Ok(Some(vec![0])));
        assert_eq!(parse(b"Name:\tx\n"), Ok(None));
        assert_eq!(parse(b"Mems_allowed_list:\tmany\n").unwrap_err().line, 1);
    }
}
