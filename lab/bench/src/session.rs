//! Runs the plan of a subcommand, such as `bench encoding`; stores and renders the results.

use crate::{
    answer::Expected,
    args::{LoadArgs, OutArgs},
    failure::Failure,
    plan::{ConnectionConfig, MAX_REQUESTS, Plan},
    protocol::{Named, Protocol},
    render,
    results::{CaseInfo, Header, LoopbackCost, Results},
    run::{Engine, MeasuredRun, SampleSink},
    store::{self, ResultsFile},
    tool_overhead,
    verify::AnswerComparison,
};
use anyhow::{Result, ensure};
use faultline_common::{args::UsageError, clock, output::say};
use faultline_pages::groups::distinct;
use faultline_text::{count, duration};
use itertools::Itertools;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    rc::Rc,
};

const OPEN_LOOP_WORKERS: usize = 64;

pub fn worker_count(configured: Option<usize>, rate: Option<f64>) -> usize {
    configured.unwrap_or(if rate.is_some() { OPEN_LOOP_WORKERS } else { 1 })
}

pub fn plan_for_load(load: &LoadArgs) -> Plan {
    Plan {
        rounds: load.rounds,
        warm_up: load.warm_up,
        workers: worker_count(load.workers.map(usize::from), load.rate),
        rate: load.rate,
        seed: load.seed,
        timeout: load.timeout,
        max_answer_bytes: load.max_answer,
        max_failure_percent: load.max_failures,
        ..Plan::default()
    }
}

pub struct Session<'a> {
    pub engine: &'a Engine,
    subcommand: &'a str,
    loopback_cost: Option<LoopbackCost>,
    file: Option<&'a ResultsFile>,
}

impl Session<'_> {
    /// Leaves out arms over HTTP/2 if their node has no HTTP/2.
    pub fn measure(
        &self,
        plan: &Plan,
        answer_bytes: &[Option<u64>],
        mut notes: Vec<String>,
    ) -> Result<Results> {
        let mut plan = plan.clone();
        notes.extend(drop_unsupported_http2(&mut plan, self.engine)?);
        let plan = Rc::new(plan);
        self.measure_with(&plan, answer_bytes, notes, |sink| {
            self.engine.run(&plan, sink)
        })
    }

    /// Stores what `measure` returns. `answer_bytes`: decoded bytes of answers by request, if known.
    pub fn measure_with(
        &self,
        plan: &Plan,
        answer_bytes: &[Option<u64>],
        notes: Vec<String>,
        measure: impl FnOnce(&SampleSink<'_>) -> Result<MeasuredRun>,
    ) -> Result<Results> {
        let mut header = make_header(self.subcommand, plan, notes);
        header.loopback_cost = self.loopback_cost;
        let cases = plan
            .cases
            .iter()
            .map(|case| CaseInfo {
                arm: plan.arm_name(case).to_owned(),
                request_label: plan.request_label(case).to_owned(),
                answer_bytes: answer_bytes.get(case.request_index).copied().flatten(),
            })
            .collect_vec();
        if let Some(file) = self.file {
            file.begin(&header, &cases)?;
        }
        let measured = measure(&|samples, state| {
            if let Some(file) = self.file {
                file.append(samples, state);
            }
        })?;
        header.take_state(measured.state);
        Ok(Results {
            header,
            cases,
            samples: measured.samples,
        })
    }
}

