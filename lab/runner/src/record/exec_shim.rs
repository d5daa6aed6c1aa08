//! Starts programs. Most start as the exec shim, `faultline hold`: a process that ends with its
//! parent, and executes the program under the same pid. With a gate, which is a pipe, the shim
//! first waits, for example until the daemon follows its pid.

use super::{
    args::{DoctorArgs, HoldArgs},
    recorder::{self, POLL_INTERVAL},
};
use crate::isolation::CpuSet;
use anyhow::{Context, Result, bail};
use faultline_common::{
    clock,
    output::say,
    signals::{ReceivedSignal, Signals},
};
use rustix::{
    fs::{OFlags, fcntl_setfl},
    io::Errno,
    pipe::{PipeFlags, pipe_with},
    process::{
        Pid, Signal, getppid, kill_process, kill_process_group, set_parent_process_death_signal,
    },
    thread::{CpuSet as AffinityMask, sched_setaffinity},
};
use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, ErrorKind, Read, Write},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{
            ffi::OsStrExt,
            process::{CommandExt, ExitStatusExt},
        },
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

/// Shell exit codes: program not found, program not executable.
pub const NOT_FOUND: u8 = 127;
const NOT_EXECUTABLE: u8 = 126;
/// The program was never executed: the parent exited or closed the gate, or the CPUs are invalid.
const GIVEN_UP: u8 = 125;

const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(10);
/// A pipe's capacity.
const MAX_STDERR_BYTES: u64 = 1 << 16;

/// End of the message through a gate. If it is missing, the parent died while writing.
const MESSAGE_END: &[u8] = b"open";

pub fn exec_gate_message(variables: &[(String, String)]) -> Vec<u8> {
    variables
        .iter()
        .flat_map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes(), b"\0"])
        .chain([MESSAGE_END])
        .flatten()
        .copied()
        .collect()
}

#[expect(
    clippy::disallowed_methods,
    reason = "most programs of the lab start here"
)]
fn new_command(program: impl AsRef<OsStr>) -> Command {
    Command::new(program)
}

/// Command of an exec shim that ends with this process and waits at the pipe `gate`, if any.
pub fn shim_command(
    program: &Path,
    arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    gate: Option<&Path>,
) -> Result<Command> {
    let own_file = std::env::current_exe().context("this program's own file is not known")?;
    let mut command = new_command(own_file);
    command.args(["hold", "--parent", &std::process::id().to_string()]);
    if let Some(gate) = gate {
        command.arg("--gate").arg(gate);
    }
    command.arg("--").arg(program).args(arguments);
    Ok(command)
}

