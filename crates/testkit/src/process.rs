//! Programs that end with the test that started them, even if it panics or is killed.

use std::{
    fs::File,
    io,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Mutex, OnceLock,
        mpsc::{Sender, channel},
    },
};

use crate::{Error, Result, binaries};

/// Sends a signal by name, such as `TERM`, through the program `kill`.
///
/// # Errors
/// [`Error::Start`] without that program, [`Error::Ended`] if it fails.
pub fn signal(pid: u32, name: &str) -> Result<()> {
    let started = Command::new("kill")
        .args(["-s", name, &pid.to_string()])
        .status();
    let status = started.map_err(|source| Error::Start {
        program: "kill".into(),
        source,
    })?;
    if status.success() {
        return Ok(());
    }
    Err(Error::Ended {
        program: "kill".to_owned(),
        status: describe(status),
        tail: String::new(),
    })
}

/// Runs a program that ends by itself.
///
/// # Errors
/// [`Error::Start`]; [`Error::Ended`] with its output if it fails.
pub fn run_to_success(path: &Path, arguments: &[&str]) -> Result<()> {
    let ended = Command::new(path)
        .args(arguments)
        .stdin(Stdio::null())
        .output();
    let ended = ended.map_err(|source| Error::Start {
        program: path.to_owned(),
        source,
    })?;
    if ended.status.success() {
        return Ok(());
    }
    let program = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let tail = [ended.stdout, ended.stderr].concat();
    let tail = String::from_utf8_lossy(&tail).into_owned();
    Err(Error::Ended {
        program,
        status: describe(ended.status),
        tail,
    })
}

/// A program to start.
#[derive(Debug, Clone)]
pub struct Program {
    /// The file to execute.
    pub path: PathBuf,
    pub arguments: Vec<String>,
    /// Variables set on top of the inherited ones; a `None` removes.
    pub environment: Vec<(String, Option<String>)>,
    /// Receives stdout and stderr; emptied first.
    pub output: PathBuf,
}

/// A started program; killed when dropped, and by the kernel when this process ends (if `setpriv` is in `PATH`).
#[derive(Debug)]
pub struct Running {
    child: Child,
    name: String,
    output: PathBuf,
}

impl Running {
    /// Starts it.
    ///
    /// # Errors
    /// [`Error::Start`], or [`Error::File`] for the output file.
    pub fn start(program: &Program) -> Result<Self> {
        let output = File::create(&program.output).map_err(Error::file(&program.output))?;
        let errors = output.try_clone().map_err(Error::file(&program.output))?;
        let mut command = command(&program.path);
        command
            .args(&program.arguments)
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors);
        for (name, value) in &program.environment {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let child = spawn(command).map_err(|source| Error::Start {
            program: program.path.clone(),
            source,
        })?;
        let name = program
            .path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        Ok(Self {
            child,
            name,
            output: program.output.clone(),
        })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Checks that it runs.
    ///
    /// # Errors
    /// [`Error::Ended`] with the end of its output if it does not.
    pub fn check(&mut self) -> Result<()> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(self.ended(&describe(status))),
            Err(error) => Err(self.ended(&error.to_string())),
        }
    }

    /// Its exit status; `None` while it runs.
    ///
    /// # Errors
    /// [`Error::Ended`] if the system reports none.
    pub fn exit_status(&mut self) -> Result<Option<ExitStatus>> {
        self.child
            .try_wait()
            .map_err(|error| self.ended(&error.to_string()))
    }

    /// Sends SIGKILL and waits for the end. No error if it has ended already.
    ///
    /// # Errors
    /// [`Error::Ended`] if the system refuses.
    pub fn kill(&mut self) -> Result<()> {
        self.child
            .kill()
            .and_then(|()| self.child.wait())
            .map(drop)
            .map_err(|error| self.ended(&error.to_string()))
    }

    fn ended(&self, status: &str) -> Error {
        Error::Ended {
            program: self.name.clone(),
            status: status.to_owned(),
            tail: tail(&self.output, 30),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Err(error) = self.kill() {
            eprintln!("{error}");
        }
    }
}

