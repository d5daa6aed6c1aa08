//! Reads the facts that the checks need. The recorder is the daemon `faultlined`. A lane has the
//! folders, CPUs and identity of one run.

use super::{
    FolderFacts, HostFacts, LauncherFacts, TOOLS, access,
    folders::written_and_read_folders,
    programs::{command_of, search_program_files},
    vote,
};
use crate::{host::host_findings, passwd, plan::Plan};
use faultline_kernel::{
    CgroupFiles, CgroupLevels, HostRoot, LevelMemory, ReadError, locate_cgroups,
    parse::memory::Meminfo,
};
use faultline_runner::{
    isolation::{self, CpuSet, host::Disk},
    record::{
        recorder::{self, in_path},
        success_and_stderr,
    },
};
use faultline_text::{counted, parse_time};
use itertools::Itertools;
use rustix::process::geteuid;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    time::Duration,
};
use toml::{Table, Value};

/// The recorder's default of `phase.at_tip_for`.
const DEFAULT_AT_TIP_DELAY: Duration = Duration::from_secs(60);
const MAX_CONFIG_BYTES: u64 = 1 << 20;
const MAX_MESSAGE_LINES: usize = 2;
const MAX_LINE_CHARS: usize = 120;

pub fn gather_facts(plan: &Plan, launcher: Result<LauncherFacts, String>) -> HostFacts {
    let folders = written_and_read_folders(plan);
    let paths = folders.iter().map(|(_, path)| *path).collect_vec();
    // The facts include no processes of the host.
    let lists_process = |_: &str| false;
    let state = isolation::host::inspect(&HostRoot::default(), &paths, &lists_process);
    let online_cpus = fs::read_to_string("/sys/devices/system/cpu/online").ok();
    let recorder_program =
        recorder::find_program(plan.recorder.program.as_deref(), "recorder.program")
            .map_err(|error| error.to_string());
    let own_uid = geteuid().as_raw();
    let user = plan.workload.user.as_deref();
    let account = user.map(passwd::account).transpose();
    let mut facts = HostFacts {
        ram: state.memory_total,
        outer_limits: read_outer_limits(&launcher).map_err(|error| error.to_string()),
        launcher,
        swap: state.swap_total,
        cpus: online_cpus.and_then(|text| CpuSet::parse(&text).ok()),
        programs: programs(plan),
        text_presences: BTreeMap::new(),
        folders: state.disks.into_iter().map(folder_facts).collect(),
        io_device_numbers: io_device_numbers(plan),
        path_checks: path_checks(plan),
        inaccessible: access::find_inaccessible(plan),
        runs_as_other_user: match &account {
            Ok(account) => account.iter().any(|account| account.ids.uid != own_uid),
            Err(_) => true,
        },
        user: account
            .map(drop)
            .map_err(|error| format!("cannot be used: {error:#}")),
        tools: TOOLS
            .into_iter()
            .filter(|tool| in_path(tool).is_some())
            .collect(),
        recorder_config: config_verdict(plan, recorder_program.as_deref().ok()),
        at_tip_delay: at_tip_delay(plan),
        recorder_program,
        stakes: vote::request_stakes(plan, vote::RETRY_POLICY),
        snapshot_bytes: plan.restored_from().map(|from| {
            let snapshot = isolation::folders::measure(from).map_err(|error| error.to_string())?;
            Ok(snapshot.bytes)
        }),
        // Ignores the load of other programs and cgroups of earlier runs.
        host_violations: host_findings(plan, &HostRoot::default(), None, &[]),
        home_folders: home_folders(),
    };
    facts.text_presences = search_program_files(plan, &facts);
    facts
}

fn folder_facts(disk: Disk) -> (PathBuf, FolderFacts) {
    let path = disk.path;
    let nearest_existing = path
        .ancestors()
        .find(|ancestor| ancestor.symlink_metadata().is_ok());
    let facts = FolderFacts {
        exists: path.is_dir(),
        canonical_path: path.canonicalize().ok(),
        why_not_clearable: isolation::folders::check(&path)
            .err()
            .map(|error| error.to_string()),
        device: disk.device,
        non_folder_on_path: nearest_existing
            .filter(|ancestor| !ancestor.is_dir())
            .map(Path::to_owned),
        free: disk.free,
    };
    (path, facts)
}

fn io_device_numbers(plan: &Plan) -> BTreeMap<PathBuf, Result<u64, String>> {
    plan.arms
        .iter()
        .flat_map(|arm| &arm.io)
        .map(|limit| (limit.device.clone(), block_device_number(&limit.device)))
        .collect()
}

