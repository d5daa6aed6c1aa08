use super::*;

fn texts(all: &[&str]) -> Vec<String> {
    all.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn every_arm_caveat_is_full_sentences_with_its_numbers() {
    check(
        one_run(&texts(&["512", "1024"])),
        &["512, 1024", "single run"],
    );
    check(too_few_runs(&texts(&["512"])), &["512", "3"]);
    check(loads_differ(&[4742.3, 3800.4]), &["3,800 to 4,742"]);
    check(loads_differ(&[]), &["same slots"]);
    let kernels = texts(&["6.1", "6.8"]);
    check(
        values_differ("Kernels differ", &kernels, ", ", "Boot one."),
        &["6.1, 6.8"],
    );
    check(hit_counts_differ(&texts(&["2.1.14"])), &["hits", "4.4"]);
    check(one_after_the_other("512", "1024"), &["512", "1024"]);
}

#[test]
fn time_at_the_tip_is_reported_or_unknown() {
    for (seconds_at_tip, fact) in [
        (Some(600.0), "10 min of 12 h"),
        (Some(0.0), "never"),
        (None, "not known"),
    ] {
        let text = at_tip(seconds_at_tip, 43_200.0);
        assert!(text.contains(fact), "{text}");
    }
}

#[test]
fn every_run_caveat_is_full_sentences_with_its_numbers() {
    let check_run = |(what, remedy): WhatAndRemedy, facts: &[&str]| {
        check(Caveat::new(format!("512, run 1: {what}."), remedy), facts);
    };
    check_run(not_watched(&[61.0]), &["1 stretch ", "1 min 1 s"]);
    check_run(restarted(2), &["2 times"]);
    check_run(unknown_seconds(7, 43_200), &["7 of 43200"]);
    check_run(cache_size(512, 1024), &["1024", "512"]);
}

#[track_caller]
fn check(caveat: Caveat, facts: &[&str]) {
    for fact in facts {
        assert!(
            caveat.what.contains(fact),
            "{fact:?} is not in {:?}",
            caveat.what
        );
    }
    for text in [&caveat.what, &caveat.remedy] {
        assert!(
            text.ends_with('.') && !text.contains("  ") && !text.contains("NaN"),
            "{text:?}"
        );
    }
}
