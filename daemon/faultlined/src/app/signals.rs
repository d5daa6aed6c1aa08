use super::LiveConfig;
use anyhow::{Context, Result};
use faultline_core::{clock::Clock, publish::Latest, supervisor::WorkerGroup};
use faultline_http::web;
use faultline_kernel::HostRoot;
use faultline_metrics::Tick;
use faultline_recorder::flight;
use sd_notify::NotifyState;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Check interval until the first tick. Short, because the service manager waits for readiness.
const STARTUP_CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Check interval after the first tick, unless a quarter of the watchdog timeout is shorter. Long,
/// because each check wakes two threads.
const MAX_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Stop signals within this time count as one: the program `timeout` signals its child, and then
/// the process group that contains the child.
const SAME_SIGNAL_WINDOW: Duration = Duration::from_secs(1);

pub struct Signals {
    terminate: SignalListener,
    interrupt: SignalListener,
    hangup: SignalListener,
    user1: SignalListener,
}

/// `None` if the signal was ignored when the daemon started, as SIGHUP is under `nohup`. It stays
/// ignored.
struct SignalListener(Option<Signal>);

impl SignalListener {
    /// Requires a Tokio runtime. Without `/proc` no signal counts as ignored.
    fn new(kind: SignalKind) -> std::io::Result<Self> {
        if HostRoot::default()
            .ignored_signals()
            .unwrap_or_default()
            .contains(kind.as_raw_value())
        {
            return Ok(Self(None));
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "all listeners of the daemon are made here"
        )]
        Ok(Self(Some(signal(kind)?)))
    }

    async fn recv(&mut self) -> Option<()> {
        match &mut self.0 {
            Some(signal) => signal.recv().await,
            None => std::future::pending().await,
        }
    }
}

impl Signals {
    pub fn subscribe() -> Result<Self> {
        let subscribe = |kind| SignalListener::new(kind).context("signals cannot be received");
        Ok(Self {
            terminate: subscribe(SignalKind::terminate())?,
            interrupt: subscribe(SignalKind::interrupt())?,
            hangup: subscribe(SignalKind::hangup())?,
            user1: subscribe(SignalKind::user_defined1())?,
        })
    }

    /// Reports readiness after the first tick and feeds the watchdog while ticks arrive. Handles
    /// SIGUSR1, and from the first tick on SIGHUP. Returns true on a stop signal, and false if a task
    /// ended unexpectedly.
    pub async fn run_until_stop(
        mut self,
        live: &LiveConfig,
        flight_recorder: Option<&flight::FlightRecorderHandle>,
        newest_tick: &Latest<Tick>,
        clock: Clock,
        worker_groups: &[WorkerGroup],
    ) -> bool {
        let mut checks = tokio::time::interval(STARTUP_CHECK_INTERVAL);
        let mut ready = false;
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return log_stop("SIGTERM"),
                _ = self.interrupt.recv() => return log_stop("SIGINT"),
                _ = self.hangup.recv(), if ready => {
                    notify(&[NotifyState::Reloading, monotonic()]);
                    live.reload();
                    notify(&[NotifyState::Ready]);
                }
                _ = self.user1.recv() => match flight_recorder.map(|handle| handle.request_save("", flight::SaveOrigin::Signal)) {
                    Some(Some(_)) => tracing::info!("SIGUSR1: saving the flight recording"),
                    Some(None) => tracing::warn!("SIGUSR1 ignored: too many saves are queued"),
                    None => tracing::warn!(
                        "SIGUSR1 ignored: the flight recorder is disabled; set flight.folder"
                    ),
                },
                _ = checks.tick() => {
                    if let Some(name) = worker_groups.iter().find_map(WorkerGroup::ended_member) {
                        tracing::error!(part = name, "a task ended unexpectedly");
                        return false;
                    }
                    let newest = newest_tick.get().map(|tick| tick.at);
                    if newest.is_some() && !ready {
                        ready = true;
                        notify(&[NotifyState::Ready]);
                        let check_interval = sd_notify::watchdog_enabled().map_or(MAX_CHECK_INTERVAL, |limit| MAX_CHECK_INTERVAL.min(limit / 4));
                        checks = tokio::time::interval(check_interval);
                    }
                    let interval = live.config.get().map_or(MAX_CHECK_INTERVAL, |config| config.sampling.interval);
                    if web::check_health(newest, clock.now(), interval).is_ok() {
                        notify(&[NotifyState::Watchdog]);
                    }
                }
            }
        }
    }
}

fn log_stop(signal: &str) -> bool {
    tracing::info!(signal, "stopping");
    true
}

/// Resolves at a stop signal that comes more than [`SAME_SIGNAL_WINDOW`] after the first.
pub async fn second_signal(clock: Clock) {
    let first = clock.now().uptime;
    let (Ok(mut terminate), Ok(mut interrupt)) = (
        SignalListener::new(SignalKind::terminate()),
        SignalListener::new(SignalKind::interrupt()),
    ) else {
        return std::future::pending().await;
    };
    loop {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        if clock.now().uptime.saturating_sub(first) > SAME_SIGNAL_WINDOW {
            return;
        }
    }
}

fn monotonic() -> NotifyState<'static> {
    NotifyState::monotonic_usec_now().unwrap_or(NotifyState::Status("reloading"))
}

pub fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "cannot notify the service manager");
    }
}
