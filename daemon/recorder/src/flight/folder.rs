//! The folder of a flight recorder: marker file, file names and retention.

use super::{SaveOrigin, modified_at};
use faultline_core::config::Flight;
use faultline_metrics::Stamp;
use faultline_recording::{Error, with_suffix};
use rustix::{
    fs::{Access, AtFlags, CWD},
    process::geteuid,
};
use std::{
    fs,
    io::{self, ErrorKind},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::Duration,
};

/// The marker file. In a folder without it, nothing is ever deleted or renamed.
pub const MARKER_FILE: &str = ".faultline-flight";

pub const RING_FILE: &str = "ring.fltl";

const RECORDING_SUFFIX: &str = ".fltl";

const PARTIAL_SUFFIX: &str = ".part";

/// Suffixes of a recording's files: none, and those of files that SQLite may add.
const SQLITE_SUFFIXES: [&str; 4] = ["", "-wal", "-shm", "-journal"];

/// Recordings with these reasons may be deleted to free space.
const AUTOMATIC_REASONS: [&str; 5] = ["behind", "stall", "exit", "oom_kill", SET_ASIDE];

/// Reason in the name of a ring that could not be continued.
const SET_ASIDE: &str = "set_aside";

const MARKER_TEXT: &str =
    "This folder belongs to the flight recorder of faultlined. If there are too many recordings, it
removes the oldest automatic ones (NAME-oom_kill-TIME.fltl, and the same with exit, behind, stall
and set_aside). Without this file it removes nothing, and saves nothing once the folder is full.
";

/// Creates nothing.
///
/// # Errors
/// The folder has files but no marker, is not a folder, or cannot be created or marked.
pub fn check_folder(folder: &Path) -> Result<(), String> {
    let shown = folder.display();
    match fs::read_dir(folder) {
        Ok(mut entries) => {
            if is_marked(folder) {
                Ok(())
            } else if entries.next().is_none() {
                check_writable(folder)
            } else {
                Err(format!(
                    "{shown} has other files and no {MARKER_FILE}; use a folder that is empty or does not exist yet"
                ))
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => match folder.parent() {
            Some(parent) if parent.as_os_str().is_empty() => check_writable(Path::new(".")),
            Some(parent) if parent.is_dir() => check_writable(parent),
            _ => Err(format!(
                "{shown} cannot be made: the folder above it is missing; create it first"
            )),
        },
        Err(error) => check_writable(folder).and(Err(format!("{shown} cannot be used: {error}"))),
    }
}

/// Changes nothing on disk.
pub fn check_writable(path: &Path) -> Result<(), String> {
    rustix::fs::accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).map_err(|errno| {
        let (uid, error) = (geteuid(), io::Error::from(errno));
        format!(
            "user {uid} cannot write to {}: {error}; give the right (chown), or set another path",
            path.display()
        )
    })
}

/// Creates the folder for this user and group only, and marks it.
pub fn prepare(folder: &Path) -> Result<(), Error> {
    let error = |source| Error::Io {
        path: folder.to_owned(),
        source,
    };
    check_folder(folder).map_err(|what| error(io::Error::new(ErrorKind::InvalidInput, what)))?;
    if is_marked(folder) {
        return Ok(());
    }
    let marker = folder.join(MARKER_FILE);
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o750)
        .create(folder)
        .and_then(|()| {
            // An empty marker is removed, because its text must explain the folder to the operator.
            fs::write(&marker, MARKER_TEXT).inspect_err(|_| drop(fs::remove_file(&marker)))
        })
        .map_err(error)
}

fn is_marked(folder: &Path) -> bool {
    fs::symlink_metadata(folder.join(MARKER_FILE)).is_ok_and(|meta| meta.is_file())
}

pub fn file_name_part(text: &str) -> String {
    let sanitized = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    text.trim().chars().take(48).map(sanitized).collect()
}

/// `HOST-REASON-TIME.fltl`. If that exists, a number follows the time. `None` if a hundred names
/// exist.
pub fn unused_path(folder: &Path, host: &str, reason: &str, at: Stamp) -> Option<PathBuf> {
    let time = faultline_text::file_time(i64::try_from(at.unix.as_nanos()).unwrap_or(i64::MAX));
    let path_with_number = |number: u32| match number {
        1 => folder.join(format!("{host}-{reason}-{time}{RECORDING_SUFFIX}")),
        number => folder.join(format!("{host}-{reason}-{time}_{number}{RECORDING_SUFFIX}")),
    };
    (1..=100).map(path_with_number).find(|path| {
        !SQLITE_SUFFIXES
            .iter()
            .any(|suffix| fs::symlink_metadata(with_suffix(path, suffix)).is_ok())
    })
}

/// Turns a ring that cannot be continued into a saved recording, by renaming its files. Returns the
/// new path.
///
/// # Errors
/// The folder has no marker any more, or a rename fails.
pub fn set_aside(folder: &Path, host: &str, at: Stamp) -> Result<PathBuf, String> {
    if !is_marked(folder) {
        return Err(no_marker(folder));
    }
    let to = unused_path(folder, host, SET_ASIDE, at).ok_or("too many rings in one second")?;
    for suffix in SQLITE_SUFFIXES {
        match fs::rename(
            with_suffix(&folder.join(RING_FILE), suffix),
            with_suffix(&to, suffix),
        ) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.to_string()),
            _ => {}
        }
    }
    Ok(to)
}

struct SavedRecording {
    /// Time and path: the oldest recording sorts first.
    sort_key: (String, PathBuf),
    bytes: u64,
    is_automatic: bool,
}

