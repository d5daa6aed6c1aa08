//! Checks the plan user's file access. A validator without write access exits at once, which would
//! count as a result.

use super::{Findings, HostFacts, folders::work_folders};
use crate::{
    passwd,
    plan::{Begin, Plan},
};
use faultline_runner::isolation::folders::Owner;
use rustix::fs::{Access, access};
use std::{
    collections::BTreeMap,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

const READ: u32 = 4;
const WRITE: u32 = 2;
const EXECUTE: u32 = 1;

#[derive(Debug, PartialEq)]
struct UserIds {
    name: String,
    uid: u32,
    groups: Vec<u32>,
}

/// Paths that the plan's user certainly cannot use, with reasons. Paths with an ACL, missing paths
/// and missing users are left out.
pub fn inaccessible(plan: &Plan) -> BTreeMap<PathBuf, String> {
    let required_access = required_access(plan);
    let Some(name) = &plan.workload.user else {
        let required_folders = required_access
            .into_iter()
            .filter(|(_, path, bits)| bits & WRITE != 0 && path.is_dir());
        let unwritable = required_folders.filter_map(|(_, path, _)| {
            let error = access(path, Access::WRITE_OK | Access::EXEC_OK).err()?;
            let why = format!("may not be written by this program's user: {error}");
            Some((path.to_owned(), why))
        });
        return unwritable.collect();
    };
    let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
    let Some(user_ids) = UserIds::find(&read("/etc/passwd"), &read("/etc/group"), name) else {
        return BTreeMap::new();
    };
    required_access
        .into_iter()
        .filter_map(|(_, path, bits)| Some((path.to_owned(), user_ids.access_error(path, bits)?)))
        .collect()
}

/// Name, path and needed access bits. A run gives a cleared folder to the user first; all others
/// must be accessible already.
fn required_access(plan: &Plan) -> Vec<(String, &Path, u32)> {
    let bits = if plan.begin == Begin::AsIs {
        WRITE | EXECUTE
    } else {
        0
    };
    let folders = work_folders(plan).into_iter();
    let identities = plan
        .lanes
        .iter()
        .filter_map(|lane| lane.identity.as_deref());
    let initial = plan.workload.working_folder.as_deref();
    folders
        .map(|(what, path)| (what, path, bits))
        .chain(identities.map(|path| ("identity".to_owned(), path, READ)))
        .chain(initial.map(|path| ("workload.working_folder".to_owned(), path, EXECUTE)))
        .collect()
}

pub fn check(plan: &Plan, facts: &HostFacts, findings: &mut Findings) {
    for (what, path, _) in required_access(plan) {
        if let Some(why) = facts.inaccessible.get(path) {
            findings.refuse(
                format!(
                    "{what} {} {why}: every run would exit immediately, and that would count as a result",
                    path.display()
                ),
                "give it to this user (chown), or let him in (chmod); or name another workload.user",
            );
        }
    }
}

impl UserIds {
    fn find(passwd: &str, group: &str, name: &str) -> Option<UserIds> {
        let Owner { uid, gid } = passwd::parse(passwd)
            .into_iter()
            .find(|account| account.name == name)?
            .owner;
        let more = group.lines().filter_map(|group| {
            let (before, members) = group.rsplit_once(':')?;
            let is_member = members.split(',').any(|member| member.trim() == name);
            before
                .rsplit(':')
                .next()
                .filter(|_| is_member)?
                .parse()
                .ok()
        });
        Some(UserIds {
            name: name.to_owned(),
            uid,
            groups: std::iter::once(gid).chain(more).collect(),
        })
    }

    fn access_error(&self, path: &Path, bits: u32) -> Option<String> {
        if self.uid == 0 {
            return None;
        }
        let canonical_path = path.canonicalize().ok()?;
        let mut steps: Vec<&Path> = canonical_path.ancestors().collect();
        steps.reverse();
        steps.into_iter().find_map(|step| {
            let is_last = step == canonical_path;
            let bits = if is_last { bits } else { EXECUTE };
            let meta = step.metadata().ok().filter(|_| !has_access_list(step))?;
            let (mode, uid, gid) = (meta.mode(), meta.uid(), meta.gid());
            if self.bits(mode, uid, gid) & bits == bits {
                return None;
            }
            let access_path = if is_last {
                String::new()
            } else {
                format!(" behind {}", step.display())
            };
            let mode = mode & 0o7777;
            let name = &self.name;
            Some(format!(
                "is not open to user {name:?}{access_path} (mode {mode:o}, of user {uid} and group {gid})"
            ))
        })
    }

    fn bits(&self, mode: u32, uid: u32, gid: u32) -> u32 {
        let shift = match () {
            () if uid == self.uid => 6,
            () if self.groups.contains(&gid) => 3,
            () => 0,
        };
        (mode >> shift) & 7
    }
}

/// Also true if the ACL cannot be read.
fn has_access_list(path: &Path) -> bool {
    use rustix::io::Errno;
    let acl = rustix::fs::getxattr(path, "system.posix_acl_access", &mut [0_u8; 0]);
    !matches!(acl, Err(Errno::NODATA | Errno::OPNOTSUPP))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs::{Permissions, create_dir_all, set_permissions},
        os::unix::fs::PermissionsExt,
    };

    const PASSWD: &str = "root:x:0:0::/root:/bin/sh\nsol:x:4001:4002::/home/sol:/bin/sh\n";

    fn sol() -> UserIds {
        UserIds::find(PASSWD, "disk:x:4003:a,sol,b\nsolar:x:4004:solar\n", "sol").unwrap()
    }

    #[test]
    fn a_user_has_only_groups_naming_the_full_user_name() {
        assert_eq!(
            sol(),
            UserIds {
                name: "sol".to_owned(),
                uid: 4001,
                groups: vec![4002, 4003]
            }
        );
        assert_eq!(UserIds::find(PASSWD, "", "so"), None);
    }

    #[test]
    fn access_uses_the_first_matching_permission_class() {
        let sol = sol();
        assert_eq!(sol.bits(0o750, 4001, 0), 7);
        assert_eq!(
            sol.bits(0o077, 4001, 4002),
            0,
            "an owner has no more than the owner's"
        );
        assert_eq!((sol.bits(0o750, 0, 4003), sol.bits(0o707, 0, 4003)), (5, 0));
        assert_eq!((sol.bits(0o755, 0, 0), sol.bits(0o750, 0, 4004)), (5, 0));
    }

    #[test]
    fn paths_a_user_cannot_access_are_named_unless_missing() {
        let scene = tempfile::tempdir().unwrap();
        let mode = |name: &str, mode: u32| {
            set_permissions(scene.path().join(name), Permissions::from_mode(mode)).unwrap()
        };
        let ledger = scene.path().join("disk/ledger");
        create_dir_all(&ledger).unwrap();
        mode("", 0o755);
        mode("disk", 0o755);
        mode("disk/ledger", 0o755);
        let sol = UserIds {
            uid: u32::MAX - 7,
            groups: vec![u32::MAX - 7],
            ..sol()
        };
        assert_eq!(sol.access_error(&ledger, EXECUTE), None);
        let warnings = sol.access_error(&ledger, WRITE | EXECUTE).unwrap();
        assert!(
            warnings.starts_with("is not open to user \"sol\" (mode 755, of user "),
            "{warnings}"
        );
        mode("disk", 0o750);
        let warnings = sol.access_error(&ledger, 0).unwrap();
        assert!(
            warnings.contains(&format!(
                "behind {} (mode 750",
                scene.path().join("disk").display()
            )),
            "{warnings}"
        );
        assert_eq!(sol.access_error(&scene.path().join("none"), WRITE), None);
        let root = UserIds { uid: 0, ..sol };
        assert_eq!(root.access_error(&ledger, WRITE), None);
    }
}
