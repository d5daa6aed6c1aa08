//! A campaign by tasks on several hosts, which are this one under several names. Slurm's programs are scripts.

use super::{PATIENCE, Stage, nothing_is_lost, said};
use faultline_testkit::eventually::eventually;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    process::{Child, Command, Output, Stdio},
};

impl Stage {
    /// Scripts for `sbatch`, which notes its arguments in `calls`, `scontrol`, and `squeue`, which prints `queue`.
    fn with_scripts(&self) {
        let root = self.scene.path("").display().to_string();
        for (name, text) in [
            ("sbatch", format!("echo \"$@\" >> {root}/calls\necho 7")),
            (
                "scontrol",
                "echo 'KillWait = 30 sec'; echo 'RequeueExit = 75'".to_owned(),
            ),
            ("squeue", format!("cat {root}/queue")),
        ] {
            let path = self
                .scene
                .write(&format!("bin/{name}"), &format!("#!/bin/sh\n{text}\n"));
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("rights");
        }
        self.scene.write("queue", "");
    }

    fn on(&self, host: &str, words: &[&str]) -> Command {
        let mut command = self.command(words);
        let path = std::env::var("PATH").expect("a path");
        let path = format!("{}:{path}", self.scene.path("bin").display());
        command.env("PATH", path).env("SLURMD_NODENAME", host);
        command
    }

    fn slurm(&self, more: &[&str]) -> (Option<i32>, String) {
        ended(self.on("head", &[&["slurm"], more].concat()).output())
    }

    fn task(&self, host: &str, number: &str) -> (Option<i32>, String) {
        let words = ["round", number, "--launcher", "direct"];
        ended(self.on(host, &words).output())
    }

    /// Kills the runner of a task while this run of the round runs.
    fn killed_in_run(&self, host: &str, number: &str, run: usize, meanwhile: impl Fn()) {
        let mut command = self.on(host, &["round", number, "--launcher", "direct"]);
        let output = fs::File::create(self.scene.path("task.out")).expect("a file");
        let mut child: Child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a file"))
            .stderr(output)
            .spawn()
            .expect("faultline can be run");
        let begun = self.entries("turn_begun");
        eventually(PATIENCE, "the run", || {
            let ended = child.try_wait().expect("a status");
            let text = || fs::read_to_string(self.scene.path("task.out")).unwrap_or_default();
            assert!(ended.is_none(), "{}", text());
            (self.entries("turn_begun") >= begun + run).then_some(())
        });
        meanwhile();
        child.kill().expect("a kill");
        child.wait().expect("an end");
    }

    /// What `sbatch` was called for.
    fn submissions(&self) -> Vec<String> {
        let text = fs::read_to_string(self.scene.path("calls")).unwrap_or_default();
        let lines = text.lines().filter(|line| line.starts_with("--parsable"));
        lines.map(str::to_owned).collect()
    }

    fn runs_of(&self, version: &str) -> String {
        let status = said(&self.faultline(&["status"]));
        let row = status.lines().find(|line| line.starts_with(version));
        let words = row.expect("a row").split_whitespace().skip(1);
        words.take(3).collect::<Vec<_>>().join(" ")
    }
}

fn ended(output: std::io::Result<Output>) -> (Option<i32>, String) {
    let output = output.expect("faultline can be run");
    (output.status.code(), said(&output))
}

#[test]
fn rounds_of_tasks_are_collected_once_and_repeated_whole_on_another_host() {
    let Some(stage) = Stage::new() else { return };
    stage.with_scripts();
    submitted_after_printed(&stage);
    refused_tasks(&stage);

    // The host of task 1 dies, that of task 2 comes back.
    stage.killed_in_run("n1", "1", 3, || nothing_else_runs_it(&stage));
    for host in ["n2", "n1"] {
        let (done, words) = stage.task(host, "1");
        assert!(
            done == Some(0) && words.contains("round 1 of 1.1.0 is done"),
            "{words}"
        );
    }
    stage.killed_in_run("n1", "2", 4, || {});
    let begun = stage.entries("turn_begun");
    let (done, words) = stage.task("n1", "2");
    assert_eq!(done, Some(0), "{words}");
    // The run that was cut off, and those after it.
    assert_eq!(stage.entries("turn_begun"), begun + 3);
    stage.scene.nothing_is_left();
    assert_eq!(stage.runs_of("1.1.0"), "waits 0 campaign.toml");

    let (_, words) = stage.slurm(&["--follow-up"]);
    assert!(
        words.contains("1.1.0: the results of round 1 are those of n2-1; not used: n1-0"),
        "{words}"
    );
    let submissions = stage.submissions();
    assert!(
        submissions.len() == 4 && submissions[2].starts_with("--parsable --array=3"),
        "{submissions:?}"
    );
    // Nothing has run, and nothing is submitted again.
    let (failed, words) = stage.slurm(&["--follow-up"]);
    assert!(
        failed == Some(1)
            && words.contains("1.2.0: round 2 has no result: read")
            && words.contains("slurm/003.out"),
        "{words}"
    );
    assert_eq!(stage.submissions().len(), 4);
    assert_eq!(stage.runs_of("1.2.0"), "failed 3 watch");

    // One host does what is left.
    let ran = stage.faultline(&["run", "--launcher", "direct"]);
    assert_eq!(ran.status.code(), Some(0), "{}", said(&ran));
    nothing_is_lost(&stage, &stage.results());
    let (done, words) = stage.slurm(&[]);
    assert!(
        done == Some(0) && words.contains("every version has its result"),
        "{words}"
    );
    assert_eq!(stage.submissions().len(), 4);
}

