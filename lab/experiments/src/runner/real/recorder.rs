use crate::{
    folder::{RECORDER_LOG, RECORDING},
    plan::{Arm, Lane, Plan, WorkloadKind, expand},
    runner::{Recorder, RecorderRequest, job::command_prefix},
};
use anyhow::{Result, anyhow, bail};
use faultline_client::http;
use faultline_common::{files::AtPath, output::say};
use faultline_runner::{
    isolation::{CpuSet, End, Job, Launched, Launcher, Limits},
    record::recorder::{
        self, Addresses, DAEMON_NAME, Log, POLL_INTERVAL, POLLS_TO_END, POLLS_TO_START, ReadyFile,
        RecordingTarget, RecordingTask, describe_end, polls_to_write, progress,
    },
};
use faultline_text::duration;
use itertools::{Itertools, chain};
use rustix::thread::{self, sched_getaffinity};
use std::{collections::BTreeSet, path::PathBuf, time::Duration};
use ureq::config::Config;

/// Polls before a wait is reported: two seconds.
const POLLS_BEFORE_MESSAGE: u32 = 40;
/// Short, because setting a mark delays polls.
const MARK_TIMEOUT: Duration = Duration::from_millis(500);
/// Suffix of a warning of the daemon. The check of the plan has already given this warning.
const KNOWN_WARNING: &str = "its writes can delay those of the validator; put it on another disk";
/// Options for the CPU of the proof-of-history (PoH) thread. The thread spins, so other work on
/// this CPU delays slots.
const POH_OPTIONS: [&str; 2] = [
    "--poh-pinned-cpu-core",
    "--experimental-poh-pinned-cpu-core",
];
const DEFAULT_POH_VALUE: u32 = 0;

pub struct RecorderDaemon {
    launched: Box<dyn Launched>,
    /// Dropped after `launched`, so that the file outlives the daemon.
    ready_file: ReadyFile,
    log: Log,
    recording: PathBuf,
    interval: Duration,
    addresses: Addresses,
}

impl RecorderDaemon {
    /// On return the daemon listens and records. It follows the `pid` if the request has one. Fails
    /// if the daemon exits before.
    pub fn start(launcher: &dyn Launcher, request: &RecorderRequest<'_>) -> Result<Self> {
        let settings = &request.plan.recorder;
        let program = recorder::find_program(settings.program.as_deref(), "`recorder.program`")?;
        let output = request.folder.join(RECORDER_LOG);
        let recording = request.folder.join(RECORDING);
        let task = RecordingTask {
            target: match request.pid {
                Some(pid) => RecordingTarget::Pid(pid),
                None => RecordingTarget::Ledger(request.ledger.to_owned()),
            },
            out: &recording,
            cache_entries: request.program_cache_entries,
            labels: &request.labels,
            interval: Some(settings.interval),
            config: settings.config.as_deref(),
            free_ports: true,
        };
        // The prefix is the exec shim, which sets the affinity: not every launcher can limit CPUs.
        let cpus = recorder_cpus(request.plan, &allowed_cpus());
        let mut command = command_prefix(launcher, None, cpus.as_ref())?;
        command.push(program.into());
        command.extend(task.arguments());
        let path = std::env::var_os("PATH").map(|path| ("PATH".into(), path));
        let level = ("FAULTLINE_LOG".into(), "info".into());
        let ready_file = ReadyFile::new(&recording)?;
        let launched = launcher.launch(&Job {
            name: request.name.clone(),
            command,
            environment: chain!([level], path).collect(),
            user: None,
            folder: None,
            output: output.clone(),
            limits: Limits::default(),
            open_files: None,
            exec_gate: None,
            max_duration: None,
            grace: POLL_INTERVAL * POLLS_TO_END,
        })?;
        let mut daemon = Self {
            launched,
            ready_file,
            log: Log::on_disk(&output).at(&output)?,
            recording,
            interval: settings.interval,
            addresses: Addresses {
                metrics: String::new(),
                ingest: None,
            },
        };
        daemon.wait_until_ready(request.pid.is_some())?;
        Ok(daemon)
    }

