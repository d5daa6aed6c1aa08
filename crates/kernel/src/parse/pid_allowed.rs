//! The cpuset of a task, from `/proc/PID/status`.

use super::cpu_list;
use crate::ParseError;
use crate::text::lines;

/// NUMA nodes. `None` without the line: a kernel without cpusets.
pub fn mems(text: &[u8]) -> Result<Option<Vec<u32>>, ParseError> {
    list(text, b"Mems_allowed_list:")
}

/// Also CPUs that are offline.
pub fn cpus(text: &[u8]) -> Result<Option<Vec<u32>>, ParseError> {
    list(text, b"Cpus_allowed_list:")
}

fn list(text: &[u8], key: &[u8]) -> Result<Option<Vec<u32>>, ParseError> {
    for line in lines(text) {
        if let Some(value) = line.text.strip_prefix(key) {
            let list = cpu_list::parse_value(value);
            return Ok(Some(
                list.ok_or_else(|| line.error("expected a list such as 0-3,8"))?,
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
        assert_eq!(mems(text), Ok(Some(vec![0])));
        assert_eq!(mems(b"Name:\tx\n"), Ok(None));
        assert_eq!(mems(b"Mems_allowed_list:\tmany\n").unwrap_err().line, 1);
        assert_eq!(
            cpus(b"Cpus_allowed_list:\t2,4-5\n"),
            Ok(Some(vec![2, 4, 5]))
        );
    }
}
