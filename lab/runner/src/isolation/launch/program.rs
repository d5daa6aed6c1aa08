use super::{Job, LauncherAbilities, WithPath, poll_until};
use anyhow::{Result, anyhow, bail, ensure};
use faultline_kernel::HostRoot;
use rustix::{
    fs::{CWD, Mode, OFlags, fcntl_setfl, mkfifoat},
    io::Errno,
    process::{Resource, getrlimit},
};
use std::{
    env,
    ffi::OsStr,
    fs::{self, File, OpenOptions},
    io::Write,
    os::unix::{
        ffi::OsStrExt,
        fs::{OpenOptionsExt, PermissionsExt},
    },
    path::{Path, PathBuf},
    time::Duration,
};

/// The executable: absolute, or the first match in the job's `PATH` (this program's own `PATH` if
/// the job has none). A relative path with a folder is an error.
pub fn executable(job: &Job) -> Result<PathBuf> {
    let Some(name) = job.command.first() else {
        bail!("no command to start");
    };
    let path = Path::new(name);
    if path.is_absolute() {
        ensure!(is_program(path), missing_program(name));
        return Ok(path.to_owned());
    }
    ensure!(
        !name.as_bytes().contains(&b'/'),
        "{}: write the program's whole path",
        path.display()
    );
    let folders = job
        .environment
        .iter()
        .rfind(|(key, _)| key == "PATH")
        .map(|(_, value)| value.clone())
        .or_else(|| env::var_os("PATH"))
        .unwrap_or_default();
    find_executable(Some(&folders), name).ok_or_else(|| missing_program(name))
}

pub fn find_executable(path: Option<&OsStr>, name: &OsStr) -> Option<PathBuf> {
    env::split_paths(path?)
        .map(|folder| folder.join(name))
        .find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    file.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn missing_program(name: &OsStr) -> anyhow::Error {
    anyhow!("{}: there is no such program", Path::new(name).display())
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct User {
    pub uid: u32,
    pub gid: u32,
}

impl User {
    /// Reads only `etc/passwd`: users of a directory service are not found.
    pub fn of(job: &Job, etc: &Path) -> Result<Option<Self>> {
        let name = job.user.as_deref();
        name.map(|name| Self::find(etc, name)).transpose()
    }

    fn find(etc: &Path, name: &str) -> Result<Self> {
        let path = etc.join("passwd");
        let bytes = std::fs::read(&path).with_path(&path)?;
        let user = String::from_utf8_lossy(&bytes).lines().find_map(|line| {
            let mut fields = line.split(':');
            let numbers = (fields.next() == Some(name)).then(|| (fields.nth(1), fields.next()))?;
            Some(Self {
                uid: numbers.0?.parse().ok()?,
                gid: numbers.1?.parse().ok()?,
            })
        });
        user.ok_or_else(|| anyhow!("user {name:?}: not in {}", path.display()))
    }
}

/// Number of `CAP_SYS_RESOURCE`.
const SYS_RESOURCE: u32 = 24;

/// Highest RLIMIT_NOFILE that this program can set; `None` if unknown.
pub fn max_open_files(host: &HostRoot) -> Option<u64> {
    let system_max = system_max_open_files(host)?;
    let capabilities = fs::read_to_string(host.procfs.join("self/status"))
        .ok()?
        .lines()
        .find_map(|line| u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok())?;
    let own_max = getrlimit(Resource::Nofile)
        .maximum
        .filter(|_| capabilities >> SYS_RESOURCE & 1 == 0);
    Some(own_max.map_or(system_max, |own_max| own_max.min(system_max)))
}

/// The kernel's maximum for any process: `fs.nr_open`.
pub fn system_max_open_files(host: &HostRoot) -> Option<u64> {
    fs::read_to_string(host.procfs.join("sys/fs/nr_open"))
        .ok()?
        .trim()
        .parse()
        .ok()
}

pub fn check_open_files(job: &Job, abilities: &LauncherAbilities) -> Result<()> {
    match (job.open_files, abilities.open_files) {
        (Some(requested), Some(maximum)) if requested > maximum => bail!(
            "{requested} open files: at most {maximum} are possible here (fs.nr_open; with neither systemd nor CAP_SYS_RESOURCE, also the \
             hard limit of this program, `ulimit -Hn`)"
        ),
        _ => Ok(()),
    }
}

const EXEC_GATE_TIMEOUT: Duration = Duration::from_secs(120);

/// A FIFO at which the exec shim waits before it executes the program. A drop removes the FIFO; a
/// waiting shim then waits forever.
pub struct ExecGate(PathBuf);

impl ExecGate {
    /// Only `user` may read the FIFO; `None`: this program's user. Fails if the file exists.
    pub fn create(job: &Job, user: Option<User>) -> Result<Option<Self>> {
        let Some(path) = job.exec_gate.as_deref() else {
            return Ok(None);
        };
        mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).with_path(path)?;
        let gate = Self(path.to_owned());
        if let Some(User { uid, gid }) = user {
            std::os::unix::fs::chown(path, Some(uid), Some(gid)).with_path(path)?;
        }
        Ok(Some(gate))
    }

    /// Waits until the exec shim, named `name` in errors, reads the FIFO, then writes `message`
    /// (that of `exec_gate_message`). Meanwhile, `check` must fail if the shim has ended.
    pub fn release(
        &self,
        name: &str,
        message: &[u8],
        mut check: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let opened = poll_until(EXEC_GATE_TIMEOUT, || {
            let file = self.open_writer()?;
            if file.is_none() {
                check()?;
            }
            Ok(file)
        })?;
        match opened {
            Some(mut file) => file.write_all(message).with_path(&self.0),
            None => bail!("{name} does not wait at its gate {}", self.0.display()),
        }
    }

    /// Opens the FIFO for writing; `None` while no program reads it.
    fn open_writer(&self) -> Result<Option<File>> {
        let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits().cast_signed();
        let file = match OpenOptions::new()
            .write(true)
            .custom_flags(flags)
            .open(&self.0)
        {
            Err(error) if error.raw_os_error() == Some(Errno::NXIO.raw_os_error()) => {
                return Ok(None);
            }
            opened => opened.with_path(&self.0)?,
        };
        // Blocking, because the data may exceed the pipe's capacity.
        fcntl_setfl(&file, OFlags::empty()).with_path(&self.0)?;
        Ok(Some(file))
    }
}

impl Drop for ExecGate {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

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

    #[test]
    fn without_the_capability_the_own_descriptor_limit_is_the_maximum() {
        let folder = tempfile::tempdir().unwrap();
        let host = HostRoot::below(folder.path());
        assert_eq!(max_open_files(&host), None);
        for folder in ["self", "sys/fs"] {
            fs::create_dir_all(host.procfs.join(folder)).unwrap();
        }
        let own = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
        let with = |capabilities: &str, system_max_open_files: u64| {
            fs::write(
                host.procfs.join("self/status"),
                format!("Name:\tx\nCapEff:\t{capabilities}\n"),
            )
            .unwrap();
            fs::write(
                host.procfs.join("sys/fs/nr_open"),
                format!("{system_max_open_files}\n"),
            )
            .unwrap();
            max_open_files(&host)
        };
        assert_eq!(with("0000000001000000", 1 << 40), Some(1 << 40));
        assert_eq!(with("00000000feffffff", 1 << 40), Some(own.min(1 << 40)));
        assert_eq!(with("00000000feffffff", 5), Some(5));
        assert_eq!(with("", 5), None);
    }
}
