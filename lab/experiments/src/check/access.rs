//! Checks the plan user's file access. A validator without write access exits at once, which would
//! count as a result.

use super::{Findings, HostFacts, folders::work_folders};
use crate::{
    passwd,
    plan::{InitialState, Plan},
};
use itertools::Itertools;
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

/// Returns paths and reasons. Omits missing paths. Empty if the user does not exist. A folder with an
/// ACL counts as accessible.
pub fn find_inaccessible(plan: &Plan) -> BTreeMap<PathBuf, String> {
    let read = |file| std::fs::read_to_string(file).unwrap_or_default();
    let user = plan.workload.user.as_deref();
    let user_ids =
        user.and_then(|name| UserIds::find(&read("/etc/passwd"), &read("/etc/group"), name));
    let mut inaccessible = BTreeMap::new();
    for (_, path, bits) in required_access(plan) {
        let error = match (user, &user_ids) {
            (_, Some(user_ids)) => user_ids.access_error(path, bits),
            (None, None) if bits & WRITE != 0 && path.is_dir() => {
                let result = access(path, Access::WRITE_OK | Access::EXEC_OK);
                let error = result.err();
                error.map(|error| format!("may not be written by this program's user: {error}"))
            }
            _ => None,
        };
        inaccessible.extend(error.map(|error| (path.to_owned(), error)));
    }
    inaccessible
}

/// Name, path and permission bits. A run makes the user the owner of each folder that it clears, so
/// only the parents of this folder are checked.
fn required_access(plan: &Plan) -> Vec<(String, &Path, u32)> {
    let folder_bits = if plan.initial_state == InitialState::AsIs {
        WRITE | EXECUTE
    } else {
        0
    };
    let folders = work_folders(plan).into_iter();
    let mut all = folders
        .map(|(name, path)| (name, path, folder_bits))
        .collect_vec();
    // A lane has the folders and the identity of one run.
    for path in plan.lanes.iter().flat_map(|lane| &lane.identity) {
        all.push(("identity".to_owned(), path, READ));
    }
    if let Some(path) = &plan.workload.current_dir {
        all.push(("workload.working_folder".to_owned(), path, EXECUTE));
    }
    all
}

pub fn check(plan: &Plan, facts: &HostFacts, findings: &mut Findings) {
    for (name, path, _) in required_access(plan) {
        if let Some(why) = facts.inaccessible.get(path) {
            findings.refuse(
                format!(
                    "{name} {} {why}: every run would exit immediately, and that would count as a result",
                    path.display()
                ),
                "make this user its owner (chown), permit the access (chmod), or name another workload.user",
            );
        }
    }
}

impl UserIds {
    fn find(passwd: &str, group: &str, name: &str) -> Option<Self> {
        let ids = passwd::parse(passwd)
            .into_iter()
            .find(|account| account.name == name)?
            .ids;
        let mut groups = vec![ids.gid];
        for line in group.lines() {
            if let Some((before, members)) = line.rsplit_once(':')
                && members.split(',').any(|member| member.trim() == name)
                && let Some(Ok(gid)) = before.rsplit(':').next().map(str::parse)
            {
                groups.push(gid);
            }
        }
        Some(Self {
            name: name.to_owned(),
            uid: ids.uid,
            groups,
        })
    }

    fn access_error(&self, path: &Path, path_bits: u32) -> Option<String> {
        if self.uid == 0 {
            return None;
        }
        let path = path.canonicalize().ok()?;
        let mut ancestors = path.ancestors().collect_vec();
        ancestors.reverse();
        ancestors.into_iter().find_map(|ancestor| {
            let (required_bits, subject) = if ancestor == path {
                (path_bits, "it".to_owned())
            } else {
                (EXECUTE, ancestor.display().to_string())
            };
            let meta = ancestor
                .metadata()
                .ok()
                .filter(|_| !has_access_list(ancestor))?;
            let (mode, uid, gid) = (meta.mode(), meta.uid(), meta.gid());
            if self.permitted_bits(mode, uid, gid) & required_bits == required_bits {
                return None;
            }
            Some(format!(
                "cannot be used by user {:?} ({subject} has mode {:o}, user {uid} and group {gid})",
                self.name,
                mode & 0o7777
            ))
        })
    }

    fn permitted_bits(&self, mode: u32, uid: u32, gid: u32) -> u32 {
        let shift = if uid == self.uid {
            6
        } else if self.groups.contains(&gid) {
            3
        } else {
            0
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
        assert_eq!(sol.permitted_bits(0o750, 4001, 0), 7);
        assert_eq!(
            sol.permitted_bits(0o077, 4001, 4002),
            0,
            "an owner has no more than the owner's"
        );
        assert_eq!(
            (
                sol.permitted_bits(0o750, 0, 4003),
                sol.permitted_bits(0o707, 0, 4003)
            ),
            (5, 0)
        );
        assert_eq!(
            (
                sol.permitted_bits(0o755, 0, 0),
                sol.permitted_bits(0o750, 0, 4004)
            ),
            (5, 0)
        );
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
        let error = sol.access_error(&ledger, WRITE | EXECUTE).unwrap();
        assert!(
            error.starts_with("cannot be used by user \"sol\" (it has mode 755, user "),
            "{error}"
        );
        mode("disk", 0o750);
        let error = sol.access_error(&ledger, 0).unwrap();
        assert!(
            error.contains(&format!(
                "({} has mode 750, user ",
                scene.path().join("disk").display()
            )),
            "{error}"
        );
        assert_eq!(sol.access_error(&scene.path().join("none"), WRITE), None);
        let root = UserIds { uid: 0, ..sol };
        assert_eq!(root.access_error(&ledger, WRITE), None);
    }
}
