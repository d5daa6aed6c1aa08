//! Replaces files in folders where others may write, too. Never writes through a symbolic link.

use anyhow::{Context, Result, bail};
use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// The reason why no file can be created at `path`, with a remedy. `None` if none is found.
pub fn creation_error(path: &Path) -> Option<String> {
    if path.symlink_metadata().is_ok() {
        let path = path.display();
        return Some(format!(
            "{path}: exists already; give another name, or remove it first"
        ));
    }
    missing_folder(path).map(|folder| {
        let path = path.display();
        format!("{path}: no such folder: {folder}; make it, or give another name")
    })
}

pub fn missing_file_error(path: &Path) -> String {
    match missing_folder(path) {
        Some(folder) => format!("{}: no such folder: {folder}", path.display()),
        None => format!("{}: no such file", path.display()),
    }
}

fn missing_folder(path: &Path) -> Option<String> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())?;
    fs::metadata(folder)
        .is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
        .then(|| folder.display().to_string())
}

/// For reading. Fails on another kind of file: a pipe or a device may never end.
pub fn open_regular(path: &Path) -> io::Result<File> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other(
            "is not a regular file: name or restore the file itself",
        ));
    }
    File::open(path)
}

pub trait AtPath<T> {
    /// Adds the path to an error.
    fn at(self, path: &Path) -> Result<T>;
}

impl<T, E> AtPath<T> for Result<T, E>
where
    Self: anyhow::Context<T, E>,
{
    fn at(self, path: &Path) -> Result<T> {
        self.with_context(|| path.display().to_string())
    }
}

pub fn is_disk_full(error: &anyhow::Error) -> bool {
    let full_kinds = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>().map(io::Error::kind))
        .any(|kind| full_kinds.contains(&kind))
}

const MAX_TRIES: u32 = 100;

/// A file that is written under a temporary name in its folder. It is removed unless
/// [`TempFile::finish`] gives it its final name.
pub struct TempFile {
    file: File,
    path: Option<PathBuf>,
}

impl TempFile {
    /// Does not change the file at `path`.
    pub fn create(path: &Path) -> io::Result<Self> {
        // A killed process with the same PID may have left its file.
        let mut tries = 0..MAX_TRIES;
        loop {
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".{}-{}.part", std::process::id(), tries.start));
            let part = PathBuf::from(name);
            match File::create_new(&part) {
                Err(error)
                    if error.kind() == io::ErrorKind::AlreadyExists && tries.next().is_some() => {}
                made => {
                    return Ok(Self {
                        file: made?,
                        path: Some(part),
                    });
                }
            }
        }
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    /// Renames the file to `to`. Replaces a file or symbolic link of that name.
    pub fn finish(mut self, to: &Path) -> io::Result<()> {
        if let Some(path) = &self.path {
            fs::rename(path, to)?;
        }
        self.path = None;
        Ok(())
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
    }
}

/// Writes `text` to `path`, which begins with `out`, and creates the missing folders. Fails if the
/// file's folder is a symbolic link, but is not `out`. Without `force`, fails if the file exists.
pub fn write_report_file(out: &Path, path: &Path, text: &str, force: bool) -> Result<()> {
    write_report_files(out, &[(path.to_owned(), text.to_owned())], force)
}

