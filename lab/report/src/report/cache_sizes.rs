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
pub fn section(subjects: &MeasuredRuns) -> Option<Section> {
    let (mut blocks, mut predicted, mut without_trace) = (Vec::new(), Vec::new(), Vec::new());
    for run in &subjects.all {
        match &run.recording.program_cache_prediction {
            Some(Ok(prediction)) => predicted.push((run, prediction)),
            Some(Err(why)) => blocks.push(Block::Text(format!(
                "{}: nothing is predicted: {why}.",
                run.name
            ))),
            None if run.recording.points.cache.is_empty() => {}
            None => without_trace.push(&run.recording.file),
        }
    }
    if !predicted.is_empty() {
        blocks.push(self_test_table(&predicted));
        let several = predicted.len() > 1;
        let sentences = predicted.iter().flat_map(|run| sentences(run, several));
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
        "{recordings}, so other sizes are not predicted. To read one from public blocks: faultline cache fetch {first} --rpc URL. Then \
         report again."
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
    for (subject, prediction) in predicted {
        let cells = |counter: &CounterPrediction| {
            [
                text_cell(counter.name),
                number_cell(prediction.recorded_entries as f64, 0),
                number_cell(counter.recorded as f64, 0),
                number_cell(counter.predicted, 0),
                number_or(counter.bias_percent, 1, "none was recorded"),
            ]
        };
        let rows = prediction.self_test.iter();
        table
            .rows
            .extend(rows.map(|counter| row(&subject.name, cells(counter))));
    }
    Block::Table(table)
}

fn sentences((subject, prediction): &PredictedRun<'_>, several: bool) -> Vec<String> {
    let mut sentences = Vec::new();
    let reasons = prediction.reasons.join("; ");
    if !prediction.self_test_passed {
        let visible = if reasons.is_empty() {
            "none in the recording and the trace"
        } else {
            &reasons
        };
        sentences.push(format!(
            "The counters at the recorded size are not predicted within 10 %, so no other size is predicted. Visible reasons: {visible}."
        ));
    } else {
        if !reasons.is_empty() {
            sentences.push(format!("Known to weaken predictions: {reasons}."));
        }
        sentences.push(match prediction.enough_entries {
            Some(entries) => format!(
                "{} entries are enough: no larger size of the table saves 1 % of the replay time.",
                count(entries)
            ),
            None => format!("Which size is enough is not known: {NO_TIMES}."),
        });
    }
    if !prediction.unknown.is_empty() {
        let sizes = prediction.unknown.iter().map(|entries| count(*entries));
        sentences.push(format!(
            "Nothing can be predicted for {} entries: their misses depend on the cache's unknown content when the recording began.",
            sizes.format(", ")
        ));
    }
    if several {
        for sentence in &mut sentences {
            *sentence = format!("{}: {sentence}", subject.name);
        }
    }
    sentences
}

fn sizes_table(passed: &[PredictedRun<'_>]) -> Block {
    let seeds = passed.iter().map(|(_, prediction)| count(prediction.seeds));
    let shown = if seeds.clone().all_equal() {
        1
    } else {
        passed.len()
    };
    let note = format!(
        "Means of {} simulated runs. If the workload is the same, the interval contains one more real run with a probability of 95 %. \
         Cache time is program_cache_us, summed over threads, from costs fitted to the recorded slots. Code is that of the programs in \
         the cache at the end; compiled code is several times as large.",
        seeds.take(shown).format(", ")
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
            "Code in it [MiB]",
        ],
        &note,
    );
    for (subject, prediction) in passed {
        let ends = |range: PredictiveInterval| [range.mean, range.low, range.high];
        let cells = |size: &SizePrediction| {
            let code = size
                .code_bytes
                .map(ends)
                .map(|ends| ends.map(|bytes| bytes / MIB));
            let is_recorded = size.entries == prediction.recorded_entries;
            [
                number_cell(size.entries as f64, 0),
                text_cell(if is_recorded { "yes" } else { "no" }),
                estimate(ends(size.misses), 0),
                estimate(ends(size.reloads), 0),
                estimate(ends(size.evictions), 0),
                estimate_or(size.seconds.map(ends), 2, NO_TIMES),
                estimate_or(code, 2, NO_SIZES),
            ]
        };
        let rows = prediction.sizes.iter();
        table
            .rows
            .extend(rows.map(|size| row(&subject.name, cells(size))));
    }
    Block::Table(without_missing_columns(table))
}

/// Id, title, label, unit, value of a size, and recorded value.
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
        .find(|known| known.name == counter)?
        .recorded;
    Some(recorded as f64)
}

fn figures(passed: &[PredictedRun<'_>]) -> impl Iterator<Item = Block> {
    let caption = "Lines: means of simulated runs. The band contains one more real run with a probability of 95 %. The diamond is the recorded value.";
    FIGURES
        .into_iter()
        .filter_map(move |(id, title, label, unit, value, recorded)| {
            let curves = passed.iter().map(|(subject, prediction)| {
                let points = prediction.sizes.iter().filter_map(|size| {
                    let range = value(size)?;
                    Some((
                        size.entries as f64,
                        (range.mean, Some((range.low, range.high))),
                    ))
                });
                let recorded = recorded(prediction);
                Curve {
                    name: match passed.len() {
                        1 => "predicted".to_owned(),
                        _ => subject.name.clone(),
                    },
                    run: subject.id.clone(),
                    points: points.collect(),
                    recorded: recorded.map(|value| (prediction.recorded_entries as f64, value)),
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
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Run;
    use faultline_stats::block::IntervalPlan;

    fn range(mean: f64) -> PredictiveInterval {
        PredictiveInterval {
            mean,
            low: mean * 0.9,
            high: mean * 1.1,
        }
    }

    fn prediction() -> Prediction {
        let size = |entries: u64| SizePrediction {
            entries,
            misses: range(1e6 / entries as f64),
            reloads: range(900.0),
            evictions: range(800.0),
            insertions: range(100.0),
            seconds: None,
            code_bytes: Some(range(entries as f64 * MIB)),
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
            seeds: 8,
            self_test: vec![counter],
            self_test_passed: true,
            reasons: vec!["it began after the start".to_owned()],
            recorded_seconds: None,
            slots: 100,
            sizes: vec![size(256), size(512)],
            unknown: vec![1_024, 2_048],
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
        let run = Run {
            file: "run.fltl".to_owned(),
            cache_sizes: Some(prediction),
            ..Run::default()
        };
        let subjects = MeasuredRuns::new([run], &IntervalPlan::default(), &[]);
        let (mut texts, mut charts, mut tables) = (Vec::new(), Vec::new(), Vec::new());
        for block in section(&subjects).unwrap().blocks {
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
        assert_eq!(misses.series[0].recorded, Some((512.0, 2_000.0)));
        let [_, sizes] = tables.as_slice() else {
            panic!("{tables:?}")
        };
        let titles: Vec<&str> = sizes
            .columns
            .iter()
            .map(|column| column.title.as_str())
            .collect();
        assert!(
            titles.contains(&"Code in it") && !titles.contains(&"Cache time"),
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
            unknown: Vec::new(),
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
