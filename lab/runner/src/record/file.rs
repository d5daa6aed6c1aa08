use super::daemon::Daemon;
use crate::record::recorder::{POLL_INTERVAL, polls_to_write, progress};
use anyhow::bail;
use faultline_common::signals::Signals;
use faultline_recording::Recording;
use faultline_text::{counted, time};
use std::path::Path;
use std::time::Duration;

/// Waits until the recording has the process, so that even a short-lived command has its start and
/// end in it. Gives up after some intervals, because a partial recording is better than none. Fails
/// if a signal asks to end.
pub(super) fn wait_for_process(
    out: &Path,
    interval: Duration,
    daemon: &mut Daemon,
    signals: &mut Signals,
) -> anyhow::Result<()> {
    for _ in 0..polls_to_write(interval) {
        if progress(out).is_ok_and(|progress| progress.process) || daemon.ended()?.is_some() {
            break;
        }
        if signals
            .wait(None, POLL_INTERVAL)?
            .iter()
            .any(|signal| signal.is_end_request())
        {
            bail!("stopped by a signal before the command began");
        }
    }
    Ok(())
}

/// Waits until the recording has the process's exit: the last tick precedes it, so the daemon may
/// be ended. Gives up after some intervals.
pub(super) fn wait_for_exit(
    out: &Path,
    interval: Duration,
    daemon: &mut Daemon,
    signals: &mut Signals,
) -> anyhow::Result<()> {
    for _ in 0..polls_to_write(interval) {
        if progress(out).is_ok_and(|progress| progress.ended) || daemon.ended()?.is_some() {
            break;
        }
        signals.wait(None, POLL_INTERVAL)?;
    }
    Ok(())
}

pub(super) fn remove_without_process(out: &Path) {
    if progress(out).is_ok_and(|progress| !progress.process) {
        let _ = std::fs::remove_file(out);
    }
}

pub(super) fn summary(out: &Path) -> anyhow::Result<String> {
    let info = Recording::open(out)?.info()?;
    let ticks = info
        .tables
        .iter()
        .find(|table| table.name == "tick")
        .map_or(0, |table| table.rows);
    let nanos = info
        .first_tick
        .zip(info.last_tick)
        .and_then(|(first, last)| {
            // The wall clock may have been set during the recording.
            let monotonic = (first.session == last.session)
                .then(|| last.uptime_ns.saturating_sub(first.uptime_ns));
            u64::try_from(monotonic.unwrap_or_else(|| last.unix_ns.saturating_sub(first.unix_ns)))
                .ok()
        });
    let nanos = nanos.unwrap_or(0);
    Ok(format!(
        "{}: {} over {}",
        out.display(),
        counted(ticks as f64, "tick"),
        time(Duration::from_nanos(nanos))
    ))
}
