use super::*;
use crate::keys::{Key, press};
use crate::page::Page;
use crate::state::State;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use std::time::Duration;

const BEFORE: &str = include_str!("../../../../lab/tests/fixtures/top/ten_seconds_before.prom");
const PAGE: &str = include_str!("../../../../lab/tests/fixtures/top/at_tip.prom");

fn at(seconds: u64) -> Moment {
    Moment {
        uptime: Duration::from_secs(seconds),
        unix_ns: 1_795_272_760_000_000_000 + seconds as i64 * 1_000_000_000,
    }
}

/// After the pages, ten seconds apart.
fn after(pages: &[&str]) -> Session {
    let mut session = Session::new(State::new(Duration::from_secs(1)));
    for (i, page) in pages.iter().enumerate() {
        session.take(Ok(Page::read(page)), at(10 * i as u64));
    }
    session
}

fn screen(session: &Session, width: u16, height: u16, seconds: u64) -> String {
    let theme = Theme::of_environment(|name| (name == "LANG").then(|| "C.UTF-8".to_owned()));
    let scene = Scene {
        session,
        address: "http://127.0.0.1:9912",
        now: at(seconds),
        theme,
    };
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal
        .draw(|frame| draw(&scene, frame.area(), frame.buffer_mut()))
        .unwrap();
    text(terminal.backend().buffer())
}

/// Compares with `tests/fixtures/top/NAME.txt`; `FAULTLINE_RENEW=1` writes it.
#[track_caller]
fn is_golden(name: &str, screen: &str) {
    let path = format!(
        "{}/../../lab/tests/fixtures/top/{name}.txt",
        env!("CARGO_MANIFEST_DIR")
    );
    if std::env::var_os("FAULTLINE_RENEW").is_some() {
        std::fs::write(&path, screen).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        expected == screen,
        "{name} is drawn anew; FAULTLINE_RENEW=1 takes it over:\n{screen}"
    );
}

#[test]
fn a_validator_at_the_tip_fits_into_80_by_24() {
    is_golden("at_tip_80x24", &screen(&after(&[BEFORE, PAGE]), 80, 24, 10));
}

#[test]
fn a_large_terminal_shows_more() {
    is_golden(
        "at_tip_160x50",
        &screen(&after(&[BEFORE, PAGE]), 160, 50, 10),
    );
    is_golden(
        "at_tip_100x60",
        &screen(&after(&[BEFORE, PAGE]), 100, 60, 10),
    );
}

#[test]
fn after_one_page_rates_are_dashes_and_not_zeros() {
    let screen = screen(&after(&[PAGE]), 80, 24, 0);
    for line in [
        "TPS      –",
        "major –",
        "reload –, miss –, evict –",
        "Per slot – of cache time",
    ] {
        assert!(screen.contains(line), "{line}:\n{screen}");
    }
    assert!(!screen.contains(" 0/s"), "{screen}");
}

#[test]
fn a_process_that_is_stopped_or_frozen_says_so_beside_its_phase() {
    for (series, words) in [
        (
            "agave_process_state{state=\"stopped\"} 1",
            "at tip, stopped by a signal",
        ),
        (
            "agave_process_state{state=\"zombie\"} 1",
            "at tip, main thread exited",
        ),
        ("agave_cgroup_frozen 1", "at tip, cgroup frozen"),
        (
            "agave_process_state{state=\"sleeping\"} 1\nagave_cgroup_frozen 0",
            "at tip, healthy",
        ),
    ] {
        let screen = screen(&after(&[&format!("{PAGE}{series}\n")]), 80, 24, 0);
        assert!(screen.contains(words), "{words}:\n{screen}");
    }
}

