use super::{
    FolderFacts, HostFacts, LauncherFacts, TOOLS, access, folders::named_folders, options,
    programs::command_of, stake,
};
use crate::{host::host_now, passwd, plan::Plan};
use faultline_kernel::{
    CgroupFiles, CgroupLevels, HostRoot, LevelMemory, ReadError, locate, parse::memory::Meminfo,
};
use faultline_runner::{
    isolation::{
        CpuSet, folders,
        host::{self, Disk},
    },
    record::{
        output_of,
        recorder::{self, in_path},
    },
};
use faultline_text::{counted, parse_time};
use itertools::Itertools;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    time::Duration,
};
use toml::{Table, Value};

/// The daemon's default.
const DEFAULT_AT_TIP_FOR: Duration = Duration::from_secs(60);
const MAX_CONFIG_BYTES: u64 = 1 << 20;
const MAX_LINES: usize = 2;
const MAX_LINE_CHARS: usize = 120;

pub fn gather(plan: &Plan, launcher: Result<LauncherFacts, String>) -> HostFacts {
    let paths: Vec<&Path> = named_folders(plan)
        .into_iter()
        .map(|(_, path)| path)
        .collect();
    let state = host::inspect(&HostRoot::default(), &paths, &|_| false);
    let online = fs::read_to_string("/sys/devices/system/cpu/online").ok();
    let recorder = recorder::find(plan.recorder.program.as_deref(), "recorder.program")
        .map_err(|e| e.to_string());
    let mut facts = HostFacts {
        ram: state.memory_total,
        levels: levels(&launcher),
        launcher,
        swap: state.swap_total,
        cpus: online.and_then(|text| CpuSet::parse(&text).ok()),
        programs: programs(plan),
        options: BTreeMap::new(),
        folders: state.disks.into_iter().map(folder).collect(),
        io_devices: io_devices(plan),
        files: files(plan),
        inaccessible: access::inaccessible(plan),
        user: user(plan),
        tools: TOOLS
            .into_iter()
            .filter(|tool| in_path(tool).is_some())
            .collect(),
        other_user: other_user(plan),
        configuration: daemon_verdict(plan, recorder.as_deref().ok()),
        at_tip_for: at_tip_for(plan),
        recorder,
        stakes: stake::ask(plan, stake::RETRY_POLICY),
        snapshot_source: snapshot_source(plan),
        host: host_now(plan),
        homes: homes(),
    };
    facts.options = options::search_programs(plan, &facts);
    facts
}

fn folder(disk: Disk) -> (PathBuf, FolderFacts) {
    let path = disk.path;
    let facts = FolderFacts {
        is_there: path.is_dir(),
        real: fs::canonicalize(&path).ok(),
        not_marked: folders::check(&path).err().map(|error| error.to_string()),
        device: disk.device,
        blocked: blocked(&path),
        free: disk.free,
    };
    (path, facts)
}

fn io_devices(plan: &Plan) -> BTreeMap<PathBuf, Result<u64, String>> {
    plan.arms
        .iter()
        .flat_map(|arm| &arm.io)
        .map(|limit| (limit.device.clone(), device(&limit.device)))
        .collect()
}

/// systemd uses its own slices, other launchers this program's cgroup.
fn levels(launcher: &Result<LauncherFacts, String>) -> Result<Vec<LevelMemory>, String> {
    let root = HostRoot::default();
    let by_systemd = launcher
        .as_ref()
        .is_ok_and(|launcher| launcher.name.starts_with("systemd"));
    let in_words = |error: ReadError| error.to_string();
    let mut found = CgroupLevels::default();
    if !by_systemd {
        let own = locate(&root, std::process::id()).map_err(in_words)?;
        let (mut files, mut buffer) = (CgroupFiles::new(&own), Vec::new());
        let sample = files.sample(true, &mut buffer);
        found = files.levels(&sample, &mut buffer).map_err(in_words)?;
    }
    if let Some(error) = found.errors.into_iter().next() {
        return Err(in_words(error));
    }
    let machine = root
        .read_proc("meminfo", Meminfo::parse)
        .map_err(in_words)?;
    let mut levels = found.limits;
    levels.extend(LevelMemory::of_machine(&machine, found.protected));
    Ok(levels)
}

pub fn program_files(plan: &Plan) -> BTreeSet<PathBuf> {
    plan.arms
        .iter()
        .filter_map(|arm| arm.binary.clone())
        .chain(plan.workload.binary.clone())
        .chain(programs(plan).into_values().flatten())
        .collect()
}

fn programs(plan: &Plan) -> BTreeMap<String, Result<PathBuf, String>> {
    plan.arms
        .iter()
        .filter_map(|arm| command_of(plan, arm).into_iter().next())
        .map(|program_name| (program_name.clone(), program(&program_name)))
        .collect()
}

fn program(program_name: &str) -> Result<PathBuf, String> {
    if program_name.contains('/') {
        return executable(Path::new(program_name)).map(|()| PathBuf::from(program_name));
    }
    in_path(program_name).ok_or_else(|| "there is no such program in PATH".to_owned())
}

fn executable(file: &Path) -> Result<(), String> {
    let meta = fs::metadata(file).map_err(in_words)?;
    if !meta.is_file() {
        return Err("is no file".to_owned());
    }
    if meta.permissions().mode() & 0o111 == 0 {
        Err("may not be executed (chmod +x)".to_owned())
    } else {
        Ok(())
    }
}

