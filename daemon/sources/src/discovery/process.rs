use super::{SearchContext, Target};
use faultline_agave::identify::{self, Validator};
use faultline_core::supervisor::FS_CALL_TIMEOUT;
use faultline_kernel::{
    Comm, ErrorKind, HostRoot, OpenFile, ProcessFiles, ProcessId, ReadError, Result,
    parse::pid_stat::{self, PidStat},
};
use faultline_metrics::{Problem, ProblemKind};
use std::{
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Threads that only a running validator has. The admin thread starts early, the replay thread
/// late.
pub const VALIDATOR_THREADS: [&str; 2] = ["solReplayStage", "solAdminRpc"];

const COMM_LENGTH: usize = 15;

pub struct InspectedProcess {
    pub target: Target,
    /// A validator's subcommand that does not validate: `monitor`, `exit`.
    pub subcommand: Option<String>,
    pub parent: u32,
    /// `argv[0]` completes a name that the kernel truncated. `None` without arguments, as of an
    /// exiting process.
    pub argv0: Option<String>,
    /// The interpreted script, if the process name is the script's.
    pub script: Option<String>,
}

/// # Errors
/// `Gone` if there is no such process, all its threads have ended, or another process replaced it
/// meanwhile. Any error of `stat` and `cmdline`.
pub fn inspect(root: &HostRoot, pid: u32, found_by: &'static str) -> Result<InspectedProcess> {
    let files = ProcessFiles::open(root, pid)?;
    let stat = live_stat(root, files.id())?;
    let argv = files.cmdline()?;
    let arguments: Vec<String> = argv
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let comm = stat.comm.to_string();
    let script = script(&comm, &arguments).cloned();
    let (validator, subcommand) = match identify::identify(&comm, &argv) {
        _ if script.is_some() => (None, None),
        identify::Process::Validator(validator) => (Some(validator), None),
        identify::Process::Subcommand(name) => (None, Some(name)),
        identify::Process::Other => (None, None),
    };
    let ledger = validator
        .as_ref()
        .and_then(|validator| ledger(&files, validator));
    let target = Target {
        process: files.id(),
        comm,
        exe: files.exe().ok(),
        validator,
        ledger,
        found_by,
    };
    Ok(InspectedProcess {
        target,
        subcommand,
        parent: stat.ppid,
        argv0: arguments.into_iter().next(),
        script,
    })
}

/// The script for which the kernel started an interpreter. The process name is the truncated script
/// name (`agave-validator.sh` becomes `agave-validator`). The script's path follows the interpreter
/// and at most one argument.
fn script<'a>(comm: &str, arguments: &'a [String]) -> Option<&'a String> {
    let has_comm_as_name = |argument: &&String| {
        argument
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .bytes()
            .take(COMM_LENGTH)
            .eq(comm.bytes())
    };
    let (interpreter, others) = arguments.split_first()?;
    if has_comm_as_name(&interpreter) {
        None
    } else {
        others.iter().take(2).find(has_comm_as_name)
    }
}

/// `Gone` if the process was replaced, or if all its threads have ended.
pub fn live_stat(root: &HostRoot, id: ProcessId) -> Result<PidStat> {
    let relative = format!("{}/stat", id.pid);
    let gone = || ReadError::Gone {
        path: Arc::from(root.procfs.join(&relative)),
    };
    let file = root.open_proc_one_piece(&relative);
    match file.and_then(|file| file.parse(&mut Vec::new(), pid_stat::parse)) {
        Ok(stat) if stat.start_ticks != id.start_ticks || stat.all_threads_ended() => Err(gone()),
        Err(ReadError::Absent { .. }) => Err(gone()),
        other => other,
    }
}

/// False in doubt: a permission error proves nothing.
pub fn has_ended(root: &HostRoot, id: ProcessId) -> bool {
    live_stat(root, id).is_err_and(|error| error.kind() == ErrorKind::Gone)
}

/// A change of the name or of `exe` shows an exec. `exe` distinguishes a script from a program of
/// the same name. `cmdline` is not read, because that takes the process's `mmap_lock`.
pub struct NameAndExeReader {
    id: ProcessId,
    exe: PathBuf,
    /// Of the first thread. The process's own has the same name and start, but costs more: the
    /// kernel sums all threads for it.
    stat: Option<OpenFile>,
    buffer: Vec<u8>,
    /// The finder has to call [`inspect`], which also reads the arguments. True at the start, after
    /// an exec, and while there are no arguments. During exec the kernel sets the name first, so an
    /// inspection may find a validator's name without arguments.
    pub is_full_inspection_due: bool,
}

