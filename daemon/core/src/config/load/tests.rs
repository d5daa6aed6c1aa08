use super::*;
use proptest::prelude::*;
use std::fs;

fn error_texts(text: &str) -> Vec<String> {
    parse(text).map_or_else(
        |m| m.iter().map(ToString::to_string).collect(),
        |_| Vec::new(),
    )
}

#[test]
fn the_printed_default_is_the_default() {
    assert_eq!(parse(crate::config::DEFAULT_TEXT), Ok(Config::default()));
    assert_eq!(parse(""), Ok(Config::default()));
}

#[test]
fn every_commented_key_of_the_printed_default_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    fs::write(&secret, "hidden\n").unwrap();
    for drop in [
        "#[log]",
        "#metrics_config_file",
        "#file",
        "#journal",
        "#pid",
        "#ledger",
        "#unit",
        "#process_name",
    ] {
        assert!(crate::config::DEFAULT_TEXT.contains(drop), "{drop}");
    }
    let left_out = [
        "#[log]",
        "#allow_users",
        "#metrics_config_file",
        "#file = \"/home",
        "#journal",
        "#ledger",
        "#unit",
        "#process_name",
    ];
    let text: String = crate::config::DEFAULT_TEXT
        .lines()
        .filter(|line| !left_out.iter().any(|key| line.starts_with(key)))
        .map(|line| match line.strip_prefix('#') {
            Some(key) if !key.starts_with(' ') => key.to_owned() + "\n",
            _ => line.to_owned() + "\n",
        })
        .collect();
    let text = regex_free_secret_paths(&text, &secret);
    let config = parse(&text).unwrap_or_else(|m| panic!("{m:?}\n{text}"));
    assert_eq!(config.target.selector, TargetSelector::Pid(12345));
    assert_eq!(config.datapoints.allow.len(), 1);
    assert!(config.record.file.is_some() && config.record.labels.contains_key("operator"));
    assert_eq!(
        config
            .forward
            .as_ref()
            .map(|f| f.credentials.password.as_str()),
        Some("hidden")
    );
}

fn regex_free_secret_paths(text: &str, secret: &Path) -> String {
    let line = format!("password_file = {:?}", secret.display().to_string());
    text.lines()
        .map(|l| {
            if l.starts_with("password_file") {
                line.clone() + "\n"
            } else {
                l.to_owned() + "\n"
            }
        })
        .collect()
}

#[test]
fn all_configuration_errors_are_reported_at_once_with_their_lines() {
    let found = error_texts(
        "[sampling]\ninterval = \"0s\"\n[metrics]\nlisten = 9912\nlissten = \"x\"\n[nonsense]\n[target]\npid = 1\nunit = \"a\"\nprogram_cache_entries = 0\n",
    );
    assert_eq!(
        found,
        [
            "line 2: sampling.interval: 0s is shorter than the minimum of 100ms",
            "line 4: metrics.listen: an address such as \"127.0.0.1:9912\" is wanted, not the number 9912",
            "line 5: metrics.lissten: unknown key; did you mean listen?",
            "line 6: nonsense: unknown key; known here: target, sampling, threads, metrics, labels, log, ingest, forward, rpc, probe, validator, admin, host, phase, datapoints, record, flight, status, paths",
            "line 8: target: pid and unit are given; keep one",
            "line 10: target.program_cache_entries: a whole number from 1 to 4294967295 is wanted, not the number 0",
        ]
    );
}

#[test]
fn a_toml_syntax_error_names_its_line() {
    let found = error_texts("[sampling]\ninterval = = 3\n");
    assert!(
        found.first().is_some_and(|m| m.starts_with("line 2: ")),
        "{found:?}"
    );
}

#[test]
fn a_log_source_disables_the_listener_and_both_are_refused() {
    let config = parse("[log]\nfile = \"/var/log/v.log\"\n").unwrap();
    assert!(!config.ingest.enabled);
    for both in ["enabled = true", "listen = \"127.0.0.1:1\""] {
        let found = error_texts(&format!("[log]\nfile = \"/v.log\"\n[ingest]\n{both}\n"));
        assert!(
            found.iter().any(|m| m.contains("counted twice")),
            "{found:?}"
        );
    }
}

#[test]
fn a_password_is_never_shown() {
    let credentials = Credentials {
        db: "d".into(),
        user: "u".into(),
        password: "hunter2".into(),
    };
    assert!(!format!("{credentials:?}").contains("hunter2"));
}

