mod observer;
mod recorder;

use super::{
    job::owner,
    system::{CacheDropped, Observer, Recorder, RecorderRequest, StopRequest, System},
};
use crate::{
    blocks,
    check::program_files,
    folder::OUTPUT,
    host::{HostFinding, host_findings},
    judge::CacheTotals,
    plan::{Lane, PageCache, Plan, Severity},
    replay,
    targets::{self, Target},
    watch::Now,
};
use anyhow::{Context, Result};
use faultline_common::{clock, output::say, signals::Signals};
use faultline_kernel::HostRoot;
use faultline_recording::{Progress, Recording, TickRow};
use faultline_runner::{
    isolation::{
        Launcher,
        cold::{self, Residency},
        folders,
        host::{boot_id, cpu_use},
    },
    record::recorder::progress,
};
use faultline_text::{bytes, counted};
use itertools::Itertools;
use observer::RunObserver;
use recorder::Daemon;
use std::{path::Path, time::Duration};

const MAX_WAIT: Duration = Duration::from_millis(900);
const MAX_NAMED: usize = 3;
/// From this share of cached pages, files are not cold.
const WARM_SHARE: f64 = 0.01;
/// Fewer cached bytes do not matter for a limit, whatever their share.
const NEGLIGIBLE_BYTES: u64 = 1 << 20;

pub struct RealSystem {
    launcher: Box<dyn Launcher>,
    signals: Signals,
    stop_request: Option<StopRequest>,
    root: HostRoot,
}

impl RealSystem {
    /// From here on, signals do not end this program.
    pub fn new(launcher: Box<dyn Launcher>) -> Result<Self> {
        let signals = Signals::listen().context("signals cannot be heard")?;
        Ok(RealSystem {
            launcher,
            signals,
            stop_request: None,
            root: HostRoot::default(),
        })
    }
}

impl System for RealSystem {
    fn now(&self) -> Now {
        Now {
            uptime: clock::uptime(),
            unix_ns: clock::unix_ns(),
        }
    }

    fn boot(&self) -> String {
        boot_id(&self.root).unwrap_or_else(|| "unknown".to_owned())
    }

    fn host_name(&self) -> String {
        blocks::host_name()
    }

