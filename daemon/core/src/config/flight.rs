use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    time::Duration,
};

/// The flight recorder: saves the last minutes as a recording after an event, such as an exit.
#[derive(Debug, Clone, PartialEq)]
pub struct Flight {
    /// `None`: the flight recorder is on if there is a folder.
    pub enabled: Option<bool>,
    /// `None`: the flight recorder is off.
    pub folder: Option<PathBuf>,
    /// How long the ring keeps its ticks. The key is `keep`.
    pub history: Duration,
    /// Time from an event to the save that it triggers.
    pub after: Duration,
    /// Minimum time between two automatic saves.
    pub pause: Duration,
    /// Maximum saved recordings.
    pub max_saved: u64,
    pub max_saved_bytes: u64,
}

impl Default for Flight {
    fn default() -> Self {
        Self {
            enabled: None,
            folder: None,
            history: Duration::from_secs(900),
            after: Duration::from_secs(10),
            pause: Duration::from_secs(300),
            max_saved: 20,
            max_saved_bytes: 1_000_000_000,
        }
    }
}

impl Flight {
    pub fn enabled_folder(&self) -> Option<&Path> {
        self.folder
            .as_deref()
            .filter(|_| self.enabled != Some(false))
    }

    /// Without a configured folder, uses the folder `flight` in the first of `$STATE_DIRECTORY`.
    pub fn set_default_folder(&mut self, state_directory: Option<&OsStr>) {
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
    fn the_flight_recorder_is_on_if_a_folder_is_set_and_it_is_not_disabled() {
        let mut flight = Flight::default();
        assert_eq!(flight.enabled_folder(), None);
        flight.set_default_folder(Some(OsStr::new("")));
        assert_eq!(flight.enabled_folder(), None);
        flight.set_default_folder(Some(OsStr::new("/var/lib/faultlined:/var/lib/other")));
        assert_eq!(
            flight.enabled_folder(),
            Some(Path::new("/var/lib/faultlined/flight"))
        );
        flight.enabled = Some(false);
        assert_eq!(flight.enabled_folder(), None);
        let mut own = Flight {
            folder: Some("/flight".into()),
            ..Flight::default()
        };
        own.set_default_folder(Some(OsStr::new("/var/lib/faultlined")));
        assert_eq!(own.enabled_folder(), Some(Path::new("/flight")));
    }
}