    fn wait_until_ready(&mut self, needs_process: bool) -> Result<()> {
        for _ in 0..POLLS_TO_START {
            let ready = self.ready_file.read()?;
            let is_recording = progress(&self.recording).is_ok_and(|progress| {
                progress.last_tick.is_some() && (progress.was_followed || !needs_process)
            });
            if is_recording && let Some(ready) = ready {
                self.addresses = ready.addresses();
                return Ok(());
            }
            if let Some((end, last_problem)) = self.poll_end()? {
                bail!(
                    "{DAEMON_NAME} ended before it recorded{}",
                    describe_end(end, &last_problem)
                );
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        bail!(
            "{DAEMON_NAME} has not begun to record within half a minute{}",
            problem_suffix(&self.log.last_problem())
        )
    }

    /// Polls until `is_done` returns true; returns false after all polls. Reports a long wait.
    fn wait_until(
        &mut self,
        polls: u32,
        purpose: &str,
        mut is_done: impl FnMut(&mut Self) -> Result<bool>,
    ) -> Result<bool> {
        for poll in 0..polls {
            if is_done(self)? {
                return Ok(true);
            }
            if poll == POLLS_BEFORE_MESSAGE {
                let timeout = duration(POLL_INTERVAL * polls);
                say(&format!(
                    "waiting for {DAEMON_NAME} {purpose}, for {timeout} at most"
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
    (0..thread::CpuSet::MAX_CPU)
        .filter(|cpu| set.is_set(*cpu))
        .filter_map(|cpu| u32::try_from(cpu).ok())
        .collect()
}

/// CPUs of the recorder, the same in every run. Without CPUs in the plan, these are the `allowed`
/// CPUs without the proof-of-history CPUs of any arm and lane. `None` is all CPUs.
fn recorder_cpus(plan: &Plan, allowed: &[u32]) -> Option<CpuSet> {
    if plan.recorder.cpus.is_some() {
        return plan.recorder.cpus.clone();
    }
    // A replay has no proof-of-history thread.
    if plan.workload.kind == WorkloadKind::Replay {
        return None;
    }
    let poh_cpus = poh_cpus(plan, allowed);
    let mut other_cpus = allowed.to_vec();
    other_cpus.retain(|cpu| !poh_cpus.contains(cpu));
    if other_cpus.is_empty() || other_cpus.len() == allowed.len() {
        return None;
    }
    CpuSet::parse(&other_cpus.iter().join(",")).ok()
}

fn poh_cpus(plan: &Plan, allowed: &[u32]) -> BTreeSet<u32> {
    let mut poh_cpus = BTreeSet::new();
    for (arm, lane) in plan.arms.iter().cartesian_product(&plan.lanes) {
        let mut values = poh_option_values(plan, arm, lane);
        if values.is_empty() {
            values.insert(DEFAULT_POH_VALUE);
        }
        let run_cpus = arm.limits(lane).cpus;
        let cgroup_cpus = run_cpus.as_ref().map_or(allowed, CpuSet::numbers);
        for value in values {
            // The version is unknown: the value may be the number of a CPU or an index.
            poh_cpus.insert(value);
            poh_cpus.extend(cgroup_cpus.get(value as usize));
        }
    }
    poh_cpus
}

fn poh_option_values(plan: &Plan, arm: &Arm, lane: &Lane) -> BTreeSet<u32> {
    // The options for PoH depend on no folder and on no number of a run.
    let Ok(expanded) = expand(plan, arm, lane, &plan.folder, 1) else {
        return BTreeSet::new();
    };
    expanded
        .environment
        .into_values()
        .chain([expanded.command.join(" ")])
        .flat_map(|text| poh_values_in(&text))
        .collect()
}

/// Values of [`POH_OPTIONS`] in a text, which may be shell code.
fn poh_values_in(text: &str) -> BTreeSet<u32> {
    let separates = |c: char| c.is_whitespace() || "\"'=;,()[]".contains(c);
    text.split(separates)
        .filter(|word| !word.is_empty())
        .tuple_windows()
        .filter(|(option, _)| POH_OPTIONS.contains(option))
        .filter_map(|(_, value)| value.parse().ok())
        .collect()
}

fn problem_suffix(problem: &str) -> String {
    if problem.is_empty() {
        String::new()
    } else {
        format!(": {problem}")
    }
}

impl Recorder for RecorderDaemon {
    fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    fn poll_end(&mut self) -> Result<Option<(End, String)>> {
        let end = self.launched.poll_end()?;
        Ok(end.map(|end| (end, self.log.last_problem())))
    }

    fn warnings(&mut self) -> Vec<String> {
        let mut warnings = self.log.new_warnings_and_errors();
        warnings.retain(|warning| !warning.ends_with(KNOWN_WARNING));
        warnings
    }

    fn mark(&mut self, name: &str, kind: &str) -> Result<()> {
        let url = format!("http://{}/mark", self.addresses.metrics);
        // If the daemon's HTTP server requires TLS or a password, it refuses this request.
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
        let _ = self.wait_until(polls, "to write the end of the run", |daemon| {
            let progress = progress(&daemon.recording).ok();
            // If the recorder followed no process, it records no end.
            let is_written = progress
                .is_none_or(|progress| progress.process_has_ended || !progress.was_followed);
            Ok(is_written || daemon.poll_end()?.is_some())
        });
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        if self.poll_end()?.is_none() {
            self.launched.terminate()?;
        }
        let ended = self.wait_until(POLLS_TO_END, "to end", |daemon| {
            Ok(daemon.poll_end()?.is_some())
        })?;
        let last_problem = self.log.last_problem();
        let closed = self.launched.close()?;
        match closed.end {
            Some(End::Code(0)) if ended => Ok(()),
            Some(end) if ended => bail!("{DAEMON_NAME} ended{}", describe_end(end, &last_problem)),
            _ => bail!(
                "{DAEMON_NAME} did not end and was killed{}",
                problem_suffix(&last_problem)
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::parse;
    use proptest::prelude::*;
    use std::path::Path;

    fn cpus(folder: &Path, words: &str, rest: &str) -> Option<String> {
        let text = format!(
            "name = \"p\"\nfolder = \"state\"\n[begin]\nhow = \"as-is\"\n[workload]\nledger = \"ledger\"\n{words}\n\
             {rest}\n[[arm]]\nname = \"a\"\n[[arm]]\nname = \"b\"\n"
        );
        let plan = parse(&text, &folder.join("plan.toml")).unwrap();
        recorder_cpus(&plan, &[0, 1, 2, 3]).map(|cpus| cpus.to_string())
    }

    #[test]
    fn the_recorder_avoids_the_commands_poh_core_or_cpu_0() {
        let folder = tempfile::tempdir().unwrap();
        let of = |words: &str| cpus(folder.path(), words, "");
        assert_eq!(of("command = [\"v\"]").unwrap(), "1-3");
        assert_eq!(
            of("command = [\"v\", \"--experimental-poh-pinned-cpu-core\", \"2\"]").unwrap(),
            "0-1,3"
        );
        assert_eq!(
            of("command = [\"v\", \"--poh-pinned-cpu-core=3\", \"--x\"]").unwrap(),
            "0-2"
        );
        assert_eq!(of("kind = \"replay\"\ncommand = [\"v\"]"), None);
        // The core is an index into the CPUs of the cgroup.
        assert_eq!(of("command = [\"v\"]\ncpus = \"2-3\"").unwrap(), "1,3");
        assert_eq!(
            cpus(
                folder.path(),
                "command = [\"v\"]",
                "[recorder]\ncpus = \"0\""
            )
            .unwrap(),
            "0"
        );
    }

    #[test]
    fn recorder_cpus_exclude_every_arms_poh_core_unless_none_remain() {
        let text = "name = \"p\"\nfolder = \"state\"\n[begin]\nhow = \"as-is\"\n[workload]\ncommand = [\"v\"]\nledger = \"l\"\n\
                    [[arm]]\nname = \"a\"\ncpus = \"0-3\"\n[[arm]]\nname = \"b\"\ncpus = \"4-7\"\n";
        let plan = parse(text, Path::new("/nonexistent/plan.toml")).unwrap();
        let of = |allowed: &[u32]| recorder_cpus(&plan, allowed).map(|cpus| cpus.to_string());
        assert_eq!(of(&[0, 1, 2, 3, 4, 5, 6, 7]).unwrap(), "1-3,5-7");
        assert_eq!(of(&[0, 4]), None);
        assert_eq!(of(&[0]), None);
        assert_eq!(of(&[1, 2]), None, "no allowed CPU is a PoH CPU");
    }

    proptest! {
        #[test]
        fn any_command_text_is_parsed_without_panic(text in "(?s)(--poh-pinned-cpu-core|[ =\\n\\\\0-9\"#])*.{0,40}") {
            drop(poh_values_in(&text));
        }
    }
}
