//! The predicted counters and times of the program cache at other sizes.

use super::{
    cells::{
        self, estimate, estimate_or, figure, number_cell, number_or, row, table, text_cell,
        without_missing_columns,
    },
    measured_run::{MeasuredRun, MeasuredRuns},
    model::{Block, Chart, Curve, Curves, Section},
};
use faultline_cache_prediction::prediction::{
    CounterPrediction, Prediction, PredictiveInterval, SizePrediction,
};
use faultline_text::count;
use itertools::Itertools;

const MIB: f64 = 1_048_576.0;
const NO_TIMES: &str = "the recording does not have the times of replay";
const NO_SIZES: &str = "the trace does not have the sizes of programs";

type PredictedRun<'a> = (&'a MeasuredRun, &'a Prediction);

/// `None` if no run has data of the program cache.
pub fn section(runs: &MeasuredRuns) -> Option<Section> {
    let (mut blocks, mut predicted, mut without_trace) = (Vec::new(), Vec::new(), Vec::new());
    for run in &runs.all {
        match &run.recording.program_cache_prediction {
            Some(Ok(prediction)) => predicted.push((run, prediction)),
            Some(Err(error)) => blocks.push(Block::Text(format!(
                "{}: nothing is predicted: {error}.",
                run.name
            ))),
            None if run.recording.points.cache.is_empty() => {}
            None => without_trace.push(&run.recording.file),
        }
    }
    if !predicted.is_empty() {
        blocks.push(self_test_table(&predicted));
        let several = predicted.len() > 1;
        let sentences = predicted
            .iter()
            .flat_map(|predicted_run| sentences(predicted_run, several));
        blocks.extend(sentences.map(Block::Text));
    }
    predicted.retain(|(_, prediction)| !prediction.sizes.is_empty());
    if !predicted.is_empty() {
        blocks.push(sizes_table(&predicted));
        blocks.extend(figures(&predicted));
    }
    blocks.extend(sentence_without_trace(&without_trace).map(Block::Text));
    (!blocks.is_empty())
        .then(|| cells::section("cache-sizes", "Program cache at other sizes", blocks))
}

fn sentence_without_trace(files: &[&String]) -> Option<String> {
    let first = files.first()?;
    let recordings = match files.len() {
        1 => format!("{first} has no trace next to it"),
        many => format!(
            "{} recordings have no trace next to them",
            count(many as u64)
        ),
    };
    Some(format!(
        "{recordings}, so other sizes are not predicted. To make a trace from public blocks: faultline cache fetch {first} --rpc URL. \
         Then report again."
    ))
}

