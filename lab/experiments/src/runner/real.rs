mod observer;
mod recorder;

use super::{
    Observer, PageCacheDropped, Recorder, RecorderRequest, StopRequest, System, job::user_and_group,
};
use crate::{
    check::program_files,
    folder::OUTPUT,
    host::{HostFinding, host_findings},
    host_name,
    judge::ProgramCacheTotals,
    plan::{Lane, PageCache, Plan, Severity},
    replay,
    targets::{self, ScrapeTarget},
    watch::Timestamp,
};
use anyhow::{Context, Result};
use faultline_common::{clock, output::say, signals::Signals};
use faultline_kernel::HostRoot;
use faultline_recording::{ProcessRow, Progress, Recording, TickRow};
use faultline_runner::{
    isolation::{
        Launcher,
        cold::{self, Residency},
        folders,
        host::{boot_id, busy_time},
    },
    record::recorder::progress,
};
use faultline_text::{bytes, counted, shell_quoted};
use itertools::Itertools;
use observer::RunObserver;
use recorder::RecorderDaemon;
use std::{path::Path, time::Duration};

/// Maximum of one wait, and the length of the measurement of busy CPUs.
const MAX_WAIT: Duration = Duration::from_millis(900);
const MAX_LISTED: usize = 3;
/// If at least this share of the pages of files is cached, the files are not cold.
const WARM_SHARE: f64 = 0.01;
/// Fewer cached bytes do not matter under a memory limit, even if they are a large share.
const NEGLIGIBLE_BYTES: u64 = 1 << 20;

pub struct RealSystem {
    launcher: Box<dyn Launcher>,
    signals: Signals,
    stop_request: Option<StopRequest>,
    root: HostRoot,
}

impl RealSystem {
    /// After this call, signals do not end this program.
    pub fn new(launcher: Box<dyn Launcher>) -> Result<Self> {
        let signals = Signals::listen().context("signals cannot be received")?;
        Ok(Self {
            launcher,
            signals,
            stop_request: None,
            root: HostRoot::default(),
        })
    }
}

impl System for RealSystem {
    fn now(&self) -> Timestamp {
        Timestamp {
            uptime: clock::uptime(),
            unix_ns: clock::unix_ns(),
        }
    }

    fn boot_id(&self) -> String {
        boot_id(&self.root).unwrap_or_else(|| "unknown".to_owned())
    }

    fn host_name(&self) -> String {
        host_name()
    }

    fn wait(&mut self, at_most: Duration) {
        let timeout = at_most.min(MAX_WAIT);
        let Ok(received) = self.signals.wait(None, timeout) else {
            return std::thread::sleep(timeout);
        };
        for signal in received {
            // SIGHUP has no such name: a closed terminal does not stop an experiment.
            if let Some(name) = signal.stop_signal_name() {
                if let Some(request) = &mut self.stop_request {
                    say("ending by force");
                    request.force = true;
                } else {
                    say("ending the current runs; send the signal again to end them by force");
                    self.stop_request = Some(StopRequest {
                        by: name.to_owned(),
                        force: false,
                    });
                }
            }
        }
    }

    fn stop_request(&self) -> Option<StopRequest> {
        self.stop_request.clone()
    }

    fn print(&mut self, message: &str) {
        say(message);
    }

    fn launcher(&self) -> &dyn Launcher {
        &*self.launcher
    }

    fn host_findings(&mut self, plan: &Plan, experiment_id: &str) -> Result<Vec<HostFinding>> {
        let mut busy_cpus = None;
        if plan.host.busy_cpus.severity != Severity::Note
            && let Some(before) = busy_time(&self.root)
        {
            let started = clock::uptime();
            while clock::uptime() < started + MAX_WAIT && self.stop_request.is_none() {
                self.wait(MAX_WAIT);
            }
            busy_cpus = busy_time(&self.root).and_then(|after| {
                before.mean_busy_cpus(&after, clock::uptime().saturating_sub(started))
            });
        }
        let leftover_cgroups = self.launcher.leftovers(experiment_id)?;
        Ok(host_findings(
            plan,
            &self.root,
            busy_cpus,
            &leftover_cgroups,
        ))
    }

