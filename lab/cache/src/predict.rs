use crate::{
    args::PredictArgs,
    predicted_run::{interval_text, number_or_dash},
};
use anyhow::{Result, ensure};
use faultline_cache_prediction::prediction::{Prediction, PredictionInput, SizePrediction, sizes};
use faultline_common::{
    evidence::{today, update},
    output::{json, print},
};
use faultline_status::{CacheEvidence, PredictedSize};
use faultline_text::{bytes, count, number, table};
use itertools::Itertools;
use std::path::Path;

pub fn run(args: &PredictArgs) -> Result<(String, u8)> {
    let input = PredictionInput::read(&args.run, &args.input)?;
    let prediction = Prediction::of(&input, &sizes(&args.sizes, input.entries))?;
    let text = match (args.json, args.csv) {
        (true, _) => json(&prediction)?,
        (_, true) => csv(&prediction),
        _ => text_report(&prediction),
    };
    if let Some(path) = &args.evidence
        && let Err(error) = write_evidence(path, &prediction, input.counted_slots() as f64)
    {
        print(&text)?;
        return Err(error);
    }
    Ok((text, u8::from(!prediction.self_test_passed)))
}

/// The predicted times are sums over `slots`, also over those without recorded counters.
fn write_evidence(path: &Path, prediction: &Prediction, slots: f64) -> Result<()> {
    let sizes = (prediction.sizes.iter())
        .filter_map(|size| {
            Some(PredictedSize {
                entries: size.entries,
                seconds_per_slot: size.seconds?.mean / slots,
            })
        })
        .collect_vec();
    ensure!(
        !sizes.is_empty(),
        "{} is not written: no size has a predicted time",
        path.display()
    );
    let cache = CacheEvidence {
        sizes,
        enough_entries: prediction.enough_entries,
        release: Some(prediction.version.clone()),
        measured: today(),
    };
    update(path, |evidence| evidence.program_cache = Some(cache))
}

fn text_report(prediction: &Prediction) -> String {
    let coverage = prediction
        .coverage_percent
        .map_or("an unknown share".to_owned(), |percent| {
            format!("{} %", number(percent, 2))
        });
    let mut text = format!(
        "Agave {}, recorded with a cache of {} entries; the trace covers {coverage} of the recorded transactions\n\nThe recorded size, predicted:\n",
        prediction.version,
        count(prediction.recorded_entries),
    );
    let rows = prediction.self_test.iter().map(|counter| {
        vec![
            counter.name.to_owned(),
            count(counter.recorded),
            number(counter.predicted, 0),
            number_or_dash(counter.bias_percent, 1),
        ]
    });
    text += &table(
        &["counter", "recorded", "predicted", "off by %"],
        rows.collect(),
    );
    if !prediction.self_test_passed {
        text += "\nThe counters at the recorded size are not predicted within 10 %, so no other size is predicted.\n";
        if prediction.weaknesses.is_empty() {
            text += "No reason is visible in the recording and the trace.\n";
        }
    }
    if !prediction.weaknesses.is_empty() {
        text += "\nKnown to weaken predictions:\n";
        for reason in &prediction.weaknesses {
            text += &format!("  {reason}\n");
        }
    }
    if prediction.self_test_passed {
        text += &other_sizes(prediction);
    }
    text
}

fn other_sizes(prediction: &Prediction) -> String {
    let mut text = format!(
        "\nMean of {} simulated runs (a further run is inside the interval with a probability of 95 %):\n",
        count(prediction.simulated_run_count)
    );
    text += &size_table(prediction);
    if !prediction.sizes_with_unknown_start.is_empty() {
        let mut sizes = prediction
            .sizes_with_unknown_start
            .iter()
            .map(|entries| count(*entries));
        text += &format!(
            "Nothing can be predicted for {} entries: their misses depend on the cache's unknown content when the recording began.\n",
            sizes.join(", ")
        );
    }
    text += &match prediction.enough_entries {
        Some(entries) => format!(
            "{} entries are enough: no larger size in the table saves 1 % of replay time.\n",
            count(entries)
        ),
        None => {
            "It is not known which size is enough: the recording has no replay time, or no time is predicted for the recorded size.\n".to_owned()
        }
    };
    text
}

fn size_table(prediction: &Prediction) -> String {
    let row = |size: &SizePrediction| {
        let mark = if size.entries == prediction.recorded_entries {
            " (recorded)"
        } else {
            ""
        };
        vec![
            format!("{}{mark}", count(size.entries)),
            interval_text(size.misses, 0),
            interval_text(size.reloads, 0),
            interval_text(size.evictions, 0),
            size.seconds
                .map_or("-".to_owned(), |seconds| interval_text(seconds, 2)),
            size.code_bytes
                .map_or("-".to_owned(), |code| bytes(code.mean.round() as u64)),
        ]
    };
    let heads = [
        "entries",
        "misses",
        "reloads",
        "evictions",
        "cache time, s",
        "code in cache",
    ];
    table(&heads, prediction.sizes.iter().map(row).collect())
}

fn csv(prediction: &Prediction) -> String {
    let mut text = "entries".to_owned();
    for name in [
        "misses",
        "reloads",
        "evictions",
        "insertions",
        "seconds",
        "code_bytes",
    ] {
        text += &format!(",{name},{name}_low,{name}_high");
    }
    text += "\n";
    for size in &prediction.sizes {
        text += &size.entries.to_string();
        for range in [size.misses, size.reloads, size.evictions, size.insertions]
            .map(Some)
            .into_iter()
            .chain([size.seconds, size.code_bytes])
        {
            text += &range.map_or(",,,".to_owned(), |r| {
                format!(",{},{},{}", r.mean, r.low, r.high)
            });
        }
        text += "\n";
    }
    text
}
