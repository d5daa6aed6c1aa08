//! Common code of the presets.

use crate::args::{LoadArgs, OutArgs};
use crate::failure::Failure;
use crate::own_cost;
use crate::plan::{Cell, MOST_REQUESTS, Plan};
use crate::protocol::Protocol;
use crate::render;
use crate::results::{CellHead, Header, OwnCost, Results};
use crate::run::{Engine, Measured, SampleSink};
use crate::store::{self, ResultsFile};
use crate::verify::Verdict;
use faultline_common::args::UsageError;
use faultline_common::clock;
use faultline_text::{count, time};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;
use std::time::UNIX_EPOCH;

const OPEN_WORKERS: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Preflight {
    pub(crate) sizes: Vec<Option<u64>>,
    pub(crate) notes: Vec<String>,
}

pub(crate) fn workers(set: Option<usize>, rate: Option<f64>) -> usize {
    set.unwrap_or(if rate.is_some() { OPEN_WORKERS } else { 1 })
}

pub(crate) fn empty(load: &LoadArgs) -> Plan {
    Plan {
        arms: Vec::new(),
        links: Vec::new(),
        subjects: Vec::new(),
        cells: Vec::new(),
        weights: Vec::new(),
        values: Vec::new(),
        rounds: load.rounds,
        warm_up: load.warm_up,
        workers: workers(load.workers.map(usize::from), load.rate),
        rate: load.rate,
        seed: load.seed,
        timeout: load.timeout,
        limit: load.max_answer,
        max_failures: load.max_failures,
    }
}

/// `known` runs before the first request.
pub(crate) fn run(
    preset: &str,
    plan: &Plan,
    output: (&OutArgs, Option<&Path>),
    known: impl FnOnce(&Engine) -> anyhow::Result<Preflight>,
) -> anyhow::Result<(String, u8)> {
    run_then(preset, plan, output, known, |_, _| ())
}

/// Adds to the header after all measurements.
pub(crate) fn run_then(
    preset: &str,
    plan: &Plan,
    (output, authorities): (&OutArgs, Option<&Path>),
    known: impl FnOnce(&Engine) -> anyhow::Result<Preflight>,
    then: impl FnOnce(&mut Header, &Engine),
) -> anyhow::Result<(String, u8)> {
    if plan.requests() > MOST_REQUESTS {
        return Err(UsageError(format!(
            "{} requests are too many: at most {MOST_REQUESTS}",
            plan.requests()
        ))
        .into());
    }
    if output.dry_run {
        return Ok((plan.first_requests(), 0));
    }
    with_then(
        plan,
        (output, authorities),
        |session| measure(preset, plan, session, known),
        then,
    )
}

pub(crate) struct Session<'a> {
    pub(crate) engine: &'a Engine,
    own_cost: Option<OwnCost>,
    file: Option<&'a ResultsFile>,
}

impl Session<'_> {
    pub(crate) fn results(
        &self,
        preset: &str,
        plan: &Plan,
        known: Preflight,
        measure: impl FnOnce(&SampleSink<'_>) -> anyhow::Result<Measured>,
    ) -> anyhow::Result<Results> {
        let mut header = header(preset, plan, known.notes);
        header.own_cost = self.own_cost;
        let cells = heads(plan, &known.sizes);
        if let Some(file) = self.file {
            file.begin(&header, &cells)?;
        }
        let measured = measure(&|samples, state| {
            if let Some(file) = self.file {
                file.append(samples, state);
            }
        })?;
        header.take_state(measured.state);
        Ok(Results {
            header,
            cells,
            samples: measured.samples,
        })
    }
}

