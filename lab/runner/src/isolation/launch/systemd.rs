//! Transient systemd units over D-Bus: a slice with the limits, which contains a service with the
//! program. A service's cgroup vanishes with its last process, but the slice remains readable until
//! it is stopped.

mod bus;
mod service;

use super::{
    CgroupName, Job, Launched, Launcher, LauncherAbilities, Limits, NAME_PREFIX,
    cgroup::has_word,
    limits::disk_node,
    poll_until,
    program::{self, User},
    v2::micros,
};
use anyhow::{Result, anyhow, bail};
use bus::{Bus, Properties};
use faultline_kernel::HostRoot;
use rustix::process::{Resource, Signal, getrlimit};
use service::Service;
use std::{
    collections::BTreeSet,
    ffi::OsStr,
    path::{Path, PathBuf},
    time::Duration,
};
use zbus::Variant;

const UNIT_TIMEOUT: Duration = Duration::from_secs(120);

pub struct SystemdLauncher {
    bus: Bus,
    cgroup_root: PathBuf,
    abilities: LauncherAbilities,
    has_exit_type: bool,
}

const EXIT_TYPE_VERSION: u32 = 250;

impl SystemdLauncher {
    /// Changes nothing before the first [`launch`](Launcher::launch). Fails if the memory
    /// controller is not in cgroup version 2.
    pub fn connect(host: &HostRoot) -> Result<Self> {
        let bus = Bus::connect()?;
        let has_exit_type = bus
            .version()?
            .is_some_and(|version| version >= EXIT_TYPE_VERSION);
        let has = |name: &str| has_word(&host.cgroup, "cgroup.controllers", name);
        if !has("memory") {
            let path = host.cgroup.join("cgroup.controllers");
            let advice = "systemd does not limit memory by cgroup version 2 here: use the launcher `direct`, or boot with \
                          systemd.unified_cgroup_hierarchy=1";
            bail!("{}: {advice}", path.display());
        }
        let abilities = LauncherAbilities {
            memory_high: true,
            swap_max: true,
            cpus: has("cpuset"),
            io: has("io"),
            pressure: host.procfs.join("pressure/memory").exists(),
            open_files: program::system_max_open_files(host),
        };
        Ok(Self {
            bus,
            cgroup_root: host.cgroup.clone(),
            abilities,
            has_exit_type,
        })
    }

    /// After an error, the drop of [`Service`] removes the units.
    fn start(&self, job: &Job, program: &Path) -> Result<Service> {
        let user = User::of(job, Path::new("/etc"))?;
        for limit in &job.limits.io {
            disk_node(&limit.device)?;
        }
        let manager_variables = self.bus.environment()?;
        let properties = service_properties(
            job,
            &format!("{}.slice", job.name),
            program,
            &manager_variables,
            self.has_exit_type,
        )?;
        let slice_properties = slice_properties(
            format!("Run {} of {}", job.name.run, job.name.experiment),
            &job.limits,
        )?;

        let bus = self.bus.clone();
        let mut service = Service::create_slice(bus, &self.cgroup_root, job, &slice_properties)?;
        let differences = job.limits.differences(&service.limits()?);
        if !differences.is_empty() {
            bail!("{}.slice: {}", job.name, differences.join("; "));
        }
        service.start(job, user, &properties)?;
        Ok(service)
    }
}

impl Launcher for SystemdLauncher {
    fn name(&self) -> &'static str {
        "systemd"
    }

    fn abilities(&self) -> &LauncherAbilities {
        &self.abilities
    }

    fn launch(&self, job: &Job) -> Result<Box<dyn Launched>> {
        job.name.check()?;
        // systemd would silently set a lower value.
        program::check_open_files(job, &self.abilities)?;
        let file = program::executable(job)?;
        Ok(Box::new(self.start(job, &file)?))
    }

    fn leftovers(&self, experiment: &str) -> Result<Vec<String>> {
        // The name becomes part of a pattern, so it must have no special characters.
        CgroupName::check_part(experiment)?;
        let units = self.bus.list(&format!("{NAME_PREFIX}.{experiment}.*"))?;
        let cgroups: BTreeSet<_> = units
            .iter()
            .map(|unit| unit.rsplit_once('.').map_or(&**unit, |(cgroup, _)| cgroup))
            .collect();
        Ok(cgroups.into_iter().map(str::to_owned).collect())
    }

    fn sweep(&self, experiment: &str, grace: Duration) -> Result<Vec<String>> {
        let cgroups = self.leftovers(experiment)?;
        let services: Vec<String> = cgroups
            .iter()
            .map(|cgroup| format!("{cgroup}.service"))
            .collect();
        for service in &services {
            let _ = service::set_memory_high(&self.bus, service, None);
        }
        for service in &services {
            self.bus.kill(service, Signal::TERM)?;
        }
        let are_down = || {
            for service in &services {
                if self.bus.unit(service)?.is_some_and(|unit| !unit.is_down()) {
                    return Ok(None);
                }
            }
            Ok(Some(()))
        };
        poll_until(grace, are_down)?;
        for (cgroup, service) in cgroups.iter().zip(&services) {
            service::remove(&self.bus, service, &format!("{cgroup}.slice"))?;
        }
        Ok(cgroups)
    }
}