/// Deletes the oldest automatic recordings until `bytes` fit, and returns how many. A request over
/// HTTP deletes nothing, and fails if requested recordings would fill over half of the space.
///
/// # Errors
/// Deletions would not free enough, or the folder has no marker: then nothing is deleted. Or the
/// folder cannot be listed, or a deletion fails.
pub fn make_space(
    folder: &Path,
    limits: &Flight,
    bytes: u64,
    origin: SaveOrigin,
) -> Result<usize, String> {
    let mut saved = list_saved(folder)
        .map_err(|error| format!("{} cannot be listed: {error}", folder.display()))?;
    saved.sort_by(|a, b| a.sort_key.cmp(&b.sort_key));
    let add = |(count, total): (u64, u64), recording: &SavedRecording| {
        (count + 1, recording.bytes.saturating_add(total))
    };
    let requested = saved.iter().filter(|recording| !recording.is_automatic);
    let (count, total) = requested.fold((1, bytes), add);
    // Rounded down: the only place of `max_saved` 1 is for automatic saves.
    if origin == SaveOrigin::Http
        && (count > limits.max_saved / 2 || total > limits.max_saved_bytes / 2)
    {
        return Err(format!(
            "recordings saved on request fill their part of {}, half of flight.max_saved or \
             max_saved_bytes; remove some, or raise the limit",
            folder.display()
        ));
    }
    let (mut count, mut total) = saved.iter().fold((1, bytes), add);
    let fits =
        |count: u64, total: u64| count <= limits.max_saved && total <= limits.max_saved_bytes;
    let mut to_delete = Vec::new();
    for recording in saved
        .iter()
        .filter(|recording| recording.is_automatic && origin != SaveOrigin::Http)
    {
        if fits(count, total) {
            break;
        }
        to_delete.push(&recording.sort_key.1);
        (count, total) = (count - 1, total.saturating_sub(recording.bytes));
    }
    if !fits(count, total) {
        return Err(format!(
            "{} is full: flight.max_saved ({}) or max_saved_bytes ({}); remove recordings that \
             are no longer needed, or raise the limit",
            folder.display(),
            limits.max_saved,
            limits.max_saved_bytes
        ));
    }
    if !to_delete.is_empty() && !is_marked(folder) {
        return Err(no_marker(folder));
    }
    for path in &to_delete {
        tracing::info!(path = %path.display(), "retention: removing the oldest saved recording");
        let removed = SQLITE_SUFFIXES
            .iter()
            .map(|suffix| fs::remove_file(with_suffix(path, suffix)));
        let mut errors = removed.filter_map(Result::err);
        if let Some(error) = errors.find(|error| error.kind() != ErrorKind::NotFound) {
            return Err(format!("{} cannot be removed: {error}", path.display()));
        }
    }
    Ok(to_delete.len())
}

/// Deletes the files of interrupted saves. Call it only while no save is running.
pub fn remove_interrupted_saves(folder: &Path) {
    if !is_marked(folder) {
        return;
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_partial = entry.file_name().to_str().is_some_and(is_partial_save);
        if is_partial && fs::remove_file(entry.path()).is_ok() {
            tracing::info!(
                path = %entry.path().display(),
                "removed the rest of an interrupted save"
            );
        }
    }
}

/// True for an unfinished save and for SQLite's files of it.
fn is_partial_save(name: &str) -> bool {
    name.split_once(PARTIAL_SUFFIX)
        .is_some_and(|(save, suffix)| {
            // Without the number of the temporary file.
            let save = save.trim_end_matches(|c: char| !c.is_alphabetic());
            SQLITE_SUFFIXES.contains(&suffix) && parse_name(save).is_some()
        })
}

fn no_marker(folder: &Path) -> String {
    format!(
        "{} has no {MARKER_FILE} any more: nothing is removed or renamed in it",
        folder.display()
    )
}

/// Unix time when the newest saved recording was written. A ring that was set aside is no save.
pub fn last_saved_at(folder: &Path) -> Option<Duration> {
    let saved = list_saved(folder).ok()?.into_iter();
    let paths = saved.map(|recording| recording.sort_key.1);
    let set_aside = format!("-{SET_ASIDE}-");
    let saves = paths.filter(|path| {
        let name = path.file_name().unwrap_or_default();
        !name.to_string_lossy().contains(&set_aside)
    });
    saves.filter_map(|path| modified_at(&path)).max()
}

fn list_saved(folder: &Path) -> std::io::Result<Vec<SavedRecording>> {
    let mut saved = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        let Some((time, automatic)) = name.to_str().and_then(parse_name) else {
            continue;
        };
        // The length of a link itself, not of its target.
        let length = |suffix: &str| {
            fs::symlink_metadata(with_suffix(&path, suffix))
                .ok()
                .filter(fs::Metadata::is_file)
                .map(|m| m.len())
        };
        if length("").is_some() {
            let bytes = SQLITE_SUFFIXES
                .iter()
                .filter_map(|suffix| length(suffix))
                .sum();
            saved.push(SavedRecording {
                sort_key: (time.to_owned(), path),
                bytes,
                is_automatic: automatic,
            });
        }
    }
    Ok(saved)
}

/// The time in a saved recording's name, and whether it was automatic. `None` for any other name.
fn parse_name(name: &str) -> Option<(&str, bool)> {
    let mut parts = name.strip_suffix(RECORDING_SUFFIX)?.rsplitn(3, '-');
    let (time, reason, _) = (parts.next()?, parts.next()?, parts.next()?);
    let (stamp, number) = time.split_once('_').unwrap_or((time, "1"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (day, second) = stamp.strip_suffix('Z')?.split_once('T')?;
    let fits = day.len() >= 8
        && second.len() == 6
        && is_digits(day)
        && is_digits(second)
        && is_digits(number);
    fits.then(|| (time, AUTOMATIC_REASONS.contains(&reason)))
}

#[cfg(test)]
mod tests;