/// Stores the results at `output`.
pub(crate) fn with(
    plan: &Plan,
    (output, authorities): (&OutArgs, Option<&Path>),
    work: impl FnOnce(&Session<'_>) -> anyhow::Result<Results>,
) -> anyhow::Result<(String, u8)> {
    with_then(plan, (output, authorities), work, |_, _| ())
}

fn with_then(
    plan: &Plan,
    (output, authorities): (&OutArgs, Option<&Path>),
    work: impl FnOnce(&Session<'_>) -> anyhow::Result<Results>,
    then: impl FnOnce(&mut Header, &Engine),
) -> anyhow::Result<(String, u8)> {
    // Signals are handled first, so that an early one removes the file.
    let engine = Engine::new(plan, authorities)?;
    let file = match &output.out {
        Some(path) => Some((path, ResultsFile::create(path)?)),
        None => None,
    };
    let done = own_cost::measured(&engine).and_then(|own_cost| {
        work(&Session {
            engine: &engine,
            own_cost,
            file: file.as_ref().map(|(_, file)| file),
        })
    });
    let mut results = match done {
        Ok(results) => results,
        Err(error) => {
            if let Some((_, file)) = file {
                file.abandon();
            }
            return Err(error);
        }
    };
    then(&mut results.header, &engine);
    // A full disk loses the file, not the output. Results that cannot be rendered are still stored.
    let finished = file.map(|(path, file)| (path, file.finish(&results)));
    let mut text = crate::shown(&results, output.format)?;
    let mut code = u8::from(!render::problems(&results).is_empty());
    if let Some((path, Err(error))) = finished {
        text += &format!(
            "\nThe end of the results could not be written to {}: {}\n",
            path.display(),
            store::reason(&error)
        );
        code = 1;
    }
    Ok((text, code))
}

fn measure(
    preset: &str,
    plan: &Plan,
    session: &Session<'_>,
    known: impl FnOnce(&Engine) -> anyhow::Result<Preflight>,
) -> anyhow::Result<Results> {
    let engine = session.engine;
    let mut known = known(engine)?;
    let mut plan = plan.clone();
    known.notes.extend(offered(&mut plan, engine)?);
    let plan = Rc::new(plan);
    session.results(preset, &plan, known, |sink| engine.run(&plan, sink))
}

/// Removes HTTP/2 arms whose node does not offer it.
fn offered(plan: &mut Plan, engine: &Engine) -> anyhow::Result<Vec<String>> {
    let over = |cell: &Cell| {
        plan.links
            .get(cell.link)
            .is_some_and(|link| link.protocol == Protocol::Http2)
    };
    let mut tried = BTreeSet::new();
    let cells: Vec<Cell> = plan
        .cells
        .iter()
        .filter(|cell| over(cell) && tried.insert(cell.arm))
        .cloned()
        .collect();
    if cells.is_empty() {
        return Ok(Vec::new());
    }
    let tls = |cell: &Cell| {
        plan.links
            .get(cell.link)
            .is_some_and(|link| link.endpoint.tls)
    };
    let arms: Vec<(usize, bool)> = cells.iter().map(|cell| (cell.arm, tls(cell))).collect();
    let answers = engine.probe(&Plan {
        cells,
        weights: Vec::new(),
        ..plan.clone()
    })?;
    let mut notes = Vec::new();
    for ((arm, tls), answer) in arms.into_iter().zip(answers).rev() {
        if let Err(failure) = answer
            && failure.is_no_http2(tls)
        {
            notes.push(leave_out(plan, arm, &failure)?);
        }
    }
    Ok(notes)
}

/// Returns a note. Fails if no other arm is left.
pub(crate) fn leave_out(plan: &mut Plan, arm: usize, failure: &Failure) -> anyhow::Result<String> {
    let name = plan
        .arms
        .get(arm)
        .map(|arm| arm.name.clone())
        .unwrap_or_default();
    anyhow::ensure!(
        plan.arms.len() > 1,
        "{name}: the node does not offer HTTP/2 ({failure}), and there is no other arm"
    );
    plan.leave_out(arm);
    Ok(format!(
        "{name} is left out: the node does not offer HTTP/2 ({failure})"
    ))
}

fn links(plan: &Plan) -> Vec<String> {
    if plan.links.iter().all(|link| link.shape.is_none()) {
        return Vec::new();
    }
    let shape = |cell: &Cell| {
        plan.links
            .get(cell.link)
            .map_or_else(String::new, |link| link.shape.to_string())
    };
    plan.cells.iter().map(shape).collect()
}

/// Settings that affect latencies, except the node's.
fn settings(preset: &str, plan: &Plan) -> BTreeMap<String, String> {
    let mut settings = load_settings(plan);
    settings.extend(request_settings(preset, plan));
    settings
}

fn load_settings(plan: &Plan) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    let mut set = |name: &str, value: String| settings.insert(name.to_owned(), value);
    set(
        "loop",
        plan.rate
            .map_or("closed".to_owned(), |rate| format!("open, {rate} a second")),
    );
    set("requests at the same time", plan.workers.to_string());
    set("timeout", time(plan.timeout));
    set(
        "largest answer",
        format!("{} bytes", count(plan.limit as u64)),
    );
    if let Some((from, to)) = plan.cells.iter().find_map(|cell| cell.numbers) {
        set(
            "random numbers",
            format!("{} to {}", count(from), count(to)),
        );
    }
    for value in &plan.values {
        set(&format!("value {}", value.name), value.described());
    }
    if !plan.values.is_empty() || !plan.weights.is_empty() {
        set("seed", plan.seed.to_string());
    }
    for (subject, weight) in plan.subjects.iter().zip(&plan.weights) {
        set(&format!("weight of {}", subject.name), weight.to_string());
    }
    set(
        "requests of a round",
        if plan.weights.is_empty() {
            "all"
        } else {
            "one, drawn by weight"
        }
        .to_owned(),
    );
    settings
}

fn request_settings(preset: &str, plan: &Plan) -> BTreeMap<String, String> {
    let mut settings = BTreeMap::new();
    let mut set = |name: &str, value: String| settings.insert(name.to_owned(), value);
    let mut shapes: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for cell in &plan.cells {
        // An arm of that preset is a transport.
        let protocols = plan
            .arms
            .get(cell.arm)
            .zip(plan.links.get(cell.link))
            .filter(|_| preset != "transport");
        if let Some((arm, link)) = protocols {
            set(
                &format!("transport of {}", arm.name),
                link.protocol.name().to_owned(),
            );
            shapes
                .entry(&arm.name)
                .or_default()
                .insert(link.shape.to_string());
        }
        let (arm, subject) = (plan.arms.get(cell.arm), plan.subjects.get(cell.subject));
        let of = arm
            .zip(subject)
            .map(|(arm, subject)| format!("request of {} about {}", arm.name, subject.name));
        set(&of.unwrap_or_default(), cell.method.clone());
    }
    for (arm, shapes) in shapes {
        set(
            &format!("added to the link of {arm}"),
            shapes.into_iter().collect::<Vec<_>>().join(", "),
        );
    }
    settings
}

fn header(preset: &str, plan: &Plan, notes: Vec<String>) -> Header {
    let mut nodes: Vec<String> = plan
        .links
        .iter()
        .map(|link| link.endpoint.shown())
        .collect();
    if preset == "run" || plan.links.iter().any(|link| !link.shape.is_none()) {
        let mut known = BTreeSet::new();
        nodes.retain(|node| known.insert(node.clone()));
    }
    // The transport preset compares reads with writes.
    let verified =
        preset == "transport" || plan.cells.iter().any(|cell| cell.expected.is_verified());
    let started = clock::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Header {
        preset: preset.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_unix_ns: i64::try_from(started.as_nanos()).unwrap_or(i64::MAX),
        nodes,
        notes,
        settings: settings(preset, plan),
        links: links(plan),
        arms: plan.arms.iter().map(|arm| arm.name.clone()).collect(),
        verdicts: vec![Verdict::default(); plan.arms.len()],
        seed: plan.seed,
        rounds: plan.rounds,
        warm_up: plan.warm_up,
        workers: plan.workers,
        rate: plan.rate,
        refusals: BTreeMap::new(),
        messages: BTreeMap::new(),
        max_failures: plan.max_failures.or(verified.then_some(0.0)),
        stopped_by: None,
        own_cpu_ns: None,
        own_cost: None,
        length_ns: 0,
        disks: Vec::new(),
    }
}

fn heads(plan: &Plan, sizes: &[Option<u64>]) -> Vec<CellHead> {
    let head = |cell: &Cell| {
        let (arm, subject) = (plan.arms.get(cell.arm), plan.subjects.get(cell.subject));
        CellHead {
            arm: arm.map_or_else(String::new, |arm| arm.name.clone()),
            subject: subject.map_or_else(String::new, |subject| subject.name.clone()),
            size: sizes.get(cell.subject).copied().flatten(),
        }
    };
    plan.cells.iter().map(head).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::Endpoint;
    use crate::plan::{Arm, LinkKind};
    use crate::stream::Shape;

    #[test]
    fn transport_and_link_of_every_arm_are_settings() {
        let of = |protocol, shape| {
            let endpoint = Endpoint::read("http://node").unwrap();
            let links = vec![LinkKind {
                endpoint,
                shape: Shape::read(shape).unwrap(),
                protocol,
            }];
            let arms = vec![Arm {
                name: "a".to_owned(),
            }];
            settings(
                "run",
                &Plan {
                    links,
                    arms,
                    ..crate::plan::tests::plan(1, 1)
                },
            )
        };
        let (one, other) = (of(Protocol::Http, "0ms"), of(Protocol::Http2, "30ms"));
        for name in ["transport of a", "added to the link of a"] {
            assert!(one[name] != other[name], "{one:?} {other:?}");
        }
    }
}
