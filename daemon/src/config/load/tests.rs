use super::*;

fn mistakes(text: &str) -> Vec<String> {
    parse(text).map_or_else(|m| m.iter().map(ToString::to_string).collect(), |_| Vec::new())
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
    std::fs::write(&secret, "hidden\n").unwrap();
    for drop in ["#[log]", "#metrics_config_file", "#file", "#journal", "#pid", "#ledger", "#unit", "#process_name"] {
        assert!(crate::config::DEFAULT_TEXT.contains(drop), "{drop}");
    }
    let left_out = ["#[log]", "#metrics_config_file", "#file", "#journal", "#ledger", "#unit", "#process_name"];
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
    assert_eq!(config.target.find, Find::Pid(12345));
    assert_eq!(config.datapoints.allow.len(), 1);
    assert_eq!(config.forward.as_ref().map(|f| f.credentials.password.as_str()), Some("hidden"));
}

fn regex_free_secret_paths(text: &str, secret: &Path) -> String {
    let line = format!("password_file = {:?}", secret.display().to_string());
    text.lines()
        .map(|l| if l.starts_with("password_file") { line.clone() + "\n" } else { l.to_owned() + "\n" })
        .collect()
}

#[test]
fn all_mistakes_are_reported_at_once_with_their_lines() {
    let found = mistakes(
        "[sampling]\ninterval = \"10ms\"\n[metrics]\nlisten = 9912\nlissten = \"x\"\n[nonsense]\n[target]\npid = 1\nunit = \"a\"\n",
    );
    assert_eq!(
        found,
        [
            "line 8: target: pid and unit are given; keep one",
            "line 2: sampling.interval: 10ms is shorter than 100ms",
            "line 4: metrics.listen: an address such as \"127.0.0.1:9912\" is wanted, not an integer",
            "line 5: metrics.lissten: unknown key; did you mean listen?",
            "line 6: nonsense: unknown key; known here: target, sampling, threads, metrics, labels, log, ingest, forward, rpc, admin, phase, datapoints, paths",
        ]
    );
}

#[test]
fn text_that_is_no_toml_names_its_line() {
    let found = mistakes("[sampling]\ninterval = = 3\n");
    assert!(found.first().is_some_and(|m| m.starts_with("line 2: ")), "{found:?}");
}

#[test]
fn the_log_switches_the_listener_off_and_both_at_once_are_refused() {
    let config = parse("[log]\nfile = \"/var/log/v.log\"\n").unwrap();
    assert!(!config.ingest.enabled);
    for both in ["enabled = true", "listen = \"127.0.0.1:1\""] {
        let found = mistakes(&format!("[log]\nfile = \"/v.log\"\n[ingest]\n{both}\n"));
        assert!(found.iter().any(|m| m.contains("counted twice")), "{found:?}");
    }
}

#[test]
fn durations_need_a_unit() {
    use crate::config::table::parse_duration;
    assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
    assert_eq!(parse_duration("100ms"), Ok(Duration::from_millis(100)));
    assert_eq!(parse_duration("2h"), Ok(Duration::from_secs(7200)));
    for wrong in ["1", "s", "-1s", "1d", "", "nans"] {
        assert!(parse_duration(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_password_is_never_shown() {
    let credentials = Credentials { db: "d".into(), user: "u".into(), password: "hunter2".into() };
    assert!(!format!("{credentials:?}").contains("hunter2"));
}

#[test]
fn json_rpc_is_asked_by_plain_http_only() {
    assert_eq!(
        parse("[rpc]\nurl = \"http://127.0.0.1:8899/\"\n").unwrap().rpc.url.as_deref(),
        Some("http://127.0.0.1:8899")
    );
    for wrong in ["https://127.0.0.1:8899", "127.0.0.1:8899", "http://"] {
        assert!(!mistakes(&format!("[rpc]\nurl = {wrong:?}\n")).is_empty(), "{wrong}");
    }
}
