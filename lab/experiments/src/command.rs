mod block;

use super::{
    blocks::{self, HostBlock},
    folder::ExperimentFolder,
    journal::{self, CompletedRun, Entry, Journal, JournalLine, JournalState},
    lock::{self, Holder, Lock},
    plan_command, report,
    runner::{ExperimentEnd, RealSystem, Runner},
    saved::{find_folder, read_with_host_blocks, refuse_changed},
    schedule::schedule,
    status, targets,
};
use crate::{
    args::{ExperimentArgs, ExperimentCommand, InitArgs, LauncherKind, ResumeArgs, RunArgs},
    check::{self, LauncherFacts},
    plan::{InitialState, Plan, Severity},
};
use anyhow::{Context, Result, bail, ensure};
pub use block::host_block_exit_code;
use faultline_common::{
    clock,
    files::{AtPath, TempFile},
    output::{print, say},
};
use faultline_kernel::HostRoot;
use faultline_runner::isolation::{
    DirectLauncher, DirectLauncherPaths, Launcher, SystemdLauncher,
    folders::{self, ClearSummary, InitResult, MAX_LISTED, Purpose},
};
use faultline_text::{bytes, count, counted, duration};
use std::{fs, io::Write, path::Path, time::Duration};

/// Exists if systemd is PID 1.
const SYSTEMD: &str = "/run/systemd/system";
/// For processes that a killed runner left behind.
const SWEEP_GRACE: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
const MESSAGE_AFTER: Duration = Duration::from_secs(3);
const MESSAGE_INTERVAL: Duration = Duration::from_secs(60);

pub fn run(args: &ExperimentArgs) -> Result<u8> {
    match &args.command {
        ExperimentCommand::Init(args) => init(args),
        ExperimentCommand::Plan(args) => {
            let launcher = create_launcher(args.launcher)
                .map(|launcher| launcher_facts(&*launcher))
                .map_err(|error| format!("{error:#}"));
            let (printed, code) = plan_command::preview_plan(args, launcher)?;
            print(&printed).map(|()| code)
        }
        ExperimentCommand::Run(args) => run_plan(args),
        ExperimentCommand::Prepare { plan } => {
            block::prepare(&plan_command::read(plan)?).map(|_| 0)
        }
        ExperimentCommand::Block(args) => {
            host_block_exit_code(&format!("block {}", args.block), block::run(args))
        }
        ExperimentCommand::Slurm(args) => block::submit(args),
        ExperimentCommand::Status(args) => print(&status::status(args)?).map(|()| 0),
        ExperimentCommand::Resume(args) => resume(args),
        ExperimentCommand::Stop { experiment } => stop(experiment),
        ExperimentCommand::Report(args) => print(&report::report_command(args)?).map(|()| 0),
    }
}

fn init(args: &InitArgs) -> Result<u8> {
    for folder in &args.folders {
        let root = HostRoot::default();
        let lock = || folders::lock_folder(folder, Purpose::Work, &root);
        let _lock = folder.is_dir().then(lock).transpose()?;
        let result = match folders::init(folder, clock::since_1970())? {
            InitResult::Created => "made, and marked",
            InitResult::Marked => "marked",
            InitResult::AlreadyMarked => "was marked before",
        };
        say(&format!(
            "{}: {result}: runs may clear it",
            folder.display()
        ));
    }
    Ok(0)
}

fn run_plan(args: &RunArgs) -> Result<u8> {
    let plan = plan_command::read(&args.plan)?;
    if args.dry_run {
        return dry_run(&plan);
    }
    exit_code(begin_experiment(
        plan,
        args.launcher,
        args.vote_confirmed,
        None,
    )?)
}

/// Fails if a folder cannot be cleared now.
fn dry_run(plan: &Plan) -> Result<u8> {
    let _folders = lock::lock_folders(plan)?;
    let mut printed = String::new();
    for folder in plan.work_folders() {
        if plan.initial_state == InitialState::AsIs {
            printed += &format!("{}: stays as it is\n", folder.display());
        } else {
            let summary = folders::would_clear(folder, &HostRoot::default())?;
            printed += &clearing_page(folder, summary);
        }
    }
    print(&printed).map(|()| 0)
}

