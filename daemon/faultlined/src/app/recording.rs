use anyhow::{Context, Result};
use faultline_core::{
    clock::Clock,
    config::{Config, ConfigError},
    supervisor::{FS_CALL_TIMEOUT, FsCalls, WorkerGroup},
};
use faultline_datapoints::validator::coverage::{LastPush, PushTimes};
use faultline_kernel::ProcessId;
use faultline_metrics::Stamp;
use faultline_recorder::{
    flight,
    manifest::{self, ManifestCollector, ReportedFacts},
    recorder::{Recorder, RecorderHandle, RecorderStatus, RecordingFile, disks},
};
use faultline_recording::{Error, NewRecording, NewSession, Recording, Writer, with_suffix};
use faultline_sources::{
    discovery::{Finder, Target},
    host::host_name,
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// A recorder before its files are opened. They are opened last, so that a start that fails writes
/// nothing.
pub struct PreparedRecorder {
    pub handle: RecorderHandle,
    pub flight_recorder: Option<flight::FlightRecorderHandle>,
    recorder: Recorder,
    /// Of `record`, then of `flight`.
    statuses: [Arc<RecorderStatus>; 2],
    collector: ManifestCollector,
}

pub struct OpenRecorder {
    recorder: Recorder,
    collector: ManifestCollector,
    facts: ReportedFacts,
    saver: Option<flight::Saver>,
}

pub fn prepare(config: &Config, clock: Clock) -> Option<PreparedRecorder> {
    let root = config.paths.clone();
    let statuses = ["record", "flight"].map(RecorderStatus::new);
    let is_enabled = [
        config.record.file.is_some(),
        config.flight.enabled_folder().is_some(),
    ];
    let enabled_statuses: Vec<_> = statuses
        .iter()
        .zip(is_enabled)
        .filter(|(_, is_enabled)| *is_enabled)
        .map(|(status, _)| Arc::clone(status))
        .collect();
    if enabled_statuses.is_empty() {
        return None;
    }
    let collector = ManifestCollector::new(root.clone());
    let collector_handle = collector.clone();
    let recording_paths = recording_paths(config);
    let warning_calls = FsCalls::new("disk-warnings");
    let warn_and_describe = move |target: &Target| {
        let root = root.clone();
        let recording_paths = recording_paths.clone();
        let process_target = target.clone();
        let log_warnings = move || {
            recording_paths
                .iter()
                .flat_map(|file| {
                    disks::shared_disk_warnings(
                        &root,
                        file,
                        &disks::process_folders(&root, &process_target),
                    )
                })
                .for_each(|warning| tracing::warn!("{warning}"))
        };
        if let Err(error) = warning_calls.start(log_warnings) {
            tracing::warn!(
                "cannot check whether a recording shares a disk with the validator: {error}"
            );
        }
        collector_handle.describe(target)
    };
    let (handle, recorder) = Recorder::new(clock, enabled_statuses, warn_and_describe);
    let recorder = recorder.with_completed_manifest(collector.completed.clone());
    let flight_recorder = config
        .flight
        .enabled_folder()
        .map(|_| flight::FlightRecorderHandle::default());
    Some(PreparedRecorder {
        handle,
        flight_recorder,
        recorder,
        statuses,
        collector,
    })
}

fn recording_paths(config: &Config) -> Vec<PathBuf> {
    // The path of a missing folder stands for the ring: the checks of disks use the parent.
    let ring_path = |folder: &Path| {
        if folder.is_dir() {
            folder.join(flight::RING_FILE)
        } else {
            folder.to_owned()
        }
    };
    let ring = config.flight.enabled_folder().map(ring_path);
    config.record.file.clone().into_iter().chain(ring).collect()
}

impl PreparedRecorder {
    pub fn open(
        self,
        config: &Config,
        clock: Clock,
        facts: ReportedFacts,
        demo: bool,
    ) -> Result<OpenRecorder> {
        let root = config.paths.clone();
        let now = clock.now();
        let session = NewSession {
            // Ticks and events have the time since the start of the clock.
            started: Stamp {
                uptime: Duration::ZERO,
                unix: now.unix.saturating_sub(now.uptime),
            },
            interval: config.sampling.interval,
            version: crate::VERSION.to_owned(),
            manifest: manifest::session(
                &root,
                config,
                Clock::wall_minus_monotonic_ns(),
                crate::VERSION,
                demo,
            ),
        };
        let new_recording = NewRecording {
            labels: labels(config),
            session,
        };
        let [record_status, flight_status] = self.statuses;
        let mut recorder = self.recorder;
        let mut saver = None;
        if let Some(file) = &config.record.file {
            let recording_file = RecordingFile::open(file, &new_recording, record_status)
                .context("nothing can be recorded; see record.file")?;
            tracing::info!(file = %file.display(), "recording");
            recorder = recorder.with_sink(Box::new(recording_file));
        }
        if let (Some(folder), Some(handle)) =
            (config.flight.enabled_folder(), &self.flight_recorder)
        {
            let context = flight::FlightContext {
                clock,
                folder: folder.to_owned(),
                config: config.flight.clone(),
                host_name: flight::host_name_in_file_names(&host_name(&root).unwrap_or_default()),
                status: flight_status,
                handle: handle.clone(),
            };
            let (ring, flight_saver) =
                flight::build(context, new_recording).context("flight.folder")?;
            recorder = recorder.with_sink(Box::new(ring));
            saver = Some(flight_saver);
        }
        Ok(OpenRecorder {
            recorder,
            collector: self.collector,
            facts,
            saver,
        })
    }
}

impl OpenRecorder {
    pub fn start(self, workers: &mut WorkerGroup) -> std::io::Result<()> {
        workers.thread("manifest", move |stop| {
            self.collector.run(&self.facts, &stop)
        })?;
        if let Some(saver) = self.saver {
            // The saver needs no stop signal: it ends after the last saves of the recorder.
            workers.thread("flight", |_| saver.run())?;
        }
        workers.thread("recorder", |stop| self.recorder.run(stop))
    }
}

/// Returns the last push that an earlier run received. Reads its recording and flight ring, so call
/// this before they are reopened.
pub fn last_push(config: &Config, clock: Clock) -> Option<LastPush> {
    let existing = recording_paths(config)
        .into_iter()
        .filter(|file| file.is_file());
    existing
        .filter_map(|file| {
            last_push_in(&file, clock)
                .inspect_err(
                    |error| tracing::debug!(%error, "the last push of the previous run is not known"),
                )
                .ok()?
        })
        .max_by_key(|push| push.times.arrived)
}

fn last_push_in(file: &Path, clock: Clock) -> Result<Option<LastPush>, Error> {
    let recording = Recording::open(file)?;
    let Some((tick, pushed_at)) = recording.last_push()? else {
        return Ok(None);
    };
    let session = recording
        .sessions()?
        .into_iter()
        .find(|session| session.id == tick.session);
    let process = recording
        .processes()?
        .into_iter()
        .find(|process| Some(process.id) == tick.process);
    let (Some(session), Some(process)) = (session, process) else {
        return Ok(None);
    };
    let clock_ns = |name: &str| session.manifest["clock"][name].as_i64();
    let offset = clock_ns("realtime_minus_monotonic_ns");
    let start_ticks = process.manifest["start_ticks"].as_u64();
    let (Some(offset), Some(start_ticks), true) = (offset, start_ticks, pushed_at >= process.seen)
    else {
        return Ok(None);
    };
    let nanos = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
    // Monotonic arrival of the push = monotonic time of the last tick - age of the push at that
    // tick. The age is by the wall clock, because a recording has no monotonic time of pushes.
    // A recording that was created again has a later session.
    let started = clock_ns("daemon_started_unix_ns").unwrap_or(nanos(session.started));
    let tick_monotonic_ns = started
        .saturating_sub(offset)
        .saturating_add(tick.uptime_ns);
    let arrived = tick_monotonic_ns.saturating_sub(tick.unix_ns.saturating_sub(nanos(pushed_at)));
    Ok(Some(LastPush {
        process: ProcessId {
            pid: process.pid,
            start_ticks,
        },
        times: PushTimes {
            created: nanos(pushed_at).into(),
            arrived: clock.uptime_from_monotonic_ns(arrived).into(),
        },
    }))
}

fn labels(config: &Config) -> Vec<(String, String)> {
    config
        .labels
        .pairs()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .chain(config.record.labels.clone())
        .collect()
}

pub fn path_errors(config: &Config) -> Vec<ConfigError> {
    let flight = config
        .flight
        .enabled_folder()
        .and_then(|folder| flight::check_folder(folder).err())
        .map(|what| ConfigError::new(format!("flight.folder: {what}")));
    file_error(config).into_iter().chain(flight).collect()
}

fn file_error(config: &Config) -> Option<ConfigError> {
    let file = config.record.file.as_ref()?;
    let folder = file
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let what = if file.is_dir() {
        format!("{} is a folder; name a file in it", file.display())
    } else if !folder.is_dir() {
        format!(
            "there is no folder {}, or this user may not see it; make it, or give the right",
            folder.display()
        )
    } else {
        let files = ["", "-wal", "-shm"].map(|suffix| with_suffix(file, suffix));
        let existing = files.iter().filter(|file| file.exists());
        let mut paths = [folder].into_iter().chain(existing.map(PathBuf::as_path));
        paths.find_map(|path| flight::check_writable(path).err())?
    };
    Some(ConfigError::new(format!("record.file: {what}")))
}

/// Says why the existing recording cannot be continued. Accepts any labels, because `run --label`
/// may set them. Not for a daemon that is writing it, because reading would drop its locks.
pub fn content_error(config: &Config) -> Option<ConfigError> {
    let file = config.record.file.as_ref()?;
    let error = Writer::check(file).err().filter(Error::is_permanent)?;
    Some(ConfigError::new(format!("record.file: {error}")))
}

/// Warns if the recording shares a disk with the running validator or the configured ledger.
pub fn shared_disk_warnings(config: &Config) -> Vec<String> {
    let files = recording_paths(config);
    if files.is_empty() {
        return Vec::new();
    }
    let root = config.paths.clone();
    let target = Finder::build(&config.target, root.clone(), Clock::start()).find_once();
    let mut folders = target
        .map(|target| disks::process_folders(&root, &target))
        .unwrap_or_default();
    if folders.is_empty() {
        folders = disks::configured_folders(&config.target.selector);
    }
    FsCalls::new("disk-warnings")
        .call(FS_CALL_TIMEOUT, move || {
            files
                .iter()
                .flat_map(|file| disks::shared_disk_warnings(&root, file, &folders))
                .collect()
        })
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultline_metrics::{Batch, Reading, Source, Tick, metrics::daemon::LAST_PUSH};
    use faultline_recorder::recorder::{FollowedProcess, RecordingEntry, RecordingSink as _};
    use serde_json::{Value, json};

    #[test]
    fn a_session_begins_with_the_clock_of_its_ticks() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run.fltl");
        let mut config = Config::default();
        config.record.file = Some(file.clone());
        let clock = Clock::start();
        // As a start that reads a large recording.
        std::thread::sleep(Duration::from_secs(1));
        let facts = ReportedFacts {
            rpc: faultline_sources::rpc::Handle::default(),
            admin: faultline_core::publish::Latest::default(),
        };
        let recorder = prepare(&config, clock).unwrap();
        drop(recorder.open(&config, clock, facts, false).unwrap());
        let session = Recording::open(&file)
            .unwrap()
            .sessions()
            .unwrap()
            .remove(0);
        let offset = session
            .manifest
            .pointer("/clock/realtime_minus_monotonic_ns")
            .and_then(Value::as_i64);
        let started = i64::try_from(session.started.as_nanos()).unwrap();
        let uptime = clock.uptime_from_monotonic_ns(started - offset.unwrap());
        assert!(uptime.abs() < 500_000_000, "{uptime}");
    }

    #[test]
    fn a_recording_that_this_user_may_not_write_is_a_config_error() {
        use std::{fs, os::unix::fs::PermissionsExt as _};
        let folder = tempfile::tempdir().unwrap();
        let existing = folder.path().join("run.fltl");
        fs::write(&existing, "").unwrap();
        let set_mode = |path: &Path, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        };
        set_mode(&existing, 0o444);
        let [killed, wal] = ["killed.fltl", "killed.fltl-wal"].map(|name| folder.path().join(name));
        for (path, mode) in [(&killed, 0o666), (&wal, 0o644)] {
            fs::write(path, "x").unwrap();
            set_mode(path, mode);
        }
        for (mode, name, path) in [
            (0o555, "new.fltl", folder.path()),
            (0o777, "run.fltl", existing.as_path()),
            (0o777, "killed.fltl", wal.as_path()),
        ] {
            set_mode(folder.path(), mode);
            let mut config = Config::default();
            config.record.file = Some(folder.path().join(name));
            // Only this thread changes its user.
            let as_user = move || {
                if rustix::process::geteuid().is_root() {
                    let nobody = rustix::process::Uid::from_raw(65534);
                    rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
                }
                path_errors(&config).remove(0).what
            };
            let what = std::thread::Builder::new()
                .spawn(as_user)
                .unwrap()
                .join()
                .unwrap();
            let expected = format!("cannot write to {}: Permission denied", path.display());
            assert!(
                what.starts_with("record.file: user ") && what.contains(&expected),
                "{what}"
            );
        }
    }

    fn replace_all(bytes: &[u8], from: &[u8; 7], to: &[u8; 7]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        while let Some(at) = bytes.windows(7).position(|window| window == from) {
            bytes[at..at + 7].copy_from_slice(to);
        }
        bytes
    }

    #[test]
    fn a_recording_that_cannot_be_continued_is_a_permanent_error_and_a_config_error() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run.fltl");
        let mut config = Config::default();
        config.record.file = Some(file.clone());
        let clock = Clock::start();
        let open = |config: &Config| {
            let facts = ReportedFacts {
                rpc: faultline_sources::rpc::Handle::default(),
                admin: faultline_core::publish::Latest::default(),
            };
            let recorder = prepare(config, clock).unwrap();
            recorder.open(config, clock, facts, false).map(drop)
        };
        open(&config).unwrap();
        assert!(content_error(&config).is_none());
        let mut other = config.clone();
        other.record.labels = [("arm".to_owned(), "B".to_owned())].into();
        let original = std::fs::read(&file).unwrap();
        let with_byte = |at: usize, byte| {
            let mut bytes = original.clone();
            bytes[at] = byte;
            bytes
        };
        let renamed = replace_all(&original, b"problem", b"xroblem");
        let error = open(&other).unwrap_err();
        assert!(crate::app::is_permanent(&error), "{error:#}");
        let found = content_error(&other);
        assert_eq!(found, None, "`run --label` may set the label");
        for (config, bytes, expected) in [
            (&config, renamed, "its table `problem` is missing"),
            (
                &config,
                with_byte(63, 9),
                "format 9, and this version reads up to",
            ),
            (
                &config,
                with_byte(71, 9),
                "another program's SQLite database",
            ),
            (&config, original[..9000].to_vec(), "cut off: 9000 bytes of"),
        ] {
            std::fs::write(&file, bytes).unwrap();
            let error = open(config).unwrap_err();
            let what = content_error(config).unwrap().what;
            assert!(crate::app::is_permanent(&error), "{error:#}");
            assert!(
                what.starts_with("record.file: ") && what.contains(expected),
                "{what}"
            );
        }
        std::fs::write(&file, "").unwrap();
        assert!(
            content_error(&config).is_none(),
            "an empty file is made again"
        );
    }

    #[test]
    fn a_wal_or_journal_that_a_start_refuses_is_a_config_error() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run.fltl");
        let mut config = Config::default();
        config.record.file = Some(file.clone());
        for suffix in ["-wal", "-journal"] {
            let side_file = with_suffix(&file, suffix);
            std::fs::write(&side_file, "x").unwrap();
            let error = format!("{:?}", content_error(&config));
            assert!(error.contains("a recording that is not here"), "{error}");
            std::fs::remove_file(side_file).unwrap();
        }
        assert_eq!(content_error(&config), None);
        std::fs::write(&file, "").unwrap();
        std::fs::create_dir(with_suffix(&file, "-wal")).unwrap();
        let error = format!("{:?}", content_error(&config));
        assert!(error.contains("is a link, folder or device"), "{error}");
    }

    #[test]
    fn a_bad_flight_folder_is_a_permanent_error() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut config = Config::default();
        config.flight.folder = Some(file.path().to_owned());
        let clock = Clock::start();
        let facts = ReportedFacts {
            rpc: faultline_sources::rpc::Handle::default(),
            admin: faultline_core::publish::Latest::default(),
        };
        let recorder = prepare(&config, clock).unwrap();
        let error = recorder.open(&config, clock, facts, false).err().unwrap();
        assert!(crate::app::is_permanent(&error), "{error:#}");
    }

    /// The process, and a tick at `now` whose last push arrived 5 s before.
    fn process_and_tick(process: ProcessId, first_seen: Stamp, now: Stamp) -> [RecordingEntry; 2] {
        let target = Target {
            process,
            comm: "v".to_owned(),
            exe: None,
            validator: None,
            ledger: None,
            found_by: "pid",
        };
        let followed = FollowedProcess {
            target: Arc::new(target),
            started_unix: None,
            first_seen,
            manifest: json!({ "start_ticks": process.start_ticks }),
        };
        let pushed_at = (now.unix - Duration::from_secs(5)).as_secs_f64();
        let batch = Batch {
            readings: vec![Reading::real(&LAST_PUSH, [], pushed_at)],
            up: true,
            ..Batch::empty(Source::Datapoints, now)
        };
        let tick = Tick {
            number: 3600,
            at: now,
            batches: vec![Arc::new(batch)],
        };
        [
            RecordingEntry::ProcessChange(Some(Arc::new(followed))),
            RecordingEntry::Tick(Arc::new(tick)),
        ]
    }

    #[test]
    fn the_last_push_is_found_in_a_recording_created_again() {
        let seconds = Duration::from_secs;
        for is_removed in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("run.fltl");
            let clock = Clock::start();
            let now = Stamp {
                uptime: seconds(3600),
                unix: clock.now().unix,
            };
            let started = Stamp {
                uptime: Duration::ZERO,
                unix: now.unix - now.uptime,
            };
            let offset = Clock::wall_minus_monotonic_ns();
            let session = NewSession {
                started,
                interval: seconds(1),
                version: String::new(),
                manifest: json!({ "clock": { "realtime_minus_monotonic_ns": offset } }),
            };
            let labels = Vec::new();
            let recording = NewRecording { labels, session };
            let status = RecorderStatus::new("record");
            let mut recording_file = RecordingFile::open(&file, &recording, status).unwrap();
            if is_removed {
                std::fs::remove_file(&file).unwrap();
            }
            let process = ProcessId {
                pid: 7,
                start_ticks: 9,
            };
            let entries = process_and_tick(process, started, now);
            recording_file.write_entries(&entries, now);
            let last = last_push_in(&file, clock).unwrap().unwrap();
            assert_eq!(last.process, process);
            let age = last.times.arrived + 5_000_000_000;
            assert!(age.abs() < 1_000_000_000, "{age}, {is_removed}");
        }
    }
}