    fn wait(&mut self, at_most: Duration) {
        let Ok(received) = self.signals.wait(None, at_most.min(MAX_WAIT)) else {
            std::thread::sleep(at_most.min(MAX_WAIT));
            return;
        };
        for signal in received {
            // A closed terminal does not stop an experiment.
            if let Some(name) = signal.stop_signal_name() {
                if let Some(stop_request) = &mut self.stop_request {
                    say("ending by force");
                    stop_request.force = true;
                } else {
                    say("ending what runs; once more, and it is ended by force");
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

    fn print(&mut self, words: &str) {
        say(words);
    }

    fn launcher(&self) -> &dyn Launcher {
        &*self.launcher
    }

    fn host(&mut self, plan: &Plan, scope: &str) -> Result<Vec<HostFinding>> {
        let checks_load = plan.host.busy_cpus.severity != Severity::Ignore;
        let used = cpu_use(&self.root).filter(|_| checks_load);
        let before = used.map(|used| (used, clock::uptime()));
        while before
            .as_ref()
            .is_some_and(|(_, at)| clock::uptime() < *at + MAX_WAIT)
            && self.stop_request.is_none()
        {
            self.wait(MAX_WAIT);
        }
        let busy = before.and_then(|(before, at)| {
            let after = cpu_use(&self.root)?;
            before.busy_until(&after, clock::uptime().saturating_sub(at))
        });
        let groups = self.launcher.leftovers(scope)?;
        Ok(host_findings(plan, &self.root, busy, &groups))
    }

    fn clear(&mut self, plan: &Plan, lane: &Lane) -> Result<Vec<String>> {
        let owner = owner(plan.workload.user.as_deref())?;
        let mut lines = Vec::new();
        for folder in lane.folders() {
            let shown = folder.display();
            anyhow::ensure!(
                folder.exists(),
                "{shown}: there is no such folder; `faultline experiment init {shown}` makes it"
            );
            let cleared = folders::clear(folder, &self.root)?;
            // `experiment init` may have made the folder as root.
            if let Some(owner) = owner {
                folders::set_folder_owner(folder, owner)?;
            }
            lines.push(format!(
                "cleared {shown}: {}, {}{}",
                counted(cleared.files as f64, "file"),
                bytes(cleared.bytes),
                named("; kept ", &cleared.retained)
            ));
        }
        Ok(lines)
    }

    fn restore(&mut self, plan: &Plan, lane: &Lane, from: &Path) -> Result<Vec<String>> {
        let owner = owner(plan.workload.user.as_deref())?;
        let restored = folders::restore(from, &lane.ledger, lane.snapshots.as_deref(), owner)?;
        let not_copied = named("; not copied: ", &restored.skipped);
        Ok(vec![format!(
            "restored {}, {}{not_copied}",
            counted(restored.files as f64, "file"),
            bytes(restored.bytes)
        )])
    }

    fn cool(&mut self, plan: &Plan, lane: &Lane) -> Result<CacheDropped> {
        let mut warm: Vec<&Path> = lane.folders().collect();
        warm.extend(plan.restored_from());
        if plan.page_cache == PageCache::DropAll {
            cold::drop_all(&self.root)?;
        }
        let dropped = cold::drop_files(&warm)?;
        let lines = format!(
            "dropped {}, {}, from the page cache{}",
            counted(dropped.files as f64, "file"),
            bytes(dropped.bytes),
            named("; left alone: ", &dropped.skipped)
        );
        let mut dropped = cooled(lines, cold::residency(&warm));
        // Otherwise only the first run is charged for reading the programs.
        if plan.page_cache == PageCache::DropFiles {
            for file in program_files(plan) {
                if let Err(error) = cold::warm_file(&file) {
                    dropped.lines.push(format!(
                        "{}: whether it is charged to this run is not known: {error}",
                        file.display()
                    ));
                }
            }
        }
        Ok(dropped)
    }

    fn record(&mut self, recorder_request: &RecorderRequest<'_>) -> Result<Box<dyn Recorder>> {
        let daemon = Daemon::start(&*self.launcher, recorder_request)?;
        Ok(Box::new(daemon))
    }

    fn observe(&mut self, pid: u32, recording: &Path) -> Box<dyn Observer> {
        let root = self.root.clone();
        Box::new(RunObserver::new(root, pid, recording.to_owned()))
    }

    fn announce(&mut self, file: &Path, targets: &[Target]) -> Result<()> {
        targets::write(file, targets)
    }

    fn progress(&mut self, recording: &Path) -> Option<Progress> {
        progress(recording).ok()
    }

    fn cache(&mut self, recording: &Path) -> Result<CacheTotals> {
        let cache_totals = CacheTotals::of(&Recording::open(recording)?.program_cache_points()?);
        if cache_totals.points > 0 {
            return Ok(cache_totals);
        }
        // A replay exits before it has pushed its points; its log has them too.
        Ok(replay::read(&recording.with_file_name(OUTPUT))
            .map_or(cache_totals, |log| log.cache_totals))
    }

    fn ticks(&mut self, recording: &Path) -> Result<Vec<TickRow>> {
        Ok(Recording::open(recording)?.ticks()?)
    }

    fn free_bytes(&self, folder: &Path) -> Option<u64> {
        let space = rustix::fs::statvfs(folder).ok()?;
        space.f_bavail.checked_mul(space.f_frsize)
    }
}

fn named(what: &str, all: &[folders::RetainedEntry]) -> String {
    let named = all
        .iter()
        .take(MAX_NAMED)
        .map(|entry| format!("{} ({})", entry.path.display(), entry.reason))
        .join(", ");
    match (named.is_empty(), all.len().saturating_sub(MAX_NAMED)) {
        (true, _) => String::new(),
        (false, 0) => format!("{what}{named}"),
        (false, more) => format!("{what}{named} and {more} more"),
    }
}

fn cooled(dropped: String, found: Result<Residency>) -> CacheDropped {
    let mut cooled = CacheDropped {
        lines: vec![dropped],
        not_cold: None,
    };
    match found.map(|found| (found.share(), found.resident_bytes())) {
        Ok((None, _)) => cooled.lines.push("the folders hold no pages".to_owned()),
        Ok((Some(share), resident)) if share >= WARM_SHARE && resident >= NEGLIGIBLE_BYTES => {
            cooled.not_cold = Some(format!(
                "it did not begin cold: {:.1} % of the files' pages ({}) were in memory",
                100.0 * share,
                bytes(resident)
            ));
        }
        Ok((Some(share), _)) => cooled.lines.push(format!(
            "{:.2} % of the files' pages are in memory",
            100.0 * share
        )),
        Err(error) => {
            cooled.not_cold = Some(format!("the cold start could not be verified: {error}"));
        }
    }
    cooled
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn skipped_files_are_named_with_reasons_up_to_a_few() {
        let retained_names = |name: &str| folders::RetainedEntry {
            path: name.into(),
            reason: "is a socket",
        };
        assert_eq!(named("; not copied: ", &[]), "");
        assert_eq!(
            named("; not copied: ", &[retained_names("a")]),
            "; not copied: a (is a socket)"
        );
        let all = ["a", "b", "c", "d", "e"].map(retained_names);
        assert!(
            named("; kept ", &all).ends_with("c (is a socket) and 2 more"),
            "{}",
            named("; kept ", &all)
        );
    }

    fn of(pages: u64, resident: u64) -> CacheDropped {
        cooled(
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
        assert_eq!(of(1_000_000, 9_999).not_cold, None);
        let warm = of(1_000_000, 10_000);
        assert!(warm.not_cold.is_some_and(|why| why.contains("1.0 %")));
        assert_eq!(
            warm.lines,
            ["dropped"],
            "it is said once, with the run's validity"
        );
    }

    #[test]
    fn reading_a_keypair_does_not_count_as_a_warm_ledger() {
        assert_eq!(of(2, 2).not_cold, None);
        assert_eq!(of(0, 0).not_cold, None);
        assert!(of(1000, 1000).not_cold.is_some());
    }

    #[test]
    fn uninspected_files_are_not_called_cold() {
        let error = anyhow::anyhow!("fincore is not installed");
        let cooled = cooled("dropped".to_owned(), Err(error));
        assert!(cooled.not_cold.is_some_and(|why| why.contains("fincore")));
    }

    proptest! {
        #[test]
        fn more_cached_pages_are_never_colder(pages in 1_u64..1 << 40, a: u64, b: u64) {
            let (less, more) = ((a % pages).min(b % pages), (a % pages).max(b % pages));
            prop_assert!(of(pages, less).not_cold.is_none() || of(pages, more).not_cold.is_some());
        }
    }
}
