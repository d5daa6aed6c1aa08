//! Transient systemd units over D-Bus: a slice with the limits, which contains a service with the
//! program. A service's cgroup vanishes with its last process, but the slice remains readable until
//! it is stopped.

mod bus;
mod properties;
mod service;

use super::{
    Abilities, GroupName, Job, Launched, Launcher, NAME_PREFIX,
    cgroup::has_word,
    device, files,
    program::{self, User},
    wait,
};
use anyhow::{Result, bail};
use bus::Bus;
use faultline_kernel::HostRoot;
use service::Service;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    time::Duration,
};

/// Time for systemd to start or to remove a unit.
const UNIT_TIMEOUT: Duration = Duration::from_secs(120);
const KILL: i32 = rustix::process::Signal::KILL.as_raw();

#[derive(Debug)]
pub struct Systemd {
    bus: Bus,
    cgroup: PathBuf,
    etc: PathBuf,
    can: Abilities,
    has_exit_type: bool,
}

/// The first version of systemd with `ExitType=`.
const EXIT_TYPE_VERSION: u32 = 250;

impl Systemd {
    /// Connects and determines the possible limits; changes nothing before the first
    /// [`launch`](Launcher::launch). Fails if the memory controller is not in cgroup version 2.
    pub fn connect(host: &HostRoot) -> Result<Systemd> {
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
        let can = Abilities {
            memory_max: true,
            memory_high: true,
            swap_max: true,
            cpus: has("cpuset"),
            io: has("io"),
            pressure: host.procfs.join("pressure/memory").exists(),
            open_files: files::system_max_open_files(host),
        };
        Ok(Systemd {
            bus,
            cgroup: host.cgroup.clone(),
            etc: "/etc".into(),
            can,
            has_exit_type,
        })
    }

    /// After an error the returned value's drop removes the units.
    fn start(&self, job: &Job, program: &Path) -> Result<Service> {
        let user = User::of(job, &self.etc)?;
        for limit in &job.limits.io {
            device::node(&limit.device)?;
        }
        let global = self.bus.environment()?;
        let properties = properties::service(
            job,
            &format!("{}.slice", job.name),
            program,
            &global,
            self.has_exit_type,
        )?;
        let slice_properties = properties::slice(
            format!("Run {} of {}", job.name.run, job.name.scope),
            &job.limits,
        )?;

        let bus = self.bus.clone();
        let mut service = Service::begin(bus, &self.cgroup, job, &slice_properties)?;
        let differences = job.limits.differences(&service.limits()?);
        if !differences.is_empty() {
            bail!("{}.slice: {}", job.name, differences.join("; "));
        }
        service.start(job, user, &properties)?;
        Ok(service)
    }
}

impl Launcher for Systemd {
    fn name(&self) -> &'static str {
        "systemd"
    }

    fn can(&self) -> &Abilities {
        &self.can
    }

    fn launch(&self, job: &Job) -> Result<Box<dyn Launched>> {
        job.name.check()?;
        // systemd would silently set a lower value.
        files::check(job, &self.can)?;
        let file = program::file(job)?;
        Ok(Box::new(self.start(job, &file)?))
    }

    fn leftovers(&self, scope: &str) -> Result<Vec<String>> {
        // It must have no special characters of a pattern.
        GroupName::check_part(scope)?;
        let units = self.bus.list(&format!("{NAME_PREFIX}.{scope}.*"))?;
        let groups: BTreeSet<String> = units.iter().map(|unit| group(unit).to_owned()).collect();
        Ok(groups.into_iter().collect())
    }

    fn sweep(&self, scope: &str, grace: Duration) -> Result<Vec<String>> {
        let groups = self.leftovers(scope)?;
        let services: Vec<String> = groups
            .iter()
            .map(|group| format!("{group}.service"))
            .collect();
        for service in &services {
            let _ = service::set_memory_high(&self.bus, service, None);
        }
        for service in &services {
            self.bus
                .kill(service, "all", rustix::process::Signal::TERM.as_raw())?;
        }
        let all_down = || {
            for service in &services {
                if self.bus.unit(service)?.is_some_and(|unit| !unit.is_down()) {
                    return Ok(None);
                }
            }
            Ok(Some(()))
        };
        wait(grace, all_down)?;
        for (group, service) in groups.iter().zip(&services) {
            service::remove(&self.bus, service, &format!("{group}.slice"))?;
        }
        Ok(groups)
    }
}

fn group(unit: &str) -> &str {
    unit.rsplit_once('.').map_or(unit, |(group, _)| group)
}
