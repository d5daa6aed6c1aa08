use super::*;
use crate::{
    session::{Key, handle_key},
    state::{PoolOrder, State},
    tests::{is_golden, status},
};
use faultline_status::{
    Answer, Figure, LevelStatus, MemoryStatus, ProgramCacheStatus, Status, Subject, Target, Verdict,
};
use ratatui::{Terminal, backend::TestBackend, style::Color};
use std::{fs, time::Duration};

const BEFORE: &str = include_str!("../../../faultline/tests/fixtures/top/ten_seconds_before.prom");
const PAGE: &str = include_str!("../../../faultline/tests/fixtures/top/at_tip.prom");

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
        session.add_result(Ok(status(page)), at(10 * i as u64));
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

#[test]
fn a_validator_at_the_tip_fits_into_80_by_24() {
    is_golden(
        "at_tip_80x24.txt",
        &screen(&after(&[BEFORE, PAGE]), 80, 24, 10),
    );
}

#[test]
fn a_large_terminal_shows_more() {
    is_golden(
        "at_tip_160x50.txt",
        &screen(&after(&[BEFORE, PAGE]), 160, 50, 10),
    );
    is_golden(
        "at_tip_100x60.txt",
        &screen(&after(&[BEFORE, PAGE]), 100, 60, 10),
    );
}