/// The last lines of a file; empty when it cannot be read.
pub fn tail(path: &Path, lines: usize) -> String {
    let bytes = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// `exit code 3` or `signal 9`.
pub fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "no exit status".to_owned(),
    }
}

fn command(path: &Path) -> Command {
    match binaries::in_search_path("setpriv") {
        Some(setpriv) => {
            let mut command = Command::new(setpriv);
            command.args(["--pdeathsig", "KILL", "--"]).arg(path);
            command
        }
        None => Command::new(path),
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// Spawns on a thread that lives as long as this process. The kernel sends the parent-death signal when the *thread* that
/// forked ends, and the thread of a test ends before a cluster that several tests share.
fn spawn(mut command: Command) -> io::Result<Child> {
    static SPAWNER: OnceLock<Mutex<Sender<Job>>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (jobs, queue) = channel::<Job>();
        std::thread::spawn(move || queue.into_iter().for_each(|job| job()));
        Mutex::new(jobs)
    });
    let (answer, answered) = channel();
    let job: Job = Box::new(move || answer.send(command.spawn()).unwrap_or_default());
    let gone = || io::Error::other("the spawning thread is gone");
    spawner
        .lock()
        .map_err(|_| gone())?
        .send(job)
        .map_err(|_| gone())?;
    answered.recv().map_err(|_| gone())?
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{eventually::eventually_ok, proc::is_alive};

    fn shell(script: &str, output: &Path) -> Running {
        let program = Program {
            path: "/bin/sh".into(),
            arguments: vec!["-c".to_owned(), script.to_owned()],
            environment: vec![
                ("GREETING".to_owned(), Some("hello".to_owned())),
                ("HOME".to_owned(), None),
            ],
            output: output.to_owned(),
        };
        Running::start(&program).unwrap()
    }

    #[test]
    fn dropping_a_program_kills_it() {
        let folder = tempfile::tempdir().unwrap();
        let running = shell("exec sleep 1000", &folder.path().join("out"));
        let pid = running.pid();
        assert!(is_alive(pid));
        drop(running);
        assert!(!is_alive(pid));
    }

    #[test]
    fn an_ended_program_gives_its_exit_status_and_output() {
        let folder = tempfile::tempdir().unwrap();
        let mut running = shell(
            "echo $GREETING ${HOME-nowhere}; exit 3",
            &folder.path().join("out"),
        );
        let error = eventually_ok(Duration::from_secs(30), "the shell ends", || {
            running.check().err().ok_or("runs")
        });
        assert_eq!(
            error.to_string(),
            "sh ended with exit code 3; the end of its output:\nhello nowhere"
        );
    }

    #[test]
    fn a_program_survives_the_thread_that_started_it() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("out");
        let starter = std::thread::spawn(move || shell("echo begun; exec sleep 1000", &output));
        let mut running = starter.join().unwrap();
        let output = folder.path().join("out");
        eventually_ok(Duration::from_secs(30), "the shell speaks", || {
            let said = tail(&output, 1);
            if said == "begun" { Ok(()) } else { Err(said) }
        });
        assert!(running.check().is_ok());
    }

    #[test]
    fn a_missing_program_fails_to_start_or_exits_immediately() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("out");
        let program = Program {
            path: "/no/such/program".into(),
            arguments: Vec::new(),
            environment: Vec::new(),
            output,
        };
        // With setpriv, it is setpriv that does not find it.
        if let Ok(mut running) = Running::start(&program) {
            let ended = eventually_ok(Duration::from_secs(30), "setpriv ends", || {
                running.check().err().ok_or("runs")
            });
            assert!(ended.to_string().contains("/no/such/program"), "{ended}");
        }
    }
}