/// [`write_report_file`] for several files. With `force`, writes all under temporary names before
/// it replaces the first.
pub fn write_report_files(out: &Path, files: &[(PathBuf, String)], force: bool) -> Result<()> {
    for (path, _) in files {
        let folder = path.parent().unwrap_or(out);
        if folder != out && folder.is_symlink() {
            bail!(
                "{} is a symbolic link: remove it, or choose another folder",
                folder.display()
            );
        }
        if let Ok(found) = path.symlink_metadata() {
            if found.is_dir() {
                bail!("cannot write {}: it is a folder: remove it", path.display());
            }
            if !force {
                bail!(NotOverwritten(path.clone()));
            }
        }
    }
    let mut parts = Vec::new();
    for (path, text) in files {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)
                .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        }
        let named = || format!("cannot write {}", path.display());
        if force {
            let part = TempFile::create(path).with_context(named)?;
            part.file().write_all(text.as_bytes()).with_context(named)?;
            parts.push((part, path));
        } else {
            let file = File::create_new(path).with_context(named)?;
            (&file).write_all(text.as_bytes()).with_context(named)?;
        }
    }
    for (part, path) in parts {
        part.finish(path)
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// Names the options of most callers.
#[derive(Debug, thiserror::Error)]
#[error("{} is there already: choose another folder with --out, or overwrite with --force", .0.display())]
pub struct NotOverwritten(pub PathBuf);

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_a_regular_file_is_opened() {
        use rustix::fs::{CWD, Mode, mkfifoat};
        let folder = tempfile::tempdir().unwrap();
        let [file, pipe] = ["file", "pipe"].map(|name| folder.path().join(name));
        fs::write(&file, "x").unwrap();
        mkfifoat(CWD, &pipe, Mode::RUSR).unwrap();
        open_regular(&file).unwrap();
        for path in [pipe.as_path(), folder.path(), Path::new("/dev/zero")] {
            let error = open_regular(path).unwrap_err().to_string();
            assert!(error.starts_with("is not a regular file"), "{error}");
        }
        let missing = open_regular(&folder.path().join("none")).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn an_output_link_is_replaced_and_its_target_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let (other, path) = (folder.path().join("other"), folder.path().join("page"));
        fs::write(&other, "precious").unwrap();
        symlink(&other, &path).unwrap();
        let said = write_report_file(folder.path(), &path, "new", false)
            .unwrap_err()
            .to_string();
        assert!(said.contains("is there already"), "{said}");
        write_report_file(folder.path(), &path, "new", true).unwrap();
        assert_eq!(
            (
                fs::read_to_string(&other).unwrap(),
                fs::read_to_string(&path).unwrap()
            ),
            ("precious".into(), "new".into())
        );
        assert!(!path.is_symlink());
        write_report_file(folder.path(), &path, "newer", true).unwrap();
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            2,
            "something was left behind"
        );
    }

    #[test]
    fn the_requested_folder_may_be_a_link_but_not_a_subfolder() {
        let folder = tempfile::tempdir().unwrap();
        let (real, out) = (folder.path().join("real"), folder.path().join("out"));
        fs::create_dir(&real).unwrap();
        symlink(&real, &out).unwrap();
        write_report_file(&out, &out.join("page"), "x", false).unwrap();
        symlink(folder.path(), out.join("tables")).unwrap();
        for force in [false, true] {
            let said = write_report_file(&out, &out.join("tables/x.csv"), "x", force)
                .unwrap_err()
                .to_string();
            assert!(
                said.contains("tables is a symbolic link: remove it"),
                "{said}"
            );
        }
        assert!(!folder.path().join("x.csv").exists());
        symlink(folder.path().join("nowhere"), out.join("dangling")).unwrap();
        write_report_file(&out, &out.join("dangling"), "x", false).unwrap_err();
        assert!(!folder.path().join("nowhere").exists());
    }

    #[test]
    fn several_files_are_replaced_atomically() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let files = |text: &str| {
            ["page", "tables/a.csv", "tables/b.csv"].map(|name| (out.join(name), text.to_owned()))
        };
        write_report_files(&out, &files("old"), false).unwrap();
        let said = write_report_files(&out, &files("new"), false)
            .unwrap_err()
            .to_string();
        assert!(said.contains("page is there already"), "{said}");
        fs::remove_file(out.join("tables/b.csv")).unwrap();
        fs::create_dir(out.join("tables/b.csv")).unwrap();
        let said = write_report_files(&out, &files("new"), true)
            .unwrap_err()
            .to_string();
        assert!(said.contains("b.csv: it is a folder: remove it"), "{said}");
        let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
        assert_eq!([read("page"), read("tables/a.csv")], ["old", "old"]);
        fs::remove_dir(out.join("tables/b.csv")).unwrap();
        write_report_files(&out, &files("new"), true).unwrap();
        assert_eq!([read("page"), read("tables/b.csv")], ["new", "new"]);
        assert_eq!(fs::read_dir(out.join("tables")).unwrap().count(), 2);
    }

    #[test]
    fn a_file_that_cannot_be_renamed_leaves_no_temporary_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::create_dir(&path).unwrap();
        write_report_file(folder.path(), &path, "x", true).unwrap_err();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