/// Runs `work` and stores its results. Returns the text to print and the exit code.
pub fn run_subcommand(
    subcommand: &str,
    plan: &Plan,
    output: &OutArgs,
    ca_file: Option<&Path>,
    work: impl FnOnce(&Session<'_>) -> Result<Results>,
) -> Result<(String, u8)> {
    let request_count = plan.request_count();
    ensure!(
        request_count <= MAX_REQUESTS,
        UsageError(format!(
            "{request_count} requests are too many: at most {MAX_REQUESTS}"
        ))
    );
    if output.dry_run {
        return Ok((plan.first_requests(), 0));
    }
    // The engine catches signals. It is created before the file, so that an early signal fails the
    // measurement, and `abandon` removes the file.
    let engine = Engine::new(plan, ca_file)?;
    let file = output.out.as_deref().map(ResultsFile::create).transpose()?;
    let results = tool_overhead::measure(&engine).and_then(|loopback_cost| {
        work(&Session {
            engine: &engine,
            subcommand,
            loopback_cost,
            file: file.as_ref(),
        })
    });
    let results = match results {
        Ok(results) => results,
        Err(error) => {
            if let Some(file) = file {
                file.abandon();
            }
            return Err(error);
        }
    };
    // The file is complete before the rendering. If its last write failed, the results are rendered
    // all the same.
    let written = file.map(|file| file.finish(&results));
    let text = crate::render_results(&results, output.format)?;
    let mut exit_code = u8::from(!render::problems(&results).is_empty());
    if let (Some(path), Some(Err(error))) = (&output.out, written) {
        say(&format!(
            "the end of the results could not be written to {}: {}",
            path.display(),
            store::error_text(&error)
        ));
        exit_code = 1;
    }
    Ok((text, exit_code))
}

fn drop_unsupported_http2(plan: &mut Plan, engine: &Engine) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    // One request of each arm over HTTP/2.
    let mut probes = plan.clone();
    probes.weights.clear();
    let mut arms = BTreeSet::new();
    probes.cases.retain(|case| {
        plan.connection(case).protocol == Protocol::Http2 && arms.insert(case.arm_index)
    });
    if probes.cases.is_empty() {
        return Ok(notes);
    }
    // In reverse, because a removal changes the indices of later arms.
    for (case, answer) in probes.cases.iter().zip(engine.probe(&probes)?).rev() {
        if let Err(failure) = answer
            && failure.may_be_no_http2(probes.connection(case).endpoint.uses_tls)
        {
            notes.push(remove_arm_without_http2(plan, case.arm_index, &failure)?);
        }
    }
    Ok(notes)
}

/// Returns a note about the removed arm. Fails if it is the only arm.
pub fn remove_arm_without_http2(
    plan: &mut Plan,
    arm_index: usize,
    failure: &Failure,
) -> Result<String> {
    let name = &plan.arms[arm_index];
    ensure!(
        plan.arms.len() > 1,
        "{name}: the node does not offer HTTP/2 ({failure}), and there is no other arm"
    );
    let note = format!("{name} is left out: the node does not offer HTTP/2 ({failure})");
    plan.remove_arm(arm_index);
    Ok(note)
}

/// Settings of this tool that affect latencies.
fn list_settings(subcommand: &str, plan: &Plan) -> BTreeMap<String, String> {
    let mut settings = list_load_settings(plan);
    let mut shapes: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for case in &plan.cases {
        let (arm, request) = (plan.arm_name(case), plan.request_label(case));
        // The arms of `bench transport` are protocols without a link shape.
        if subcommand != "transport" {
            let connection = plan.connection(case);
            settings.insert(
                format!("transport of {arm}"),
                connection.protocol.name().to_owned(),
            );
            let check = match case.expected {
                Expected::Unverified => "any",
                Expected::Account(_) => "account",
                _ => "same",
            };
            settings.insert(format!("answer of {arm} about {request}"), check.to_owned());
            shapes
                .entry(arm)
                .or_default()
                .insert(connection.link_shape.to_string());
        }
        settings.insert(
            format!("request of {arm} about {request}"),
            case.call.clone(),
        );
    }
    for (arm, shapes) in shapes {
        settings.insert(
            format!("added to the link of {arm}"),
            shapes.iter().join(", "),
        );
    }
    settings
}

fn list_load_settings(plan: &Plan) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::from([
        (
            "loop".to_owned(),
            match plan.rate {
                None => "closed".to_owned(),
                Some(rate) => format!("open, {rate} a second"),
            },
        ),
        (
            "requests at the same time".to_owned(),
            plan.workers.to_string(),
        ),
        ("timeout".to_owned(), duration(plan.timeout)),
        (
            "largest answer".to_owned(),
            format!("{} bytes", count(plan.max_answer_bytes as u64)),
        ),
        (
            "requests of a round".to_owned(),
            match plan.weights.as_slice() {
                [] => "all",
                _ => "one, drawn by weight",
            }
            .to_owned(),
        ),
    ]);
    if let Some((from, to)) = plan.cases.iter().find_map(|case| case.random_range) {
        settings.insert(
            "random numbers".to_owned(),
            format!("{} to {}", count(from), count(to)),
        );
    }
    for placeholder in &plan.placeholders {
        settings.insert(
            format!("value {}", placeholder.name),
            placeholder.description(),
        );
    }
    // Otherwise the seed only decides the order, so another seed is no other setting.
    if !plan.placeholders.is_empty() || !plan.weights.is_empty() {
        settings.insert("seed".to_owned(), plan.seed.to_string());
    }
    for (label, weight) in plan.request_labels.iter().zip(&plan.weights) {
        settings.insert(format!("weight of {label}"), weight.to_string());
    }
    settings
}