#[test]
fn a_process_that_waits_for_a_disk_hangs_once_its_phase_is_unknown() {
    let waits = format!("{PAGE}agave_process_state{{state=\"disk_sleep\"}} 1\n");
    assert!(
        !screen(&after(&[&waits]), 80, 24, 0).contains("hangs"),
        "waiting for a disk is normal"
    );
    let unknown = waits.replace(
        "agave_phase{phase=\"at_tip\"} 1",
        "agave_phase{phase=\"at_tip\"} 0",
    );
    assert_ne!(unknown, waits);
    let screen = screen(&after(&[&unknown]), 80, 24, 0);
    assert!(screen.contains("hangs in the kernel (D)"), "{screen}");
}

#[test]
fn one_line_answers_whether_a_validator_earns() {
    let votes = "agave_epoch 700\nagave_delinquent 0\nagave_vote_distance_slots{kind=\"last_vote\"} 2\n\
        agave_vote_credits{in=\"this_epoch\"} 3456789\nagave_vote_credits_rank 41\n\
        agave_leader_slots{state=\"passed\"} 20\nagave_leader_slots{state=\"skipped\"} 1\n\
        agave_cluster_leader_slots{state=\"passed\"} 1000\nagave_cluster_leader_slots{state=\"skipped\"} 31\n\
        agave_next_leader_slot_seconds 754\nagave_balance_sol{account=\"identity\"} 12.5\n\
        agave_consensus{protocol=\"tower\"} 1\nagave_slot_seconds 0.4\n";
    let line = |more: &str| {
        let screen = screen(&after(&[&format!("{PAGE}{more}")]), 120, 30, 0);
        screen
            .lines()
            .find(|line| line.starts_with(" Earns"))
            .unwrap_or_default()
            .to_owned()
    };
    assert_eq!(
        line(votes),
        " Earns    votes, 2 slots ago, rank 41, SOL for 11 days, skips 5 % (all 3 %), leads in 12 min 34 s, 3.5M credits"
    );
    let standby = "agave_vote_account_info{identity=\"i\",role=\"standby\",vote_account=\"v\"} 1\n";
    assert_eq!(
        line(&format!("{votes}{standby}")),
        " Earns    standby, 2 slots ago, rank 41, skips 5 % (all 3 %), leads in 12 min 34 s, 3.5M credits"
    );
    assert_eq!(
        line("agave_epoch 700\nagave_delinquent 1\n"),
        " Earns    delinquent"
    );
    let up = "agave_epoch 700\nfaultline_source_up{source=\"votes\"} 1\n";
    let voting = "agave_vote_account_info{identity=\"i\",role=\"voting\",vote_account=\"v\"} 1\n";
    assert_eq!(
        line(&format!(
            "{up}{voting}agave_vote_credits{{in=\"this_epoch\"}} 12\n"
        )),
        " Earns    far behind, votes not judged, 12 credits"
    );
    assert_eq!(line(up), " Earns    it has no vote account with stake");
    assert_eq!(
        line("agave_epoch 700\n"),
        " Earns    it is not known whether it votes"
    );
    assert_eq!(line(""), "");
}

#[test]
fn under_alpenglow_two_lines_have_certificates_admission_and_rewards() {
    let votes = "agave_epoch 1065\nagave_delinquent 0\n\
        agave_certificate_distance_slots{certificate=\"reward\"} 1\n\
        agave_certificate_distance_slots{certificate=\"finalization\"} 140\n\
        agave_vote_reward_lamports{in=\"this_epoch\"} 5250000000\n\
        agave_vote_reward_per_stake_of_best_ratio 0.9972\n\
        agave_admitted{in=\"this_epoch\"} 1\nagave_admitted{in=\"epoch_after_next\"} 0\n\
        agave_admission_shortfall_sol 0.127\n\
        agave_leader_slots{state=\"passed\"} 20\nagave_leader_slots{state=\"skipped\"} 1\n\
        agave_balance_sol{account=\"identity\"} 12.5\n\
        agave_consensus{protocol=\"alpenglow\"} 1\nagave_slot_seconds 0.2\n";
    let lines = |page: &str| -> Vec<String> {
        let screen = screen(&after(&[&format!("{PAGE}{page}")]), 120, 30, 0);
        let lines = screen
            .lines()
            .skip_while(|line| !line.starts_with(" Earns"));
        lines.take(2).map(ToOwned::to_owned).collect()
    };
    assert_eq!(
        lines(votes),
        [
            " Earns    votes, certificates 1 (reward) and 140 (finalization) slots behind",
            "          not admitted to the epoch after next, 0.127 SOL missing for the admission ticket, 5.250 SOL earned this epoch,"
        ]
    );
    let admitted = votes
        .replace("epoch_after_next\"} 0", "epoch_after_next\"} 1")
        .replace("sol 0.127", "sol 0");
    assert_eq!(
        lines(&admitted)[1],
        "          admitted, 5.250 SOL earned this epoch, 99.7 % of the best per stake, skips 5 %"
    );
}