fn clearing_page(folder: &Path, mut summary: ClearSummary) -> String {
    let mut page = format!(
        "{}: would be cleared: {}, {}\n",
        folder.display(),
        counted(summary.files as f64, "file"),
        bytes(summary.bytes)
    );
    summary.listed.sort_unstable();
    for path in &summary.listed {
        page += &format!("  would delete: {}\n", path.display());
    }
    page += &omission_line("would delete", summary.files, summary.listed.len());
    let retained = &mut summary.retained;
    retained.sort_unstable_by(|one, other| one.path.cmp(&other.path));
    for entry in retained.iter().take(MAX_LISTED) {
        page += &format!(
            "  would keep: {} ({})\n",
            entry.path.display(),
            entry.reason
        );
    }
    page + &omission_line("would keep", retained.len() as u64, MAX_LISTED)
}

fn omission_line(what: &str, all: u64, listed: usize) -> String {
    match all.saturating_sub(listed as u64) {
        0 => String::new(),
        more => format!("  {what}: {} more, which are not listed\n", count(more)),
    }
}

fn begin_experiment(
    plan: Plan,
    launcher_kind: LauncherKind,
    vote_confirmed: bool,
    host_block: Option<HostBlock>,
) -> Result<ExperimentEnd> {
    let folder = ExperimentFolder::new(&plan.folder);
    let _lock = lock_new_folder(&folder)?;
    let launcher = create_launcher(launcher_kind)?;
    let turns = host_block
        .as_ref()
        .map_or_else(|| schedule(&plan), |host_block| host_block.turns(&plan));
    let runs = turns.iter().map(|turn| turn.runs.len()).sum();
    refuse_unfit(&plan, runs, &*launcher, vote_confirmed)?;
    let _folders = lock::lock_folders(&plan)?;
    write_synced(&folder.plan(), plan.text.as_bytes())?;
    let mut system = RealSystem::new(launcher)?;
    Runner::begin(plan, turns, &mut system)?
        .in_host_block(host_block)
        .run()
}

/// Continues if the folder has a journal with a plan.
pub fn begin_or_continue(
    plan: Plan,
    launcher_kind: LauncherKind,
    vote_confirmed: bool,
    host_block: Option<HostBlock>,
) -> Result<ExperimentEnd> {
    let folder = ExperimentFolder::new(&plan.folder);
    if !has_begun(&folder)? {
        return begin_experiment(plan, launcher_kind, vote_confirmed, host_block);
    }
    let (plan, journal_state) = read_with_host_blocks(&folder)?;
    continue_experiment(plan, &journal_state, vote_confirmed, host_block)
}

fn has_begun(folder: &ExperimentFolder) -> Result<bool> {
    let journal = folder.journal();
    Ok(journal.exists()
        && JournalState::of(&journal::read(&journal)?)
            .planned
            .is_some())
}

/// Removes a journal without a plan. Fails if the folder has an experiment.
fn lock_new_folder(folder: &ExperimentFolder) -> Result<Lock> {
    fs::create_dir_all(folder.path()).at(folder.path())?;
    let lock = Lock::take(&folder.lock())?;
    ensure!(
        !has_begun(folder)?,
        "{folder} already has an experiment: `faultline experiment resume {folder:#}` continues it, or says that it is finished"
    );
    let journal = folder.journal();
    if journal.exists() {
        fs::remove_file(&journal).at(&journal)?;
    }
    // Removes only an empty folder, which a failed `prepare` made.
    let _ = fs::remove_dir(folder.host_blocks());
    Ok(lock)
}

pub fn write_synced(path: &Path, bytes: &[u8]) -> Result<()> {
    let write = || {
        let temp_file = TempFile::create(path)?;
        temp_file.file().write_all(bytes)?;
        temp_file.file().sync_all()?;
        temp_file.finish(path)
    };
    write().at(path)
}