impl NameAndExeReader {
    pub fn new(root: &HostRoot, id: ProcessId) -> Self {
        Self {
            id,
            exe: root.procfs.join(format!("{}/exe", id.pid)),
            stat: None,
            buffer: Vec::new(),
            is_full_inspection_due: true,
        }
    }

    /// `None` after the end of the process.
    pub fn read(&mut self, root: &HostRoot) -> Option<(Comm, Option<PathBuf>)> {
        let comm = match self.first_thread_comm(root) {
            Some(comm) => comm,
            None => live_stat(root, self.id).ok()?.comm,
        };
        Some((comm, fs::read_link(&self.exe).ok()))
    }

    fn first_thread_comm(&mut self, root: &HostRoot) -> Option<Comm> {
        let open = || {
            root.open_proc_one_piece(&format!("{0}/task/{0}/stat", self.id.pid))
                .ok()
        };
        let file = self.stat.take().or_else(open)?;
        let stat = file.parse(&mut self.buffer, pid_stat::parse).ok()?;
        self.stat = Some(file);
        (stat.start_ticks == self.id.start_ticks && !stat.all_threads_ended()).then_some(stat.comm)
    }
}

/// The daemon's pid in the namespace of `procfs`.
pub fn own_pid(root: &HostRoot) -> Option<u32> {
    fs::read_link(root.procfs.join("self"))
        .ok()?
        .to_str()?
        .parse()
        .ok()
}

/// The folder of the first such thread, relative to `procfs`.
pub fn thread_named(root: &HostRoot, pid: u32, names: &[&str]) -> Option<String> {
    let threads = fs::read_dir(root.procfs.join(format!("{pid}/task"))).ok()?;
    threads
        .flatten()
        .filter_map(|thread| Some(format!("{pid}/task/{}", thread.file_name().to_str()?)))
        .find(|thread| {
            let comm = fs::read(root.procfs.join(thread).join("comm")).unwrap_or_default();
            names
                .iter()
                .any(|name| name.as_bytes() == comm.trim_ascii_end())
        })
}

/// True for the same program, replaced on disk or not, and if a link is unknown.
pub fn may_be_same_program(left: Option<&Path>, right: Option<&Path>) -> bool {
    left.zip(right)
        .is_none_or(|(left, right)| left == right || program_file(left) == program_file(right))
}

/// Strips the kernel's mark of a replaced or removed file.
pub fn program_file(link: &Path) -> &Path {
    link.as_os_str()
        .as_bytes()
        .strip_suffix(b" (deleted)")
        .map_or(link, |path| Path::new(OsStr::from_bytes(path)))
}

/// Any path that leads to the folder counts.
pub fn has_ledger(context: &SearchContext<'_>, target: &Target, folder: &Path) -> bool {
    let Some(ledger) = &target.ledger else {
        return false;
    };
    if ledger == folder {
        return true;
    }
    let Ok(relative) = ledger.strip_prefix("/") else {
        return false;
    };
    let process_root = format!("{}/root", target.process.pid);
    let inside = context.root.procfs.join(process_root).join(relative);
    let folder = folder.to_owned();
    let inode = |path: &Path| rustix::fs::stat(path).map(|stat| (stat.st_dev, stat.st_ino));
    let is_same = move || inode(&folder).is_ok_and(|folder| inode(&inside) == Ok(folder));
    context
        .fs_calls
        .call(FS_CALL_TIMEOUT, is_same)
        .unwrap_or(false)
}

pub fn problem(error: &ReadError) -> Problem {
    let kind = match error.kind() {
        ErrorKind::Absent => ProblemKind::Absent,
        ErrorKind::Forbidden => ProblemKind::Forbidden,
        ErrorKind::Gone => ProblemKind::Gone,
        ErrorKind::Broken => ProblemKind::Broken,
    };
    Problem::new(kind, error)
}

fn ledger(files: &ProcessFiles, validator: &Validator) -> Option<PathBuf> {
    let given = validator.ledger_or_default()?;
    let absolute = if given.is_absolute() {
        given.to_owned()
    } else {
        files.cwd().ok()?.join(given)
    };
    // Removes `.` and double slashes.
    Some(absolute.components().collect())
}