#[test]
fn a_migration_is_named_next_to_the_phase() {
    let migrating = format!("{PAGE}agave_consensus{{protocol=\"migrating\"}} 1\n");
    let screen = screen(&after(&[&migrating]), 80, 24, 0);
    assert!(
        screen.contains("at tip, migrates to Alpenglow,"),
        "{screen}"
    );
}

#[test]
fn one_line_answers_whether_a_node_runs_out() {
    let node = "agave_filesystem_size_bytes{mountpoint=\"/\",holds=\"log\"} 1000\n\
        agave_filesystem_avail_bytes{mountpoint=\"/\",holds=\"log\"} 900\n\
        agave_filesystem_size_bytes{mountpoint=\"/mnt\",holds=\"ledger\"} 1099511627776\n\
        agave_filesystem_avail_bytes{mountpoint=\"/mnt\",holds=\"ledger\"} 137438953472\n\
        agave_filesystem_until_full_seconds{mountpoint=\"/mnt\",holds=\"ledger\"} 7200\n\
        agave_disk_utilisation_ratio{device=\"nvme0n1\"} 0.31\nagave_disk_utilisation_ratio{device=\"nvme1n1\"} 0.02\n\
        agave_udp_drops_total 12\n";
    let line = |more: &str| {
        let screen = screen(&after(&[&format!("{PAGE}{more}")]), 120, 30, 0);
        screen
            .lines()
            .find(|line| line.starts_with(" Room"))
            .unwrap_or_default()
            .to_owned()
    };
    assert_eq!(
        line(node),
        " Room     /mnt 128.0 GiB (13 %) left, full in 2 h 0 min, nvme0n1 31 % busy, 12 UDP drops"
    );
    let read_only = "agave_filesystem_readonly{mountpoint=\"/mnt\",holds=\"ledger\"} 1\nagave_udp_drops_total 0\n";
    assert_eq!(line(read_only), " Room     read-only, 0 UDP drops");
    let dead = "agave_filesystem_answer_age_seconds{mountpoint=\"/mnt\",holds=\"ledger\"} 60\nagave_udp_drops_total 0\n";
    assert_eq!(line(dead), " Room     /mnt does not answer, 0 UDP drops");
    assert_eq!(line(""), "");
}

#[test]
fn a_page_without_a_validator_says_who_is_down_and_shows_no_figure() {
    let page = "faultline_build_info{version=\"1\"} 1\nagave_up 0\nfaultline_source_up{source=\"process\"} 0\n\
                faultline_source_up{source=\"rpc\"} 0\nfaultline_source_up{source=\"datapoints\"} 1\n\
                faultline_source_problems_total{source=\"rpc\",kind=\"forbidden\"} 3\n";
    is_golden("nobody_80x24", &screen(&after(&[page, page]), 80, 24, 10));
}

