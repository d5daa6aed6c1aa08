//! State that the tick and the web server share.

use super::{host_name, live, recording::PreparedRecorder};
use faultline_core::{
    auth_failures::AuthFailures,
    hub::{Latest, Sink},
};
use faultline_datapoints::validator::intake::Intake;
use faultline_http::{
    sinks::{history::History, prometheus::DroppedSeries},
    web,
};
use faultline_metrics::Source;
use faultline_recorder::recorder;
use faultline_sources::{Registry, selfwatch, tick::BuildContext};
use faultline_status::AnswerConfig;
use std::sync::Arc;

pub fn web_state(
    context: &BuildContext<'_>,
    recording: Option<&PreparedRecorder>,
    answer_config: Latest<AnswerConfig>,
) -> web::WebState {
    let config = context.config;
    web::WebState {
        clock: context.clock,
        interval: config.sampling.interval,
        ticks: Latest::default(),
        history: History::default(),
        answer_config,
        constant_labels: live::constant_labels(config),
        page: Arc::new(web::PageInfo::new(crate::VERSION, &config.target.find)),
        recorder: recording.map(|prepared| prepared.handle.clone()),
        flight: recording.and_then(|prepared| prepared.flight.clone()),
        host_name: host_name(context.root),
        auth_failures: AuthFailures::new("metrics"),
        dropped_series: DroppedSeries::default(),
    }
}

/// The samplers of the recorder and of the daemon itself. Also connects the recorder with the
/// intake.
pub fn register(
    registry: &mut Registry,
    context: &BuildContext<'_>,
    intake: &Intake,
    state: &web::WebState,
    demo: bool,
) {
    if let Some(recorder) = &state.recorder {
        intake.record_to(recorder.points());
        let (following, flight) = (context.following.clone(), state.flight.clone());
        let report = move |output: &mut _| flight.iter().for_each(|flight| flight.report(output));
        let sampler = recorder.source(following, report);
        registry.samplers.push((Source::Recorder, sampler));
    }
    let (auth_failures, dropped) = (state.auth_failures.clone(), state.dropped_series.clone());
    selfwatch::register(
        registry,
        context.root,
        crate::VERSION,
        demo,
        move |readings| {
            readings.push(auth_failures.reading());
            dropped.readings(readings);
        },
    );
}

pub fn sinks(state: &web::WebState) -> Vec<Box<dyn Sink>> {
    let mut sinks: Vec<Box<dyn Sink>> = vec![
        Box::new(state.history.clone()),
        Box::new(state.ticks.clone()),
    ];
    sinks.extend(state.recorder.as_ref().map(recorder::Handle::sink));
    sinks
}
