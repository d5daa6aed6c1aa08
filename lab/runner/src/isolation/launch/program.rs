use super::{Job, at};
use anyhow::{Result, anyhow, bail};
use std::{
    env,
    ffi::OsStr,
    os::unix::{ffi::OsStrExt, fs::PermissionsExt},
    path::{Path, PathBuf},
};

/// The executable: absolute, or the first match in the job's `PATH` (this program's own `PATH` if
/// the job has none). A relative path with a folder is an error.
pub fn file(job: &Job) -> Result<PathBuf> {
    let Some(name) = job.command.first() else {
        bail!("no command to start");
    };
    let path = Path::new(name);
    if path.is_absolute() {
        return if is_program(path) {
            Ok(path.to_owned())
        } else {
            Err(missing(name))
        };
    }
    if name.as_bytes().contains(&b'/') {
        bail!("{}: write the program's whole path", path.display());
    }
    let folders = job
        .environment
        .iter()
        .rfind(|(key, _)| key == "PATH")
        .map(|(_, value)| value.clone())
        .or_else(|| env::var_os("PATH"))
        .unwrap_or_default();
    in_path(Some(&folders), name).ok_or_else(|| missing(name))
}

pub fn in_path(path: Option<&OsStr>, name: &OsStr) -> Option<PathBuf> {
    env::split_paths(path?)
        .map(|folder| folder.join(name))
        .find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    file.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn missing(name: &OsStr) -> anyhow::Error {
    anyhow!("{}: there is no such program", Path::new(name).display())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User {
    pub uid: u32,
    pub gid: u32,
}

impl User {
    /// Reads only `etc/passwd`: users of a directory service are not found.
    pub fn of(job: &Job, etc: &Path) -> Result<Option<User>> {
        let name = job.user.as_deref();
        name.map(|name| User::find(etc, name)).transpose()
    }

    fn find(etc: &Path, name: &str) -> Result<User> {
        let path = etc.join("passwd");
        let bytes = std::fs::read(&path).map_err(at(&path))?;
        let text = String::from_utf8_lossy(&bytes);
        let found = text.lines().find_map(|line| {
            let mut fields = line.split(':');
            let numbers = (fields.next() == Some(name)).then(|| (fields.nth(1), fields.next()))?;
            Some(User {
                uid: numbers.0?.parse().ok()?,
                gid: numbers.1?.parse().ok()?,
            })
        });
        found.ok_or_else(|| anyhow!("user {name:?}: not in {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn a_user_is_found_only_by_an_own_passwd_line(lines in proptest::collection::vec("[a-c:x0-9]{0,12}", 0..8)) {
            let etc = tempfile::tempdir().unwrap();
            std::fs::write(etc.path().join("passwd"), lines.join("\n")).unwrap();
            let name = "a";
            let found = User::find(etc.path(), name).ok();
            let says = |user: User| {
                let fields = |line: &String| line.split(':').map(str::to_owned).collect::<Vec<_>>();
                let mut lines = lines.iter().map(fields);
                lines.any(|f| f.len() > 3 && f[0] == name && f[2].parse() == Ok(user.uid) && f[3].parse() == Ok(user.gid))
            };
            proptest::prop_assert!(found.is_none_or(says), "{found:?}");
        }
    }

    #[test]
    fn a_user_is_matched_by_full_name_and_broken_lines_are_skipped() {
        let etc = tempfile::tempdir().unwrap();
        std::fs::write(
            etc.path().join("passwd"),
            b"solana:x:1:1\nbad:x:a:b\n\xff:x:2:2:\nsol:x:1001:1002:Sol:/home/sol:/bin/sh\n",
        )
        .unwrap();
        assert_eq!(
            User::find(etc.path(), "sol").unwrap(),
            User {
                uid: 1001,
                gid: 1002
            }
        );
        for nobody in ["so", "bad", "", "x"] {
            assert!(User::find(etc.path(), nobody).is_err(), "{nobody:?}");
        }
    }
}
