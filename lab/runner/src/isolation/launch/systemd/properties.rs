use super::{
    super::{Job, Limits},
    bus::Properties,
};
use anyhow::{Result, anyhow};
use rustix::process::{Resource, getrlimit};
use std::{ffi::OsStr, path::Path, time::Duration};
use zbus::Variant;

const SET_BY_SYSTEMD: [&str; 16] = [
    "HOME",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "LANG",
    "LISTEN_FDS",
    "LISTEN_PID",
    "LOGNAME",
    "MAINPID",
    "MANAGERPID",
    "MEMORY_PRESSURE_WATCH",
    "MEMORY_PRESSURE_WRITE",
    "PATH",
    "SHELL",
    "SYSTEMD_EXEC_PID",
    "TERM",
    "USER",
];

/// Added to the job's grace before systemd kills.
const KILL_MARGIN: Duration = Duration::from_secs(30);

pub fn property(
    name: &'static str,
    value: impl Into<Variant<'static>>,
) -> (&'static str, Variant<'static>) {
    (name, value.into())
}

pub fn slice(description: String, limits: &Limits) -> Result<Properties> {
    let mut properties: Properties = vec![property("Description", description)];
    for name in [
        "CPUAccounting",
        "MemoryAccounting",
        "IOAccounting",
        "TasksAccounting",
    ] {
        properties.push(property(name, true));
    }
    let memory = [
        ("MemoryMax", limits.memory_max),
        ("MemoryHigh", limits.memory_high),
        ("MemorySwapMax", limits.swap_max),
    ];
    for (name, bytes) in memory {
        properties.extend(bytes.map(|bytes| property(name, bytes)));
    }
    properties.extend(
        limits
            .cpus
            .as_ref()
            .map(|cpus| property("AllowedCPUs", mask(cpus.numbers()))),
    );
    let kinds = [
        "IOReadBandwidthMax",
        "IOWriteBandwidthMax",
        "IOReadIOPSMax",
        "IOWriteIOPSMax",
    ];
    for (at, name) in kinds.into_iter().enumerate() {
        let mut devices = Vec::new();
        for limit in &limits.io {
            if let Some(amount) = limit.amounts()[at] {
                devices.push((utf8(limit.device.as_os_str())?, amount));
            }
        }
        if !devices.is_empty() {
            properties.push(property(name, devices));
        }
    }
    Ok(properties)
}

fn mask(cpus: &[u32]) -> Vec<u8> {
    let mut mask = Vec::new();
    for cpu in cpus {
        let byte = *cpu as usize / 8;
        if mask.len() <= byte {
            mask.resize(byte + 1, 0);
        }
        mask[byte] |= 1 << (cpu % 8);
    }
    mask
}

/// Properties of the service in `slice`. `global` are the variables that systemd gives to every
/// service. `has_exit_type`: the service continues without its first process while another one runs.
/// Fails on text that is not UTF-8, because systemd accepts only that.
pub fn service(
    job: &Job,
    slice: &str,
    program: &Path,
    global: &[String],
    has_exit_type: bool,
) -> Result<Properties> {
    let program = utf8(program.as_os_str())?;
    let mut arguments = vec![program.clone()];
    for argument in job.command.iter().skip(1) {
        arguments.push(utf8(argument)?);
    }
    // Do not expand variables in arguments.
    let no_expansion = vec!["no-env-expand".to_owned()];
    let output = utf8(job.output.as_os_str())?;
    let folder = job
        .folder
        .as_deref()
        .map_or(Ok("/".to_owned()), |folder| utf8(folder.as_os_str()))?;
    let mut properties: Properties = vec![
        property("Description", arguments.join(" ")),
        property("Slice", slice.to_owned()),
        property("Type", "exec"),
        property("ExecStartEx", vec![(program, arguments, no_expansion)]),
        property("WorkingDirectory", folder),
        property("StandardInput", "null"),
        property("StandardOutputFileToAppend", output.clone()),
        property("StandardErrorFileToAppend", output),
        property("TasksMax", u64::MAX),
        // One OOM-killed process ends the run, even if a shell would continue.
        property("OOMPolicy", "stop"),
        property("KillMode", "control-group"),
        property("SendSIGKILL", true),
        // `AddRef` keeps the unit until this program has read its result; `CollectMode` unloads it
        // if this program is gone.
        property("AddRef", true),
        property("CollectMode", "inactive-or-failed"),
    ];
    properties.extend(job.user.clone().map(|user| property("User", user)));
    if has_exit_type {
        // Remaining processes survive the program; the caller decides.
        properties.push(property("ExitType", "cgroup"));
    }
    // Normally the caller kills; this applies if the caller is gone.
    let stop = u64::try_from((job.grace + KILL_MARGIN).as_micros()).unwrap_or(u64::MAX);
    properties.push(property("TimeoutStopUSec", stop));
    let longest = job
        .longest
        .and_then(|longest| u64::try_from(longest.as_micros()).ok());
    properties.extend(longest.map(|longest| property("RuntimeMaxUSec", longest)));
    properties.extend(rlimits(job));
    properties.extend(environment(job, global)?);
    Ok(properties)
}

/// Limits that a child of this program would inherit, unless the job sets them.
fn rlimits(job: &Job) -> Properties {
    let inherited_limit = |resource| {
        let limit = getrlimit(resource);
        (
            limit.current.unwrap_or(u64::MAX),
            limit.maximum.unwrap_or(u64::MAX),
        )
    };
    let files = job
        .open_files
        .map_or_else(|| inherited_limit(Resource::Nofile), |files| (files, files));
    let locked = inherited_limit(Resource::Memlock);
    vec![
        property("LimitNOFILESoft", files.0),
        property("LimitNOFILE", files.1),
        property("LimitMEMLOCKSoft", locked.0),
        property("LimitMEMLOCK", locked.1),
    ]
}

fn environment(job: &Job, global: &[String]) -> Result<Properties> {
    let mut set_variables = Vec::new();
    let mut names = Vec::new();
    for (name, value) in &job.environment {
        let name = utf8(name)?;
        set_variables.push(format!("{name}={}", utf8(value)?));
        names.push(name);
    }
    let global = global
        .iter()
        .filter_map(|variable| variable.split('=').next());
    let mut unset: Vec<String> = SET_BY_SYSTEMD
        .into_iter()
        .chain(global)
        .map(str::to_owned)
        .collect();
    unset.retain(|name| !names.contains(name));
    unset.sort();
    unset.dedup();
    Ok(vec![
        property("Environment", set_variables),
        property("UnsetEnvironment", unset),
    ])
}

fn utf8(text: &OsStr) -> Result<String> {
    text.to_str().map(str::to_owned).ok_or_else(|| {
        anyhow!("{text:?} is not UTF-8, which systemd does not take: rename it, or use the launcher `direct`")
    })
}

#[cfg(test)]
mod tests;