#[test]
fn a_daemon_that_does_not_answer_is_told_of_and_what_it_said_stays() {
    let mut session = after(&[BEFORE, PAGE]);
    session.take(Err("connection refused".to_owned()), at(11));
    session.take(Err("connection refused".to_owned()), at(12));
    let unreachable = screen(&session, 80, 24, 75);
    assert!(
        unreachable.contains(" NO ANSWER for 1 min 4 s, the values are older: connection refused"),
        "{unreachable}"
    );
    assert!(unreachable.contains("461 of 512 entries"), "{unreachable}");
    session.take(Ok(Page::read(PAGE)), at(76));
    let back = screen(&session, 80, 24, 76);
    assert!(
        !back.contains("NO ANSWER") && back.contains("faultlined is back after 1 min 5 s"),
        "{back}"
    );
    let mut never = after(&[]);
    assert!(screen(&never, 80, 24, 0).contains("asking .."));
    never.take(Err("no host of this name".to_owned()), at(1));
    assert!(
        screen(&never, 80, 24, 2).contains("NO ANSWER for 1 s, retrying: no host of this name")
    );
}

#[test]
fn a_daemon_that_answers_with_the_same_tick_for_long_is_told_of() {
    let mut session = after(&[BEFORE, PAGE]);
    for second in 11..40 {
        session.take(Ok(Page::read(PAGE)), at(second));
    }
    let screen = screen(&session, 80, 24, 40);
    assert!(screen.contains("HANGS: no new sample for 30 s"), "{screen}");
}

#[test]
fn restarts_are_told_and_make_no_rate() {
    let restarted = PAGE
        .replace(
            "agave_process_start_time_seconds 1",
            "agave_process_start_time_seconds 2",
        )
        .replace(
            "restarts_total{reason=\"oom_kill\"} 0",
            "restarts_total{reason=\"oom_kill\"} 1",
        );
    let screen = screen(&after(&[BEFORE, &restarted]), 80, 24, 10);
    assert!(
        screen.contains("restart of the validator: oom kill"),
        "{screen}"
    );
    assert!(screen.contains("restarts 1 (oom kill 1)"), "{screen}");
    assert!(
        screen.contains("major –") && screen.contains("minor –"),
        "{screen}"
    );
    assert!(
        !screen.contains("TPS      –"),
        "the daemon's own sums go on: {screen}"
    );
}

#[test]
fn a_source_that_is_down_has_no_rate_although_its_sum_stands_on_the_page() {
    let rpc_down = PAGE.replace(
        "faultline_source_up{source=\"rpc\"} 1",
        "faultline_source_up{source=\"rpc\"} 0",
    );
    let pushed = screen(&after(&[BEFORE, &rpc_down]), 80, 24, 10);
    assert!(
        pushed.contains("/s in frozen banks") && pushed.contains("down: rpc"),
        "{pushed}"
    );
    let both = rpc_down.replace("up{source=\"datapoints\"} 1", "up{source=\"datapoints\"} 0");
    let neither = screen(&after(&[BEFORE, &both]), 80, 24, 10);
    assert!(
        neither.contains("TPS      – (rpc is down)") && neither.contains("reload –, miss –"),
        "{neither}"
    );
}

#[test]
fn keys_order_the_pools_scroll_them_and_open_the_help() {
    let mut session = after(&[BEFORE, PAGE]);
    let first = |session: &Session| {
        let screen = screen(session, 80, 24, 10);
        let mut lines = screen
            .lines()
            .skip_while(|line| !line.starts_with(" Pools by"))
            .map(str::to_owned);
        (
            lines.next().unwrap_or_default(),
            lines.next().unwrap_or_default(),
        )
    };
    let (by_faults, most) = first(&session);
    assert!(
        by_faults.starts_with(" Pools by faults") && most.starts_with(" solReplayStage"),
        "{by_faults} {most}"
    );
    assert!(press(&mut session, Key::Letter('s')) && press(&mut session, Key::Letter('s')));
    let (by_name, one) = first(&session);
    assert!(
        by_name.starts_with(" Pools by name") && one.starts_with(" agave-validator"),
        "{by_name} {one}"
    );
    press(&mut session, Key::Down);
    assert!(first(&session).1.starts_with(" exited"));
    assert!((0..9).all(|_| press(&mut session, Key::PageDown)));
    assert_eq!(
        session.first(),
        session.state().pools(session.order()).len() - 1
    );
    press(&mut session, Key::Letter('h'));
    is_golden("help_80x24", &screen(&session, 80, 24, 10));
    press(&mut session, Key::Escape);
    assert!(!session.help);
    assert!(!press(&mut session, Key::Letter('q')));
    assert!(!press(&mut session, Key::Ctrl('c')));
}