/// Returns whether the exit status was 0, and the standard error until the exit. Kills the program
/// after about ten seconds.
pub fn success_and_stderr(program: &Path, arguments: &[&OsStr]) -> io::Result<(bool, String)> {
    let mut child = new_command(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let status = wait_or_kill(&mut child, Duration::from_secs(10))?
        .ok_or_else(|| io::Error::new(ErrorKind::TimedOut, "it did not end within ten seconds"))?;
    let mut text = Vec::new();
    if let Some(pipe) = &mut child.stderr {
        fcntl_setfl(&*pipe, OFlags::NONBLOCK)?;
        // If a child of the program still has the pipe open, the pipe has no end: the read then
        // fails, but only after all text was read.
        let _ = pipe.take(MAX_STDERR_BYTES).read_to_end(&mut text);
    }
    Ok((
        status.success(),
        String::from_utf8_lossy(&text).into_owned(),
    ))
}

/// `None` if the program had to be killed.
pub fn wait_or_kill(child: &mut Child, timeout: Duration) -> io::Result<Option<ExitStatus>> {
    let mut waited = Duration::ZERO;
    loop {
        let status = child.try_wait()?;
        if status.is_some() {
            return Ok(status);
        }
        if waited >= timeout {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(EXIT_POLL_INTERVAL);
        waited += EXIT_POLL_INTERVAL;
    }
}

/// Runs a program to its end in its own process group. The program ends with this process. A stop
/// signal kills the group, and the result is `None`. A timeout kills the group and is an error.
pub fn run_to_end(
    command: &[String],
    folder: &Path,
    (output, errors): (&File, &File),
    timeout: Option<Duration>,
    signals: &mut Signals,
) -> Result<Option<ExitStatus>> {
    let (program, arguments) = command
        .split_first()
        .context("a command without a program")?;
    let mut child = shim_command(Path::new(program), arguments, None)?
        .current_dir(folder)
        .stdin(Stdio::null())
        .process_group(0)
        .stdout(output.try_clone()?)
        .stderr(errors.try_clone()?)
        .spawn()?;
    let start = clock::uptime();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let exceeded = timeout.filter(|timeout| clock::uptime().saturating_sub(start) > *timeout);
        if exceeded.is_some()
            || signals
                .wait(None, POLL_INTERVAL)?
                .iter()
                .any(|received| received.stop_signal_name().is_some())
        {
            let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            group.map(|group| kill_process_group(group, Signal::KILL));
            child.wait()?;
            if let Some(timeout) = exceeded {
                bail!("{program} has not ended after {} s", timeout.as_secs());
            }
            return Ok(None);
        }
    }
}

/// The exec shim: waits at its gate, then executes the program. Returns an exit code only on
/// failure.
pub fn wait_and_exec(args: &HoldArgs) -> u8 {
    if args.parent.is_some_and(|parent| !die_with_parent(parent)) {
        return GIVEN_UP;
    }
    if let Some(cpus) = &args.cpus
        && let Err(error) = set_affinity(cpus)
    {
        say(&format!("CPUs {cpus} cannot be used: {error}"));
        return GIVEN_UP;
    }
    let variables = match args.gate.as_deref().map(read_exec_gate) {
        None => Vec::new(),
        Some(Some(variables)) => variables,
        Some(None) => return GIVEN_UP,
    };
    exec_program(&args.command, variables)
}

pub fn doctor(args: &DoctorArgs) -> Result<u8> {
    let program = recorder::find_program(args.faultlined.as_deref(), "--faultlined")?;
    let mut command = vec![program.into(), "once".into()];
    command.extend_from_slice(&args.arguments);
    Ok(exec_program(&command, Vec::new()))
}

pub fn exec_browser(program: PathBuf, file: PathBuf) -> u8 {
    exec_program(&[program.into(), file.into()], Vec::new())
}

/// Sets the parent-death signal; `false` if the parent is another process or gone.
fn die_with_parent(parent: i32) -> bool {
    // A parent that ended before this call has been replaced by another process.
    set_parent_process_death_signal(Some(Signal::TERM)).is_ok()
        && getppid().map(Pid::as_raw_pid) == Some(parent)
}

fn set_affinity(cpus: &CpuSet) -> rustix::io::Result<()> {
    let mut mask = AffinityMask::new();
    let is_possible = |cpu: &usize| *cpu < AffinityMask::MAX_CPU;
    for cpu in cpus.numbers() {
        let cpu = usize::try_from(*cpu).ok().filter(is_possible);
        mask.set(cpu.ok_or(Errno::INVAL)?);
    }
    sched_setaffinity(None, &mask)
}

/// Waits for the message; `None` if it is unreadable or incomplete.
fn read_exec_gate(gate: &Path) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut text = Vec::new();
    File::open(gate).ok()?.read_to_end(&mut text).ok()?;
    let mut parts = Vec::from_iter(text.split(|byte| *byte == 0));
    if parts.pop() != Some(MESSAGE_END) {
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

fn exec_program(command: &[OsString], variables: Vec<(Vec<u8>, Vec<u8>)>) -> u8 {
    let Some((program, arguments)) = command.split_first() else {
        return GIVEN_UP;
    };
    let mut command = new_command(program);
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

/// A command behind an exec shim. If this is dropped before [`Self::open_gate`], the command never
/// runs.
pub struct GatedCommand {
    child: Child,
    pub name: String,
    gate: Option<File>,
    /// The child opens it through `/proc`.
    _read_end: OwnedFd,
    ended: Option<ExitStatus>,
}

impl GatedCommand {
    pub fn start(command: &[OsString]) -> Result<Self> {
        let (program, arguments) = command.split_first().context("no command")?;
        let (read_end, gate) = pipe_with(PipeFlags::CLOEXEC).context("no pipe")?;
        let path = format!("/proc/{}/fd/{}", std::process::id(), read_end.as_raw_fd());
        let child = shim_command(Path::new(program), arguments, Some(Path::new(&path)))?.spawn();
        let child = child.with_context(|| program.to_string_lossy().into_owned())?;
        let name = Path::new(program)
            .file_name()
            .unwrap_or(program)
            .to_string_lossy()
            .into_owned();
        Ok(Self {
            child,
            name,
            gate: Some(gate.into()),
            _read_end: read_end,
            ended: None,
        })
    }

    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Lets the exec shim execute the command with these variables.
    pub fn open_gate(&mut self, variables: &[(String, String)]) -> Result<()> {
        let Some(mut gate) = self.gate.take() else {
            return Ok(());
        };
        gate.write_all(&exec_gate_message(variables))
            .context("the command cannot be started")
    }

    /// Exit code in shell convention; `None` while the command runs.
    pub fn exit_code(&mut self) -> Result<Option<u8>> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().with_context(|| self.name.clone())?;
        }
        Ok(self.ended.map(exit_code))
    }

    /// Forwards a signal, unless the terminal has sent it to the command as well.
    pub fn forward_signal(&self, received: ReceivedSignal) {
        if let (false, None, Some(signal)) = (
            received.from_terminal,
            self.ended,
            Signal::from_named_raw(received.number),
        ) {
            // It fails if the command has just ended, or runs as another user (`sudo`).
            let _ = kill_process(self.pid(), signal);
        }
    }
}

impl Drop for GatedCommand {
    fn drop(&mut self) {
        // A closed gate ends a waiting exec shim even if SIGTERM is ignored.
        self.gate = None;
        if self.ended.is_none() {
            let _ = kill_process(self.pid(), Signal::TERM);
            let _ = self.child.wait();
        }
    }
}

fn exit_code(status: ExitStatus) -> u8 {
    let code = status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok())
        .unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_message(text: &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        read_exec_gate(file.path())
    }

    #[test]
    fn the_exec_gate_delivers_the_environment_variables() {
        let variables = [
            ("A".to_owned(), "b=c,d".to_owned()),
            ("E".to_owned(), String::new()),
        ];
        let received = read_message(&exec_gate_message(&variables)).unwrap();
        let sent = variables.map(|(name, value)| (name.into_bytes(), value.into_bytes()));
        assert_eq!(received, sent);
        assert_eq!(read_message(&exec_gate_message(&[])), Some(Vec::new()));
    }

    #[test]
    fn a_partially_written_exec_gate_is_not_open() {
        let text = exec_gate_message(&[("A".to_owned(), "b".to_owned())]);
        for length in 0..text.len() {
            assert_eq!(read_message(&text[..length]), None, "{length}");
        }
        assert_eq!(read_exec_gate(Path::new("/nonexistent")), None);
    }

    #[test]
    fn the_messages_of_a_failed_program_do_not_wait_for_its_child() {
        let script = "sleep 20 & echo why >&2; exit 1";
        let begun = clock::uptime();
        let result = success_and_stderr(Path::new("/bin/sh"), &["-c".as_ref(), script.as_ref()]);
        assert_eq!(result.unwrap(), (false, "why\n".to_owned()));
        let took = clock::uptime() - begun;
        assert!(took < Duration::from_secs(15), "{took:?}");
    }

    #[test]
    fn a_cpu_beyond_the_affinity_mask_is_refused() {
        for cpus in ["0,1024", "0-8191"] {
            let cpus = CpuSet::parse(cpus).unwrap();
            assert_eq!(set_affinity(&cpus), Err(Errno::INVAL), "{cpus}");
        }
    }

    #[test]
    fn the_exit_code_follows_shell_convention() {
        assert_eq!(exit_code(ExitStatus::from_raw(7 << 8)), 7);
        assert_eq!(exit_code(ExitStatus::from_raw(9)), 137);
    }
}