fn resume(args: &ResumeArgs) -> Result<u8> {
    let folder = find_folder(&args.experiment)?;
    if let Some((experiment, replicate)) = blocks::host_block_of(&folder) {
        bail!(
            "{folder}: this is an attempt at a block: {} on its host",
            blocks::how_to_resume(&experiment, replicate)
        );
    }
    let (plan, journal_state) = read_with_host_blocks(&folder)?;
    if args.experiment.is_file() {
        refuse_changed(&plan, &plan_command::read(&args.experiment)?)?;
    }
    if folder.has_host_blocks() {
        return block::submit_unfinished(&folder);
    }
    if journal_state.finished {
        let _lock = Lock::take(&folder.lock())?;
        say("this experiment is finished");
        return Ok(0);
    }
    exit_code(continue_experiment(
        plan,
        &journal_state,
        args.vote_confirmed,
        None,
    )?)
}

fn continue_experiment(
    plan: Plan,
    journal_state: &JournalState,
    vote_confirmed: bool,
    host_block: Option<HostBlock>,
) -> Result<ExperimentEnd> {
    let _lock = Lock::take(&ExperimentFolder::new(&plan.folder).lock())?;
    if journal_state.finished {
        return Ok(ExperimentEnd::Finished);
    }
    if !vote_confirmed {
        check::vote_warnings(&plan)
            .iter()
            .for_each(|warning| say(&plan_command::finding_text(warning)));
    }
    let _folders = lock::lock_folders(&plan)?;
    let mut system = RealSystem::new(recreate_launcher(journal_state)?)?;
    Runner::resume(plan, &mut system)?
        .in_host_block(host_block)
        .run()
}

fn exit_code(end: ExperimentEnd) -> Result<u8> {
    match end {
        ExperimentEnd::Finished => {
            say("the experiment is finished");
            Ok(0)
        }
        ExperimentEnd::Stopped(why)
        | ExperimentEnd::GaveUp(why)
        | ExperimentEnd::UnfitHost(why) => {
            bail!("the experiment has stopped: {why}")
        }
    }
}

fn stop(experiment: &Path) -> Result<u8> {
    let folder = find_folder(experiment)?;
    let (plan, journal_state) = read_with_host_blocks(&folder)?;
    if folder.has_host_blocks() {
        return block::stop(&folder, &plan, &journal_state);
    }
    let host_block = blocks::host_block_of(&folder);
    let path = folder.lock();
    let is_locked = lock::holder(&path)? != Holder::Free;
    if (is_locked || host_block.is_some()) && !blocks::ran_on_this_host(&journal_state) {
        let host = &journal_state.host;
        bail!(
            "{folder} ran on {host}, and this host is called {}: stop it on {host}. If both are the same host, set SLURMD_NODENAME={host}",
            blocks::host_name()
        );
    }
    stop_holder(&path)?;
    let _lock = Lock::take(&path)?;
    let launcher = recreate_launcher(&journal_state)?;
    for name in launcher.sweep(&folder.unique_name(&plan.name), SWEEP_GRACE)? {
        say(&format!(
            "cgroup {name} was left behind by a killed runner, and has been ended"
        ));
    }
    let targets = match &host_block {
        Some(_) => folder.targets(),
        None => targets::path(&plan, &folder),
    };
    if let Err(error) = targets::write(&targets, &[]) {
        say(&format!(
            "warning: the targets file still lists a recorder: {error:#}"
        ));
    }
    // The experiment may have finished before the runner received the signal.
    let finished = JournalState::of(&journal::read(&folder.journal())?).finished;
    let next = match host_block {
        _ if finished => format!(
            "the experiment is finished; `faultline experiment report {folder:#}` shows its results"
        ),
        Some((experiment, replicate)) => blocks::how_to_resume(&experiment, replicate),
        None => format!("`faultline experiment resume {folder:#}` continues"),
    };
    say(&format!("nothing runs; {next}"));
    Ok(0)
}