fn files(plan: &Plan) -> BTreeMap<PathBuf, Result<(), String>> {
    let workload = &plan.workload;
    let identities = plan
        .lanes
        .iter()
        .filter_map(|lane| lane.identity.as_deref());
    let targets = plan.recorder.targets.as_deref().and_then(Path::parent);
    let folders = workload
        .working_folder
        .as_deref()
        .into_iter()
        .chain(targets);
    let binaries = plan
        .arms
        .iter()
        .map(|arm| &arm.binary)
        .chain([&workload.binary])
        .flatten();
    let keypair = |path: &Path| readable(path).and_then(|()| stake::check_keypair(path));
    let folder = |path: &Path| {
        let is_folder = fs::metadata(path).map_err(in_words)?.is_dir();
        is_folder.then_some(()).ok_or("is no folder".to_owned())
    };
    identities
        .map(|path| (path.to_owned(), keypair(path)))
        .chain(
            plan.recorder
                .config
                .iter()
                .map(|path| (path.clone(), readable(path))),
        )
        .chain(folders.map(|path| (path.to_owned(), folder(path))))
        .chain(binaries.map(|path| (path.clone(), executable(path))))
        .collect()
}

fn readable(path: &Path) -> Result<(), String> {
    fs::File::open(path).map(drop).map_err(in_words)
}

fn user(plan: &Plan) -> Result<(), String> {
    let Some(user) = &plan.workload.user else {
        return Ok(());
    };
    passwd::account(user)
        .map(drop)
        .map_err(|error| format!("cannot be used: {error:#}"))
}

fn other_user(plan: &Plan) -> bool {
    let own = rustix::process::geteuid().as_raw();
    plan.workload
        .user
        .as_ref()
        .is_some_and(|user| !passwd::account(user).is_ok_and(|account| account.owner.uid == own))
}

fn homes() -> Vec<PathBuf> {
    passwd::read()
        .into_iter()
        .flatten()
        .map(|account| account.home)
        .filter(|home| home.is_absolute() && home.is_dir())
        .collect()
}

fn snapshot_source(plan: &Plan) -> Option<Result<u64, String>> {
    let source = folders::measure(plan.restored_from()?);
    Some(
        source
            .map(|source| source.bytes)
            .map_err(|error| error.to_string()),
    )
}

fn blocked(path: &Path) -> Option<PathBuf> {
    let there = path
        .ancestors()
        .find(|path| path.symlink_metadata().is_ok())?;
    (!there.is_dir()).then(|| there.to_owned())
}

/// Number of a block device, or of the device that has the file.
fn device(path: &Path) -> Result<u64, String> {
    let meta = fs::metadata(path).map_err(in_words)?;
    let number = if meta.file_type().is_block_device() {
        meta.rdev()
    } else {
        meta.dev()
    };
    // Major 0 means no device, as with tmpfs.
    if rustix::fs::major(number) == 0 {
        Err("is on no block device".to_owned())
    } else {
        Ok(number)
    }
}

fn in_words(error: io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "is not there".to_owned(),
        io::ErrorKind::PermissionDenied => "may not be read".to_owned(),
        _ => error.to_string(),
    }
}

/// The daemon's verdict on `recorder.config`. `None` without a daemon or readable file.
fn daemon_verdict(plan: &Plan, daemon: Option<&Path>) -> Option<Result<(), String>> {
    let (daemon, file) = (daemon?, plan.recorder.config.as_deref()?);
    fs::File::open(file).ok()?;
    let output = output_of(
        daemon,
        &[
            "check-config".as_ref(),
            "--config".as_ref(),
            file.as_os_str(),
        ],
    );
    Some(match output {
        Ok((true, _)) => Ok(()),
        Ok((false, messages)) => {
            let lines: Vec<&str> = messages.lines().collect();
            let first_lines = lines
                .iter()
                .take(MAX_LINES)
                .map(|line| short(line))
                .join("; ");
            match lines.len().saturating_sub(MAX_LINES) {
                0 => Err(first_lines),
                more => Err(format!(
                    "{first_lines}; and {}",
                    counted(more as f64, "more line")
                )),
            }
        }
        Err(error) => Err(format!(
            "{} cannot be asked about it: {error}",
            daemon.display()
        )),
    })
}

fn short(line: &str) -> String {
    let line = line.strip_prefix("configuration: ").unwrap_or(line);
    let truncated: String = line.chars().take(MAX_LINE_CHARS).collect();
    if truncated.len() < line.len() {
        truncated + "..."
    } else {
        truncated
    }
}

fn at_tip_for(plan: &Plan) -> Option<Duration> {
    match phase(plan)?.get("at_tip_for") {
        Some(time) => parse_time(time.as_str()?).ok(),
        None => Some(DEFAULT_AT_TIP_FOR),
    }
}

/// `[phase]` of the recorder's configuration; empty without one, `None` if it is unreadable.
pub fn phase(plan: &Plan) -> Option<Table> {
    let Some(file) = &plan.recorder.config else {
        return Some(Table::new());
    };
    fs::metadata(file)
        .ok()
        .filter(|meta| meta.is_file() && meta.len() <= MAX_CONFIG_BYTES)?;
    let mut config: Table = fs::read_to_string(file).ok()?.parse().ok()?;
    match config.remove("phase") {
        Some(Value::Table(phase)) => Some(phase),
        _ => Some(Table::new()),
    }
}
