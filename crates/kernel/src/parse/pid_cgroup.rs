use procfs::{FromRead, ProcessCGroups};

use crate::{ParseError, text::rows};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// Controllers of a v1 hierarchy, `name=...` included; empty for v2.
    pub controllers: Vec<String>,
    pub unified: bool,
    /// Relative to the root of the reader's cgroup namespace; `/../x` is outside of it.
    pub path: String,
    /// The cgroup was removed while the process, a zombie, was in it.
    pub deleted: bool,
}

pub fn parse(text: &[u8]) -> Result<Vec<Membership>, ParseError> {
    // Parses line by line, because procfs-core's errors have no line number.
    rows(text, 0, "expected three fields", |line| {
        membership(line).map(Some)
    })
}

fn membership(line: &[u8]) -> Option<Membership> {
    // procfs-core requires UTF-8, folder names do not.
    let found = ProcessCGroups::from_read(String::from_utf8_lossy(line).as_bytes())
        .ok()?
        .0
        .pop()?;
    let without_mark = found.pathname.strip_suffix(" (deleted)");
    Some(Membership {
        unified: found.hierarchy == 0 && found.controllers.is_empty(),
        deleted: without_mark.is_some(),
        path: without_mark.unwrap_or(&found.pathname).to_owned(),
        controllers: found.controllers,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hybrid_host_lists_v1_hierarchies_and_the_unified_one() {
        let list =
            parse(b"9:name=systemd:/\n4:memory:/validator\n2:cpu,cpuacct:/a:b\n0::/v\n").unwrap();
        assert_eq!(list[1].controllers, ["memory"]);
        assert_eq!(
            (list[2].controllers.len(), list[2].path.as_str()),
            (2, "/a:b")
        );
        assert!(list[3].unified && list[3].controllers.is_empty());
        assert!(!list[0].unified);
    }

    #[test]
    fn a_removed_cgroup_is_recognised_by_its_deleted_suffix() {
        let list = parse(b"0::/sol.service (deleted)\n").unwrap();
        assert_eq!(
            (list[0].path.as_str(), list[0].deleted),
            ("/sol.service", true)
        );
    }

    #[test]
    fn a_line_with_two_fields_is_an_error() {
        assert_eq!(parse(b"0::/\n4:memory\n").unwrap_err().line, 2);
    }
}
