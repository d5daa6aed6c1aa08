use super::{
    UNIT_TIMEOUT,
    bus::{Bus, Properties, Unit},
    property,
};
use crate::isolation::launch::{
    CgroupState, End, IoLimit, Job, Launched, Limits,
    limits::page_aligned,
    poll_until,
    program::{ExecGate, User},
    v2,
};
use anyhow::{Result, anyhow, bail, ensure};
use rustix::process::Signal;
use std::{
    path::{Component, Path, PathBuf},
    time::Duration,
};

/// How long to wait until the cgroup has a limit that systemd has accepted.
const APPLY_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval of kills: a process that starts during one kill gets the next.
const KILL_INTERVAL: Duration = Duration::from_millis(500);

/// A slice, and the service in it. A drop removes both units.
pub struct Service {
    bus: Bus,
    slice: String,
    name: String,
    cgroup_root: PathBuf,
    slice_cgroup: PathBuf,
    requested_io: Vec<IoLimit>,
    exec_gate: Option<ExecGate>,
    pid: u32,
    removal_tried: bool,
}

impl Service {
    /// After an error nothing is left.
    pub fn create_slice(
        bus: Bus,
        cgroup_root: &Path,
        job: &Job,
        properties: &Properties,
    ) -> Result<Self> {
        let slice = format!("{}.slice", job.name);
        bus.start(&slice, properties)?;
        let mut service = Self {
            bus,
            slice,
            name: format!("{}.service", job.name),
            cgroup_root: cgroup_root.to_owned(),
            slice_cgroup: PathBuf::new(),
            requested_io: job.limits.io.clone(),
            exec_gate: None,
            pid: 0,
            removal_tried: false,
        };
        service.slice_cgroup = service.slice_folder()?;
        Ok(service)
    }

    fn slice_folder(&self) -> Result<PathBuf> {
        let slice = &self.slice;
        let unit = self.wait_until_settled(slice)?;
        let path = unit
            .cgroup()
            .filter(|_| !unit.is_down())
            .ok_or_else(|| anyhow!("{slice}: systemd has not made its cgroup"))?;
        cgroup_folder(&self.cgroup_root, path)
            .ok_or_else(|| anyhow!("{slice}: {path:?} is no folder of a cgroup"))
    }

    pub fn start(&mut self, job: &Job, user: Option<User>, properties: &Properties) -> Result<()> {
        self.exec_gate = ExecGate::create(job, user)?;
        // Fails with the reason if the output file cannot be opened: systemd would report only an
        // exit code.
        job.open_output()?;
        self.bus.start(&self.name, properties)?;
        let unit = self.wait_until_settled(&self.name)?;
        match unit.main_pid() {
            Some(pid) if unit.was_executed() => {
                self.pid = pid;
                Ok(())
            }
            _ => Err(not_started_error(
                job,
                unit.ended(),
                unit.result().unwrap_or("nothing"),
            )),
        }
    }

    fn wait_until_settled(&self, name: &str) -> Result<Unit> {
        poll_until(UNIT_TIMEOUT, || {
            Ok(self.bus.unit(name)?.filter(Unit::is_settled))
        })?
        .ok_or_else(|| {
            anyhow!(
                "{name}: systemd has not started it in {} s",
                UNIT_TIMEOUT.as_secs()
            )
        })
    }

    /// Waits until both names are free again.
    fn remove(&mut self) -> Result<()> {
        self.removal_tried = true;
        remove(&self.bus, &self.name, &self.slice)?;
        self.bus.unref_unit(&self.name)?;
        for unit in [&self.name, &self.slice] {
            poll_until(UNIT_TIMEOUT, || {
                Ok(self.bus.unit(unit)?.is_none().then_some(()))
            })?
            .ok_or_else(|| not_removed_error(unit))?;
        }
        Ok(())
    }

    fn service_folder(&self) -> Result<Option<PathBuf>> {
        let unit = self.bus.unit(&self.name)?.filter(|unit| !unit.is_down());
        Ok(unit.and_then(|unit| cgroup_folder(&self.cgroup_root, unit.cgroup()?)))
    }

    fn unit(&self) -> Result<Unit> {
        self.bus
            .unit(&self.name)?
            .ok_or_else(|| anyhow!("{}: it was removed by another program", self.name))
    }
}

impl Launched for Service {
    fn pid(&self) -> u32 {
        self.pid
    }

    fn open_exec_gate(&mut self, message: &[u8]) -> Result<()> {
        let Some(exec_gate) = self.exec_gate.take() else {
            return Ok(());
        };
        let name = self.name.clone();
        exec_gate.release(&name, message, || match self.poll_end()? {
            Some(end) => bail!("{name} ended {end} before its gate was opened"),
            None => Ok(()),
        })
    }

    fn limits(&self) -> Result<Limits> {
        let mut limits = v2::limits(&self.slice_cgroup, &self.requested_io)?;
        if let Some(folder) = self.service_folder()? {
            let service_high = v2::memory_high(&folder)?;
            limits.memory_high = limits.memory_high.into_iter().chain(service_high).min();
        }
        Ok(limits)
    }

