use crate::{
    lock,
    plan::{Begin, Plan},
};
use faultline_common::output::print;
use faultline_kernel::HostRoot;
use faultline_runner::isolation::folders::{self, Cleared, MAX_LISTED};
use faultline_text::{bytes, count, counted};
use std::path::Path;

/// Fails if a folder cannot be cleared now.
pub fn dry_run(plan: &Plan) -> anyhow::Result<u8> {
    let _folders = lock::folders(plan)?;
    let mut printed = String::new();
    for folder in plan.work_folders() {
        if plan.begin == Begin::AsIs {
            printed += &format!("{}: stays as it is\n", folder.display());
        } else {
            printed += &page(folder, folders::would_clear(folder, &HostRoot::default())?);
        }
    }
    print(&printed).map(|()| 0)
}

/// Files to delete, then those to keep, sorted by name.
fn page(folder: &Path, would: Cleared) -> String {
    let Cleared {
        files,
        bytes: disk_bytes,
        mut listed,
        mut retained,
    } = would;
    let mut page = format!(
        "{}: would be cleared: {}, {}\n",
        folder.display(),
        counted(files as f64, "file"),
        bytes(disk_bytes)
    );
    listed.sort_unstable();
    listed
        .iter()
        .for_each(|path| page += &format!("  deleted: {}\n", path.display()));
    page += &more("deleted", files.saturating_sub(listed.len() as u64));
    retained.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    retained.iter().take(MAX_LISTED).for_each(|retained| {
        page += &format!(
            "  kept: {} ({})\n",
            retained.path.display(),
            retained.reason
        )
    });
    page + &more("kept", retained.len().saturating_sub(MAX_LISTED) as u64)
}

fn more(what: &str, many: u64) -> String {
    if many == 0 {
        String::new()
    } else {
        format!("  {what}: {} more, which are not listed\n", count(many))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultline_runner::isolation::folders::RetainedEntry;

    #[test]
    fn a_dry_run_lists_files_up_to_a_stated_limit() {
        let retained = |name: &str| RetainedEntry {
            path: name.into(),
            reason: "a keypair",
        };
        let would = Cleared {
            files: 3,
            bytes: 6 << 10,
            listed: vec!["/l/b".into(), "/l/a".into()],
            retained: ["/l/z", "/l/y", "/l/x", "/l/w"].map(retained).to_vec(),
        };
        let expected = "/l: would be cleared: 3 files, 6.0 KiB\n  deleted: /l/a\n  deleted: /l/b\n  deleted: 1 more, which are not listed\n  \
                        kept: /l/w (a keypair)\n  kept: /l/x (a keypair)\n  kept: /l/y (a keypair)\n  kept: /l/z (a keypair)\n";
        assert_eq!(page(Path::new("/l"), would), expected);
        let many = Cleared {
            retained: vec![retained("/l/k"); MAX_LISTED + 5],
            ..Cleared::default()
        };
        let page = page(Path::new("/l"), many);
        assert!(page.ends_with("  kept: 5 more, which are not listed\n"));
        assert_eq!(page.lines().count(), 1 + MAX_LISTED + 1);
    }
}