/// Memory of the machine and this program's cgroups. With systemd, runs are in others.
fn read_outer_limits(
    launcher: &Result<LauncherFacts, String>,
) -> Result<Vec<LevelMemory>, ReadError> {
    let root = HostRoot::default();
    let mut cgroups = CgroupLevels::default();
    if !launcher.as_ref().is_ok_and(LauncherFacts::is_systemd) {
        let own_cgroups = locate_cgroups(&root, std::process::id())?;
        let (mut files, mut buffer) = (CgroupFiles::new(&own_cgroups), Vec::new());
        let read_limits = true;
        let sample = files.sample(read_limits, &mut buffer);
        cgroups = files.levels(&sample, &mut buffer)?;
    }
    if let Some(error) = cgroups.errors.into_iter().next() {
        return Err(error);
    }
    // The machine counts page cache as available even if `memory.min` protects it (`protected_bytes`).
    let machine_memory = root.read_proc("meminfo", Meminfo::parse)?;
    let mut outer_limits = cgroups.limits;
    outer_limits.extend(LevelMemory::of_machine(
        &machine_memory,
        cgroups.protected_bytes,
    ));
    Ok(outer_limits)
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
        .map(|program_name| (program_name.clone(), resolve_program(&program_name)))
        .collect()
}

fn resolve_program(name: &str) -> Result<PathBuf, String> {
    if name.contains('/') {
        return check_executable(Path::new(name)).map(|()| name.into());
    }
    in_path(name).ok_or_else(|| "there is no such program in PATH".to_owned())
}

fn check_executable(file: &Path) -> Result<(), String> {
    let meta = fs::metadata(file).map_err(file_error)?;
    if !meta.is_file() {
        Err("is not a regular file".to_owned())
    } else if meta.permissions().mode() & 0o111 == 0 {
        Err("may not be executed (chmod +x)".to_owned())
    } else {
        Ok(())
    }
}

fn check_readable(path: &Path) -> Result<(), String> {
    fs::File::open(path).map(drop).map_err(file_error)
}

fn check_folder(path: &Path) -> Result<(), String> {
    if fs::metadata(path).map_err(file_error)?.is_dir() {
        Ok(())
    } else {
        Err("is no folder".to_owned())
    }
}

pub(super) fn path_checks(plan: &Plan) -> BTreeMap<PathBuf, Result<(), String>> {
    let mut checks = BTreeMap::new();
    let mut add = |path: &Path, check: fn(&Path) -> Result<(), String>| {
        checks.insert(path.to_owned(), check(path));
    };
    let (workload, recorder) = (&plan.workload, &plan.recorder);
    for path in plan.lanes.iter().flat_map(|lane| &lane.identity) {
        add(path, |path| {
            check_readable(path)?;
            vote::check_keypair(path)
        });
    }
    if let Some(path) = &recorder.config {
        add(path, check_readable);
    }
    if let Some(path) = &workload.current_dir {
        add(path, check_folder);
    }
    if let Some(folder) = recorder.targets.as_deref().and_then(Path::parent) {
        add(folder, check_folder);
    }
    for path in plan
        .arms
        .iter()
        .flat_map(|arm| &arm.binary)
        .chain(&workload.binary)
    {
        add(path, check_executable);
    }
    checks
}

fn home_folders() -> Vec<PathBuf> {
    passwd::read()
        .unwrap_or_default()
        .into_iter()
        .map(|account| account.home)
        .filter(|home| home.is_absolute() && home.is_dir())
        .collect()
}

fn block_device_number(path: &Path) -> Result<u64, String> {
    let meta = fs::metadata(path).map_err(file_error)?;
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

fn file_error(error: io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "is not there".to_owned(),
        io::ErrorKind::PermissionDenied => "may not be accessed".to_owned(),
        _ => error.to_string(),
    }
}

/// `None` if the recorder's program or the file `recorder.config` is missing or unreadable.
fn config_verdict(plan: &Plan, recorder_program: Option<&Path>) -> Option<Result<(), String>> {
    let (program, file) = (recorder_program?, plan.recorder.config.as_deref()?);
    fs::File::open(file).ok()?;
    let arguments = [
        "check-config".as_ref(),
        "--config".as_ref(),
        file.as_os_str(),
    ];
    Some(match success_and_stderr(program, &arguments) {
        Ok((true, _)) => Ok(()),
        Ok((false, messages)) => Err(first_lines(&messages)),
        Err(error) => Err(format!("{} cannot check it: {error}", program.display())),
    })
}

fn first_lines(messages: &str) -> String {
    let mut lines = messages.lines();
    let first_lines = lines
        .by_ref()
        .take(MAX_MESSAGE_LINES)
        .map(shortened)
        .join("; ");
    match lines.count() {
        0 => first_lines,
        more => format!("{first_lines}; and {}", counted(more as f64, "more line")),
    }
}

fn shortened(line: &str) -> String {
    let line = line.strip_prefix("configuration: ").unwrap_or(line);
    match line.char_indices().nth(MAX_LINE_CHARS) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line.to_owned(),
    }
}

fn at_tip_delay(plan: &Plan) -> Option<Duration> {
    match phase_config(plan)?.get("at_tip_for") {
        Some(time) => parse_time(time.as_str()?).ok(),
        None => Some(DEFAULT_AT_TIP_DELAY),
    }
}

/// `[phase]` of the recorder's configuration; empty without this table. `None` if the configuration
/// is unreadable.
pub fn phase_config(plan: &Plan) -> Option<Table> {
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