const VARIABLES_SET_BY_SYSTEMD: [&str; 16] = [
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

fn property(
    name: &'static str,
    value: impl Into<Variant<'static>>,
) -> (&'static str, Variant<'static>) {
    (name, value.into())
}

fn slice_properties(description: String, limits: &Limits) -> Result<Properties> {
    let mut properties = vec![property("Description", description)];
    let accounting = [
        "CPUAccounting",
        "MemoryAccounting",
        "IOAccounting",
        "TasksAccounting",
    ];
    properties.extend(accounting.map(|name| property(name, true)));
    let memory = [
        ("MemoryMax", limits.memory_max),
        ("MemoryHigh", limits.memory_high),
        ("MemorySwapMax", limits.swap_max),
    ];
    for (name, bytes) in memory {
        properties.extend(bytes.map(|bytes| property(name, bytes)));
    }
    let cpus = limits.cpus.as_ref();
    properties.extend(cpus.map(|cpus| property("AllowedCPUs", mask(cpus.numbers()))));
    let kinds = [
        "IOReadBandwidthMax",
        "IOWriteBandwidthMax",
        "IOReadIOPSMax",
        "IOWriteIOPSMax",
    ];
    for (index, name) in kinds.into_iter().enumerate() {
        let mut devices = Vec::new();
        for limit in &limits.io {
            if let Some(amount) = limit.amounts()[index] {
                devices.push((utf8(limit.device.as_os_str())?, amount));
            }
        }
        if !devices.is_empty() {
            properties.push(property(name, devices));
        }
    }
    Ok(properties)
}

/// The bit mask of `AllowedCPUs`, lowest CPU first.
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

/// systemd gives `manager_variables` to every service. Fails on text that is not UTF-8.
fn service_properties(
    job: &Job,
    slice: &str,
    program: &Path,
    manager_variables: &[String],
    has_exit_type: bool,
) -> Result<Properties> {
    let program = utf8(program.as_os_str())?;
    let mut arguments = vec![program.clone()];
    for argument in job.command.iter().skip(1) {
        arguments.push(utf8(argument)?);
    }
    let no_expansion = vec!["no-env-expand".to_owned()];
    let output = utf8(job.output.as_os_str())?;
    let folder = job
        .folder
        .as_deref()
        .map_or(Ok("/".to_owned()), |folder| utf8(folder.as_os_str()))?;
    let mut properties = vec![
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
        // Other processes survive the program: the caller ends them.
        properties.push(property("ExitType", "cgroup"));
    }
    // Normally the caller kills. systemd kills after this time if the caller has exited.
    let stop = micros(job.grace + KILL_MARGIN);
    properties.push(property("TimeoutStopUSec", stop));
    let max_duration = job.max_duration.map(micros);
    properties.extend(max_duration.map(|max_duration| property("RuntimeMaxUSec", max_duration)));
    properties.extend(rlimits(job));
    properties.extend(environment(job, manager_variables)?);
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

fn environment(job: &Job, manager_variables: &[String]) -> Result<Properties> {
    let mut set_variables = Vec::new();
    let mut names = Vec::new();
    for (name, value) in &job.environment {
        let name = utf8(name)?;
        set_variables.push(format!("{name}={}", utf8(value)?));
        names.push(name);
    }
    let manager_names = manager_variables
        .iter()
        .filter_map(|variable| variable.split('=').next());
    let unset: BTreeSet<_> = VARIABLES_SET_BY_SYSTEMD
        .into_iter()
        .chain(manager_names)
        .map(str::to_owned)
        .filter(|name| !names.contains(name))
        .collect();
    Ok(vec![
        property("Environment", set_variables),
        property("UnsetEnvironment", Vec::from_iter(unset)),
    ])
}

fn utf8(text: &OsStr) -> Result<String> {
    text.to_str().map(str::to_owned).ok_or_else(|| {
        anyhow!(
            "{text:?} is not UTF-8, which systemd does not accept: rename it, or use the launcher `direct`"
        )
    })
}

#[cfg(test)]
mod tests;
