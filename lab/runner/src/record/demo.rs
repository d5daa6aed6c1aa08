use super::daemon::Daemon;
use super::file;
use super::recorder::{POLL_INTERVAL, PROGRAM, Task};
use anyhow::ensure;
use faultline_common::clock;
use faultline_common::signals::Signals;
use faultline_recording::Recording;
use std::path::Path;
use std::time::Duration;

/// Records the simulated validator of daemon `program`. Passes the page's address to
/// `on_started`. Returns a summary, or `None` after a stop signal.
pub fn record_demo(
    program: &Path,
    task: &Task<'_>,
    duration: Duration,
    signals: &mut Signals,
    on_started: impl FnOnce(&str),
) -> anyhow::Result<Option<String>> {
    let mut daemon = Daemon::start(program, task)?;
    let (addresses, _) = daemon.wait_until_following(None, signals)?;
    on_started(&addresses.metrics);
    let began = clock::uptime();
    let mut stopped = false;
    while !stopped && clock::uptime().saturating_sub(began) < duration {
        ensure!(
            daemon.ended()?.is_none(),
            "{PROGRAM} has ended:\n{}",
            daemon.tail()
        );
        let received = signals.wait(None, POLL_INTERVAL)?;
        stopped = received.iter().any(|signal| signal.is_end_request());
    }
    let log = daemon.tail();
    daemon.end(signals)?;
    if stopped {
        return Ok(None);
    }
    let path = task.out.display();
    let info = Recording::open(task.out).and_then(|recording| recording.info());
    ensure!(
        info.is_ok_and(|info| info.first_tick.is_some()),
        "{path} has no sample: {PROGRAM} could not write it:\n{log}"
    );
    file::summary(task.out).map(Some)
}
