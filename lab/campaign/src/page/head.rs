//! The headline's sentence and the first figure.

use crate::{
    compare::{Release, ReleaseGroup},
    verdict::Verdict,
};
use faultline_pages::{
    effects,
    model::{Block, ForestRow, Tone},
};
use itertools::Itertools;

/// The first difference of the newest release that has one; differences for the worse come first.
pub fn sentence(groups: &[ReleaseGroup]) -> Option<String> {
    groups.iter().find_map(|group| {
        let (release, test) = group.releases.iter().rev().find_map(|release| {
            let marked = release
                .tests
                .iter()
                .filter(|test| test.verdict.is_difference());
            Some((release, marked.min_by_key(|test| !test.verdict.is_worse())?))
        })?;
        let metric = test.metric;
        let effect = effects::effect_text(test.ratio_test.ratio.value_and_ends());
        let means = effects::means_text(test.means, metric.unit, metric.decimals, "instead of");
        let arms = [&*group.conditions.baseline, &*release.version];
        Some(effects::sentence(metric.title, &effect, arms, &means))
    })
}

/// The newest release that has ratios, against its baseline.
pub fn effects(groups: &[ReleaseGroup]) -> Option<Block> {
    groups.iter().find_map(|group| {
        group
            .releases
            .iter()
            .rev()
            .find_map(|release| forest(group, release))
    })
}

fn forest(group: &ReleaseGroup, release: &Release) -> Option<Block> {
    let tests = release
        .tests
        .iter()
        .filter(|test| test.verdict != Verdict::NotComparable)
        .sorted_by_key(|test| !test.verdict.is_difference());
    let rows = tests.map(|test| {
        let [value, low, high] = test.ratio_test.ratio.value_and_ends();
        ForestRow {
            name: test.metric.title.to_owned(),
            ratio: (value, Some((low, high))),
            text: effects::effect_text([value, low, high]),
            tone: match test.verdict {
                verdict if !verdict.is_difference() => Tone::Neutral,
                verdict if verdict.is_worse() => Tone::Worse,
                _ => Tone::Better,
            },
        }
    });
    let x_label = format!("{} against {}", release.version, group.conditions.baseline);
    let caption = "Geometric means of the ratios of pairs of runs, with 95 % intervals. \u{2713} better and \u{2717} worse are the \
                   marks of the table below.";
    let title = format!("What changed with {}", release.version);
    effects::forest(&title, x_label, caption, rows)
}

#[cfg(test)]
mod tests {
    use super::super::report;
    use crate::{
        compare::{self, tests::runs},
        settings::Campaign,
    };
    use faultline_pages::{model::VerdictKind, render};
    use faultline_testkit::browser::{Browser, LAYOUT_PROBLEMS_SCRIPT, SKIP_MESSAGE};
    use std::path::Path;

    #[test]
    fn the_page_begins_with_the_worst_effect_and_its_figure() {
        let campaign = Campaign {
            name: "Releases".to_owned(),
            margin: 0.05,
            ..Campaign::default()
        };
        let all = [runs("1.1.0", 1.0, 1), runs("1.2.0", 1.08, 2)].concat();
        let report = report(&campaign, &compare::release_groups(&all, 0.05), &[]);
        assert_eq!(report.verdict.kind, VerdictKind::Worse);
        assert_eq!(
            report.verdict.headline,
            "Replay time per slot, p95, is 8.0 % higher (7.6 to 8.4 %) with 1.2.0 than with 1.0.0: 71.3 instead of 66.0 ms. \
             One difference beyond 5 % is shown."
        );
        let folder = tempfile::tempdir().unwrap();
        let page = render::write(&report, folder.path(), true).unwrap().page;
        if !Browser::is_installed() {
            println!("{SKIP_MESSAGE}");
            return;
        }
        let pictures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/campaign-pages");
        std::fs::create_dir_all(&pictures).unwrap();
        let mut browser = Browser::start().unwrap();
        let widths = [1400, 390, 360].into_iter();
        for (width, dark) in widths.flat_map(|width| [(width, false), (width, true)]) {
            browser.window(width, 900, dark).unwrap();
            browser.open(&page).unwrap();
            assert_eq!(
                browser.evaluate(LAYOUT_PROBLEMS_SCRIPT).unwrap(),
                serde_json::json!([]),
                "{width}"
            );
            let top = "document.querySelector('#Figure-effects svg').getBoundingClientRect().top < innerHeight";
            assert_eq!(browser.evaluate(top).unwrap(), true, "{width}");
            let picture = pictures.join(format!("{width}-{dark}.png"));
            browser.screenshot(&picture, true).unwrap();
        }
    }
}
