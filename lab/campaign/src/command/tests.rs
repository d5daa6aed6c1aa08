use super::*;
use crate::{
    args::VerifyArgs,
    comparability::tests::{cluster, with_clusters},
    compare::{release_groups, tests::runs},
    settings::RESULTS,
    store::{RunRow, Store, tests::make_format_1},
};
use std::fs;
use tempfile::TempDir;

/// A campaign with the baseline 1.0.0 and the versions of `more_settings`.
fn campaign_folder(more_settings: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let settings =
        format!("name = 'x'\n[baseline]\nversion = '1.0.0'\npath = 'a'\n{more_settings}");
    for (name, text) in [
        ("campaign.toml", &*settings),
        ("plan.toml", "name = 'x'\n"),
        ("a", "a"),
        ("b", "b"),
    ] {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn reason_of(rows: &[RunRow]) -> Option<String> {
    let group = release_groups(rows, 0.05).remove(0);
    inconclusive_reason(
        &group.releases[0],
        &compare_with_baseline(&group.releases[0]),
    )
}

fn release(rows: &[RunRow]) -> Release {
    release_groups(rows, 0.05).remove(0).releases.remove(0)
}

#[test]
fn a_release_of_another_consensus_is_named_and_passes_by_what_is_comparable() {
    let (tower, alpenglow) = (
        cluster(&["tower"], Some(0.4)),
        cluster(&["alpenglow"], Some(0.2)),
    );
    let across = release(&with_clusters("1.1.0", [&tower, &alpenglow]));
    let checked = compare_with_baseline(&across);
    assert!(!checked.iter().any(|one| one.verdict.is_worse()));
    let why = inconclusive_reason(&across, &checked).unwrap();
    assert!(
        why.contains("nothing could be tested: no comparable metric"),
        "{why}"
    );
    assert_eq!(summary(&checked, 0.05), "no metric could be tested");
    assert!(metric_table(&checked).contains("-           -            not comparable"));
    assert_eq!(
        comparability_notes(&across, None),
        "1.1.0 is not comparable by slot: Alpenglow at 0.20 s, the baseline Tower at 0.40 s.\n"
    );
    let mut with_memory = with_clusters("1.1.0", [&tower, &alpenglow]);
    for (number, run) in (1..).zip(&mut with_memory) {
        let gib = 2.0 + f64::from(number % 3) / 100.0;
        run.values.push(("rss-at-tip".to_owned(), gib));
    }
    let tested = release(&with_memory);
    let checked = compare_with_baseline(&tested);
    assert_eq!(inconclusive_reason(&tested, &checked), None);
    let unknown = release(&with_clusters("1.2.0", [&tower, &cluster(&[], None)]));
    assert_eq!(
        comparability_notes(&unknown, None),
        "1.2.0 is compared all the same: its consensus is not known, the baseline's is Tower.\n"
    );
}

#[test]
fn an_older_database_is_not_upgraded_while_its_campaign_runs() {
    let folder = campaign_folder("");
    make_format_1(folder.path());
    let run = Campaign::read(folder.path()).unwrap().lock().unwrap();
    let error = open_campaign(folder.path()).map(|_| ()).unwrap_err();
    let error = format!("{error:#}");
    for words in [
        "results.db: ",
        "the format of an older version",
        "is being run already",
    ] {
        assert!(error.contains(words), "{words}: {error}");
    }
    assert!(Store::needs_upgrade(&folder.path().join(RESULTS)).unwrap());
    drop(run);
    open_campaign(folder.path()).unwrap();
    assert!(!Store::needs_upgrade(&folder.path().join(RESULTS)).unwrap());
}

#[test]
fn damage_of_an_older_database_is_not_called_a_matter_of_rights() {
    let folder = campaign_folder("");
    make_format_1(folder.path());
    let path = folder.path().join(RESULTS);
    let mut bytes = fs::read(&path).unwrap();
    bytes[4096..].fill(0xff);
    fs::write(&path, bytes).unwrap();
    assert!(Store::needs_upgrade(&path).unwrap());
    let error = open_campaign(folder.path()).map(|_| ()).unwrap_err();
    let error = format!("{error:#}");
    assert!(
        error.starts_with(&format!("{}: damaged: ", path.display())),
        "{error}"
    );
}

#[test]
fn releases_of_different_consensus_are_not_compared_by_their_ratios() {
    let of = |version: &str, times: f64, name: &str| {
        let mut rows = runs(version, times, 2);
        rows.iter_mut()
            .for_each(|run| run.cluster = cluster(&[name], None));
        release(&rows)
    };
    let old = of("1.1.0", 1.0, "tower");
    let verdicts = |new: &Release| {
        let checked = compare_with(new, &old, 0.05);
        checked.iter().map(|one| one.verdict).collect::<Vec<_>>()
    };
    let migrated = of("1.2.0", 1.2, "alpenglow");
    assert_eq!(verdicts(&migrated), [Verdict::NotComparable; 2]);
    assert_eq!(
        comparability_notes(&migrated, Some(&old)),
        "1.2.0 is not comparable with 1.1.0 by slot: Alpenglow against Tower.\n"
    );
    let same = of("1.2.0", 1.2, "tower");
    assert_eq!(verdicts(&same), [Verdict::NothingShown, Verdict::Worse]);
    assert_eq!(comparability_notes(&same, Some(&old)), "");
}

#[test]
fn unmeasured_untested_or_unrepeated_metrics_do_not_pass() {
    let fine = runs("1.1.0", 1.0, 1);
    assert_eq!(reason_of(&fine), None);
    let killed = |mut rows: Vec<RunRow>, both: bool| {
        for run in rows.iter_mut().filter(|run| both || !run.is_baseline) {
            (run.outcome, run.values) = ("oom".to_owned(), Vec::new());
        }
        reason_of(&rows).unwrap()
    };
    assert!(killed(fine.clone(), false).contains("0 of its runs ran as planned, and 3"));
    assert!(killed(fine, true).contains("nothing could be tested"));
    let unconfirmed = reason_of(&runs("1.1.0", 1.08, 1)).unwrap();
    assert!(
        unconfirmed.contains("not confirmed: Replay time per slot, p95"),
        "{unconfirmed}"
    );
    let mut elsewhere = runs("1.1.0", 1.08, 2);
    for run in elsewhere.iter_mut().filter(|run| run.round == 2) {
        run.machine = "another".to_owned();
    }
    assert_eq!(reason_of(&elsewhere), Some(unconfirmed));
    assert_eq!(reason_of(&runs("1.1.0", 0.9, 1)), None);
    assert_eq!(
        reason_of(&runs("1.1.0", 1.08, 2)),
        None,
        "the exit code says that it is worse"
    );
}

#[test]
fn a_lost_database_is_named_and_not_made_again() {
    let folder = campaign_folder("");
    let verify = || {
        let dir = folder.path().to_owned();
        let repeat = false;
        verify::run(&VerifyArgs { dir, repeat })
    };
    assert_eq!(verify().unwrap(), 0, "a new campaign");
    fs::create_dir(folder.path().join("experiments")).unwrap();
    assert_eq!(verify().unwrap(), 0, "a campaign without results");
    let database = folder.path().join(RESULTS);
    fs::write(&database, "").unwrap();
    let empty = verify().unwrap_err().to_string();
    assert!(
        empty.contains(
            "results.db: missing or empty, although rounds were submitted or run: restore it"
        ),
        "{empty}"
    );
    assert_eq!(fs::read(&database).unwrap(), b"");
    fs::remove_file(&database).unwrap();
    assert_eq!(verify().unwrap_err().to_string(), empty);
    assert!(!database.exists());
    std::os::unix::fs::symlink(RESULTS, &database).unwrap();
    let loop_error = format!("{:#}", verify().unwrap_err());
    assert!(
        loop_error.contains("results.db: Too many levels of symbolic links"),
        "{loop_error}"
    );
}

#[test]
fn a_listed_version_keeps_its_program_and_name() {
    let folder = campaign_folder(
        "[[program]]\nversion = 'v2.0.0'\npath = 'b'\n[[program]]\nversion = 'v3.0.0'\npath = 'b'\n",
    );
    let add = |version: &str, file: &str, name: Option<&str>| {
        add(&AddArgs {
            dir: folder.path().to_owned(),
            version: version.to_owned(),
            path: Some(folder.path().join(file)),
            name: name.map(str::to_owned),
        })
    };
    add("1.2.0", "a", Some("nice")).unwrap();
    add("1.2.0", "a", Some("nice")).unwrap();
    let again = [
        ("1.2.0", "b", Some("nice")),
        ("1.2.0", "a", None),
        ("v1.2.0", "a", Some("nice")),
    ];
    for (version, file, name) in again {
        let error = add(version, file, name).unwrap_err().to_string();
        assert!(
            error.contains("is on the list with another program, name or leading `v`"),
            "{error}"
        );
    }
    for (version, known) in [("v2.0.0", "v2.0.0"), ("3.0.0", "v3.0.0")] {
        let error = add(version, "b", None).unwrap_err().to_string();
        assert_eq!(error, format!("{known} is in campaign.toml already"));
    }
    let (_, store) = open_campaign(folder.path()).unwrap();
    let listed = store.listed_versions().unwrap();
    let nice = find_version(&listed, "1.2.0").unwrap();
    assert_eq!((&*nice.program.name, listed.len()), ("nice", 4));
    let none = add("1.4.0", "none", None).unwrap_err();
    assert!(
        format!("{none:#}").ends_with("/none: No such file or directory (os error 2)"),
        "{none:#}"
    );
    remove(folder.path(), "1.2.0").unwrap();
    for version in ["v1.2.0", "vanilla"] {
        add(version, "b", None).unwrap();
        remove(folder.path(), version).unwrap();
        add(version, "b", None).unwrap();
        let versions = store.listed_versions().unwrap();
        assert!(find_version(&versions, version).is_some_and(|listed| !listed.removed));
    }
}

/// A campaign with results of 1.1.0.
fn measured_campaign() -> (TempDir, Store) {
    let folder = campaign_folder(
        "[[program]]\nversion = '1.1.0'\npath = 'b'\n[[program]]\nversion = '1.3.0'\npath = 'b'\n",
    );
    let (campaign, mut store) = open_campaign(folder.path()).unwrap();
    work::sync_listed_versions(&campaign, &store).unwrap();
    store.add(&campaign.baseline, work::BASELINE, 1).unwrap();
    store.set_digest("1.0.0", "beef").unwrap();
    let mut rows = runs("1.1.0", 1.0, 1);
    for run in &mut rows {
        run.conditions.plan_digest = campaign.plan_digest.clone();
    }
    store.add_runs(&rows).unwrap();
    (folder, store)
}

#[test]
fn check_says_why_a_version_has_no_result() {
    let (folder, store) = measured_campaign();
    store.set_error("1.3.0", Some("it did not start")).unwrap();
    let error_of = |against: &str, release: &str| {
        let args = CheckArgs {
            dir: folder.path().to_owned(),
            against: against.to_owned(),
            release: Some(release.to_owned()),
            margin: None,
        };
        check(&args).unwrap_err().to_string()
    };
    let failed = error_of("1.0.0", "1.3.0");
    assert!(
        failed.contains("1.3.0 has no result that can be checked: it did not start"),
        "{failed}"
    );
    store.remove("1.3.0").unwrap();
    let removed = error_of("1.0.0", "1.3.0");
    assert!(
        removed.contains("1.3.0 has no result against the baseline 1.0.0"),
        "{removed}"
    );
}

#[test]
fn check_refuses_to_compare_a_version_with_itself() {
    let (folder, _) = measured_campaign();
    for version in ["1.0.0", "1.1.0"] {
        let args = CheckArgs {
            dir: folder.path().to_owned(),
            against: version.to_owned(),
            release: Some(version.to_owned()),
            margin: None,
        };
        let error = check(&args).unwrap_err();
        let wanted = format!("--against and --release both name {version}: ");
        assert!(
            error.is::<UsageError>() && error.to_string().starts_with(&wanted),
            "{error}"
        );
    }
}

#[test]
fn both_forms_of_a_version_on_the_list_are_named_with_a_remedy() {
    let folder = campaign_folder("[[program]]\nversion = 'v1.3.0'\npath = 'b'\n");
    let (campaign, store) = open_campaign(folder.path()).unwrap();
    let program = Program {
        version: "1.3.0".to_owned(),
        path: Some(folder.path().join("b")),
        ..Program::default()
    };
    store.add(&program, FROM_COMMAND, 1).unwrap();
    let add = |version: &str| {
        add(&AddArgs {
            dir: folder.path().to_owned(),
            version: version.to_owned(),
            path: program.path.clone(),
            name: None,
        })
    };
    add("1.4.0").unwrap();
    let wanted =
        "1.3.0 and v1.3.0 are both on the list, and are measured as two versions: remove one";
    let error = add("1.3.0").unwrap_err().to_string();
    assert!(error.starts_with(wanted), "{error}");
    let text = plan::versions_text(&campaign, &store).unwrap();
    assert!(text.contains(&format!("\n{wanted}")), "{text}");
    remove(folder.path(), "1.3.0").unwrap();
    let text = plan::versions_text(&campaign, &store).unwrap();
    assert!(!text.contains("both on the list"), "{text}");
}

#[test]
fn the_baseline_is_on_the_list_before_the_first_run() {
    let folder = campaign_folder("");
    let (campaign, store) = open_campaign(folder.path()).unwrap();
    let text = status::status(&campaign, &store, false).unwrap();
    let row = text.lines().nth(1).unwrap_or_default();
    assert!(row.starts_with("1.0.0    baseline"), "{text}");
    let removed = remove(folder.path(), "1.0.0").unwrap_err().to_string();
    assert_eq!(removed, "1.0.0 is in campaign.toml: take it out there");
    let added = add(&AddArgs {
        dir: folder.path().to_owned(),
        version: "v1.0.0".to_owned(),
        path: Some(folder.path().join("b")),
        name: None,
    });
    let error = added.unwrap_err().to_string();
    assert_eq!(error, "1.0.0 is in campaign.toml already");
}

#[test]
fn check_uses_results_of_the_current_plan_before_newer_ones_of_another() {
    let (folder, mut store) = measured_campaign();
    let mut worse = runs("1.1.0", 1.5, 2);
    for run in &mut worse {
        run.began_unix_ns += 9;
    }
    store.add_runs(&worse).unwrap();
    let check = || {
        check(&CheckArgs {
            dir: folder.path().to_owned(),
            against: "1.0.0".to_owned(),
            release: None,
            margin: None,
        })
    };
    assert_eq!(check().unwrap(), 0);
    fs::write(folder.path().join("plan.toml"), "name = 'y'\n").unwrap();
    assert_eq!(check().unwrap(), 1);
}
