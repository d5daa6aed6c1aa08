use super::*;
use crate::plan::parse;

fn plan(more: &str) -> Plan {
    let text = format!(
        "name = \"p\"\nfolder = \"/state\"\nreplicates = 2\n{more}\n[host]\ncool_down = \"5m\"\npatience = \"10m\"\n\
         [begin]\nhow = \"as-is\"\n[workload]\ncommand = [\"v\"]\nledger = \"/mnt/l\"\n\
         [[arm]]\nname = \"small\"\nmemory_max = \"1550M\"\n[[arm]]\nname = \"large\"\nenvironment = {{ TOKEN = \"hidden\" }}\n"
    );
    parse(&text, Path::new("/p.toml")).unwrap_or_else(|m| panic!("{m:#?}"))
}

fn preview(plan: &Plan) -> PlanPreview {
    PlanPreview::new(
        plan,
        &check::gather_facts(plan, Err("not asked".to_owned())),
        false,
    )
}

#[test]
fn the_duration_estimate_sums_the_plans_times() {
    let plan =
        plan("stop = { duration = \"1h\", first_transaction_within = \"30m\", grace = \"2m\" }");
    let turns = schedule(&plan).len();
    let found = estimate(&plan, turns);
    let minute = 60;
    assert_eq!(
        (found.turns, found.shortest_seconds),
        (4, (4 * 60 + 3 * 5) * minute)
    );
    assert_eq!(
        found.longest_seconds,
        (4 * 60 + 3 * 5 + 4 * (30 + 10 + 2)) * minute
    );
    let assumed = |turns| estimate(&plan, turns).assumed;
    assert!(assumed(4).starts_with("4 turns of 1 h, 5 min between them; at most"));
    assert!(assumed(1).starts_with("1 turn of 1 h; at most"));
}

#[test]
fn the_plan_page_shows_schedule_arms_and_findings_without_variable_values() {
    let plan = plan("");
    let preview = preview(&plan);
    let page = render_page(&preview);
    for message in [
        "turn  run  arm    replicate\n1     1    small  1\n2     2    large  1\n3     3    large  2\n4     4    small  2\n",
        "small  memory_max 1550 MiB, swap_max 0 B\n",
        "large  TOKEN=...\n",
        "refused  no cgroup can be made here: not asked\n         -> ",
        "It cannot run: ",
    ] {
        assert!(page.contains(message), "{message:?}\n{page}");
    }
    let json = serde_json::to_string(&preview).unwrap();
    assert!(!page.contains("hidden") && !json.contains("hidden"));
    assert!(!preview.may_run);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json["turns"][2]["runs"][0]["arm"], &json["may_run"]),
        (&"large".into(), &false.into())
    );
    assert_eq!(
        json["findings"].as_array().map(Vec::len),
        Some(preview.findings.len())
    );
}

#[test]
fn plan_command_reports_every_error_of_an_invalid_plan() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("p.toml");
    std::fs::write(&file, "name = \"p\"\nfolder = 5\nx = 1\n").unwrap();
    let args = PlanArgs {
        plan: file,
        json: false,
        vote_confirmed: false,
        launcher: crate::args::LauncherKind::Auto,
    };
    let error = preview_plan(&args, Err(String::new())).unwrap_err();
    let message = error.downcast_ref::<UsageError>().unwrap().to_string();
    assert!(
        message.starts_with("the plan has 5 mistakes:\n"),
        "{message}"
    );
    assert!(
        message.contains("p.toml:2: folder: a string is wanted, not the number 5\n"),
        "{message}"
    );
}

#[test]
fn the_search_plan_page_states_procedure_duration_and_unknowns() {
    let text = "name = \"s\"\nfolder = \"/state\"\n[begin]\nhow = \"as-is\"\n[workload]\ncommand = [\"v\"]\nledger = \"/mnt/l\"\n\
                [search]\nwhat = \"memory\"\nfrom = \"24G\"\n";
    let plan = parse(text, Path::new("/p.toml")).unwrap_or_else(|m| panic!("{m:#?}"));
    let preview = preview(&plan);
    // 14 dwells of 2 and 8 min, 6 of 2 and 16 min; the start may take as long as the search.
    assert_eq!(preview.estimate.shortest_seconds, (14 * 10 + 6 * 18) * 60);
    assert_eq!(
        preview.estimate.longest_seconds,
        (8 * 60 + 8 * 60 + 30 + 2) * 60
    );
    assert_eq!(
        preview.disk[0].bytes,
        (8 << 20) * (8 * 60 + 8 * 60 + 2) / 60
    );
    let page = render_page(&preview);
    for message in [
        "It tries a headroom of 24 GiB, then 8 % less",
        "until the 90 % interval is at most 10 % wide, or for 50 dwells",
        "by more than 5 % in 1 d, the report has the memory for 1, 12 and 24 h",
        "note     the search begins when the validator is at the tip",
        "note     the answer does not cover events",
    ] {
        assert!(page.contains(message), "{message}\n{page}");
    }
    assert!(
        !page.contains("settings") && !page.contains("a single run"),
        "{page}"
    );
}
