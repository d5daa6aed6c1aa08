use super::*;
use crate::plan::parse;
use proptest::prelude::*;
use std::os::unix::fs::PermissionsExt;

/// A folder with files (name, text) and a plan in `plans/p.toml` of it.
struct Scene {
    root: tempfile::TempDir,
}

impl Scene {
    fn new(files: &[(&str, &str)]) -> Self {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let file = root.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, text.replace("ROOT", root.path().to_str().unwrap())).unwrap();
            let mode = if text.starts_with("#!") { 0o755 } else { 0o644 };
            std::fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
        }
        Scene { root }
    }

    fn follow(&self, workload: &str) -> (Vec<String>, Vec<String>) {
        let root = self.root.path().to_str().unwrap();
        let text = format!(
            "name = \"p\"\nfolder = \"state\"\n[begin]\nhow = \"as-is\"\n[workload]\nledger = \"{root}/ledger\"\n{workload}\n\
             [[arm]]\nname = \"one\"\n"
        );
        let plan = parse(
            &text.replace("ROOT", root),
            &self.root.path().join("plans/p.toml"),
        )
        .unwrap();
        let found = follow(&plan, Some(&self.root.path().join("home")));
        let name = |file: &PathBuf| {
            file.strip_prefix(self.root.path())
                .unwrap_or(file)
                .display()
                .to_string()
        };
        (
            found.texts.keys().map(name).collect(),
            found.unfollowed.into_iter().collect(),
        )
    }
}

const SH: &str = "#!/bin/sh\nexec validator\n";

#[test]
fn scripts_are_found_wherever_a_word_may_mean_them() {
    let scene = Scene::new(&[
        ("work/v.sh", SH),
        ("plans/v.sh", SH),
        ("opt/v.sh", SH),
        ("home/bin/v.sh", SH),
    ]);
    let both = ["plans/v.sh", "work/v.sh"];
    let at = "working_folder = \"ROOT/work\"";
    assert_eq!(
        scene
            .follow(&format!("command = [\"/bin/sh\", \"v.sh\"]\n{at}"))
            .0,
        both
    );
    assert_eq!(
        scene
            .follow(&format!("command = [\"/bin/sh\", \"./v.sh\"]\n{at}"))
            .0,
        both
    );
    assert_eq!(scene.follow("command = [\"./v.sh\"]").0, ["plans/v.sh"]);
    assert_eq!(
        scene
            .follow("command = [\"/bin/sh\", \"-c\", \"exec ROOT/opt/v.sh --x\"]")
            .0,
        ["opt/v.sh"]
    );
    assert_eq!(
        scene
            .follow("command = [\"/bin/sh\", \"-c\", \"~/bin/v.sh\"]")
            .0,
        ["home/bin/v.sh"]
    );
    assert_eq!(
        scene
            .follow("command = [\"/bin/x\", \"--start=ROOT/opt/v.sh\"]")
            .0,
        ["opt/v.sh"]
    );
    assert_eq!(
        scene
            .follow("command = [\"/bin/x\"]\nenvironment = { START = \"ROOT/opt/v.sh\" }")
            .0,
        ["opt/v.sh"]
    );
}

#[test]
fn scripts_are_followed_into_those_that_they_start() {
    let scene = Scene::new(&[
        (
            "a.sh",
            "#!/bin/sh\nHERE=$(dirname \"$0\")\n. \"$HERE/env.sh\"\nsource ROOT/more\nDIR=ROOT/sub\nexec ${DIR}/b.sh\n",
        ),
        ("env.sh", "A=1\n"),
        ("more", "B=1\n"),
        ("sub/b.sh", "#!/bin/sh\nexec ./c.sh\n"),
        (
            "sub/c.sh",
            "#!/bin/sh\nexec $FAULTLINE_BINARY --config \"$1\" \\\n  --options sub.toml\n",
        ),
        ("sub/sub.toml", "[consensus]\n"),
        ("sub/none.sh", "#!/bin/sh\n"),
    ]);
    let (files, unfollowed) = scene.follow("command = [\"ROOT/a.sh\"]\nbinary = \"/bin/true\"");
    assert_eq!(
        files,
        [
            "a.sh",
            "env.sh",
            "more",
            "sub/b.sh",
            "sub/c.sh",
            "sub/sub.toml"
        ]
    );
    assert_eq!(unfollowed, Vec::<String>::new());
}

#[test]
fn what_only_a_run_knows_is_said() {
    let scene = Scene::new(&[(
        "a.sh",
        "#!/bin/sh\nexec $WHERE/start --x\n\"$@\"\nsudo $RUN\necho $OTHER\n",
    )]);
    let (_, unfollowed) = scene.follow("command = [\"ROOT/a.sh\"]");
    assert_eq!(unfollowed, ["$RUN", "$WHERE/start"]);
}

#[test]
fn scripts_that_start_one_another_come_to_an_end() {
    let around = Scene::new(&[
        ("a.sh", "exec ROOT/b.sh\n"),
        ("b.sh", "A=$A$A$A$A\nexec ROOT/a.sh\n"),
    ]);
    assert_eq!(
        around.follow("command = [\"ROOT/a.sh\"]"),
        (vec!["a.sh".to_owned(), "b.sh".to_owned()], Vec::new())
    );
    let names: Vec<String> = (0..9).map(|number| format!("{number}.sh")).collect();
    let texts: Vec<String> = (1..10)
        .map(|number| format!("exec ROOT/{number}.sh\n"))
        .collect();
    let files: Vec<(&str, &str)> = names
        .iter()
        .zip(&texts)
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    let deep = Scene::new(&files);
    let (files, unfollowed) = deep.follow("command = [\"ROOT/0.sh\"]");
    assert_eq!(files, names[..DEEPEST]);
    assert_eq!(
        unfollowed,
        [deep.root.path().join("5.sh").to_str().unwrap()]
    );
}

#[test]
fn keypairs_programs_logs_and_what_runs_write_are_not_read() {
    let key = format!("{:?}", [7_u8; 64]);
    let scene = Scene::new(&[
        (
            "a.sh",
            "#!/bin/sh\nexec v ROOT/id.json --log ROOT/v.log ROOT/ledger/x ROOT/plans/state/y ROOT/plans/state/start ROOT/binary /proc/kmsg\n",
        ),
        ("id.json", &key),
        ("v.log", "--vote-account\n"),
        ("ledger/x", "--vote-account\n"),
        ("plans/state/y", "--vote-account\n"),
        ("plans/state/start", "#!/bin/sh\n"),
        ("binary", "\u{7f}ELF\0--vote-account"),
    ]);
    assert_eq!(
        scene.follow("command = [\"ROOT/a.sh\"]").0,
        ["a.sh", "plans/state/start"]
    );
}

proptest! {
    #[test]
    fn whatever_a_script_says_following_it_comes_to_an_end(
        text in "(?s).{0,80}|([A-C]=|\\$[A-C]|\\$\\{[A-C]\\}|[A-C]|\\$|/|~| |\n|ROOT/a|\\./a){0,40}",
    ) {
        let scene = Scene::new(&[("a", &text)]);
        let (files, _) = scene.follow("command = [\"/bin/sh\", \"ROOT/a\"]");
        prop_assert!(files.len() <= 1);
    }
}
