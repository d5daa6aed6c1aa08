//! A fake host: a folder with `proc/` and `sys/fs/cgroup/`. A test may change its files while
//! they are read.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use crate::{Error, Result};

/// A temporary folder laid out like a host's root; removed when dropped.
#[derive(Debug)]
pub struct FakeHost {
    root: tempfile::TempDir,
}

impl FakeHost {
    /// A host with nothing but empty `proc` and `sys/fs/cgroup`.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn empty() -> Result<Self> {
        let root = tempfile::tempdir().map_err(Error::file(&std::env::temp_dir()))?;
        for folder in ["proc", "sys/fs/cgroup"] {
            let path = root.path().join(folder);
            fs::create_dir_all(&path).map_err(Error::file(&path))?;
        }
        Ok(Self { root })
    }

    /// A host with a copy of everything in `fixture`; symbolic links are copied as links.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn from_fixture(fixture: &Path) -> Result<Self> {
        let host = Self::empty()?;
        copy_folder(fixture, host.root())?;
        Ok(host)
    }

    /// The folder that replaces `/`.
    pub fn root(&self) -> &Path {
        self.root.path()
    }

    /// The path of `path` (with or without a leading `/`) in this host's folder.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    /// Writes a file in place, with the folders above it; a reader that holds it open sees the new text.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn write(&self, path: &str, text: impl AsRef<[u8]>) -> Result<&Self> {
        let path = self.path(path);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(Error::file(parent))?;
        }
        fs::write(&path, text).map_err(Error::file(&path))?;
        Ok(self)
    }

    /// Removes a file, or a folder with all in it, as when a process ends.
    ///
    /// # Errors
    /// [`Error::File`], also when it is not there.
    pub fn remove(&self, path: &str) -> Result<&Self> {
        let path = self.path(path);
        let meta = fs::symlink_metadata(&path).map_err(Error::file(&path))?;
        let removed = if meta.is_dir() {
            fs::remove_dir_all(&path)
        } else {
            fs::remove_file(&path)
        };
        removed.map_err(Error::file(&path))?;
        Ok(self)
    }

    /// Takes every permission from a file or folder. Root can still read it, see
    /// [`FakeHost::permissions_apply`].
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn forbid(&self, path: &str) -> Result<&Self> {
        self.set_mode(path, 0)
    }

    /// Sets the mode 755 again, after [`FakeHost::forbid`].
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn allow(&self, path: &str) -> Result<&Self> {
        self.set_mode(path, 0o755)
    }

    /// Whether a forbidden file is really unreadable here: false for root.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn permissions_apply() -> Result<bool> {
        let host = Self::empty()?;
        host.write("proc/secret", "text")?.forbid("proc/secret")?;
        Ok(fs::read(host.path("proc/secret")).is_err())
    }

    fn set_mode(&self, path: &str, mode: u32) -> Result<&Self> {
        let path = self.path(path);
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).map_err(Error::file(&path))?;
        Ok(self)
    }
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).map_err(Error::file(to))?;
    for entry in fs::read_dir(from).map_err(Error::file(from))? {
        let entry = entry.map_err(Error::file(from))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(Error::file(&source))?;
        if kind.is_dir() {
            copy_folder(&source, &target)?;
        } else if kind.is_symlink() {
            let aim = fs::read_link(&source).map_err(Error::file(&source))?;
            std::os::unix::fs::symlink(aim, &target).map_err(Error::file(&target))?;
        } else {
            // Content only: a fixture checked out read-only must still be writable here.
            let bytes = fs::read(&source).map_err(Error::file(&source))?;
            fs::write(&target, bytes).map_err(Error::file(&target))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixture_is_copied_with_its_links_and_stays_untouched() -> Result<()> {
        let fixture = FakeHost::empty()?;
        fixture
            .write("proc/7/stat", "7 (a) S")?
            .write("sys/fs/cgroup/memory.max", "max\n")?;
        std::os::unix::fs::symlink("7", fixture.path("proc/self")).unwrap();
        let host = FakeHost::from_fixture(fixture.root())?;
        host.write("/proc/7/stat", "7 (a) R")?;
        assert_eq!(
            fs::read_to_string(host.path("proc/self/stat")).unwrap(),
            "7 (a) R"
        );
        assert_eq!(
            fs::read_to_string(fixture.path("proc/7/stat")).unwrap(),
            "7 (a) S"
        );
        assert_eq!(
            fs::read_link(host.path("proc/self")).unwrap(),
            Path::new("7")
        );
        Ok(())
    }

    #[test]
    fn an_open_file_reader_sees_the_rewritten_text() -> Result<()> {
        use std::os::unix::fs::FileExt;
        let host = FakeHost::empty()?;
        host.write("proc/uptime", "1.00 2.00")?;
        let file = fs::File::open(host.path("proc/uptime")).unwrap();
        host.write("proc/uptime", "3")?;
        let mut buffer = [0; 16];
        let read = file.read_at(&mut buffer, 0).unwrap();
        assert_eq!(&buffer[..read], b"3");
        Ok(())
    }

    #[test]
    fn a_removed_process_is_gone_and_removing_it_again_fails() -> Result<()> {
        let host = FakeHost::empty()?;
        host.write("proc/7/task/7/stat", "")?.remove("proc/7")?;
        assert!(!host.path("proc/7").exists());
        assert!(matches!(host.remove("proc/7"), Err(Error::File { .. })));
        Ok(())
    }

    #[test]
    fn a_forbidden_file_is_read_after_permission_is_granted() -> Result<()> {
        let host = FakeHost::empty()?;
        host.write("proc/io", "x")?.forbid("proc/io")?;
        assert_eq!(
            fs::read(host.path("proc/io")).is_err(),
            FakeHost::permissions_apply()?
        );
        host.allow("proc/io")?;
        assert_eq!(fs::read(host.path("proc/io")).unwrap(), b"x");
        Ok(())
    }
}