#[test]
fn a_pause_holds_the_screen_and_loses_nothing() {
    let mut session = after(&[BEFORE]);
    press(&mut session, Key::Letter('p'));
    session.take(Ok(Page::read(PAGE)), at(10));
    let paused = screen(&session, 80, 24, 10);
    assert!(
        paused.contains("PAUSED") && paused.contains("TPS      –"),
        "{paused}"
    );
    press(&mut session, Key::Letter('p'));
    assert_eq!(
        screen(&session, 80, 24, 10),
        screen(&after(&[BEFORE, PAGE]), 80, 24, 10)
    );
}

#[test]
fn every_size_is_drawn_without_a_panic() {
    let mut session = after(&[BEFORE, PAGE]);
    for help in [false, true] {
        session.help = help;
        for (width, height) in (1..200)
            .step_by(7)
            .flat_map(|w| (1..70).step_by(3).map(move |h| (w, h)))
        {
            screen(&session, width, height, 10);
        }
    }
    assert!(screen(&session, 30, 5, 10).starts_with("30 by 5 is too small"));
}

#[test]
fn text_for_a_pipe_has_every_pool_and_no_escape_sequence() {
    let session = after(&[BEFORE, PAGE]);
    let theme = Theme::of_environment(|_| None);
    let scene = Scene {
        session: &session,
        address: "a",
        now: at(10),
        theme,
    };
    let text = plain(&scene, 80);
    for pool in session.state().pools(session.order()) {
        assert!(text.contains(&pool.name), "{}:\n{text}", pool.name);
    }
    assert!(text.is_ascii() && !text.contains('\x1b'), "{text}");
    assert!(text.lines().all(|line| line.len() <= 80));
}

#[test]
fn what_others_write_cannot_steer_the_terminal() {
    let mut page = PAGE.to_owned();
    for (was, is) in [
        ("version=\"2.1.14\"", "version=\"2\x1b[2J\""),
        ("version=\"0.1.0\"", "version=\"0\x1b[2J\""),
        ("pool=\"exited\"", "pool=\"\x1b]0;x\""),
        ("phase=\"at_tip\"", "phase=\"\x1b[2J\""),
        ("reason=\"exit\"} 0", "reason=\"\u{9b}2J\"} 0"),
        ("up{source=\"rpc\"} 1", "up{source=\"\x1b[2J\"} 0"),
        (
            "client=\"agave\"",
            "client=\"a\u{202e}\u{200d}b\u{ad}\u{feff}\"",
        ),
    ] {
        assert!(page.contains(was), "{was}");
        page = page.replace(was, is);
    }
    let restarted = page.replace("reason=\"\u{9b}2J\"} 0", "reason=\"\u{9b}2J\"} 1");
    let mut session = after(&[BEFORE, &page, &restarted]);
    assert!(session.state().events().count() >= 2);
    for help in [false, true] {
        session.help = help;
        let screen = screen(&session, 160, 60, 20);
        assert!(
            !screen
                .chars()
                .any(|letter| faultline_text::is_unfit(letter) && letter != '\n'),
            "{screen:?}"
        );
    }
    session.take(Err("refused \x1b[2J\u{202e}e\u{200d}".to_owned()), at(30));
    let screen = screen(&session, 160, 60, 30);
    assert!(
        !screen
            .chars()
            .any(|letter| faultline_text::is_unfit(letter) && letter != '\n'),
        "{screen:?}"
    );
}