/// While a task runs round 1 of 1.1.0.
fn nothing_else_runs_it(stage: &Stage) {
    let (not_now, words) = stage.task("n2", "1");
    assert_eq!(not_now, Some(75), "{words}");
    // A task has read the plan, which may change meanwhile.
    let plan = stage.folder.join("plan.toml");
    let text = fs::read_to_string(&plan).expect("a plan");
    fs::write(&plan, format!("{text}\n# changed\n")).expect("a plan");
    let run = ended(stage.on("head", &["run"]).output());
    for (refused, words) in [run, stage.slurm(&[])] {
        assert!(
            refused == Some(1) && words.contains("round 1 of 1.1.0 is being run by a task"),
            "{words}"
        );
    }
    fs::write(&plan, text).expect("a plan");
}

fn submitted_after_printed(stage: &Stage) {
    let (printed, script) = stage.slurm(&["--print"]);
    let folder = stage.folder.display();
    for line in [
        "#SBATCH --exclusive".to_owned(),
        "#SBATCH --mem=0M".to_owned(),
        format!("#SBATCH --output=\"{folder}/slurm/%3a.out\""),
    ] {
        assert!(script.lines().any(|one| one == line), "{line}\n{script}");
    }
    let last = format!(" campaign round {folder} \"$SLURM_ARRAY_TASK_ID\"\n");
    assert!(printed == Some(0) && script.ends_with(&last), "{script}");
    assert!(!stage.folder.join("results.db").exists());

    let (done, words) = stage.slurm(&[]);
    assert!(
        done == Some(0) && words.contains("job 7 has 2 rounds"),
        "{words}"
    );
    let submissions = stage.submissions();
    let expected = [
        format!("--parsable --array=1,2 {folder}/slurm/array.sh"),
        format!("--parsable --dependency=afterany:7 {folder}/slurm/follow-up.sh"),
    ];
    assert_eq!(submissions, expected);
    let next = fs::read_to_string(stage.folder.join("slurm/follow-up.sh")).expect("a script");
    let last = format!(" campaign slurm {folder} --follow-up\n");
    assert!(next.ends_with(&last), "{next}");

    stage.scene.write("queue", "7_1|1|PENDING||Resources\n");
    let (refused, words) = stage.slurm(&[]);
    assert!(
        refused == Some(1) && words.contains("this campaign still has 1 job queued"),
        "{words}"
    );
    stage.scene.write("queue", "");
    // Another host has a database of its own, or none.
    let [here, elsewhere] = ["results.db", "other.db"].map(|name| stage.folder.join(name));
    fs::rename(&here, &elsewhere).expect("a file");
    let (refused, words) = stage.slurm(&["--follow-up"]);
    assert!(
        refused == Some(1) && words.contains("this host does not have the file"),
        "{words}"
    );
    fs::rename(&elsewhere, &here).expect("a file");
}

fn refused_tasks(stage: &Stage) {
    let (usage, words) = stage.task("n1", "3");
    assert!(
        usage == Some(64) && words.contains("it has 2 rounds, and no 3"),
        "{words}"
    );
    let plan = stage.folder.join("plan.toml");
    for (file, why) in [
        (plan, "the plan has changed"),
        (stage.scene.path("1.1.0"), "this is not the program"),
    ] {
        let text = fs::read_to_string(&file).expect("a file");
        fs::write(&file, format!("{text}\n# changed\n")).expect("a file");
        let (refused, words) = stage.task("n1", "1");
        assert!(refused == Some(1) && words.contains(why), "{words}");
        fs::write(&file, text).expect("a file");
    }
}

#[test]
fn a_version_that_does_not_start_under_tasks_is_named_and_submitted_by_hand_alone() {
    let Some(stage) = Stage::new() else { return };
    stage.with_scripts();
    let settings = stage.folder.join("campaign.toml");
    let text = fs::read_to_string(&settings).expect("settings");
    fs::write(&settings, text.split("[watch]").next().unwrap_or_default()).expect("settings");
    let program = stage.scene.path("1.1.0");
    fs::write(&program, "#!/bin/sh\necho no such feature\nexit 3\n").expect("a program");
    assert_eq!(stage.slurm(&[]).0, Some(0));
    let (done, words) = stage.task("n1", "1");
    assert_eq!(done, Some(0), "{words}");
    for _ in 0..2 {
        let (failed, words) = stage.slurm(&["--follow-up"]);
        assert_eq!(failed, Some(1), "{words}");
        assert_eq!(stage.submissions().len(), 2, "{words}");
        assert_eq!(stage.runs_of("1.1.0"), "failed 0 campaign.toml");
    }
    let results = stage.results().to_string();
    assert!(
        results.contains("did not reach the tip in any of its 3 runs"),
        "{results}"
    );
    assert_eq!(stage.slurm(&[]).0, Some(0));
    assert_eq!(stage.submissions().len(), 4);
    assert_eq!(stage.runs_of("1.1.0"), "waits 0 campaign.toml");
}