    fn clear_folders(&mut self, plan: &Plan, lane: &Lane) -> Result<Vec<String>> {
        let owner = user_and_group(plan.workload.user.as_deref())?;
        let mut notes = Vec::new();
        for folder in lane.folders() {
            let shown = folder.display();
            anyhow::ensure!(
                folder.exists(),
                "{shown}: there is no such folder; `faultline experiment init {}` makes it",
                shell_quoted(folder)
            );
            let cleared = folders::clear(folder, &self.root)?;
            // `experiment init` may have made the folder as root.
            if let Some(owner) = owner {
                folders::set_folder_owner(folder, owner)?;
            }
            notes.push(format!(
                "cleared {shown}: {}, {}{}",
                counted(cleared.files as f64, "file"),
                bytes(cleared.bytes),
                format_entries("; kept ", &cleared.retained)
            ));
        }
        Ok(notes)
    }

    fn restore_folders(&mut self, plan: &Plan, lane: &Lane, from: &Path) -> Result<Vec<String>> {
        let owner = user_and_group(plan.workload.user.as_deref())?;
        let restored = folders::restore(from, &lane.ledger, lane.snapshots.as_deref(), owner)?;
        Ok(vec![format!(
            "restored {}, {}{}",
            counted(restored.files as f64, "file"),
            bytes(restored.bytes),
            format_entries("; not copied: ", &restored.skipped)
        )])
    }

    fn drop_page_cache(&mut self, plan: &Plan, lane: &Lane) -> Result<PageCacheDropped> {
        let mut paths = lane.folders().collect_vec();
        paths.extend(plan.restored_from());
        if plan.page_cache == PageCache::DropAll {
            cold::drop_all(&self.root)?;
        }
        let dropped = cold::drop_files(&paths)?;
        let note = format!(
            "dropped {}, {}, from the page cache{}",
            counted(dropped.files as f64, "file"),
            bytes(dropped.bytes),
            format_entries("; left alone: ", &dropped.skipped)
        );
        let mut dropped = check_residency(note, cold::residency(&paths));
        // The kernel charges a page to the first cgroup that reads it. So that runs are equal, the
        // runner reads the executables here; `DropAll` instead lets each run read them again.
        if plan.page_cache == PageCache::DropFiles {
            for file in program_files(plan) {
                if let Err(error) = cold::warm_file(&file) {
                    dropped.notes.push(format!(
                        "{}: this run may be charged for its pages: {error}",
                        file.display()
                    ));
                }
            }
        }
        Ok(dropped)
    }

    fn start_recorder(&mut self, request: &RecorderRequest<'_>) -> Result<Box<dyn Recorder>> {
        Ok(Box::new(RecorderDaemon::start(&*self.launcher, request)?))
    }

    fn observer(&mut self, pid: u32, recording: &Path) -> Box<dyn Observer> {
        Box::new(RunObserver::new(
            self.root.clone(),
            pid,
            recording.to_owned(),
        ))
    }

    fn write_targets(&mut self, file: &Path, targets: &[ScrapeTarget]) -> Result<()> {
        targets::write(file, targets)
    }

    fn progress(&mut self, recording: &Path) -> Option<Progress> {
        progress(recording).ok()
    }

    fn program_cache_totals(&mut self, recording: &Path) -> Result<ProgramCacheTotals> {
        let points = Recording::open(recording)?.program_cache_points()?;
        if !points.is_empty() {
            return Ok(ProgramCacheTotals::of(&points));
        }
        // A replay exits before it has pushed its points; its log has them too.
        let log = replay::read(&recording.with_file_name(OUTPUT));
        Ok(log.map(|log| log.program_cache_totals).unwrap_or_default())
    }

    fn ticks(&mut self, recording: &Path) -> Result<Vec<TickRow>> {
        Ok(Recording::open(recording)?.ticks()?)
    }

    fn processes(&mut self, recording: &Path) -> Result<Vec<ProcessRow>> {
        Ok(Recording::open(recording)?.processes()?)
    }

