//! A child between its start and its program. It can set a parent-death signal and wait at a gate,
//! then it executes the program in place. So the program keeps the pid that was followed from the
//! beginning.

use crate::record::{
    args::{DoctorArgs, GateArgs},
    recorder::{self, POLL_INTERVAL},
};
use anyhow::{Context, Result, ensure};
use faultline_common::{clock, output::say, signals::Signals};
use rustix::{
    process::{Pid, Signal, getppid, kill_process_group, set_parent_process_death_signal},
    thread::{CpuSet, sched_setaffinity},
};
use std::{
    ffi::{OsStr, OsString},
    fs,
    io::{self, ErrorKind, Read},
    os::unix::{ffi::OsStrExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    time::Duration,
};

/// Shell exit codes: program not found, program not executable.
pub const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;
/// The program was never executed: the parent is gone or gave up.
const GIVEN_UP: u8 = 125;

/// Polls for a program's answer; the byte limit is a pipe's capacity.
const POLLS_FOR_EXIT: u32 = 200;
const MAX_ANSWER_BYTES: u64 = 1 << 16;

/// End marker of the gate's text; without it the parent died while writing.
const GATE_END: &[u8] = b"open";

pub fn gate_text(variables: &[(String, String)]) -> Vec<u8> {
    let pairs = variables
        .iter()
        .flat_map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes(), b"\0"]);
    pairs.chain([GATE_END]).flatten().copied().collect()
}

#[expect(
    clippy::disallowed_methods,
    reason = "the function with which the lab starts programs"
)]
fn command(program: impl AsRef<OsStr>) -> Command {
    Command::new(program)
}

/// Command of a program that ends with this process and waits at the pipe `gate`.
pub fn gated(
    program: &Path,
    arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    gate: Option<&Path>,
) -> Result<Command> {
    let own = std::env::current_exe().context("this program's own file is not known")?;
    let mut command = command(own);
    command.args(["hold", "--parent", &std::process::id().to_string()]);
    if let Some(gate) = gate {
        command.arg("--gate").arg(gate);
    }
    command.arg("--").arg(program).args(arguments);
    Ok(command)
}