fn self_test_table(predicted: &[PredictedRun<'_>]) -> Block {
    let note = "The recorded size, simulated with the lookups of public blocks: predicted counters against recorded ones. If a \
                counter is off by more than 10 % (by more than 10 if fewer than 100 were recorded), no other size is predicted.";
    let mut table = table(
        "cache-self-test",
        "The recorded size, predicted",
        &[
            "Run",
            "Counter",
            "Entries",
            "Recorded",
            "Predicted",
            "Off by [%]",
        ],
        note,
    );
    for (run, prediction) in predicted {
        let cells = |counter: &CounterPrediction| {
            [
                text_cell(counter.name),
                number_cell(prediction.recorded_entries as f64, 0),
                number_cell(counter.recorded as f64, 0),
                number_cell(counter.predicted, 0),
                number_or(counter.bias_percent, 1, "none was recorded"),
            ]
        };
        table.rows.extend(
            prediction
                .self_test
                .iter()
                .map(|counter| row(&run.name, cells(counter))),
        );
    }
    Block::Table(table)
}

fn sentences((run, prediction): &PredictedRun<'_>, several: bool) -> Vec<String> {
    let mut sentences = Vec::new();
    let weaknesses = prediction.weaknesses.join("; ");
    if !prediction.self_test_passed {
        let visible_reasons = if weaknesses.is_empty() {
            "none in the recording and the trace"
        } else {
            &weaknesses
        };
        sentences.push(format!(
            "The counters at the recorded size are not predicted within 10 %, so no other size is predicted. Visible reasons: {visible_reasons}."
        ));
    } else {
        if !weaknesses.is_empty() {
            sentences.push(format!("Known to weaken predictions: {weaknesses}."));
        }
        sentences.push(match prediction.enough_entries {
            Some(entries) => format!(
                "{} entries are enough: no larger size of the table saves 1 % of the replay time.",
                count(entries)
            ),
            None => format!(
                "Which size is enough is not known: {NO_TIMES}, or the recorded size has no predicted time."
            ),
        });
    }
    if !prediction.sizes_with_unknown_start.is_empty() {
        let sizes = prediction
            .sizes_with_unknown_start
            .iter()
            .map(|entries| count(*entries));
        sentences.push(format!(
            "Nothing can be predicted for {} entries: their misses depend on the cache's unknown content when the recording began.",
            sizes.format(", ")
        ));
    }
    if several {
        for sentence in &mut sentences {
            *sentence = format!("{}: {sentence}", run.name);
        }
    }
    sentences
}

fn sizes_table(with_sizes: &[PredictedRun<'_>]) -> Block {
    let run_counts = with_sizes
        .iter()
        .map(|(_, prediction)| count(prediction.simulated_run_count));
    let shown_counts = if run_counts.clone().all_equal() {
        1
    } else {
        with_sizes.len()
    };
    let note = format!(
        "Means of {} simulated runs. If the workload is the same, the interval contains one more real run with a probability of 95 %. \
         Cache time predicts program_cache_us, summed over threads: the predicted counts times the costs that were fitted to the recorded \
         slots. Code in the cache is that of its programs at the end; compiled, it is several times as large.",
        run_counts.take(shown_counts).format(", ")
    );
    let mut table = table(
        "cache-sizes",
        "The program cache at other sizes",
        &[
            "Run",
            "Entries",
            "Recorded",
            "Misses",
            "Reloads",
            "Evictions",
            "Cache time [s]",
            "Code in the cache [MiB]",
        ],
        &note,
    );
    for (run, prediction) in with_sizes {
        let mean_and_ends =
            |interval: PredictiveInterval| [interval.mean, interval.low, interval.high];
        let cells = |size: &SizePrediction| {
            let code = size
                .code_bytes
                .map(mean_and_ends)
                .map(|values| values.map(|bytes| bytes / MIB));
            [
                number_cell(size.entries as f64, 0),
                text_cell(if size.entries == prediction.recorded_entries {
                    "yes"
                } else {
                    "no"
                }),
                estimate(mean_and_ends(size.misses), 0),
                estimate(mean_and_ends(size.reloads), 0),
                estimate(mean_and_ends(size.evictions), 0),
                estimate_or(size.seconds.map(mean_and_ends), 2, NO_TIMES),
                estimate_or(code, 2, NO_SIZES),
            ]
        };
        table.rows.extend(
            prediction
                .sizes
                .iter()
                .map(|size| row(&run.name, cells(size))),
        );
    }
    Block::Table(without_missing_columns(table))
}

/// Id, title, axis label, unit, predicted value at a size, and recorded value.
type SizeFigure = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    fn(&SizePrediction) -> Option<PredictiveInterval>,
    fn(&Prediction) -> Option<f64>,
);

const FIGURES: [SizeFigure; 5] = [
    (
        "cache-sizes-misses",
        "Misses by size",
        "Misses",
        "",
        |size| Some(size.misses),
        |prediction| recorded_count(prediction, "misses"),
    ),
    (
        "cache-sizes-reloads",
        "Reloads by size",
        "Reloads",
        "",
        |size| Some(size.reloads),
        |prediction| recorded_count(prediction, "reloads"),
    ),
    (
        "cache-sizes-evictions",
        "Evictions by size",
        "Evictions",
        "",
        |size| Some(size.evictions),
        |prediction| recorded_count(prediction, "evictions"),
    ),
    (
        "cache-sizes-time",
        "Program cache time by size",
        "Time (s)",
        "",
        |size| size.seconds,
        |prediction| prediction.recorded_seconds,
    ),
    (
        "cache-sizes-code",
        "Code in the program cache by size",
        "Code",
        "B",
        |size| size.code_bytes,
        |_| None,
    ),
];

fn recorded_count(prediction: &Prediction, counter: &str) -> Option<f64> {
    let recorded = prediction
        .self_test
        .iter()
        .find(|tested| tested.name == counter)?
        .recorded;
    Some(recorded as f64)
}

fn figures(with_sizes: &[PredictedRun<'_>]) -> impl Iterator<Item = Block> {
    let caption = "Lines: means of simulated runs. The band contains one more real run with a probability of 95 %. The diamond is the recorded value.";
    FIGURES.into_iter().filter_map(
        move |(id, title, label, unit, predicted_value, recorded_value)| {
            let curves = with_sizes.iter().map(|(run, prediction)| {
                let points = prediction.sizes.iter().filter_map(|size| {
                    let interval = predicted_value(size)?;
                    Some((
                        size.entries as f64,
                        (interval.mean, Some((interval.low, interval.high))),
                    ))
                });
                Curve {
                    name: match with_sizes.len() {
                        1 => "predicted".to_owned(),
                        _ => run.name.clone(),
                    },
                    run: run.id.clone(),
                    points: points.collect(),
                    highlight: recorded_value(prediction)
                        .map(|value| (prediction.recorded_entries as f64, value)),
                }
            });
            let chart = Curves {
                x_label: "Entries of the program cache".to_owned(),
                y_label: label.to_owned(),
                unit: unit.to_owned(),
                series: curves.filter(|curve| !curve.points.is_empty()).collect(),
                ..Curves::default()
            };
            (!chart.series.is_empty()).then(|| figure(id, title, caption, Chart::Curves(chart)))
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Run;
    use faultline_stats::block_bootstrap::IntervalPlan;

    fn interval(mean: f64) -> PredictiveInterval {
        PredictiveInterval {
            mean,
            low: mean * 0.9,
            high: mean * 1.1,
        }
    }

    fn prediction() -> Prediction {
        let size = |entries: u64| SizePrediction {
            entries,
            misses: interval(1e6 / entries as f64),
            reloads: interval(900.0),
            evictions: interval(800.0),
            insertions: interval(100.0),
            seconds: None,
            code_bytes: Some(interval(entries as f64 * MIB)),
        };
        let counter = CounterPrediction {
            name: "misses",
            recorded: 2_000,
            predicted: 1_950.0,
            bias_percent: Some(-2.5),
        };
        Prediction {
            version: "2.1.14".to_owned(),
            recorded_entries: 512,
            coverage_percent: Some(99.0),
            simulated_run_count: 8,
            self_test: vec![counter],
            self_test_passed: true,
            weaknesses: vec!["it began after the start".to_owned()],
            recorded_seconds: None,
            slots: 100,
            sizes: vec![size(256), size(512)],
            sizes_with_unknown_start: vec![1_024, 2_048],
            enough_entries: None,
        }
    }

    fn parts_of_section(
        prediction: Result<Prediction, String>,
    ) -> (
        Vec<String>,
        Vec<(String, Chart)>,
        Vec<super::super::model::Table>,
    ) {
        let recording = Run {
            file: "run.fltl".to_owned(),
            program_cache_prediction: Some(prediction),
            ..Run::default()
        };
        let runs = MeasuredRuns::new([recording], &IntervalPlan::default(), &[]);
        let (mut texts, mut charts, mut tables) = (Vec::new(), Vec::new(), Vec::new());
        for block in section(&runs).unwrap().blocks {
            match block {
                Block::Text(text) => texts.push(text),
                Block::Figure(figure) => charts.push((figure.id, figure.chart)),
                Block::Table(table) => tables.push(table),
                Block::Fold(_) => {}
            }
        }
        (texts, charts, tables)
    }

    #[test]
    fn memory_is_plotted_for_known_sizes_and_unknowns_are_stated() {
        let (texts, charts, tables) = parts_of_section(Ok(prediction()));
        let texts = texts.join("\n");
        assert!(
            texts.contains("Known to weaken predictions: it began after the start."),
            "{texts}"
        );
        assert!(
            texts.contains("Nothing can be predicted for 1,024, 2,048 entries"),
            "{texts}"
        );
        assert!(
            texts.contains("Which size is enough is not known"),
            "{texts}"
        );
        let ids: Vec<&str> = charts.iter().map(|(id, _)| id.as_str()).collect();
        // There is no figure of times if no times are predicted.
        assert_eq!(
            ids,
            [
                "cache-sizes-misses",
                "cache-sizes-reloads",
                "cache-sizes-evictions",
                "cache-sizes-code"
            ]
        );
        let Some((_, Chart::Curves(code))) = charts.last() else {
            panic!("{charts:?}")
        };
        assert_eq!((code.unit.as_str(), code.series.len()), ("B", 1));
        assert_eq!(
            code.series[0].points[1],
            (
                512.0,
                (512.0 * MIB, Some((512.0 * MIB * 0.9, 512.0 * MIB * 1.1)))
            )
        );
        let Some((_, Chart::Curves(misses))) = charts.first() else {
            panic!("{charts:?}")
        };
        assert_eq!(misses.series[0].highlight, Some((512.0, 2_000.0)));
        let [_, sizes] = tables.as_slice() else {
            panic!("{tables:?}")
        };
        let titles: Vec<&str> = sizes
            .columns
            .iter()
            .map(|column| column.title.as_str())
            .collect();
        assert!(
            titles.contains(&"Code in the cache") && !titles.contains(&"Cache time"),
            "{titles:?}"
        );
        assert!(
            sizes.note.contains("Means of 8 simulated runs") && sizes.note.contains(NO_TIMES),
            "{}",
            sizes.note
        );
    }

    #[test]
    fn a_failed_self_test_shows_only_its_table_and_reasons() {
        let failed = Prediction {
            self_test_passed: false,
            sizes: Vec::new(),
            sizes_with_unknown_start: Vec::new(),
            ..prediction()
        };
        let (texts, charts, tables) = parts_of_section(Ok(failed));
        assert!(charts.is_empty() && tables.len() == 1);
        assert!(
            texts[0]
                .contains("no other size is predicted. Visible reasons: it began after the start."),
            "{texts:?}"
        );
        let (texts, charts, tables) = parts_of_section(Err("the trace is damaged".to_owned()));
        assert!(charts.is_empty() && tables.is_empty());
        assert_eq!(texts, ["run: nothing is predicted: the trace is damaged."]);
    }
}