#[test]
fn json_rpc_urls_must_be_plain_http() {
    assert_eq!(
        parse("[rpc]\nurl = \"http://127.0.0.1:8899/\"\n")
            .unwrap()
            .rpc
            .url
            .as_deref(),
        Some("http://127.0.0.1:8899")
    );
    for wrong in ["https://127.0.0.1:8899", "127.0.0.1:8899", "http://"] {
        assert!(
            !error_texts(&format!("[rpc]\nurl = {wrong:?}\n")).is_empty(),
            "{wrong}"
        );
    }
}

#[test]
fn deep_toml_nesting_is_an_error_not_a_stack_overflow() {
    for open in ["[", "a = [", "a = {b = ", "[[a]]\n[a.", "a."] {
        assert!(parse(&open.repeat(20_000)).is_err(), "{open}");
    }
    assert!(parse(&format!("a{} = 1\n", ".a".repeat(20_000))).is_err());
}

/// The keys and headers of the printed default, in order. Many have no comment sign. Some are
/// damaged, and some have noise after them.
fn damaged_default() -> impl Strategy<Value = String> {
    let keys: Vec<&str> = crate::config::DEFAULT_TEXT
        .lines()
        .filter(|line| !line.starts_with("# "))
        .collect();
    let damage = proptest::option::weighted(0.1, (any::<prop::sample::Index>(), any::<char>()));
    let noise =
        prop_oneof![9 => Just(String::new()), 1 => "[\\[\\]{}=\"'\\\\#.,a-z0-9 \\n-]{0,12}"];
    let change = (proptest::bool::weighted(0.8), damage, noise);
    let count = keys.len();
    let changes = proptest::collection::vec(change, count);
    (proptest::sample::subsequence(keys, 0..=count), changes).prop_map(|(lines, changes)| {
        let changed = lines
            .iter()
            .zip(changes)
            .map(|(line, (bare, damage, noise))| {
                let mut line: Vec<char> = if bare {
                    line.trim_start_matches('#')
                } else {
                    line
                }
                .chars()
                .collect();
                if let (Some((at, with)), false) = (damage, line.is_empty()) {
                    let at = at.index(line.len());
                    line[at] = with;
                }
                line.into_iter().collect::<String>() + &noise + "\n"
            });
        changed.collect()
    })
}

fn assert_error_lines_exist(text: &str) {
    let lines = text.matches('\n').count() + 1;
    for error in parse(text).err().unwrap_or_default() {
        assert!(
            error.line.is_none_or(|line| (1..=lines).contains(&line)),
            "{error} in {text:?}"
        );
        assert!(!error.what.is_empty(), "{text:?}");
    }
}

proptest! {
    #[test]
    fn any_text_parses_as_configuration_or_reports_errors_with_valid_lines(text in any::<String>()) {
        assert_error_lines_exist(&text);
    }

    #[test]
    fn a_mutated_default_configuration_parses_or_reports_errors_with_valid_lines(text in damaged_default()) {
        assert_error_lines_exist(&text);
    }
}

#[test]
fn native_histograms_are_off_by_default() {
    assert!(!Config::default().metrics.native_histograms);
    let configured = parse("[metrics]\nnative_histograms = true\n").unwrap();
    assert!(configured.metrics.native_histograms);
}

#[test]
fn a_refused_address_is_not_repeated_in_the_error() {
    for text in [
        "[rpc]\nurl = \"https://u:SECRET@h:1\"\n",
        "[rpc]\nurl = \"http://u:SECRET@h:1\"\n",
        "[rpc]\nurl = \"ws://u:SECRET@h:1\"\n",
        "rpc = \"http://u:SECRET@h:1\"\n",
        "forward = \"http://u:SECRET@h:1\"\n",
        "[forward]\nmetrics_config_file = \"host=http://h,db=d,u=u,p=SECRET\"\n",
        "[ingest]\ndb = \"d\"\nuser = \"u\"\npassword_file = \"SECRET\"\n",
        "[ingest]\ndb = \"d\"\nuser = \"u\"\npassword_file = \"/SECRET\"\n",
        "[forward]\nurl = \"u:SECRET@h\"\ndb = \"d\"\nuser = \"u\"\npassword_file = \"/dev/null\"\n",
    ] {
        let found = error_texts(text);
        assert!(
            !found.is_empty() && !found.concat().contains("SECRET"),
            "{found:?}"
        );
    }
}