    fn set_memory_limit(&mut self, memory: Option<u64>) -> Result<Option<u64>> {
        let limit_bytes = memory.map(page_aligned);
        if !set_memory_high(&self.bus, &self.name, limit_bytes)? {
            ensure!(
                limit_bytes.is_none(),
                "{}: it has ended, so its memory limit cannot be changed",
                self.name
            );
            return Ok(None);
        }
        let folder = self
            .service_folder()?
            .ok_or_else(|| anyhow!("{}: it has no cgroup any more", self.name))?;
        let mut current = None;
        poll_until(APPLY_TIMEOUT, || {
            current = v2::memory_high(&folder)?;
            Ok((current == limit_bytes).then_some(()))
        })?;
        Ok(current)
    }

    fn poll_end(&mut self) -> Result<Option<End>> {
        Ok(self.unit()?.ended())
    }

    fn has_no_process(&mut self) -> Result<bool> {
        v2::is_empty(&self.slice_cgroup)
    }

    fn terminate(&mut self) -> Result<()> {
        self.bus.kill(&self.name, Signal::TERM)
    }

    fn cgroup_state(&mut self) -> Result<CgroupState> {
        let unit = self.unit()?;
        let result = unit.result().map(str::to_owned).filter(|_| unit.is_down());
        Ok(CgroupState {
            end: unit.ended(),
            result,
            ..v2::cgroup_state(&self.slice_cgroup)?
        })
    }

    fn close(mut self: Box<Self>) -> Result<CgroupState> {
        kill_all(&self.bus, &self.name)?;
        let cgroup_state = self.cgroup_state()?;
        self.remove()?;
        Ok(cgroup_state)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if !self.removal_tried {
            let _ = self.remove();
        }
    }
}

pub fn remove(bus: &Bus, service: &str, slice: &str) -> Result<()> {
    kill_all(bus, service)?;
    for unit in [service, slice] {
        bus.stop(unit)?;
        let stopped = poll_until(UNIT_TIMEOUT, || {
            let Some(state) = bus.unit(unit)? else {
                return Ok(Some(()));
            };
            if !state.is_down() || !state.is_settled() {
                return Ok(None);
            }
            bus.reset(unit).map(Some)
        })?;
        stopped.ok_or_else(|| not_removed_error(unit))?;
    }
    Ok(())
}

/// Sets the service's throttling memory limit until the next boot. Does nothing and returns false if
/// the service is down: systemd would load a missing unit again and keep the limit for it.
pub fn set_memory_high(bus: &Bus, service: &str, bytes: Option<u64>) -> Result<bool> {
    if bus.unit(service)?.is_none_or(|unit| unit.is_down()) {
        return Ok(false);
    }
    let limit = property("MemoryHigh", bytes.unwrap_or(u64::MAX));
    bus.set(service, &vec![limit])?;
    Ok(true)
}

fn not_removed_error(unit: &str) -> anyhow::Error {
    anyhow!("{unit}: systemd does not remove it; see systemctl status {unit}")
}

fn kill_all(bus: &Bus, service: &str) -> Result<()> {
    let is_down = || {
        Ok(bus
            .unit(service)?
            .is_none_or(|unit| unit.is_down())
            .then_some(()))
    };
    let mut remaining = UNIT_TIMEOUT;
    while !remaining.is_zero() {
        if is_down()?.is_some() {
            return Ok(());
        }
        bus.kill(service, Signal::KILL)?;
        poll_until(KILL_INTERVAL, is_down)?;
        remaining = remaining.saturating_sub(KILL_INTERVAL);
    }
    bail!("{service}: its processes do not end; see systemctl status {service}")
}

/// The folder of a cgroup; `None` if it is not below `root`.
fn cgroup_folder(root: &Path, cgroup: &str) -> Option<PathBuf> {
    let path = Path::new(cgroup.strip_prefix('/')?);
    let is_plain = path
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    (is_plain && path.components().next().is_some()).then(|| root.join(path))
}

/// systemd.exec(5) lists the exit codes from 200 on.
pub fn not_started_error(job: &Job, end: Option<End>, result: &str) -> anyhow::Error {
    let program = job
        .command
        .first()
        .map_or(Path::new(""), Path::new)
        .display();
    let user = job.user.as_deref().unwrap_or("this user");
    let reason = match end {
        Some(End::Code(200)) => match &job.folder {
            Some(folder) => format!("{} cannot be entered by {user}", folder.display()),
            None => "the folder / cannot be entered".to_owned(),
        },
        Some(End::Code(203)) => format!("it cannot be executed by {user}"),
        Some(End::Code(205)) => {
            "systemd cannot set its limits of open files and locked memory".to_owned()
        }
        Some(End::Code(209)) => format!("{} cannot be written", job.output.display()),
        Some(End::Code(216 | 217)) => format!("there is no user {user}"),
        Some(End::Code(status) | End::Signal(status)) => {
            format!("systemd says {result} ({status})")
        }
        None => format!("systemd says {result}"),
    };
    anyhow!("{program} cannot be started: {reason}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_folder_below_the_cgroup_root_is_accepted_as_a_cgroup() {
        let root = Path::new("/cgroup");
        assert_eq!(
            cgroup_folder(root, "/a.slice/b").as_deref(),
            Some(Path::new("/cgroup/a.slice/b"))
        );
        for bad in ["", "/", "a.slice", "/../etc", "/a/../../etc", "//etc"] {
            assert_eq!(cgroup_folder(root, bad), None, "{bad:?}");
        }
    }
}
