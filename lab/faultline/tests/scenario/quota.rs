//! A cgroup with a CPU quota.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// The quota's period, in microseconds.
const PERIOD: u32 = 100_000;

/// Removed when dropped; its processes must have ended by then.
pub struct CpuQuota {
    folder: PathBuf,
    v1: bool,
}

impl CpuQuota {
    /// Uses cgroup version 1 or 2, whichever has the CPU controller. `None` where no group can be made.
    pub fn new() -> Option<Self> {
        [("/sys/fs/cgroup/cpu", true), ("/sys/fs/cgroup", false)]
            .into_iter()
            .find_map(|(top, v1)| {
                if !Path::new(top).join("cgroup.procs").exists() {
                    return None;
                }
                let folder =
                    Path::new(top).join(format!("faultline-scenario-{}", std::process::id()));
                fs::create_dir(&folder).ok()?;
                let quota = Self { folder, v1 };
                quota.limit(None).ok()?;
                Some(quota)
            })
    }

    /// Moves a process into it.
    pub fn take(&self, pid: u32) -> io::Result<()> {
        self.write("cgroup.procs", &pid.to_string())
    }

    /// Sets the quota in percent of one CPU; `None` removes it.
    pub fn limit(&self, percent: Option<u32>) -> io::Result<()> {
        let microseconds = percent.map(|percent| PERIOD / 100 * percent);
        if self.v1 {
            self.write("cpu.cfs_period_us", &PERIOD.to_string())?;
            return self.write(
                "cpu.cfs_quota_us",
                &microseconds.map_or("-1".to_owned(), |quota| quota.to_string()),
            );
        }
        let quota = microseconds.map_or("max".to_owned(), |quota| quota.to_string());
        self.write("cpu.max", &format!("{quota} {PERIOD}"))
    }

    fn write(&self, file: &str, text: &str) -> io::Result<()> {
        // Without `create`: a missing file is an error.
        OpenOptions::new()
            .write(true)
            .open(self.folder.join(file))?
            .write_all(text.as_bytes())
    }
}

impl Drop for CpuQuota {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.folder) {
            eprintln!("{}: {error}", self.folder.display());
        }
    }
}
