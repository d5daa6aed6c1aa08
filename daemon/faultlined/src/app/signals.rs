use super::Live;
use anyhow::Context;
use faultline_core::clock::Clock;
use faultline_core::hub::Latest;
use faultline_core::supervisor::Stage;
use faultline_http::web;
use faultline_kernel::HostRoot;
use faultline_metrics::Tick;
use faultline_recorder::flight;
use sd_notify::NotifyState;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Check interval until the first tick, which the supervisor waits for.
const CHECK_UNTIL_READY: Duration = Duration::from_millis(100);
/// Check interval afterwards, or a quarter of a shorter watchdog timeout. Each check wakes two
/// threads.
const CHECK_EVERY: Duration = Duration::from_secs(5);

/// Stop signals within this time count as one: `timeout` signals its child and then the process
/// group of both.
const SAME_SIGNAL: Duration = Duration::from_secs(1);

pub(super) struct Signals {
    terminate: Listener,
    interrupt: Listener,
    hangup: Listener,
    user: Listener,
}

/// `None` for a signal ignored at the start, as SIGHUP is under `nohup`: it stays ignored.
struct Listener(Option<Signal>);

impl Listener {
    /// Needs a runtime. Without `/proc` no signal counts as ignored.
    fn new(kind: SignalKind) -> std::io::Result<Self> {
        let ignored = HostRoot::default().ignored_signals().unwrap_or_default();
        if ignored.contains(kind.as_raw_value()) {
            return Ok(Listener(None));
        }
        #[expect(clippy::disallowed_methods, reason = "the daemon's only listener")]
        let listener = signal(kind)?;
        Ok(Listener(Some(listener)))
    }

    async fn recv(&mut self) -> Option<()> {
        match &mut self.0 {
            Some(signal) => signal.recv().await,
            None => std::future::pending().await,
        }
    }
}

impl Signals {
    pub(super) fn hear() -> anyhow::Result<Self> {
        let hear = |kind| Listener::new(kind).context("signals cannot be heard");
        Ok(Signals {
            terminate: hear(SignalKind::terminate())?,
            interrupt: hear(SignalKind::interrupt())?,
            hangup: hear(SignalKind::hangup())?,
            user: hear(SignalKind::user_defined1())?,
        })
    }

    /// Reports readiness after the first tick and feeds the watchdog while ticks arrive. Handles
    /// SIGHUP and SIGUSR1. Returns on a stop signal; false if a task ended unexpectedly.
    pub(super) async fn watch(
        mut self,
        live: &Live,
        flight: Option<&flight::Handle>,
        ticks: &Latest<Tick>,
        clock: Clock,
        stages: &[Stage],
    ) -> bool {
        let mut checks = tokio::time::interval(CHECK_UNTIL_READY);
        let mut ready = false;
        loop {
            tokio::select! {
                _ = self.terminate.recv() => return stop("SIGTERM"),
                _ = self.interrupt.recv() => return stop("SIGINT"),
                _ = self.hangup.recv() => {
                    notify(&[NotifyState::Reloading, monotonic()]);
                    live.reload();
                    notify(&[NotifyState::Ready]);
                }
                _ = self.user.recv() => match flight.map(|flight| flight.request("", flight::SaveOrigin::Operator)) {
                    Some(Some(_)) => tracing::info!("SIGUSR1: saving the flight recording"),
                    Some(None) => tracing::warn!("SIGUSR1 ignored: too many saves are queued"),
                    None => tracing::warn!("SIGUSR1 ignored: the flight recorder is disabled; set flight.folder"),
                },
                _ = checks.tick() => {
                    if let Some(name) = stages.iter().find_map(Stage::broken) {
                        tracing::error!(part = name, "a task ended unexpectedly");
                        return false;
                    }
                    let newest = ticks.get().map(|tick| tick.at);
                    if newest.is_some() && !std::mem::replace(&mut ready, newest.is_some()) {
                        notify(&[NotifyState::Ready]);
                        let watchdog = sd_notify::watchdog_enabled();
                        let every = watchdog.map_or(CHECK_EVERY, |limit| CHECK_EVERY.min(limit / 4));
                        checks = tokio::time::interval(every);
                    }
                    let interval = live.config().get().map_or(CHECK_EVERY, |config| config.sampling.interval);
                    if web::health(newest, clock.now(), interval).is_ok() {
                        notify(&[NotifyState::Watchdog]);
                    }
                }
            }
        }
    }
}

fn stop(signal: &str) -> bool {
    tracing::info!(signal, "stopping");
    true
}

pub(super) fn stopping() {
    notify(&[NotifyState::Stopping]);
}

/// Resolves at a stop signal that comes more than [`SAME_SIGNAL`] after the first.
pub(super) async fn forced(clock: Clock) {
    let first = clock.now().uptime;
    let (Ok(mut terminate), Ok(mut interrupt)) = (
        Listener::new(SignalKind::terminate()),
        Listener::new(SignalKind::interrupt()),
    ) else {
        return std::future::pending().await;
    };
    loop {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        if clock.now().uptime.saturating_sub(first) > SAME_SIGNAL {
            return;
        }
    }
}

fn monotonic() -> NotifyState<'static> {
    NotifyState::monotonic_usec_now().unwrap_or(NotifyState::Status("reloading"))
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "cannot notify the supervisor");
    }
}
