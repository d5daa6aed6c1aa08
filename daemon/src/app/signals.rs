//! Signals, readiness and the watchdog: how the daemon and its supervisor talk.

use super::Live;
use crate::clock::Clock;
use crate::flight;
use crate::hub::Latest;
use crate::supervisor::Stage;
use crate::web;
use anyhow::Context;
use faultline_catalog::Tick;
use faultline_kernel::HostRoot;
use sd_notify::NotifyState;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How often the daemon looks after itself until its first tick, which its supervisor waits for.
const CHECK_UNTIL_READY: Duration = Duration::from_millis(100);
/// How often it does so later, or four times while a shorter watchdog waits: each time wakes two threads.
const CHECK_EVERY: Duration = Duration::from_secs(5);

/// Signals to stop that come within this time are one: `timeout` signals its child and then the group of both.
const SAME_SIGNAL: Duration = Duration::from_secs(1);

/// The signals that are acted on, heard from here on.
pub(super) struct Signals {
    terminate: Listener,
    interrupt: Listener,
    hangup: Listener,
    user: Listener,
}

/// One signal. `None` if it was ignored at the start, as SIGHUP is by `nohup`: then it stays ignored.
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

    /// Says that it is ready once the first tick is there, feeds the watchdog as long as ticks flow, reloads on SIGHUP, saves
    /// the flight recording on SIGUSR1, and returns when asked to stop; false if a task ended unexpectedly.
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
                _ = self.user.recv() => match flight.map(|flight| flight.request("", flight::Wish::Operator)) {
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

/// Tells the supervisor that the end has begun.
pub(super) fn stopping() {
    notify(&[NotifyState::Stopping]);
}

/// Resolves at a second signal, which stops the daemon by force: one that comes later than [`SAME_SIGNAL`] after the first.
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

/// Without a supervisor there is nobody to tell, which is no fault.
fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "cannot notify the supervisor");
    }
}
