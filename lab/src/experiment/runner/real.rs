//! The host, as it is.

mod host;
mod recorder;

use super::job::owner;
use super::world::{Asked, Order, Recorder, Remark, World};
use crate::clock;
use crate::experiment::folder::{Folder, OUTPUT};
use crate::experiment::judge::cache;
use crate::experiment::plan::{Begin, Lane, PageCache, Plan, Severity};
use crate::experiment::replay;
use crate::experiment::watch::Now;
use crate::output::say;
use crate::recorder::progress;
use crate::signals::Signals;
use crate::words::{bytes, count};
use anyhow::Context;
use faultline_kernel::HostRoot;
use faultline_recording::{Progress, Recording};
use faultline_rig::folders;
use faultline_rig::{Launcher, cold};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Signals are waited for in pieces of this length.
const PIECE: Duration = Duration::from_millis(900);
/// A share of pages in memory beyond which files are not called cold.
const COLD: f64 = 0.01;
/// Of what was not deleted, so many are named.
const NAMED: usize = 3;

/// This host.
pub struct Real {
    launcher: Box<dyn Launcher>,
    signals: Signals,
    asked: Option<Asked>,
    root: HostRoot,
}

impl Real {
    /// With this way to start programs. From here on signals do not end this program.
    ///
    /// # Errors
    /// The system refuses to tell of signals.
    pub fn new(launcher: Box<dyn Launcher>) -> anyhow::Result<Self> {
        let signals = Signals::listen().context("signals cannot be heard")?;
        Ok(Real { launcher, signals, asked: None, root: HostRoot::default() })
    }
}

impl World for Real {
    fn now(&self) -> Now {
        let since = clock::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Now { uptime: clock::uptime(), unix_ns: i64::try_from(since.as_nanos()).unwrap_or(i64::MAX) }
    }

    fn boot(&self) -> String {
        faultline_rig::host::boot_id(&self.root).unwrap_or_else(|| "unknown".to_owned())
    }

    fn wait(&mut self, at_most: Duration) {
        let Ok(heard) = self.signals.wait(None, at_most.min(PIECE)) else {
            std::thread::sleep(at_most.min(PIECE));
            return;
        };
        for signal in heard {
            // A terminal that is closed stops nothing that runs for days.
            if let Some(name) = signal.stops() {
                let force = self.asked.is_some();
                let by = self.asked.take().map_or_else(|| name.to_owned(), |asked| asked.by);
                say(if force { "ending by force" } else { "ending what runs; once more, and it is ended by force" });
                self.asked = Some(Asked { by, force });
            }
        }
    }

    fn asked(&self) -> Option<Asked> {
        self.asked.clone()
    }

    fn tell(&mut self, words: &str) {
        say(words);
    }

    fn launcher(&self) -> &dyn Launcher {
        &*self.launcher
    }

    fn host(&mut self, plan: &Plan, scope: &str) -> anyhow::Result<Vec<Remark>> {
        let looks = plan.host.busy_cpus.severity != Severity::Ignore;
        let used = faultline_rig::host::cpu_use(&self.root).filter(|_| looks);
        let before = used.map(|used| (used, clock::uptime()));
        while before.as_ref().is_some_and(|(_, at)| clock::uptime() < *at + PIECE) && self.asked.is_none() {
            self.wait(PIECE);
        }
        let busy = before.and_then(|(before, at)| {
            let after = faultline_rig::host::cpu_use(&self.root)?;
            before.busy_until(&after, clock::uptime().saturating_sub(at))
        });
        let groups = self.launcher.leftovers(scope)?;
        let folder = Folder::new(&plan.folder);
        Ok(host::remarks(&plan.host, &host::look(plan, &self.root, folder.path(), busy, groups)))
    }