#[test]
fn every_page_that_the_daemon_is_known_to_write_is_drawn_in_both_dialects_alike() {
    let cases = std::fs::read_dir(format!(
        "{}/../../daemon/tests/cases",
        env!("CARGO_MANIFEST_DIR")
    ))
    .unwrap();
    let mut drawn = 0;
    for case in cases.map(|case| case.unwrap().path()) {
        let [classic, openmetrics] = ["expected.prom", "expected.openmetrics"].map(|name| {
            let page = std::fs::read_to_string(case.join(name)).unwrap();
            assert!(Page::read(&page).is_ours(), "{}", case.display());
            screen(&after(&[&page]), 80, 40, 0)
        });
        assert_eq!(classic, openmetrics, "{}", case.display());
        drawn += 1;
    }
    assert!(drawn >= 5);
}

#[test]
fn a_low_terminal_keeps_memory_and_leaves_out_pools() {
    let screen = screen(&after(&[BEFORE, PAGE]), 40, 10, 10);
    assert!(
        screen.contains("Memory") && !screen.contains("Pools by"),
        "{screen}"
    );
}

#[test]
fn what_goes_into_a_mail_has_one_line_a_figure() {
    let session = after(&[BEFORE, PAGE]);
    let theme = Theme::of_environment(|name| (name == "LANG").then(|| "C.UTF-8".to_owned()));
    let scene = Scene {
        session: &session,
        address: "http://127.0.0.1:9912",
        now: at(10),
        theme,
    };
    for width in [80, 131, 132, 200] {
        let mail = plain(&scene, width);
        let last = session
            .state()
            .pools(session.order())
            .last()
            .map(|pool| pool.name.clone())
            .unwrap_or_default();
        assert!(mail.contains(&last) && mail.contains("Files"), "{mail}");
        let blank = mail.lines().filter(|line| line.trim().is_empty()).count();
        assert!(blank < 8, "{blank} blank lines at {width}:\n{mail}");
    }
}

#[test]
fn one_page_with_an_old_tick_shows_that_the_daemon_stands_still() {
    let newest = Page::read(PAGE)
        .last_success(faultline_catalog::Source::Daemon)
        .unwrap();
    let served_at = |age: f64| Some(Duration::from_secs_f64(newest + age));
    let mut session = after(&[]);
    session.take(Ok(Page::read(PAGE).with_served_at(served_at(5.0))), at(0));
    assert!(!screen(&session, 80, 24, 0).contains("HANGS"));
    session.take(Ok(Page::read(PAGE).with_served_at(served_at(300.0))), at(1));
    let screen = screen(&session, 80, 24, 1);
    assert!(
        screen.contains("HANGS: no new sample for 5 min"),
        "{screen}"
    );
}

#[test]
fn without_a_validator_there_is_no_rate_of_it() {
    let gone = PAGE.replace("agave_up 1", "agave_up 0");
    let screen = screen(&after(&[BEFORE, PAGE, &gone]), 80, 24, 20);
    assert!(
        !screen.contains("in frozen banks") && screen.contains("reload –, miss –, evict –"),
        "{screen}"
    );
}

#[test]
fn too_many_sources_that_are_down_are_counted() {
    let names = [
        "target",
        "process",
        "threads",
        "cgroup",
        "rpc",
        "admin_rpc",
        "conclusions",
    ];
    let down: String = names
        .map(|name| format!("faultline_source_up{{source=\"{name}\"}} 0\n"))
        .concat();
    let page = format!("faultline_build_info{{version=\"1\"}} 1\nagave_up 0\n{down}");
    let screen = screen(&after(&[&page]), 60, 24, 0);
    assert!(screen.contains("down: 7 of them"), "{screen}");
}
