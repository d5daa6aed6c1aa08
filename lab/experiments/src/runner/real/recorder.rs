use crate::{
    check::recorder_cpus,
    folder::{RECORDER_LOG, RECORDING},
    runner::{
        job::gated,
        system::{Recorder, RecorderRequest},
    },
};
use anyhow::{Result, anyhow, bail};
use faultline_client::http;
use faultline_common::{files::AtPath, output::say};
use faultline_runner::{
    isolation::{End, Job, Launched, Launcher, Limits},
    record::recorder::{
        self, Addresses, DEFAULT_INTERVAL, Log, POLL_INTERVAL, POLLS_TO_END, POLLS_TO_START,
        PROGRAM, ReadyFile, Target, Task, describe_end, polls_to_write, progress,
    },
};
use faultline_text::time;
use rustix::thread::{CpuSet, sched_getaffinity};
use std::{path::PathBuf, time::Duration};
use ureq::config::Config;

/// Polls before a wait is reported: two seconds.
const POLLS_BEFORE_MESSAGE: u32 = 40;
/// Short, because setting a mark delays polls.
const MARK_TIMEOUT: Duration = Duration::from_millis(500);
/// The end of a daemon's warning that the plan's check already gave.
const KNOWN_WARNING: &str = "it takes from what the validator waits for; put it elsewhere";

pub struct Daemon {
    launched: Box<dyn Launched>,
    log: Log,
    ready: ReadyFile,
    recording: PathBuf,
    interval: Duration,
    addresses: Addresses,
}

impl Daemon {
    /// On return the daemon listens and follows its target. Fails if it has exited.
    pub fn start(launcher: &dyn Launcher, recorder_request: &RecorderRequest<'_>) -> Result<Self> {
        let settings = &recorder_request.plan.recorder;
        let program = recorder::find(settings.program.as_deref(), "`recorder.program`")?;
        let output = recorder_request.folder.join(RECORDER_LOG);
        let recording = recorder_request.folder.join(RECORDING);
        let interval = settings.interval.unwrap_or(DEFAULT_INTERVAL);
        let followed = recorder_request.pid.map_or_else(
            || Target::Ledger(recorder_request.ledger.to_owned()),
            Target::Pid,
        );
        let task = Task {
            target: followed,
            out: &recording,
            cache_entries: recorder_request.cache_entries,
            labels: &recorder_request.labels,
            interval: Some(interval),
            config: settings.config.as_deref(),
            free_ports: true,
        };
        // Sets the affinity, because not every launcher can limit CPUs.
        let mut command = gated(
            launcher,
            None,
            recorder_cpus(recorder_request.plan, &allowed_cpus()).as_ref(),
        )?;
        command.push(program.into());
        command.extend(task.arguments());
        let path = std::env::var_os("PATH").map(|path| ("PATH".into(), path));
        let level = ("FAULTLINE_LOG".into(), "info".into());
        let job = Job {
            name: recorder_request.name.clone(),
            command,
            environment: [level].into_iter().chain(path).collect(),
            user: None,
            folder: None,
            output: output.clone(),
            limits: Limits::default(),
            open_files: None,
            gate: None,
            longest: None,
            grace: POLL_INTERVAL * POLLS_TO_END,
        };
        let ready = ReadyFile::of(&recording)?;
        let launched = launcher.launch(&job)?;
        let log = Log::on_disk(&output).at(&output)?;
        let addresses = Addresses {
            metrics: String::new(),
            ingest: None,
        };
        let mut daemon = Daemon {
            launched,
            log,
            ready,
            recording,
            interval,
            addresses,
        };
        daemon.wait_until_ready(recorder_request.pid.is_some())?;
        Ok(daemon)
    }

    fn wait_until_ready(&mut self, follows: bool) -> Result<()> {
        for _ in 0..POLLS_TO_START {
            let ready = self.ready.read()?;
            let seen = progress(&self.recording).ok();
            let recorded =
                seen.is_some_and(|seen| seen.last_tick.is_some() && (seen.process || !follows));
            if let (Some(ready), true) = (ready, recorded) {
                self.addresses = ready.addresses();
                return Ok(());
            }
            if let Some((end, words)) = self.ended()? {
                bail!(
                    "{PROGRAM} ended before it recorded{}",
                    describe_end(end, &words)
                );
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        bail!(
            "{PROGRAM} does not record after half a minute{}",
            warning_suffix(&self.log.last_warning())
        )
    }

    /// Polls until `until` is true; false after all polls. Reports a long wait.
    fn wait(
        &mut self,
        polls: u32,
        what: &str,
        mut until: impl FnMut(&mut Self) -> Result<bool>,
    ) -> Result<bool> {
        for attempt in 0..polls {
            if until(self)? {
                return Ok(true);
            }
            if attempt == POLLS_BEFORE_MESSAGE {
                let longest = time(POLL_INTERVAL * polls);
                say(&format!(
                    "waiting for {PROGRAM} {what}, for {longest} at most"
                ));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        Ok(false)
    }
}

/// CPUs that this program may use; empty if unknown.
fn allowed_cpus() -> Vec<u32> {
    let Ok(set) = sched_getaffinity(None) else {
        return Vec::new();
    };
    (0..CpuSet::MAX_CPU)
        .filter(|cpu| set.is_set(*cpu))
        .filter_map(|cpu| u32::try_from(cpu).ok())
        .collect()
}

fn warning_suffix(warning: &str) -> String {
    if warning.is_empty() {
        String::new()
    } else {
        format!(": {warning}")
    }
}

impl Recorder for Daemon {
    fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    fn ended(&mut self) -> Result<Option<(End, String)>> {
        Ok(self
            .launched
            .ended()?
            .map(|end| (end, self.log.last_warning())))
    }

    fn warnings(&mut self) -> Vec<String> {
        let mut all = self.log.warnings();
        all.retain(|warning| !warning.ends_with(KNOWN_WARNING));
        all
    }

    fn mark(&mut self, name: &str, kind: &str) -> Result<()> {
        let url = format!("http://{}/mark", self.addresses.metrics);
        // A page with TLS or a password accepts no mark.
        let config = Config::builder()
            .timeout_global(Some(MARK_TIMEOUT))
            .proxy(None);
        http::agent(config.build())
            .post(&url)
            .query("name", name)
            .query("kind", kind)
            .send_empty()
            .map(drop)
            .map_err(|error| anyhow!("{}", http::reason(&error)))
    }

    fn wait_for_end_event(&mut self) {
        let polls = polls_to_write(self.interval);
        // A recording without this event is better than none.
        let _ = self.wait(polls, "to write the end of the run", |daemon| {
            let seen = progress(&daemon.recording).ok();
            // Without a process, no end can be seen.
            Ok(seen.is_none_or(|seen| seen.ended || !seen.process) || daemon.ended()?.is_some())
        });
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        if self.ended()?.is_none() {
            self.launched.terminate()?;
        }
        let ended = self.wait(POLLS_TO_END, "to end", |daemon| {
            Ok(daemon.ended()?.is_some())
        })?;
        let words = self.log.last_warning();
        let evidence = self.launched.close()?;
        match evidence.end {
            Some(End::Code(0)) if ended => Ok(()),
            Some(end) if ended => bail!("{PROGRAM} ended{}", describe_end(end, &words)),
            _ => bail!(
                "{PROGRAM} did not end and was killed{}",
                warning_suffix(&words)
            ),
        }
    }
}