    fn clear(&mut self, plan: &Plan, lane: &Lane) -> anyhow::Result<Vec<String>> {
        let owner = owner(plan.workload.user.as_deref())?;
        let mut said = Vec::new();
        for folder in folders_of(lane) {
            if !folder.exists() {
                let init = format!("`faultline experiment init {}` makes it", folder.display());
                anyhow::bail!("{}: there is no such folder; {init}", folder.display());
            }
            let cleared = folders::clear(folder, &self.root)?;
            // `init` may have made it as root.
            if let Some(owner) = owner {
                folders::hand_over(folder, owner)?;
            }
            said.push(format!("cleared {}: {}", folder.display(), cleared_in_words(&cleared)));
        }
        Ok(said)
    }

    fn restore(&mut self, plan: &Plan, lane: &Lane, from: &Path) -> anyhow::Result<Vec<String>> {
        let owner = owner(plan.workload.user.as_deref())?;
        let restored = folders::restore(from, &lane.ledger, lane.snapshots.as_deref(), owner)?;
        Ok(vec![format!("restored {} files, {}", count(restored.files), bytes(restored.bytes))])
    }

    fn cool(&mut self, plan: &Plan, lane: &Lane) -> anyhow::Result<Vec<String>> {
        let mut warm: Vec<&Path> = folders_of(lane).collect();
        if let Begin::Restore { from } = &plan.begin {
            warm.push(from);
        }
        if plan.page_cache == PageCache::DropAll {
            cold::drop_all(&self.root)?;
        }
        let dropped = cold::drop_files(&warm)?;
        let mut said =
            vec![format!("dropped {} files, {}, from the page cache", count(dropped.files), bytes(dropped.bytes))];
        said.push(match cold::residency(&warm) {
            Ok(found) => match found.share() {
                Some(share) if share >= COLD => {
                    format!("not cold: {:.1} % of the files' pages are still in memory", 100.0 * share)
                }
                Some(share) => format!("{:.2} % of the files' pages are in memory", 100.0 * share),
                None => "the folders hold no pages".to_owned(),
            },
            Err(error) => format!("how cold it is cannot be told: {error}"),
        });
        Ok(said)
    }

    fn record(&mut self, order: &Order<'_>) -> anyhow::Result<Box<dyn Recorder>> {
        Ok(Box::new(recorder::Daemon::start(&*self.launcher, order)?))
    }

    fn progress(&mut self, recording: &Path) -> Option<Progress> {
        progress(recording).ok()
    }

    fn cache(&mut self, recording: &Path) -> anyhow::Result<cache::Seen> {
        let seen = cache::Seen::of(&Recording::open(recording)?.program_cache_points()?);
        if seen.points > 0 {
            return Ok(seen);
        }
        // A replay ends before it has pushed its points; its log has them too.
        Ok(replay::seen(&recording.with_file_name(OUTPUT)).unwrap_or(seen))
    }

    fn room(&self, folder: &Path) -> Option<u64> {
        let told = rustix::fs::statvfs(folder).ok()?;
        told.f_bavail.checked_mul(told.f_frsize)
    }
}

/// What there is to say against a run now, but for other load and what is left of earlier runs.
pub(crate) fn host_now(plan: &Plan) -> Vec<Remark> {
    host::remarks(&plan.host, &host::look(plan, &HostRoot::default(), &plan.folder, None, Vec::new()))
}

/// The folders that a run in this lane fills.
pub(crate) fn folders_of(lane: &Lane) -> impl Iterator<Item = &Path> {
    [Some(&lane.ledger), lane.accounts.as_ref(), lane.snapshots.as_ref()]
        .into_iter()
        .flatten()
        .map(|path| path.as_path())
}

/// What was deleted, or would be.
pub(crate) fn cleared_in_words(cleared: &folders::Cleared) -> String {
    let named: Vec<String> =
        cleared.kept.iter().take(NAMED).map(|kept| format!("{} ({})", kept.path.display(), kept.why)).collect();
    let more = cleared.kept.len().saturating_sub(NAMED);
    let kept = match (named.is_empty(), more) {
        (true, _) => String::new(),
        (false, 0) => format!("; kept {}", named.join(", ")),
        (false, more) => format!("; kept {} and {more} more", named.join(", ")),
    };
    format!("{} files, {}{kept}", count(cleared.files), bytes(cleared.bytes))
}