    fn free_bytes(&self, folder: &Path) -> Option<u64> {
        let space = rustix::fs::statvfs(folder).ok()?;
        space.f_bavail.checked_mul(space.f_frsize)
    }
}

fn format_entries(label: &str, entries: &[folders::SkippedEntry]) -> String {
    let listed = entries
        .iter()
        .take(MAX_LISTED)
        .map(|entry| format!("{} ({})", entry.path.display(), entry.reason))
        .join(", ");
    match (entries.len(), entries.len().saturating_sub(MAX_LISTED)) {
        (0, _) => listed,
        (_, 0) => format!("{label}{listed}"),
        (_, more) => format!("{label}{listed} and {more} more"),
    }
}

fn check_residency(note: String, residency: Result<Residency>) -> PageCacheDropped {
    let mut notes = vec![note];
    let mut why_not_cold = None;
    match residency.map(|residency| (residency.share(), residency.resident_bytes())) {
        Ok((None, _)) => notes.push("the files have no pages".to_owned()),
        Ok((Some(share), resident)) if share >= WARM_SHARE && resident >= NEGLIGIBLE_BYTES => {
            why_not_cold = Some(format!(
                "it did not begin cold: {:.1} % of the files' pages ({}) were in memory",
                100.0 * share,
                bytes(resident)
            ));
        }
        Ok((Some(share), _)) => notes.push(format!(
            "{:.2} % of the files' pages are in memory",
            100.0 * share
        )),
        Err(error) => why_not_cold = Some(format!("the cold start could not be verified: {error}")),
    }
    PageCacheDropped {
        notes,
        why_not_cold,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn skipped_files_are_named_with_reasons_up_to_a_few() {
        let retained_entry = |name: &str| folders::SkippedEntry {
            path: name.into(),
            reason: "is a socket",
        };
        assert_eq!(format_entries("; not copied: ", &[]), "");
        assert_eq!(
            format_entries("; not copied: ", &[retained_entry("a")]),
            "; not copied: a (is a socket)"
        );
        let all = ["a", "b", "c", "d", "e"].map(retained_entry);
        assert!(
            format_entries("; kept ", &all).ends_with("c (is a socket) and 2 more"),
            "{}",
            format_entries("; kept ", &all)
        );
    }

    fn dropped_with(pages: u64, resident: u64) -> PageCacheDropped {
        check_residency(
            "dropped".to_owned(),
            Ok(Residency {
                files: 1,
                pages,
                resident_pages: resident,
            }),
        )
    }

    #[test]
    fn one_percent_cached_is_not_cold_and_less_is_cold() {
        assert_eq!(dropped_with(1_000_000, 9_999).why_not_cold, None);
        let warm = dropped_with(1_000_000, 10_000);
        assert!(warm.why_not_cold.is_some_and(|why| why.contains("1.0 %")));
        assert_eq!(
            warm.notes,
            ["dropped"],
            "it is said once, with the run's validity"
        );
    }

    #[test]
    fn reading_a_keypair_does_not_count_as_a_warm_ledger() {
        assert_eq!(dropped_with(2, 2).why_not_cold, None);
        assert_eq!(dropped_with(0, 0).why_not_cold, None);
        assert!(dropped_with(1000, 1000).why_not_cold.is_some());
    }

    #[test]
    fn uninspected_files_are_not_called_cold() {
        let error = anyhow::anyhow!("fincore is not installed");
        let dropped = check_residency("dropped".to_owned(), Err(error));
        assert!(
            dropped
                .why_not_cold
                .is_some_and(|why| why.contains("fincore"))
        );
    }

    proptest! {
        #[test]
        fn more_cached_pages_are_never_colder(pages in 1_u64..1 << 40, a: u64, b: u64) {
            let (less, more) = ((a % pages).min(b % pages), (a % pages).max(b % pages));
            prop_assert!(dropped_with(pages, less).why_not_cold.is_none() || dropped_with(pages, more).why_not_cold.is_some());
        }
    }
}