#[test]
fn configured_host_names_exclude_scheme_and_port() {
    let parsed = parse("[metrics]\nhosts = [\"Node1.Example.org\", \"node_1\"]\n").unwrap();
    assert_eq!(
        parsed.metrics.allowed_hosts,
        ["node1.example.org", "node_1"]
    );
    for bad in [
        "http://node1",
        "node1:9912",
        "*",
        "node1/",
        "node1.",
        "",
        "a b",
    ] {
        let found = error_texts(&format!("[metrics]\nhosts = [{bad:?}]\n"));
        assert!(
            found.len() == 1 && found[0].starts_with("line 2: metrics.hosts: "),
            "{bad}: {found:?}"
        );
    }
}

#[test]
fn recording_labels_may_have_any_name_and_include_exporter_labels() {
    let config =
        parse("[record]\nfile = \"/r\"\n[record.labels]\nmemory-type = \"DDR5\"\n").unwrap();
    assert_eq!(
        config.record.labels.get("memory-type").map(String::as_str),
        Some("DDR5")
    );
    for wrong in [
        "arm = \"A\"",
        "memory = 3",
        "\"a b\" = \"c\"",
        "memory = \"two\\nlines\"",
    ] {
        let found = error_texts(&format!("[record.labels]\n{wrong}\n"));
        assert!(
            found.len() == 1 && found[0].starts_with("line 2: record.labels"),
            "{wrong}: {found:?}"
        );
    }
}