/// Standard error, and whether the exit status was 0. Kills the program after about ten seconds.
pub fn output_of(program: &Path, arguments: &[&OsStr]) -> io::Result<(bool, String)> {
    let mut command = command(program);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn()?;
    for _ in 0..POLLS_FOR_EXIT {
        if let Some(status) = child.try_wait()? {
            let mut words = Vec::new();
            if let Some(pipe) = &mut child.stderr {
                pipe.take(MAX_ANSWER_BYTES).read_to_end(&mut words)?;
            }
            return Ok((
                status.success(),
                String::from_utf8_lossy(&words).into_owned(),
            ));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    child.kill()?;
    child.wait()?;
    Err(io::Error::new(
        ErrorKind::TimedOut,
        "it has not answered after ten seconds",
    ))
}

/// Runs a program to its end in its own process group; it dies with this process. Output and errors
/// go into these files. If a signal asks to stop, it kills the group and returns `None`. After
/// `timeout`, it kills the program and fails.
pub fn ran(
    words: &[String],
    folder: &Path,
    (output, errors): (&fs::File, &fs::File),
    timeout: Option<Duration>,
    signals: &mut Signals,
) -> Result<Option<ExitStatus>> {
    let (program, arguments) = words.split_first().context("a command without a program")?;
    let mut command = gated(Path::new(program), arguments, None)?;
    command
        .current_dir(folder)
        .stdin(Stdio::null())
        .process_group(0);
    let mut child = command
        .stdout(output.try_clone()?)
        .stderr(errors.try_clone()?)
        .spawn()?;
    let began = clock::uptime();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let exceeded = timeout.filter(|timeout| clock::uptime().saturating_sub(began) > *timeout);
        if exceeded.is_some()
            || signals
                .wait(None, POLL_INTERVAL)?
                .iter()
                .any(|received| received.stop_signal_name().is_some())
        {
            let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            group.map(|group| kill_process_group(group, Signal::KILL));
            child.wait()?;
            ensure!(
                exceeded.is_none(),
                "{program} has not ended after {} s",
                exceeded.unwrap_or_default().as_secs()
            );
            return Ok(None);
        }
    }
}

/// Waits, then executes the program. Returns an exit code only on failure.
pub fn gate(args: &GateArgs) -> u8 {
    if args.parent.is_some_and(|parent| !die_with_parent(parent)) {
        return GIVEN_UP;
    }
    if let Some(cpus) = &args.cpus
        && let Err(error) = set_affinity(cpus)
    {
        say(&format!("CPUs {cpus} cannot be had: {error}"));
        return GIVEN_UP;
    }
    let variables = match args.gate.as_deref().map(read_gate) {
        None => Vec::new(),
        Some(Some(variables)) => variables,
        Some(None) => return GIVEN_UP,
    };
    exec_program(&args.command, variables)
}

/// Executes `faultlined once` with these arguments. Returns an exit code only on failure.
pub fn doctor(args: &DoctorArgs) -> Result<u8> {
    let program = recorder::find(args.faultlined.as_deref(), "--faultlined")?;
    let command: Vec<OsString> = [program.into_os_string(), "once".into()]
        .into_iter()
        .chain(args.arguments.iter().cloned())
        .collect();
    Ok(exec_program(&command, Vec::new()))
}

/// Executes a program that opens a file for its user. Returns an exit code only on failure.
pub fn open(program: PathBuf, file: PathBuf) -> u8 {
    exec_program(&[program.into(), file.into()], Vec::new())
}

/// Sets the parent-death signal; `false` if the parent is another process or gone.
fn die_with_parent(parent: i32) -> bool {
    // A parent that ended before this call has been replaced by another process.
    set_parent_process_death_signal(Some(Signal::TERM)).is_ok()
        && getppid().map(Pid::as_raw_pid) == Some(parent)
}

/// Sets the CPU affinity, which children inherit.
fn set_affinity(cpus: &crate::isolation::CpuSet) -> rustix::io::Result<()> {
    let mut set = CpuSet::new();
    let known = |cpu: &usize| *cpu < CpuSet::MAX_CPU;
    cpus.numbers()
        .iter()
        .filter_map(|cpu| usize::try_from(*cpu).ok().filter(known))
        .for_each(|cpu| set.set(cpu));
    sched_setaffinity(None, &set)
}

/// `None` if the gate was never opened.
fn read_gate(gate: &Path) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut text = Vec::new();
    fs::File::open(gate).ok()?.read_to_end(&mut text).ok()?;
    let mut parts: Vec<&[u8]> = text.split(|byte| *byte == 0).collect();
    if parts.pop() != Some(GATE_END) {
        return None;
    }
    parts
        .into_iter()
        .map(|pair| {
            let equals = pair.iter().position(|byte| *byte == b'=')?;
            Some((pair[..equals].to_vec(), pair[equals + 1..].to_vec()))
        })
        .collect()
}

fn exec_program(words: &[OsString], variables: Vec<(Vec<u8>, Vec<u8>)>) -> u8 {
    let Some((program, arguments)) = words.split_first() else {
        return GIVEN_UP;
    };
    let mut command = command(program);
    command.args(arguments);
    for (name, value) in &variables {
        command.env(OsStr::from_bytes(name), OsStr::from_bytes(value));
    }
    let error = command.exec();
    say(&format!("{}: {error}", PathBuf::from(program).display()));
    if error.kind() == ErrorKind::NotFound {
        NOT_FOUND
    } else {
        NOT_EXECUTABLE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waited(text: &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        read_gate(file.path())
    }

    #[test]
    fn the_exec_gate_delivers_the_environment_variables() {
        let variables = [
            ("A".to_owned(), "b=c,d".to_owned()),
            ("E".to_owned(), String::new()),
        ];
        let arrived = waited(&gate_text(&variables)).unwrap();
        let told = variables.map(|(name, value)| (name.into_bytes(), value.into_bytes()));
        assert_eq!(arrived, told);
        assert_eq!(waited(&gate_text(&[])), Some(Vec::new()));
    }

    #[test]
    fn a_partially_written_exec_gate_is_not_open() {
        let text = gate_text(&[("A".to_owned(), "b".to_owned())]);
        for length in 0..text.len() {
            assert_eq!(waited(&text[..length]), None, "{length}");
        }
        assert_eq!(read_gate(Path::new("/nonexistent")), None);
    }
}
