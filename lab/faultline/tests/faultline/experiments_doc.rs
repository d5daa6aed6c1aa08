//! The document about experiments against the program: every key of a plan, every plan that it names.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a failed expectation is a failed test"
)]

use faultline_experiments::plan::{load, parse};
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn document(page: &str) -> String {
    fs::read_to_string(root().join("docs").join(page)).expect("the document is there")
}

/// The keys that the loader knows at this place of the plan, which has an unknown key there.
fn keys_at(place: &str, plan: &str) -> Vec<String> {
    let mistakes = parse(plan, Path::new("/plan.toml")).expect_err("unknown keys are mistakes");
    let unknown = format!("{place}qqqqqqqq: unknown key; known here: ");
    let known = mistakes
        .iter()
        .find_map(|mistake| mistake.what.strip_prefix(&unknown));
    let keys = known.into_iter().flat_map(|known| known.split(", "));
    keys.map(|key| format!("{place}{key}")).collect()
}

/// Every key that the loader knows, with its table: `stop.grace`.
fn known() -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    for key in keys_at("", "qqqqqqqq = 1") {
        let heads = [format!("[{key}]"), format!("[[{key}]]")];
        let in_table: Vec<String> = heads
            .iter()
            .flat_map(|head| keys_at(&format!("{key}."), &format!("{head}\nqqqqqqqq = 1")))
            .collect();
        if in_table.is_empty() {
            keys.insert(key);
        }
        keys.extend(in_table);
    }
    keys
}

/// First cells of the rows below a heading that are a single piece of code.
fn first_cells(text: &str, heading: &str) -> BTreeSet<String> {
    let (_, after) = text
        .split_once(heading)
        .unwrap_or_else(|| panic!("there is no {heading}"));
    let chapter = after.split("\n#").next().unwrap_or(after);
    let cells = chapter
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    cells.map(|(key, _)| key.to_owned()).collect()
}

#[test]
fn the_document_has_every_key_of_a_plan_and_no_other() {
    let page = document("EXPERIMENTS-KEYS.md");
    let (known, from_experiment) = (known(), first_cells(&page, "## Every key"));
    assert!(known.len() > 60, "{known:?}");
    assert_eq!(
        known.difference(&from_experiment).collect::<Vec<_>>(),
        Vec::<&String>::new(),
        "not in the document"
    );
    assert_eq!(
        from_experiment.difference(&known).collect::<Vec<_>>(),
        Vec::<&String>::new(),
        "no such key"
    );
}

#[test]
fn the_document_names_every_shipped_plan_and_each_loads() {
    let text = document("EXPERIMENTS.md");
    let folder = root().join("experiments");
    let mut plans = 0;
    for entry in fs::read_dir(folder).expect("there are ready plans") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|ending| ending != "toml") {
            continue;
        }
        plans += 1;
        let name = path
            .file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned();
        assert!(
            text.contains(&format!("(../experiments/{name})")),
            "{name} is not in the document"
        );
        if let Err(mistakes) = load(&path) {
            panic!("{name}: {mistakes:#?}");
        }
    }
    assert!(plans >= 8, "{plans}");
}

#[test]
fn documented_placeholders_equal_the_known_placeholders() {
    let text = document("EXPERIMENTS-KEYS.md");
    let plan = |word: &str| {
        format!(
            "name = \"x\"\nfolder = \"/x\"\n[workload]\ncommand = [\"/bin/true\", \"{word}\"]\nbinary = \"/b\"\ncluster = \"devnet\"\n\
             ledger = \"/l\"\naccounts = \"/a\"\nsnapshots = \"/s\"\nidentity = \"/i.json\"\nrpc_port = 8899\ngossip_port = 8001\n\
             port_range = \"8002-8040\"\n[begin]\nhow = \"as-is\"\n[[arm]]\nname = \"a\"\ncache_entries = 1\n"
        )
    };
    let (_, after) = text
        .split_once("Placeholders in command")
        .expect("a paragraph about placeholders");
    let paragraph = after.split("\n\n").next().unwrap_or(after);
    let from_experiment: BTreeSet<&str> = paragraph
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|word| word.starts_with('{'))
        .collect();
    for word in &from_experiment {
        if let Err(mistakes) = parse(&plan(word), Path::new("/plan.toml")) {
            panic!("{word}: {mistakes:?}");
        }
    }
    let mistakes =
        parse(&plan("{nothing}"), Path::new("/plan.toml")).expect_err("it stands for nothing");
    let said = mistakes
        .iter()
        .map(|mistake| mistake.what.as_str())
        .collect::<String>();
    let (_, known) = said
        .split_once("Known: ")
        .unwrap_or_else(|| panic!("{said}"));
    for word in known
        .split(", ")
        .map(|word| word.trim_matches(['{', '}', '.']))
    {
        assert!(
            from_experiment.contains(format!("{{{word}}}").as_str()),
            "{word} is not in the document: {from_experiment:?}"
        );
    }
}
