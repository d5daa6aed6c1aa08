use super::*;
use faultline_catalog::metrics::{daemon, pools, process, validator};
use faultline_testkit::expose;
use proptest::prelude::*;

const PAGE: &str = include_str!("../../../../lab/tests/fixtures/top/at_tip.prom");

#[test]
fn every_sample_of_a_captured_page_is_read_as_the_strict_witness_reads_it() {
    let strict = expose::parse_text(PAGE).unwrap();
    let ours = Page::read(PAGE);
    assert_eq!(ours.samples.len(), strict.samples.len());
    for (ours, strict) in ours.samples.iter().zip(&strict.samples) {
        assert_eq!((&ours.name, ours.value), (&strict.name, strict.value));
        assert_eq!(
            ours.labels
                .iter()
                .cloned()
                .collect::<std::collections::BTreeMap<_, _>>(),
            strict.labels
        );
    }
}

#[test]
fn values_are_found_by_the_catalogs_names_whatever_labels_are_added() {
    let page = Page::read(
        "# HELP agave_up x\nagave_up{cluster=\"a\"} 1\n\
         agave_process_page_faults_total{cluster=\"a\",type=\"major\"} 7\n\
         agave_process_page_faults_total{type=\"minor\",cluster=\"a\"} 8 1700000000000\n\
         agave_target_info{identity=\"\",version=\"2.1\\n\\\"\\\\\"} 1\n\
         agave_replay_slot_seconds_bucket{part=\"total\",le=\"0.5\"} 3 # {trace=\"x\"} 0.4\n\
         agave_replay_slot_seconds_bucket{part=\"total\",le=\"+Inf\"} 4\n\
         agave_slots_behind NaN\n",
    );
    assert_eq!(page.flag(&process::UP, &[]), Some(true));
    assert_eq!(page.get(&process::PAGE_FAULTS, &["minor"]), Some(8.0));
    assert_eq!(page.sum(&process::PAGE_FAULTS, &[]), Some(15.0));
    assert_eq!(
        page.label(&process::TARGET_INFO, "version"),
        Some("2.1\n\"\\")
    );
    assert_eq!(page.label(&process::TARGET_INFO, "identity"), None);
    assert_eq!(
        page.buckets(&validator::REPLAY_TIME, &["total"]),
        [(0.5, 3.0), (f64::INFINITY, 4.0)]
    );
    assert_eq!(page.get(&validator::SLOTS_BEHIND, &[]), None);
    assert_eq!(page.sum(&pools::PAGE_FAULTS, &[]), None);
    assert!(!page.is_ours());
    assert!(Page::read("faultline_build_info{version=\"1\"} 1").is_ours());
    assert_eq!(
        Page::read("faultline_build_info 1").get(&daemon::BUILD_INFO, &["1"]),
        None
    );
}

proptest! {
    #[test]
    fn any_text_is_read_without_a_panic(text in "(?s).{0,400}") {
        Page::read(&text);
    }

    #[test]
    fn any_line_like_a_sample_is_read_without_a_panic(text in "[a-z_]{0,3}[{} =\",\\\\a0-9.\\n]{0,60}") {
        Page::read(&text);
    }

    #[test]
    fn any_label_value_comes_back(value in "(?s).{0,40}") {
        let escaped = value.replace('\\', "\\\\").replace('\n', "\\n").replace('"', "\\\"");
        // A carriage return ends a line for nobody but `str::lines`, and only before its end.
        prop_assume!(!value.contains('\r'));
        let page = Page::read(&format!("agave_target_info{{exe=\"{escaped}\"}} 1\n"));
        prop_assert_eq!(page.label(&process::TARGET_INFO, "exe").unwrap_or_default(), value);
    }
}