#[test]
fn a_command_line_label_has_a_name_and_a_value() {
    use crate::config::values::parse_label;
    assert_eq!(
        parse_label("arm=a=b"),
        Ok(("arm".to_owned(), "a=b".to_owned()))
    );
    for wrong in ["arm", "=a", "arm=", "a b=c", ""] {
        assert!(parse_label(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn flight_delays_longer_than_the_ring_or_zero_limits_are_refused() {
    let config = parse("[flight]\nfolder = \"/f\"\nkeep = \"1h\"\nmax_saved = 3\n").unwrap();
    assert_eq!(config.flight.enabled_folder(), Some(Path::new("/f")));
    assert_eq!(
        (config.flight.history, config.flight.max_saved),
        (Duration::from_secs(3600), 3)
    );
    assert_eq!(
        parse("[flight]\nfolder = \"/f\"\nenabled = false\n")
            .unwrap()
            .flight
            .enabled_folder(),
        None
    );
    for (wrong, word) in [
        ("keep = \"5m\"", "less than keep"),
        ("pause = \"1h\"", "less than keep"),
        (
            "keep = \"9s\"\npause = \"1s\"\nafter = \"1s\"",
            "shorter than",
        ),
        ("max_saved = 0", "at least 1"),
        ("max_saved_bytes = 0", "at least 1"),
    ] {
        let found = error_texts(&format!("[flight]\n{wrong}\n"));
        assert!(
            found.len() == 1 && found[0].contains(word),
            "{wrong}: {found:?}"
        );
    }
}

#[test]
fn other_machines_may_push_only_with_a_password() {
    let folder = tempfile::tempdir().unwrap();
    let password = folder.path().join("password");
    fs::write(&password, "secret\n").unwrap();
    let error = parse("[ingest]\nlisten = \"0.0.0.0:9913\"\nbeyond_loopback = true\n").unwrap_err();
    assert!(
        error.len() == 1 && error[0].what.contains("password_file"),
        "{error:?}"
    );
    let text = format!(
        "[ingest]\nbeyond_loopback = true\ndb = \"d\"\nuser = \"u\"\npassword_file = \"{}\"\n",
        password.display()
    );
    assert!(parse(&text).unwrap().ingest.beyond_loopback);
}

#[test]
fn consequential_errors_are_not_reported() {
    let folder = tempfile::tempdir().unwrap();
    let password = folder.path().join("password");
    fs::write(&password, "secret\n").unwrap();
    let good = password.display();
    for (text, wanted) in [
        ("[ingest]\ndb = \"d\"\nuser = \"u\"\npassword_file = \"/etc/no-such\"\n".to_owned(), "/etc/no-such cannot be read"),
        (
            "[ingest]\nbeyond_loopback = true\ndb = \"d\"\nuser = \"u\"\npassword_file = \"/etc/no-such\"\n".to_owned(),
            "/etc/no-such cannot be read",
        ),
        (format!("[ingest]\ndb = \"d\"\npassword_file = \"{good}\"\n"), "add user,"),
        (
            format!("[forward]\nurl = \"ftp://h\"\ndb = \"d\"\nuser = \"u\"\npassword_file = \"{good}\"\n"),
            "begins with http://",
        ),
        (format!("[forward]\nurl = \"http://h\"\npassword_file = \"{good}\"\n"), "add db, user"),
        (
            format!("[forward]\nurl = \"http://h\"\ndb = \"d\"\nuser = \"u\"\npassword_file = \"{good}\"\nqueue_bytes = 24000001\n"),
            "a whole number from 0 to 24000000 is wanted, not the number 24000001",
        ),
        ("[forward]\nmetrics_config_file = \"/etc/no-such\"\n".to_owned(), "/etc/no-such cannot be read"),
        ("[log]\nfile = 3\n".to_owned(), "a string is wanted"),
        ("[phase]\nbehind_slots = \"many\"\nat_tip_slots = 500\n".to_owned(), "a whole number from 0 on is wanted"),
        ("[flight]\nkeep = \"1m\"\nafter = 3\n".to_owned(), "a time with its unit, such as"),
        ("[[datapoints.allow]]\nname = \"a\"\nfield = \"b\"\nkind = \"sum\"\n".to_owned(), "neither \"level\""),
        ("[[datapoints.allow]]\nname = \"a\"\n".to_owned(), "add field and kind"),
    ] {
        let found = error_texts(&text);
        assert!(found.len() == 1 && found[0].contains(wanted), "{text}: {found:?}");
    }
}

#[test]
fn a_config_error_names_the_wrong_key_or_suggests_one() {
    let (_, found) = parse_all("[metrics]\nlisten = 3\nweb_confg = \"x\"\n", None);
    let about = |key: &str| found.iter().filter(|error| error.is_about(key)).count();
    assert_eq!(
        (
            about("metrics.listen"),
            about("metrics.web_config"),
            about("metrics.hosts")
        ),
        (1, 1, 0),
        "{found:?}"
    );
}

#[test]
fn vote_rewards_are_polled_once_a_minute_by_default() {
    let default = Config::default().validator;
    assert_eq!(
        (default.enabled, default.interval),
        (true, Duration::from_secs(60))
    );
    let key = "7Np41oeYqPefeNQEHSv1UDhYrehxin3NStELsSKCT4K2";
    let set = parse(&format!(
        "[validator]\nvote_account = \"{key}\"\ninterval = \"5m\"\n"
    ))
    .unwrap()
    .validator;
    assert_eq!(
        (set.vote_account, set.interval),
        (key.parse().ok(), Duration::from_secs(300))
    );
    let wrong =
        error_texts("[validator]\nvote_account = \"me\"\ninterval = \"900ms\"\n").join("; ");
    assert!(
        wrong.contains("line 2")
            && wrong.contains("is not a public key")
            && wrong.contains("line 3"),
        "{wrong}"
    );
}

#[test]
fn probing_is_off_by_default_and_limited_to_once_a_second() {
    assert!(!Config::default().probe.enabled);
    let set = parse("[probe]\nenabled = true\nmethod = \"getSlot\"\ninterval = \"1s\"\n")
        .unwrap()
        .probe;
    assert_eq!(
        (set.enabled, set.method, set.interval.as_secs()),
        (true, "getSlot", 1)
    );
    let wrong =
        error_texts("[probe]\nmethod = \"getProgramAccounts\"\ninterval = \"900ms\"\n").join("; ");
    assert!(
        wrong.contains("one of \"getSlot\", ") && wrong.contains("shorter than the minimum of 1s"),
        "{wrong}"
    );
    let wrong = error_texts("[rpc]\nenabled = false\n[probe]\nenabled = true\n").join("; ");
    assert!(wrong.contains("rpc.enabled is false"), "{wrong}");
    let other = parse("[target]\nprocess_name = \"x\"\n[probe]\nenabled = true\n").unwrap();
    assert!(
        !other.probe.enabled,
        "nothing is asked of what is no validator"
    );
}

/// A configuration with one entry of the allow list for each of `tags`.
fn allowing(before: &str, tags: &[&str]) -> String {
    let entry = |tags: &&str| {
        format!(
            "[[datapoints.allow]]\nname = \"d\"\nfield = \"v\"\nkind = \"delta\"\ntags = {tags}\n"
        )
    };
    before.to_owned() + &tags.iter().map(entry).collect::<String>()
}

#[test]
fn tags_whose_labels_collide_are_refused_with_the_reason() {
    let everywhere = "[metrics]\nconstant_labels_everywhere = true\n";
    for (before, tags, reason) in [
        ("", "[\"name\"]", "every series of a datapoint has"),
        ("", "[\"field\"]", "every series of a datapoint has"),
        ("", "[\"__name__\"]", "Prometheus reserves"),
        ("", "[\"-_x\"]", "label __x, which Prometheus reserves"),
        ("", "[\"le\"]", "label le, which Prometheus reserves"),
        ("", "[\"quantile\"]", "Prometheus reserves"),
        ("", "[\"cf-name\", \"cf_name\"]", "is the same as item 1"),
        ("", "[\"a\", \"b\", \"a\"]", "item 3, the string \"a\""),
        (
            everywhere,
            "[\"cluster\"]",
            "constant_labels_everywhere sets",
        ),
        (everywhere, "[\"arm\"]", "constant_labels_everywhere sets"),
    ] {
        let found = error_texts(&allowing(before, &[tags]));
        assert!(
            found.len() == 1 && found[0].contains(reason),
            "{tags}: {found:?}"
        );
    }
    for (before, tags) in [
        ("", "[\"cluster\"]"),
        (everywhere, "[\"cf-name\", \"job\"]"),
    ] {
        assert_eq!(
            error_texts(&allowing(before, &[tags])),
            Vec::<String>::new()
        );
    }
}

#[test]
fn a_duplicate_allow_entry_is_refused_with_both_lines() {
    for tags in [
        ["[]", "[]"],
        ["[\"a\", \"b\"]", "[\"b\", \"a\"]"],
        ["[]", "[\"t\"]"],
    ] {
        assert_eq!(
            error_texts(&allowing("", &tags)),
            [
                "line 7: datapoints.allow: the delta \"v\" of \"d\" is given twice, in lines 2 and 7: remove or change one"
            ],
            "{tags:?}"
        );
    }
    let level = allowing("", &["[]"]).replace("delta", "level");
    assert_eq!(
        error_texts(&allowing(&level, &["[]"])),
        Vec::<String>::new()
    );
}

#[test]
fn allowed_push_users_are_names_or_uids_and_exclude_passwords() {
    let users = |list: &str| parse(&format!("[ingest]\nallow_users = {list}\n"));
    assert_eq!(
        users("[\"root\", 998]").unwrap().ingest.allow_users,
        [0, 998]
    );
    for (list, reason) in [
        (
            "[\"no such user\"]",
            "gives no id of user \"no such user\": write the number",
        ),
        (
            "[0, \"root\"]",
            "item 2, the string \"root\", is the same as item 1",
        ),
        ("[-1]", "a whole number from 0"),
        ("[1.5]", "a user such as"),
    ] {
        let found = users(list).unwrap_err();
        assert!(
            found.len() == 1 && found[0].what.contains(reason),
            "{found:?}"
        );
    }
    let both = "[ingest]\ndb = \"a\"\nuser = \"b\"\npassword_file = \"/none\"\nallow_users = [1]\n";
    assert!(
        error_texts(both)
            .iter()
            .any(|what| what.contains("without a password"))
    );
}

#[test]
fn a_host_that_is_named_twice_is_refused() {
    assert_eq!(
        error_texts("[metrics]\nhosts = [\"a.example\", \"A.example\"]\n"),
        [
            "line 2: metrics.hosts: item 2, the string \"A.example\", is the same as item 1, the string \"a.example\": keep one"
        ]
    );
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test starts programs itself")]
fn files_without_an_end_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    let too_large = "/dev/zero cannot be read: it is larger than 4 MiB";
    let no_file = format!(
        "{} cannot be read: it is not a regular file",
        pipe.display()
    );
    for (path, wanted) in [(Path::new("/dev/zero"), too_large), (&pipe, &no_file)] {
        let shown = path.display();
        let (_, errors) = load(Some(path), None);
        assert_eq!(
            errors.iter().map(|error| &error.what).collect::<Vec<_>>(),
            [wanted]
        );
        for text in [
            format!("[ingest]\ndb = \"d\"\nuser = \"u\"\npassword_file = \"{shown}\"\n"),
            format!("[forward]\nmetrics_config_file = \"{shown}\"\n"),
        ] {
            let found = error_texts(&text);
            assert!(found.len() == 1 && found[0].contains(wanted), "{found:?}");
        }
    }
}

/// The Ansible role passes the configuration through `/dev/stdin`, shells through `/dev/fd`.
#[test]
fn a_pipe_of_the_own_process_can_be_the_configuration() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    std::io::Write::write_all(&mut writer, b"[labels]\narm = \"A\"\n").unwrap();
    drop(writer);
    let number = std::os::fd::AsRawFd::as_raw_fd(&reader);
    for path in [format!("/dev/fd/{number}"), "/dev/null".to_owned()] {
        let (config, errors) = load(Some(Path::new(&path)), None);
        assert_eq!(errors, []);
        assert_eq!(config.labels.arm.is_some(), path != "/dev/null");
    }
}
