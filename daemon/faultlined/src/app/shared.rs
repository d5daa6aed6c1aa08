//! What the sources, the tick and the web server have in common.

use super::{live, recording};
use faultline_core::auth_failures::AuthFailures;
use faultline_core::clock::Clock;
use faultline_core::config::Config;
use faultline_core::dropped_series::DroppedSeries;
use faultline_core::hub::{Latest, Sink};
use faultline_http::sinks::history::History;
use faultline_http::web;
use faultline_kernel::{HostConstants, HostRoot};
use faultline_metrics::Tick;
use faultline_recorder::{flight, recorder};
use faultline_sources::conclusions::Inputs;
use faultline_sources::discovery::Following;
use faultline_sources::tick::{self, Poll};
use faultline_sources::{listening, selfwatch};
use std::sync::Arc;

pub(super) struct Shared<'a> {
    config: &'a Config,
    clock: Clock,
    pub(super) root: HostRoot,
    pub(super) following: Following,
    recorder: Option<recorder::Handle>,
    pub(super) flight: Option<flight::Handle>,
    auth_failures: AuthFailures,
    dropped_series: DroppedSeries,
}

impl<'a> Shared<'a> {
    pub(super) fn new(
        config: &'a Config,
        clock: Clock,
        (root, following): (HostRoot, Following),
        recording: Option<&recording::Prepared>,
    ) -> Self {
        Shared {
            config,
            clock,
            root,
            following,
            recorder: recording.map(|prepared| prepared.handle.clone()),
            flight: recording.and_then(|prepared| prepared.flight.clone()),
            auth_failures: AuthFailures::new("metrics"),
            dropped_series: DroppedSeries::default(),
        }
    }

    /// Also connects the recorder with the intake.
    pub(super) fn sources(
        &self,
        listening: listening::Datapoints,
        inputs: Inputs,
        live: Latest<Config>,
    ) -> Vec<Box<dyn Poll>> {
        let intake = listening.intake.clone();
        let mut sources = faultline_sources::polled(self.config, &self.root, &self.following);
        sources.extend(faultline_sources::with_inputs(
            self.config,
            listening,
            inputs,
            live,
        ));
        if let Some(recorder) = &self.recorder {
            intake.record_to(recorder.points());
            let flight = flight::readings(self.flight.clone());
            sources.push(recorder.source(self.following.clone(), flight));
        }
        sources
    }

    pub(super) fn selfwatch(&self, demo: bool) -> Box<dyn Poll> {
        let selfwatch = selfwatch::Selfwatch::new(&self.root, demo);
        Box::new(selfwatch.with(self.auth_failures.clone(), self.dropped_series.clone()))
    }

    pub(super) fn sinks(&self, ticks: &Latest<Tick>, history: &History) -> Vec<Box<dyn Sink>> {
        let mut sinks: Vec<Box<dyn Sink>> =
            vec![Box::new(history.clone()), Box::new(ticks.clone())];
        sinks.extend(self.recorder.as_ref().map(recorder::Handle::sink));
        sinks
    }

    pub(super) fn web_state(&self, ticks: Latest<Tick>, history: History) -> web::WebState {
        web::WebState {
            clock: self.clock,
            interval: self.config.sampling.interval,
            ticks,
            history,
            constant: live::constant_labels(self.config),
            page: Arc::new(web::PageInfo::new(
                env!("CARGO_PKG_VERSION"),
                &self.config.target.find,
                None,
            )),
            recorder: self.recorder.clone(),
            flight: self.flight.clone(),
            host_name: host_name(&self.root),
            auth_failures: self.auth_failures.clone(),
            dropped_series: self.dropped_series.clone(),
        }
    }

    pub(super) fn tick_parts(
        &self,
        host: HostConstants,
        sources: Vec<Box<dyn Poll>>,
    ) -> tick::Parts {
        tick::Parts {
            clock: self.clock,
            interval: self.config.sampling.interval,
            following: self.following.clone(),
            root: self.root.clone(),
            host,
            sources,
        }
    }
}

fn host_name(root: &HostRoot) -> Option<String> {
    let name = root.read_proc("sys/kernel/hostname", |text| {
        Ok(String::from_utf8_lossy(text.trim_ascii()).into_owned())
    });
    name.ok()
}
