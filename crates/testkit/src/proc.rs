//! Facts about a live process, read from `/proc` by position and prefix, without code of the product.

use std::{fs, path::Path};

use crate::{Error, Result};

/// One field of `/proc/PID/stat` by its number in proc_pid_stat(5): 14 is `utime`, 20 is `num_threads`, 22 is
/// `starttime`. Serves the fields from 4 on.
///
/// # Errors
/// [`Error::File`] when the process is gone; [`Error::Malformed`] when the field is not there or not a number.
pub fn stat_field(pid: u32, number: usize) -> Result<i64> {
    let text = read(pid, "stat")?;
    stat_field_of(&text, number).ok_or_else(|| Error::malformed("no such field in stat", &text))
}

/// A line of `/proc/PID/status` in bytes, such as `VmRSS`; `None` when the line is not there.
///
/// # Errors
/// [`Error::File`] when the process is gone; [`Error::Malformed`] when the line does not end in `kB`.
pub fn status_bytes(pid: u32, name: &str) -> Result<Option<u64>> {
    let text = read(pid, "status")?;
    let Some(value) = status_value_of(&text, name) else {
        return Ok(None);
    };
    let kibibytes = value
        .strip_suffix("kB")
        .and_then(|number| number.trim().parse::<u64>().ok());
    kibibytes
        .map(|kibibytes| Some(kibibytes * 1024))
        .ok_or_else(|| Error::malformed("not in kB", value))
}

/// The state letter: `R`, `S`, `D`, `Z`, ...
///
/// # Errors
/// [`Error::File`] when the process is gone; [`Error::Malformed`] when there is no state.
pub fn state(pid: u32) -> Result<char> {
    let text = read(pid, "status")?;
    let letter = status_value_of(&text, "State").and_then(|value| value.chars().next());
    letter.ok_or_else(|| Error::malformed("no state", &text))
}

/// Names of all threads, sorted; threads that end meanwhile are left out.
///
/// # Errors
/// [`Error::File`] when the process is gone.
pub fn thread_names(pid: u32) -> Result<Vec<String>> {
    let folder = format!("/proc/{pid}/task");
    let entries = fs::read_dir(&folder).map_err(Error::file(Path::new(&folder)))?;
    let comm = entries
        .flatten()
        .filter_map(|entry| fs::read_to_string(entry.path().join("comm")).ok());
    let mut names: Vec<String> = comm.map(|name| name.trim_end().to_owned()).collect();
    names.sort();
    Ok(names)
}

/// Whether the process exists and is not a zombie.
pub fn is_alive(pid: u32) -> bool {
    state(pid).is_ok_and(|state| state != 'Z')
}

fn read(pid: u32, file: &str) -> Result<String> {
    let path = format!("/proc/{pid}/{file}");
    let bytes = fs::read(&path).map_err(Error::file(Path::new(&path)))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The name in parentheses may hold spaces and parentheses itself, so counting starts after the last `)`.
fn stat_field_of(text: &str, number: usize) -> Option<i64> {
    let (_, rest) = text.rsplit_once(')')?;
    rest.split_whitespace()
        .nth(number.checked_sub(3)?)?
        .parse()
        .ok()
}

fn status_value_of<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let text = "7 (a) b (c) S 1 7 7 0 -1 4194560 100 0 3 0 11 12 0 0 20 0 5 0 999 4096 25\n";
        assert_eq!(stat_field_of(text, 4), Some(1));
        assert_eq!(stat_field_of(text, 14), Some(11));
        assert_eq!(stat_field_of(text, 20), Some(5));
        assert_eq!(stat_field_of(text, 22), Some(999));
        assert_eq!(stat_field_of(text, 2), None);
        assert_eq!(stat_field_of(text, 90), None);
    }

    #[test]
    fn a_status_line_is_matched_by_its_full_name() {
        let text = "VmRSSX:\t1 kB\nVmRSS:\t  20 kB\n";
        assert_eq!(status_value_of(text, "VmRSS"), Some("20 kB"));
        assert_eq!(status_value_of(text, "VmR"), None);
    }

    #[test]
    fn the_current_process_is_alive_with_memory_and_threads() -> Result<()> {
        let pid = std::process::id();
        assert!(is_alive(pid));
        assert!(status_bytes(pid, "VmRSS")?.is_some_and(|bytes| bytes > 64 * 1024));
        assert_eq!(status_bytes(pid, "NoSuchLine")?, None);
        assert!(!thread_names(pid)?.is_empty());
        assert!(stat_field(pid, 20)? >= 1);
        Ok(())
    }
}
