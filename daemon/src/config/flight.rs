//! The flight recorder's part of the configuration.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flight {
    /// Whether it is switched on; `None`: if there is a folder.
    pub enabled: Option<bool>,
    /// Where it keeps what it keeps; `None`: it is off.
    pub folder: Option<PathBuf>,
    /// How far back it remembers.
    pub keep: Duration,
    /// From an event to the save that it causes.
    pub after: Duration,
    /// From one save that nobody asked for to the next.
    pub pause: Duration,
    /// Saved recordings at most; the oldest that nobody asked for make room.
    pub max_saved: u64,
    /// Their bytes at most.
    pub max_saved_bytes: u64,
}

impl Default for Flight {
    fn default() -> Self {
        Flight {
            enabled: None,
            folder: None,
            keep: Duration::from_secs(900),
            after: Duration::from_secs(10),
            pause: Duration::from_secs(300),
            max_saved: 20,
            max_saved_bytes: 1_000_000_000,
        }
    }
}

impl Flight {
    /// The folder, if it is on.
    pub fn on(&self) -> Option<&Path> {
        self.folder
            .as_deref()
            .filter(|_| self.enabled != Some(false))
    }

    /// Without a folder of its own it takes one in the folder that systemd gives a service for its state
    /// (`$STATE_DIRECTORY`, the first of several).
    pub fn settle(&mut self, state_directory: Option<&OsStr>) {
        let first = state_directory
            .and_then(|folders| folders.as_bytes().split(|byte| *byte == b':').next());
        if let (None, Some(state)) = (&self.folder, first.filter(|folder| !folder.is_empty())) {
            self.folder = Some(Path::new(OsStr::from_bytes(state)).join("flight"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_on_where_there_is_a_folder_and_nobody_says_no() {
        let mut flight = Flight::default();
        assert_eq!(flight.on(), None);
        flight.settle(Some(OsStr::new("")));
        assert_eq!(flight.on(), None);
        flight.settle(Some(OsStr::new("/var/lib/faultlined:/var/lib/other")));
        assert_eq!(flight.on(), Some(Path::new("/var/lib/faultlined/flight")));
        flight.enabled = Some(false);
        assert_eq!(flight.on(), None);
        let mut own = Flight {
            folder: Some("/flight".into()),
            ..Flight::default()
        };
        own.settle(Some(OsStr::new("/var/lib/faultlined")));
        assert_eq!(own.on(), Some(Path::new("/flight")));
    }
}