#[test]
fn after_one_scrape_rates_are_dashes_not_zeros() {
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
fn a_stopped_or_frozen_process_is_marked_next_to_its_phase() {
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
fn a_process_in_disk_wait_is_hanging_once_its_phase_is_unknown() {
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
    assert!(screen.contains("hangs in the kernel"), "{screen}");
}

/// The lines of facts of this name.
fn facts(name: &str, page: &str, width: u16) -> Vec<String> {
    let screen = screen(&after(&[&format!("{PAGE}{page}")]), width, 60, 0);
    let lines = screen.lines().map(|line| line.split_at(line.len().min(10)));
    let mut lines = lines.skip_while(|(own, _)| own.trim() != name);
    let first = lines.next().map(|(_, words)| words.to_owned());
    let others = lines.take_while(|(own, _)| own.trim().is_empty());
    let others = others.map(|(_, words)| words.to_owned());
    first.into_iter().chain(others).collect()
}

#[test]
fn full_width_lines_show_whether_a_validator_earns() {
    let votes = "agave_epoch 700\nagave_delinquent 0\nagave_vote_distance_slots{kind=\"last_vote\"} 2\n\
        agave_vote_credits{in=\"this_epoch\"} 3456789\nagave_vote_credits_rank 41\n\
        agave_leader_slots{state=\"passed\"} 20\nagave_leader_slots{state=\"skipped\"} 1\n\
        agave_cluster_leader_slots{state=\"passed\"} 1000\nagave_cluster_leader_slots{state=\"skipped\"} 31\n\
        agave_next_leader_slot_seconds 754\nagave_balance_sol{account=\"identity\"} 12.5\n\
        agave_consensus{protocol=\"tower\"} 1\nagave_slot_seconds 0.4\n";
    assert_eq!(
        facts("Votes", votes, 80),
        [
            "votes, last vote 2 slots ago, rank 41, 3,456,789 credits this epoch,",
            "skipped 1 of 20 leader slots (cluster 3.1 %), leads in 12 min 34 s,",
            "12.5 SOL, votes for about 11 days"
        ]
    );
    assert_eq!(
        facts("Votes", "agave_epoch 700\nagave_delinquent 1\n", 80),
        ["delinquent"]
    );
    assert_eq!(facts("Votes", "", 80), [""; 0]);
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
fn full_width_lines_show_whether_a_node_runs_out() {
    let node = "agave_filesystem_size_bytes{mountpoint=\"/\",holds=\"log\"} 1000\n\
        agave_filesystem_avail_bytes{mountpoint=\"/\",holds=\"log\"} 900\n\
        agave_filesystem_size_bytes{mountpoint=\"/mnt\",holds=\"ledger\"} 1099511627776\n\
        agave_filesystem_avail_bytes{mountpoint=\"/mnt\",holds=\"ledger\"} 137438953472\n\
        agave_filesystem_until_full_seconds{mountpoint=\"/mnt\",holds=\"ledger\"} 7200\n\
        agave_disk_utilisation_ratio{device=\"nvme0n1\"} 0.31\nagave_disk_utilisation_ratio{device=\"nvme1n1\"} 0.02\n\
        agave_udp_drops_total 12\n";
    assert_eq!(
        facts("Capacity", node, 80),
        [
            "full within hours, /mnt has 128.0 GiB (12.5 %) left, full in 2 h,",
            "nvme0n1 31 % busy, 12 UDP datagrams dropped, 17 of 20,000 files open"
        ]
    );
}

#[test]
fn without_a_validator_the_view_names_down_sources_and_shows_no_values() {
    let page = "faultline_build_info{version=\"1\"} 1\nagave_up 0\nfaultline_source_up{source=\"process\"} 0\n\
                faultline_source_up{source=\"rpc\"} 0\nfaultline_source_up{source=\"datapoints\"} 1\n\
                faultline_source_problems_total{source=\"rpc\",kind=\"forbidden\"} 3\n";
    is_golden(
        "nobody_80x24.txt",
        &screen(&after(&[page, page]), 80, 24, 10),
    );
}

#[test]
fn an_unreachable_daemon_is_reported_and_its_last_values_stay_visible() {
    let mut session = after(&[BEFORE, PAGE]);
    session.add_result(Err("connection refused".to_owned()), at(11));
    session.add_result(Err("connection refused".to_owned()), at(12));
    let unreachable = screen(&session, 80, 24, 75);
    assert!(
        unreachable.contains(" NO ANSWER for 1 min 4 s, the values are older: connection refused"),
        "{unreachable}"
    );
    assert!(unreachable.contains("461 of 512 entries"), "{unreachable}");
    session.add_result(Ok(status(PAGE)), at(76));
    let back = screen(&session, 80, 24, 76);
    assert!(
        !back.contains("NO ANSWER") && back.contains("faultlined is back after 1 min 5 s"),
        "{back}"
    );
    let mut never = after(&[]);
    assert!(screen(&never, 80, 24, 0).contains("no answer yet"));
    never.add_result(Err("no host of this name".to_owned()), at(1));
    assert!(
        screen(&never, 80, 24, 2).contains("NO ANSWER for 1 s, retrying: no host of this name")
    );
}

#[test]
fn a_daemon_that_stopped_sampling_is_reported() {
    let mut session = after(&[BEFORE, PAGE]);
    let mut stale = status(PAGE);
    stale.stale = Some("the newest tick is 30 s old; it must be younger than 10 s".to_owned());
    session.add_result(Ok(stale), at(40));
    let screen = screen(&session, 80, 24, 40);
    assert!(
        screen.contains("HANGS: the newest tick is 30 s old"),
        "{screen}"
    );
}

#[test]
fn restarts_are_shown_and_give_no_rate() {
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
fn a_down_source_has_no_rate_although_its_sum_is_exposed() {
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
fn keys_sort_and_scroll_the_pools_and_open_help() {
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
    assert!(
        handle_key(&mut session, Key::Letter('s')).is_continue()
            && handle_key(&mut session, Key::Letter('s')).is_continue()
    );
    let (by_name, one) = first(&session);
    assert!(
        by_name.starts_with(" Pools by name") && one.starts_with(" agave-validator"),
        "{by_name} {one}"
    );
    assert!(handle_key(&mut session, Key::Down).is_continue());
    assert!(first(&session).1.starts_with(" exited"));
    assert!((0..9).all(|_| handle_key(&mut session, Key::PageDown).is_continue()));
    assert_eq!(
        session.first_pool,
        session.state().thread_pools(session.order).len() - 1
    );
    assert!(handle_key(&mut session, Key::Letter('h')).is_continue());
    is_golden("help_80x24.txt", &screen(&session, 80, 24, 10));
    assert!(handle_key(&mut session, Key::Escape).is_continue());
    assert!(!session.shows_help);
    assert!(handle_key(&mut session, Key::Letter('q')).is_break());
    assert!(handle_key(&mut session, Key::Ctrl('c')).is_break());
}

#[test]
fn the_last_pool_stays_visible_if_pools_disappear_below_the_scroll_position() {
    let mut session = after(&[BEFORE, PAGE]);
    session.order_by(PoolOrder::Name);
    session.scroll(isize::MAX);
    let mut shorter = status(PAGE);
    shorter.thread_pools.truncate(2);
    session.add_result(Ok(shorter), at(20));
    let last = session.state().thread_pools(session.order)[1].name.clone();
    let screen = screen(&session, 80, 24, 20);
    assert!(screen.contains(&format!("\n {last} ")), "{screen}");
}

#[test]
fn pausing_freezes_the_screen_without_losing_data() {
    let mut session = after(&[BEFORE]);
    assert!(handle_key(&mut session, Key::Letter('p')).is_continue());
    session.add_result(Ok(status(PAGE)), at(10));
    let paused = screen(&session, 80, 24, 10);
    assert!(
        paused.contains("PAUSED") && paused.contains("TPS      –"),
        "{paused}"
    );
    assert!(handle_key(&mut session, Key::Letter('p')).is_continue());
    assert_eq!(
        screen(&session, 80, 24, 10),
        screen(&after(&[BEFORE, PAGE]), 80, 24, 10)
    );
}

#[test]
fn every_terminal_size_is_rendered_without_a_panic() {
    let mut session = after(&[BEFORE, PAGE]);
    for help in [false, true] {
        session.shows_help = help;
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
    let text = render_as_text(&scene, 80);
    for pool in session.state().thread_pools(session.order) {
        assert!(text.contains(&pool.name), "{}:\n{text}", pool.name);
    }
    assert!(text.is_ascii() && !text.contains('\x1b'), "{text}");
    assert!(text.lines().all(|line| line.len() <= 80));
}

#[test]
fn foreign_texts_cannot_control_the_terminal() {
    let mut page = PAGE.to_owned();
    for (was, is) in [
        ("version=\"2.1.14\"", "version=\"2\x1b[2J\""),
        ("version=\"0.1.0\"", "version=\"0\x1b[2J\""),
        ("pool=\"exited\"", "pool=\"\x1b]0;x\""),
        ("phase=\"at_tip\"", "phase=\"\x1b[2J\""),
        ("reason=\"exit\"} 0", "reason=\"\u{9b}2J\"} 0"),
        (
            "client=\"agave\"",
            "client=\"a\u{202e}\u{200d}b\u{ad}\u{feff}\"",
        ),
    ] {
        assert!(page.contains(was), "{was}");
        page = page.replace(was, is);
    }
    let restarted = page.replace("reason=\"\u{9b}2J\"} 0", "reason=\"\u{9b}2J\"} 1");
    let mut session = after(&[BEFORE, &page]);
    let mut hostile = status(&restarted);
    hostile.sources[0].name = "\x1b[2J".to_owned();
    hostile.sources[0].is_up = false;
    session.add_result(Ok(hostile), at(20));
    assert!(session.state().events.len() >= 2);
    for help in [false, true] {
        session.shows_help = help;
        let screen = screen(&session, 160, 60, 20);
        assert!(
            !screen
                .chars()
                .any(|letter| faultline_text::is_unsafe_char(letter) && letter != '\n'),
            "{screen:?}"
        );
    }
    session.add_result(Err("refused \x1b[2J\u{202e}e\u{200d}".to_owned()), at(30));
    let screen = screen(&session, 160, 60, 30);
    assert!(
        !screen
            .chars()
            .any(|letter| faultline_text::is_unsafe_char(letter) && letter != '\n'),
        "{screen:?}"
    );
}

#[test]
fn top_renders_every_known_daemon_page() {
    let folder = format!(
        "{}/../../daemon/faultlined/tests/cases",
        env!("CARGO_MANIFEST_DIR")
    );
    let mut drawn = 0;
    for case in fs::read_dir(folder).unwrap() {
        let page = fs::read_to_string(case.unwrap().path().join("expected.prom")).unwrap();
        let screen = screen(&after(&[&page]), 80, 40, 0);
        assert!(screen.contains(" sources up"), "{screen}");
        drawn += 1;
    }
    assert!(drawn >= 5);
}

/// The lines of a screen that begin with this name or verdict.
fn lines(screen: &str, name: &str) -> Vec<String> {
    let lines = { screen.lines() }.filter(|line| line.starts_with(&format!(" {name} ")));
    lines.map(str::to_owned).collect()
}

/// A screen of one answer that was changed.
fn changed(change: impl FnOnce(&mut Status), width: u16, height: u16) -> String {
    let mut status = status(PAGE);
    status.answers.clear();
    change(&mut status);
    let mut session = Session::new(State::new(Duration::from_secs(1)));
    session.add_result(Ok(status), at(0));
    screen(&session, width, height, 0)
}

fn answered(status: &mut Status) {
    let answer = |subject, verdict, text: &str| Answer {
        subject,
        verdict,
        text: text.to_owned(),
    };
    status.answers = vec![
        answer(
            Subject::Ram,
            Verdict::Fine,
            "412 GiB proven enough of 512 installed; 96 GiB of headroom now.",
        ),
        answer(
            Subject::ProgramCache,
            Verdict::Look,
            "too small, 24 reloads and 8.3 ms per slot (63 % of replay); 1,024 entries would save 7.9 ms per slot.",
        ),
        answer(
            Subject::Rewards,
            Verdict::Act,
            "rank 3, 99.2 % of the best validator's credits.",
        ),
    ];
}

#[test]
fn the_three_answers_come_first_and_are_cut_between_clauses() {
    let first = |width, height| {
        let screen = changed(answered, width, height);
        let body: Vec<String> = screen.lines().skip(1).map(str::to_owned).collect();
        let until = body.iter().position(|line| line.starts_with(" Who"));
        body[..until.unwrap()].to_vec()
    };
    assert_eq!(
        first(100, 60),
        [
            " fine     RAM: 412 GiB proven enough of 512 installed; 96 GiB of headroom now.",
            " look     Program cache: too small, 24 reloads and 8.3 ms per slot (63 % of replay); 1,024 entries",
            "          would save 7.9 ms per slot.",
            " act      Earns: rank 3, 99.2 % of the best validator's credits.",
        ]
    );
    assert_eq!(
        first(80, 20)[1..],
        [
            " look     Program cache: too small, 24 reloads and 8.3 ms per slot",
            " act      Earns: rank 3, 99.2 % of the best validator's credits.",
        ]
    );
    assert_eq!(
        first(40, 12),
        [
            " fine     RAM: 412 GiB proven enough o..",
            " look     Program cache: too small",
            " act      Earns: rank 3",
        ]
    );
}

#[test]
fn verdicts_are_colored_and_an_older_daemon_has_none() {
    let set = |name: &str| match name {
        "TERM" => Some("xterm".to_owned()),
        _ => None,
    };
    let theme = Theme::of_environment(set);
    let mut status = status(PAGE);
    answered(&mut status);
    let mut session = Session::new(State::new(Duration::from_secs(1)));
    session.add_result(Ok(status), at(0));
    let scene = Scene {
        session: &session,
        address: "a",
        now: at(0),
        theme,
    };
    let area = Rect::new(0, 0, 80, 24);
    let mut buffer = Buffer::empty(area);
    draw(&scene, area, &mut buffer);
    let colors = [1, 2, 4].map(|y| buffer[(1, y)].fg);
    assert_eq!(colors, [Color::Green, Color::Yellow, Color::Red]);
    let older = changed(|_| {}, 80, 24);
    assert!(older.lines().nth(1).unwrap().starts_with(" Who"), "{older}");
}

#[test]
fn a_demo_is_marked_at_every_size_in_help_and_without_a_validator() {
    let mut session = after(&[PAGE]);
    for paused in [false, true] {
        session.set_paused(paused);
        for help in [false, true] {
            session.shows_help = help;
            for (width, height) in [(40, 8), (41, 10), (80, 24), (160, 50)] {
                let screen = screen(&session, width, height, 10);
                let head = screen.lines().next().unwrap();
                assert!(head.contains(" DEMO  "), "{head}");
                assert!(head.contains("14:52:50"), "{head}");
                assert_eq!(head.contains("PAUSED"), paused);
            }
        }
    }
    let head = |width| changed(|_| {}, width, 8).lines().next().unwrap().to_owned();
    assert_eq!(head(40), " http://127.0.0.1:9912   DEMO  14:52:40");
    assert_eq!(
        head(60),
        " http://127.0.0.1:9912        DEMO  2026-11-21 14:52:40 UTC"
    );
    let screen = changed(|_| {}, 40, 24);
    assert_eq!(lines(&screen, "Who"), [" Who      demo: no real numbers"]);
}

#[test]
fn two_validators_are_named_with_the_option_that_chooses() {
    let screen = changed(
        |status| {
            status.target = Target {
                is_followed: Some(false),
                search_problem: Some(
                    "ambiguous: 2 validators found: 77 agave-validator (ledger /l), 1200 agave-validator \
                     (ledger /mnt/second); none is followed until target.ledger, target.unit or target.pid \
                     (--ledger, --unit, --pid) says which"
                        .to_owned(),
                ),
                ..Target::default()
            }
        },
        80,
        24,
    );
    let who = screen.lines().skip(1).take(4).collect::<Vec<_>>();
    assert_eq!(
        who,
        [
            " Who      no validator is followed: ambiguous: 2 validators found: 77",
            "          agave-validator (ledger /l), 1200 agave-validator (ledger",
            "          /mnt/second); none is followed until target.ledger, target.unit or",
            "          target.pid (--ledger, --unit, --pid) says which",
        ]
    );
}

fn unpushed(status: &mut Status, problem: Option<&str>) {
    let source = { status.sources.iter_mut() }.find(|source| source.name == "datapoints");
    let source = source.unwrap();
    (source.is_up, source.newest_values_at) = (false, None);
    source.newest_problem = problem.map(|what| ("absent".to_owned(), what.to_owned()));
    status.cache = ProgramCacheStatus {
        warning: Some("no datapoints in the 4 min 3 s since the daemon started".to_owned()),
        ..ProgramCacheStatus::default()
    };
}

#[test]
fn without_pushes_the_cache_lines_say_why_and_for_how_long() {
    let rows = |problem| {
        let screen = changed(|status| unpushed(status, problem), 80, 24);
        let rows = screen
            .lines()
            .skip_while(|line| !line.starts_with(" Cache"));
        let rows = rows.take_while(|line| !line.starts_with(" Pools"));
        rows.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        rows(None),
        [" Cache    no datapoints in the 4 min 3 s since the daemon started"]
    );
    assert_eq!(
        rows(Some("its SOLANA_METRICS_CONFIG does not lead here")),
        [
            " Cache    no datapoints in the 4 min 3 s since the daemon started: its",
            "          SOLANA_METRICS_CONFIG does not lead here",
        ]
    );
}

#[test]
fn late_pushes_and_oom_kills_come_before_what_is_cut() {
    let alarmed = |status: &mut Status| {
        status.cache.warning = Some("last push 31 s ago".to_owned());
        status.figures.insert(Figure::OomKills, 2.0);
    };
    let screen = changed(alarmed, 40, 20);
    assert_eq!(lines(&screen, "Cache"), [" Cache    last push 31 s ago;"]);
    assert_eq!(
        lines(&screen, "Pressure"),
        [" Pressure OOM kills 2; stalled –"]
    );
    let screen = changed(alarmed, 80, 20);
    let cache = &lines(&screen, "Cache")[0];
    assert!(
        cache.starts_with(" Cache    last push 31 s ago; 461 of 512 entries, 90 % "),
        "{cache}"
    );
}

#[test]
fn memory_names_the_owner_of_the_limit_and_what_others_use() {
    let memory = |level: &str, title: &str, others, width| {
        let gib = f64::from(1 << 30);
        let level = LevelStatus {
            level: level.to_owned(),
            title: title.to_owned(),
            others,
            binds: true,
            ..LevelStatus::default()
        };
        let screen = changed(
            |status| {
                status.memory = Some(MemoryStatus {
                    levels: vec![level],
                    notes: Vec::new(),
                });
                status.figures.insert(Figure::Unreclaimable, 231.0 * gib);
                status.figures.insert(Figure::MemoryLimit, 384.0 * gib);
            },
            width,
            24,
        );
        let line = lines(&screen, "Memory").remove(0);
        line.trim_end_matches(['█', '▒', '·', ' ']).to_owned()
    };
    let others = Some(206.0 * f64::from(1 << 30));
    assert_eq!(
        memory("0", "its cgroup /validator.slice", Some(0.0), 80),
        " Memory   231.0 GiB of 384.0 GiB of its cgroup, 60.2 % unreclaimable"
    );
    assert_eq!(
        memory("machine", "this machine", others, 80),
        " Memory   231.0 GiB of 384.0 GiB of this machine, others 206.0 GiB"
    );
    assert_eq!(
        memory("1", "cgroup /sol.slice", others, 136),
        " Memory   231.0 GiB of 384.0 GiB of cgroup /sol.slice, others 206.0 GiB, 60.2 % unreclaimable"
    );
    assert_eq!(
        memory("machine", "this machine", others, 40),
        " Memory   231.0 GiB of 384.0 GiB"
    );
}

#[test]
fn a_problem_is_named_whether_its_source_is_up_or_down() {
    let foot = |is_up, kind: &str| {
        let screen = changed(
            |status| {
                let source = { status.sources.iter_mut() }.find(|source| source.name == "rpc");
                let source = source.unwrap();
                (source.is_up, source.current_problems) = (is_up, 1);
                source.newest_problem = Some((kind.to_owned(), "x".to_owned()));
            },
            80,
            24,
        );
        screen.lines().nth(22).unwrap().to_owned()
    };
    let down = foot(false, "broken");
    assert!(
        down.starts_with(" faultlined 0.1.0: 9 sources up; down: rpc (broken)"),
        "{down}"
    );
    let up = foot(true, "forbidden");
    assert!(
        up.starts_with(" faultlined 0.1.0: 10 sources up; problems: rpc (forbidden)"),
        "{up}"
    );
    let absent = foot(true, "absent");
    assert!(!absent.contains("problems"), "{absent}");
}

#[test]
fn a_short_terminal_shows_memory_and_omits_thread_pools() {
    let screen = screen(&after(&[BEFORE, PAGE]), 40, 10, 10);
    assert!(
        screen.contains("Memory") && !screen.contains("Pools by"),
        "{screen}"
    );
}

#[test]
fn text_output_has_one_line_per_value() {
    let session = after(&[BEFORE, PAGE]);
    let theme = Theme::of_environment(|name| (name == "LANG").then(|| "C.UTF-8".to_owned()));
    let scene = Scene {
        session: &session,
        address: "http://127.0.0.1:9912",
        now: at(10),
        theme,
    };
    for width in [80, 136, 137, 200] {
        let mail = render_as_text(&scene, width);
        let last = session
            .state()
            .thread_pools(session.order)
            .last()
            .map(|pool| pool.name.clone())
            .unwrap_or_default();
        assert!(
            mail.contains(&last) && mail.contains("files open"),
            "{mail}"
        );
        let blank = mail.lines().filter(|line| line.trim().is_empty()).count();
        assert!(blank < 8, "{blank} blank lines at {width}:\n{mail}");
    }
}

#[test]
fn without_a_validator_its_rates_are_absent() {
    let gone = PAGE.replace("agave_up 1", "agave_up 0");
    let screen = screen(&after(&[BEFORE, PAGE, &gone]), 80, 24, 20);
    assert!(
        !screen.contains("in frozen banks") && screen.contains("reload –, miss –, evict –"),
        "{screen}"
    );
}

#[test]
fn excess_down_sources_are_shown_as_a_count() {
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
