use super::SearchContext;
use faultline_core::supervisor::program_sync;
use std::ffi::OsStr;
use std::io::Read;
use std::process::{Child, Stdio};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(3);
const POLL_INTERVAL: Duration = Duration::from_millis(10);

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct UnitStatus {
    pub(super) main_pid: Option<u32>,
    /// Path from the top of the cgroup hierarchy; `None` while the unit does not run.
    pub(super) control_group: Option<String>,
}

pub(super) fn show(
    systemctl: &OsStr,
    unit: &str,
    context: &SearchContext<'_>,
) -> Result<UnitStatus, String> {
    let mut command = program_sync(systemctl);
    command.args(["show", "--property=MainPID,ControlGroup", "--", unit]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command
        .spawn()
        .map_err(|error| format!("{}: {error}", systemctl.display()))?;
    let ended = wait(&mut child, context);
    if ended.is_err() {
        // Waits in any case: a child that nobody waits for stays a zombie.
        child
            .kill()
            .and_then(|()| child.wait())
            .map_or_else(|error| tracing::debug!(%error, "systemctl"), drop);
    }
    let succeeded = ended?;
    let mut text = String::new();
    // The output is two lines, which fit into the pipe.
    let read = child
        .stdout
        .take()
        .map(|mut output| output.read_to_string(&mut text));
    match read {
        Some(Ok(_)) if succeeded => Ok(parse(&text)),
        _ => Err(format!(
            "systemctl does not know about {unit}: is systemd running here?"
        )),
    }
}

fn wait(child: &mut Child, context: &SearchContext<'_>) -> Result<bool, String> {
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status.success()),
            Ok(None) if context.clock.now().since(context.now) > TIMEOUT => {
                return Err(format!(
                    "systemctl did not answer within {} s",
                    TIMEOUT.as_secs()
                ));
            }
            Ok(None) if context.stop.sleep(POLL_INTERVAL) => return Err("stopped".to_owned()),
            Ok(None) => {}
            Err(error) => return Err(format!("systemctl: {error}")),
        }
    }
}

fn parse(text: &str) -> UnitStatus {
    let value = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='))
    };
    UnitStatus {
        main_pid: value("MainPID")
            .and_then(|pid| pid.parse().ok())
            .filter(|&pid| pid != 0),
        control_group: value("ControlGroup")
            .filter(|path| !path.is_empty())
            .map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_running_unit_has_a_main_pid_and_cgroup() {
        let running = parse("MainPID=4711\nControlGroup=/system.slice/sol.service\n");
        assert_eq!(running.main_pid, Some(4711));
        assert_eq!(
            running.control_group.as_deref(),
            Some("/system.slice/sol.service")
        );
        assert_eq!(parse("MainPID=0\nControlGroup=\n"), UnitStatus::default());
        assert_eq!(parse(""), UnitStatus::default());
    }
}