fn make_header(subcommand: &str, plan: &Plan, notes: Vec<String>) -> Header {
    let is_shaped = plan
        .connections
        .iter()
        .any(|connection| !connection.link_shape.has_no_effect());
    let cases = &plan.cases;
    let url = |connection: &ConnectionConfig| connection.endpoint.redacted_url();
    // Duplicates stay in `bench nodes`: nodes may have equal texts, because keys are hidden.
    let nodes = if subcommand == "run" || is_shaped {
        distinct(cases.iter().map(|case| url(plan.connection(case))))
    } else {
        plan.connections.iter().map(url).collect()
    };
    // `bench transport` compares what it reads with what it wrote.
    let is_verified = subcommand == "transport"
        || cases
            .iter()
            .any(|case| case.expected != Expected::Unverified);
    let shapes = cases
        .iter()
        .map(|case| plan.connection(case).link_shape.to_string());
    Header {
        subcommand: subcommand.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_unix_ns: clock::unix_ns(),
        nodes,
        notes,
        settings: list_settings(subcommand, plan),
        link_shapes: shapes.filter(|_| is_shaped).collect(),
        arms: plan.arms.clone(),
        answer_comparisons: vec![AnswerComparison::default(); plan.arms.len()],
        seed: plan.seed,
        rounds: plan.rounds,
        warm_up: plan.warm_up,
        workers: plan.workers,
        rate: plan.rate,
        max_failure_percent: plan.max_failure_percent.or(is_verified.then_some(0.0)),
        ..Header::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{endpoint::Endpoint, stream::LinkShape};

    #[test]
    fn a_left_out_arm_has_no_node() {
        let connection =
            |url| ConnectionConfig::new(Endpoint::parse(url).unwrap(), Protocol::Http2);
        let mut plan = Plan {
            arms: vec!["a".to_owned(), "b".to_owned()],
            connections: ["http://one", "http://two"].map(connection).into(),
            request_labels: vec!["c".to_owned()],
            ..crate::plan::tests::plan(2, 1)
        };
        plan.cases[1].connection_index = 1;
        remove_arm_without_http2(&mut plan, 0, &Failure::NoHttp2).unwrap();
        assert_eq!(make_header("run", &plan, Vec::new()).nodes, ["http://two"]);
    }

    #[test]
    fn transport_and_link_of_every_arm_are_settings() {
        let of = |protocol, shape| {
            let endpoint = Endpoint::parse("http://node").unwrap();
            let connections = vec![ConnectionConfig {
                endpoint,
                link_shape: LinkShape::parse(shape).unwrap(),
                protocol,
            }];
            let (arms, request_labels) = (vec!["a".to_owned()], vec!["b".to_owned()]);
            list_settings(
                "run",
                &Plan {
                    connections,
                    arms,
                    request_labels,
                    ..crate::plan::tests::plan(1, 1)
                },
            )
        };
        let (one, other) = (of(Protocol::Http, "0ms"), of(Protocol::Http2, "30ms"));
        for name in ["transport of a", "added to the link of a"] {
            assert!(one[name] != other[name], "{one:?} {other:?}");
        }
    }

    #[test]
    fn the_check_of_every_answer_is_a_setting() {
        let of = |expected| {
            let mut plan = Plan {
                arms: vec!["a".to_owned()],
                connections: vec![ConnectionConfig::new(
                    Endpoint::parse("http://node").unwrap(),
                    Protocol::Http,
                )],
                request_labels: vec!["b".to_owned()],
                ..crate::plan::tests::plan(1, 1)
            };
            plan.cases[0].expected = expected;
            list_settings("run", &plan)["answer of a about b"].clone()
        };
        let account = Expected::Account(crate::answer::Encoding::Base64);
        assert_eq!(
            [Expected::SameExcept(&[]), Expected::Unverified, account].map(of),
            ["same", "any", "account"]
        );
    }
}
