use super::{host::describe_location, insert_some, path_text, redact, shortened, without_nulls};
use faultline_agave::arguments;
use faultline_kernel::{
    CgroupSettings, CgroupVersion, HostRoot, Limit, ProcessFiles, ReadError, Setting,
    filesystem::{Mounts, location_of},
    hardware::Disk,
    if_present, locate_cgroups,
    parse::pid::ProcessLimit,
};
use faultline_sources::discovery::Target;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Environment variables whose values are kept: they affect measurements and contain no secrets.
const RECORDED_VARIABLES: [&str; 13] = [
    "AGAVE_PROGRAM_CACHE_ENTRIES",
    "GLIBC_TUNABLES",
    "LD_PRELOAD",
    "MALLOC_ARENA_MAX",
    "MALLOC_CONF",
    "RAYON_NUM_THREADS",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "RUST_MIN_STACK",
    "SOLANA_RAYON_THREADS",
    "TOKIO_WORKER_THREADS",
    "_RJEM_MALLOC_CONF",
    "_RJEM_MALLOC_CONF_2_CONF_HARDER",
];

const MAX_FOLDERS: usize = 32;

/// Also the maximum number of environment variables.
const MAX_ARGUMENTS: usize = 512;
const MAX_ARGUMENT_BYTES: usize = 4096;

/// Also returns the problems.
pub fn describe(root: &HostRoot, target: &Target) -> (Value, Vec<String>) {
    let validator = target.validator.as_ref();
    let mut out = without_nulls(json!({
        "pid": target.process.pid,
        "start_ticks": target.process.start_ticks,
        "comm": target.comm,
        "exe": target.exe.as_deref().map(path_text),
        "found_by": target.found_by,
        "program": validator.map(|validator| validator.program.name()),
    }));
    let mut problems = Vec::new();
    match ProcessFiles::open(root, target.process.pid) {
        Ok(files) if files.id() == target.process => {
            add_file_facts(root, target, &files, &mut out, &mut problems)
        }
        Ok(files) => problems.push(format!("process {} has ended already", files.id().pid)),
        Err(error) => problems.push(error.to_string()),
    }
    (out, problems)
}

fn add_file_facts(
    root: &HostRoot,
    target: &Target,
    files: &ProcessFiles,
    manifest: &mut Value,
    problems: &mut Vec<String>,
) {
    let arguments = value_or_problem(arguments(files), problems).unwrap_or_default();
    insert_some(
        manifest,
        "arguments",
        (!arguments.is_empty()).then(|| redact::arguments(&arguments)),
    );
    let environment = value_or_problem(
        files.environment(|name| RECORDED_VARIABLES.contains(&name)),
        problems,
    );
    insert_some(
        manifest,
        "environment",
        environment.map(|environment| {
            let names: Vec<&String> = environment.variables.keys().take(MAX_ARGUMENTS).collect();
            let recorded = environment.variables.iter().filter_map(|(name, value)| {
                let value = redact::line(value.as_ref()?);
                Some((name.as_str(), shortened(&value, MAX_ARGUMENT_BYTES)))
            });
            json!({ "names": names, "values": recorded.collect::<Value>() })
        }),
    );
    insert_some(
        manifest,
        "limits",
        value_or_problem(files.limits(), problems)
            .map(|limits| limits.iter().map(limit_entry).collect::<Value>()),
    );
    if let Some(cgroups) = value_or_problem(locate_cgroups(root, target.process.pid), problems) {
        let path = cgroups
            .memory
            .as_ref()
            .or(cgroups.unified.as_ref())
            .ok()
            .map(|cgroup| cgroup.path.clone());
        insert_some(manifest, "cgroup", path);
        let (levels, errors) = cgroups.settings();
        problems.extend(errors.iter().map(ToString::to_string));
        insert_some(
            manifest,
            "cgroup_limits",
            Some(levels.iter().map(cgroup_level_json).collect::<Value>()),
        );
    }
}

/// Resolves the process's folders; `None` if the process has ended or a file is unreadable. May
/// block for ever if a file system does not answer.
pub fn folders(root: &HostRoot, target: &Target, disks: &[Disk]) -> Option<Vec<Value>> {
    let pid = target.process.pid;
    let files = ProcessFiles::open(root, pid).ok()?;
    if files.id() != target.process {
        return None;
    }
    let mounts = Mounts {
        process: files.mounts().ok()?,
        reader: Mounts::read(root, None).unwrap_or_default().reader,
    };
    let arguments = files.cmdline().ok()?;
    let working_folder = files.cwd().ok();
    let ledger = target.ledger.as_deref();
    let mut folders = target
        .validator
        .as_ref()
        .map(|validator| arguments::folders(validator, ledger, &arguments))
        .unwrap_or_default();
    folders.extend(working_folder.clone().map(|folder| ("working", folder)));
    folders.truncate(MAX_FOLDERS);
    let describe = |(purpose, path): (&str, PathBuf)| {
        let path = match &working_folder {
            Some(folder) if path.is_relative() => folder.join(path),
            _ => path,
        };
        let clean: PathBuf = path.components().collect();
        let location = location_of(root, pid, &clean, &mounts);
        without_nulls(json!({
            "what": purpose,
            "path": path_text(&path),
            "mount": location.map(|location| describe_location(&location, disks)),
        }))
    };
    Some(folders.into_iter().map(describe).collect())
}

fn arguments(files: &ProcessFiles) -> Result<Vec<String>, ReadError> {
    let words = files.cmdline()?;
    let words = words.iter().take(MAX_ARGUMENTS);
    Ok(words
        .map(|word| shortened(&word.to_string_lossy(), MAX_ARGUMENT_BYTES))
        .collect())
}

/// Returns the value, or adds the error to `problems`. An absent file is no problem. A missing
/// permission is one.
fn value_or_problem<T>(result: Result<T, ReadError>, problems: &mut Vec<String>) -> Option<T> {
    let value = if_present(result).map_err(|error| problems.push(error.to_string()));
    value.ok().flatten()
}

fn limit_entry(limit: &ProcessLimit) -> (String, Value) {
    let bound = |value: Option<u64>| value.map_or_else(|| "unlimited".into(), Value::from);
    (
        limit.name.clone(),
        json!({ "soft": bound(limit.soft), "hard": bound(limit.hard) }),
    )
}

fn cgroup_level_json(level: &CgroupSettings) -> Value {
    let setting = |(name, setting): &(&'static str, Setting)| {
        let value = match setting {
            Setting::Amount(Limit::Max) => "max".into(),
            Setting::Amount(Limit::Bytes(bytes)) => Value::from(*bytes),
            Setting::Text(text) => text
                .parse::<u64>()
                .map_or_else(|_| text.as_str().into(), Value::from),
        };
        (*name, value)
    };
    let version = if level.version == CgroupVersion::V2 {
        2
    } else {
        1
    };
    json!({ "path": level.path, "version": version, "settings": level.settings.iter().map(setting).collect::<Value>() })
}
