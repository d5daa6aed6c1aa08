//! The page in a real browser, in eight states of the validator.

use super::{
    answers::{replaying, with},
    *,
};
use faultline_metrics::AMBIGUOUS_PREFIX;
use faultline_testkit::browser::{Browser, SKIP_MESSAGE};

const EXE: &str = "/opt/agave/bin/agave-validator";

fn lonely(problem: &str) -> String {
    let mut target = batch(
        Source::Target,
        3.0,
        vec![reading(&metrics::process::UP, &[], 0.0)],
    );
    target.problems = vec![Problem::new(Kind::Absent, problem)];
    let batches = vec![Arc::new(target)];
    let (number, at) = (3, at(3.0));
    show(
        Some(&Tick {
            number,
            at,
            batches,
        }),
        &History::default(),
        at,
    )
}

fn of(source: Source, readings: Vec<Reading>) -> String {
    let tick = with(busy(90, EXE), source, readings);
    let mut history = History::default();
    history.receive(&Arc::new(tick.clone()));
    show(Some(&tick), &history, at(90.3))
}

fn states() -> [(&'static str, String); 8] {
    let several = format!(
        "{AMBIGUOUS_PREFIX}2 validators found: 77 agave-validator (ledger /mnt/a_ledger_with_a_long_name_and_no_spaces), \
         1200 agave-validator (ledger /l); none is followed until target.pid (--pid) says which"
    );
    let nearly_full = vec![
        reading(&metrics::memory::HEADROOM, &["1"], 2.0 * GIB),
        reading(&metrics::memory::LEVEL_LIMIT, &["1"], 384.0 * GIB),
        reading(&metrics::memory::LEVEL_UNRECLAIMABLE, &["1"], 382.0 * GIB),
    ];
    let behind = vec![reading(&metrics::validator::SLOTS_BEHIND, &[], 4312.0)];
    let mut history = History::default();
    (10..=90).for_each(|second| history.receive(&Arc::new(replaying(second))));
    [
        ("demo", busy_page("/usr/bin/faultline-demo")),
        ("real", busy_page(EXE)),
        ("none", lonely("no process looks like a validator")),
        ("several", lonely(&several)),
        ("no pushes", of(Source::Daemon, Vec::new())),
        ("behind", of(Source::Conclusions, behind)),
        ("nearly full", of(Source::Cgroup, nearly_full)),
        (
            "cache too small",
            show(Some(&replaying(90)), &history, at(90.3)),
        ),
    ]
}

#[test]
fn no_state_overflows_and_the_answers_are_on_the_first_screen() {
    if !Browser::is_installed() {
        println!("{SKIP_MESSAGE}");
        return;
    }
    let mut browser = Browser::start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (state, page) in states() {
        let file = folder.path().join("page.html");
        std::fs::write(&file, page.replace(" http-equiv=\"refresh\"", "")).unwrap();
        for (width, dark) in [
            (1400, false),
            (1400, true),
            (390, false),
            (390, true),
            (360, false),
            (360, true),
        ] {
            browser.window(width, 900, dark).unwrap();
            browser.open(&file).unwrap();
            let overflow = "[...document.querySelectorAll('body *')].filter((one) => !one.closest('.flush') && \
                one.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5).map((one) => one.outerHTML)";
            let overflow = browser.evaluate(overflow).unwrap();
            assert_eq!(overflow, serde_json::json!([]), "{state} at {width}");
            let lines = "[...document.querySelectorAll('.answers li')].filter((one) => one.getBoundingClientRect().bottom <= 900).length";
            let lines = browser.evaluate(lines).unwrap();
            assert_eq!(lines, 3, "{state} at {width}");
            if let Some(pictures) = std::env::var_os("FAULTLINE_PICTURES") {
                let picture =
                    std::path::Path::new(&pictures).join(format!("{state}-{width}-{dark}.png"));
                browser.screenshot(&picture, true).unwrap();
            }
        }
    }
}