/// Sends SIGTERM to each process that has the lock, until the lock is free.
fn stop_holder(path: &Path) -> Result<()> {
    let (mut waited, mut message_at) = (Duration::ZERO, MESSAGE_AFTER);
    let mut signalled = None;
    while let Holder::Process(holder) = lock::holder(path)? {
        if let Some(pid) = holder.filter(|_| holder != signalled)
            && lock::terminate_holder(path, pid)?
        {
            say(&format!(
                "SIGTERM was sent to process {pid}; it ends its runs before it exits"
            ));
            signalled = holder;
        }
        if waited >= message_at {
            let path = path.display();
            let pid = holder
                .with_context(|| format!("{path}: the pid of the lock's holder is not known"))?;
            ensure!(
                holder == signalled,
                "{path}: process {pid} has the lock and cannot be seen from here: stop it in its own PID namespace"
            );
            say(&if lock::is_suspended(pid) {
                format!(
                    "process {pid} is stopped (SIGSTOP, or Ctrl-Z in its terminal): `kill -CONT {pid}` lets it continue and stop its runs; after `kill -KILL {pid}`, this command stops them"
                )
            } else {
                format!(
                    "waiting for process {pid} for {}: it stops its runs, which takes up to the plan's grace period",
                    duration(waited)
                )
            });
            message_at += MESSAGE_INTERVAL;
        }
        std::thread::sleep(POLL_INTERVAL);
        waited += POLL_INTERVAL;
    }
    Ok(())
}

/// The error has a remedy.
pub fn create_launcher(kind: LauncherKind) -> Result<Box<dyn Launcher>> {
    match kind {
        LauncherKind::Auto if Path::new(SYSTEMD).is_dir() => create_launcher(LauncherKind::Systemd),
        LauncherKind::Systemd => Ok(Box::new(SystemdLauncher::connect(&HostRoot::default())?)),
        LauncherKind::Auto | LauncherKind::Direct => Ok(Box::new(DirectLauncher::new(
            &DirectLauncherPaths::default(),
        )?)),
    }
}

fn recreate_launcher(journal_state: &JournalState) -> Result<Box<dyn Launcher>> {
    create_launcher(match &journal_state.planned {
        Some(planned) if planned.launcher == "systemd" => LauncherKind::Systemd,
        _ => LauncherKind::Direct,
    })
}

fn launcher_facts(launcher: &dyn Launcher) -> LauncherFacts {
    LauncherFacts {
        name: launcher.name().to_owned(),
        abilities: launcher.abilities().clone(),
    }
}

fn refuse_unfit(
    plan: &Plan,
    runs: usize,
    launcher: &dyn Launcher,
    vote_confirmed: bool,
) -> Result<()> {
    let facts = check::gather_facts(plan, Ok(launcher_facts(launcher)));
    let mut refusals = 0;
    for finding in check::check_plan(plan, runs, &facts, vote_confirmed) {
        refusals += usize::from(finding.severity == Severity::Refuse);
        if finding.severity != Severity::Note {
            say(&plan_command::finding_text(&finding));
        }
    }
    ensure!(
        refusals == 0,
        "this plan cannot run on this host: {refusals} of the problems above forbid it"
    );
    Ok(())
}

/// These results no longer count: [`begin_or_continue`] repeats the turns of the runs.
pub fn void(folder: &Path, runs: &[&CompletedRun<'_>], why: &str) -> Result<()> {
    let folder = ExperimentFolder::new(folder);
    let _lock = Lock::take(&folder.lock())?;
    let (mut journal, _) = Journal::open(&folder.journal())?;
    for run in runs {
        journal.append(&JournalLine {
            unix_ns: clock::unix_ns(),
            entry: Entry::Void {
                run: run.scheduled.run,
                attempt: run.attempt,
                why: why.to_owned(),
            },
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::journal::Planned;
    use faultline_runner::isolation::folders::SkippedEntry;

    #[test]
    fn resume_goes_on_with_a_voting_validator() {
        let root = tempfile::tempdir().unwrap();
        let text = "name = \"x\"\nfolder = \"state\"\nreplicates = 3\n[workload]\ncommand = [\"v\", \"--vote-account\", \"k\"]\n\
                    ledger = \"ledger\"\n[begin]\nhow = \"as-is\"\n[stop]\nduration = \"1s\"\n[[arm]]\nname = \"a\"\n";
        let plan = crate::plan::parse(text, &root.path().join("plan.toml")).unwrap();
        let folder = ExperimentFolder::new(&plan.folder);
        fs::create_dir(folder.path()).unwrap();
        fs::write(folder.plan(), text).unwrap();
        let planned = Planned::new(&plan, "direct".to_owned(), schedule(&plan));
        let line = JournalLine {
            unix_ns: 1,
            entry: Entry::Planned(planned),
        };
        let mut journal = Journal::create(&folder.journal()).unwrap();
        journal.append(&line).unwrap();
        drop(journal);
        for vote_confirmed in [false, true] {
            let args = ResumeArgs {
                experiment: folder.path().to_owned(),
                vote_confirmed,
            };
            // Locking the ledger follows the check for a voting validator, so that did not fail.
            let error = resume(&args).unwrap_err().to_string();
            assert!(error.contains("ledger: No such file"), "{error}");
        }
    }

    #[test]
    fn a_lock_holder_that_cannot_be_seen_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let _lock = Lock::take(&path).unwrap();
        // The kernel's highest pid is 2^22.
        fs::write(&path, i32::MAX.to_string()).unwrap();
        let error = stop_holder(&path).unwrap_err().to_string();
        assert!(error.contains("cannot be seen from here"), "{error}");
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "the process in the lock file is a process of the test"
    )]
    fn a_lock_holder_that_has_not_written_its_pid_yet_is_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let lock = Lock::take(&path).unwrap();
        fs::write(&path, "").unwrap();
        let mut holder = std::process::Command::new("sleep");
        let mut holder = holder.arg("60").spawn().unwrap();
        let (pid, written_to) = (holder.id(), path.clone());
        let writer = std::thread::Builder::new().spawn(move || {
            std::thread::sleep(2 * POLL_INTERVAL);
            fs::write(&written_to, pid.to_string()).unwrap();
            let status = holder.wait().unwrap();
            drop(lock);
            status
        });
        stop_holder(&path).unwrap();
        assert!(!writer.unwrap().join().unwrap().success());
    }

    #[test]
    fn a_failed_prepare_leaves_no_host_blocks_to_a_later_run() {
        let root = tempfile::tempdir().unwrap();
        let folder = ExperimentFolder::new(root.path());
        fs::create_dir(folder.host_blocks()).unwrap();
        let _lock = lock_new_folder(&folder).unwrap();
        assert!(!folder.has_host_blocks());
    }

    #[test]
    fn a_dry_run_lists_files_up_to_a_stated_limit() {
        let retained = |name: &str| SkippedEntry {
            path: name.into(),
            reason: "a keypair",
        };
        let summary = ClearSummary {
            files: 3,
            bytes: 6 << 10,
            listed: vec!["/l/b".into(), "/l/a".into()],
            retained: ["/l/z", "/l/y", "/l/x", "/l/w"].map(retained).to_vec(),
        };
        let expected = "/l: would be cleared: 3 files, 6.0 KiB\n  would delete: /l/a\n  would delete: /l/b\n  would delete: 1 more, which are not listed\n  \
                        would keep: /l/w (a keypair)\n  would keep: /l/x (a keypair)\n  would keep: /l/y (a keypair)\n  would keep: /l/z (a keypair)\n";
        assert_eq!(clearing_page(Path::new("/l"), summary), expected);
        let many = ClearSummary {
            retained: vec![retained("/l/k"); MAX_LISTED + 5],
            ..ClearSummary::default()
        };
        let page = clearing_page(Path::new("/l"), many);
        assert!(page.ends_with("  would keep: 5 more, which are not listed\n"));
        assert_eq!(page.lines().count(), 1 + MAX_LISTED + 1);
    }
}
