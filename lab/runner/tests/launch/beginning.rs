//! From the job to the running program.

use crate::scene::{PATH, Scene, end_of};
use faultline_runner::isolation::{CgroupName, End, Job};
use faultline_testkit::proc::is_alive;
use std::{ffi::OsString, fs};

pub fn runs_in_its_cgroup(scene: &Scene) {
    let launched = scene.launch(&scene.job(&["sleep", "1000"]));
    let cgroups = |pid: u32| fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("a cgroup");
    let named = |text: &str| {
        text.lines().any(|line| {
            [&scene.experiment, "r001_a1", "validator"]
                .iter()
                .all(|part| line.contains(*part))
        })
    };
    assert!(
        named(&cgroups(launched.pid())),
        "{}",
        cgroups(launched.pid())
    );
    assert!(!named(&cgroups(std::process::id())));
    let there = scene
        .launcher
        .leftovers(&scene.experiment)
        .expect("cgroups are listed");
    assert!(!there.is_empty());
    launched.close().expect("it is closed");
}

pub fn waits_at_its_gate(scene: &Scene) {
    let job = scene.gated(scene.script("echo \"begun with $GATE_TEXT as $$\""));
    let mut launched = scene.launch(&job);
    scene.says("waiting");
    assert_eq!(launched.poll_end().expect("its end is told"), None);
    assert!(!scene.output().contains("begun"), "{}", scene.output());
    launched
        .open_exec_gate(b"two words")
        .expect("its gate is opened");
    assert_eq!(end_of(&mut *launched), End::Code(0));
    scene.says(&format!("begun with two words as {}", launched.pid()));
    launched.open_exec_gate(b"nothing").expect("once is enough");
    launched.close().expect("it is closed");
    assert!(!scene.path("gate").exists());
}

pub fn large_gate_message(scene: &Scene) {
    let message = "x".repeat(1 << 20);
    let gate = scene.path("gate");
    let count = ["/bin/sh", "-c", "wc -c < \"$1\"", "count"].map(OsString::from);
    let command = count.into_iter().chain([gate.clone().into()]).collect();
    let mut launched = scene.launch(&Job {
        command,
        exec_gate: Some(gate),
        ..scene.job(&[])
    });
    launched
        .open_exec_gate(message.as_bytes())
        .expect("its gate is opened");
    assert_eq!(end_of(&mut *launched), End::Code(0));
    assert_eq!(scene.output().trim(), message.len().to_string());
    launched.close().expect("it is closed");
}

pub fn ended_at_the_gate(scene: &Scene) {
    let job = Job {
        exec_gate: Some(scene.path("gate")),
        ..scene.script("exit 3")
    };
    let mut launched = scene.launch(&job);
    assert_eq!(end_of(&mut *launched), End::Code(3));
    launched.open_exec_gate(b"go").expect_err("it has ended");
    launched.close().expect("it is closed");
    assert!(!scene.path("gate").exists());
}

pub fn output_is_appended(scene: &Scene) {
    fs::write(scene.path("output"), "before\n").expect("a file");
    let mut launched = scene.launch(&scene.script("echo out; echo err >&2; cat"));
    assert_eq!(end_of(&mut *launched), End::Code(0));
    assert_eq!(scene.output(), "before\nout\nerr\n");
    launched.close().expect("it is closed");
}

pub fn environment_is_given(scene: &Scene) {
    let environment: Vec<(OsString, OsString)> = [
        ("PATH", PATH),
        ("WORDS", "two words, \"quoted\" $HOME %n"),
        ("EMPTY", ""),
    ]
    .map(|(name, value)| (name.into(), value.into()))
    .to_vec();
    let mut launched = scene.launch(&Job {
        environment,
        ..scene.job(&["env"])
    });
    assert_eq!(end_of(&mut *launched), End::Code(0));
    let output = scene.output();
    let mut lines: Vec<&str> = output.lines().collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "EMPTY=",
            &format!("PATH={PATH}"),
            "WORDS=two words, \"quoted\" $HOME %n"
        ]
    );
    launched.close().expect("it is closed");
}

pub fn user_and_folder(scene: &Scene) {
    let script = "echo \"$(id -u) $(id -g) $(pwd)\"";
    let mut launched = scene.launch(&scene.script(script));
    assert_eq!(end_of(&mut *launched), End::Code(0));
    let us = rustix::process::geteuid().as_raw();
    assert_eq!(
        scene.output(),
        format!("{us} {} /\n", rustix::process::getegid().as_raw())
    );
    launched.close().expect("it is closed");

    fs::remove_file(scene.path("output")).expect("the file is there");
    let folder = scene.path("").canonicalize().expect("a folder");
    let job = Job {
        user: Some("nobody".to_owned()),
        folder: Some(folder.clone()),
        ..scene.script(script)
    };
    let mut launched = scene.launch(&job);
    assert_eq!(end_of(&mut *launched), End::Code(0));
    let (uid, gid) = nobody();
    assert_eq!(
        scene.output(),
        format!("{uid} {gid} {}\n", folder.display())
    );
    launched.close().expect("it is closed");
}

pub fn gate_of_another_user(scene: &Scene) {
    let job = Job {
        user: Some("nobody".to_owned()),
        ..scene.script("echo \"$GATE_TEXT $(id -u)\"")
    };
    let mut launched = scene.launch(&scene.gated(job));
    launched.open_exec_gate(b"go").expect("its gate is opened");
    assert_eq!(end_of(&mut *launched), End::Code(0), "{}", scene.output());
    scene.says(&format!("go {}", nobody().0));
    launched.close().expect("it is closed");
}

fn nobody() -> (String, String) {
    let id = |option: &str| {
        let output = std::process::Command::new("id")
            .args([option, "nobody"])
            .output()
            .expect("id runs");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    (id("-u"), id("-g"))
}

/// Groups of this user, from `id`.
fn groups(user: &str) -> String {
    let output = std::process::Command::new("id")
        .args(["-G", user])
        .output()
        .expect("id runs");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

pub fn groups_of_the_user(scene: &Scene) {
    let text = fs::read_to_string("/etc/passwd").expect("a list of users");
    let names = text
        .lines()
        .filter_map(|line| line.split(':').next())
        .filter(|name| *name != "root");
    let Some(user) = names.clone().find(|name| groups(name).contains(' ')) else {
        return eprintln!("SKIPPED: no user of this host is in a second group");
    };
    let mut launched = scene.launch(&Job {
        user: Some(user.to_owned()),
        ..scene.script("id -G")
    });
    assert_eq!(end_of(&mut *launched), End::Code(0), "{}", scene.output());
    let sorted = |text: &str| {
        let mut numbers: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        numbers.sort();
        numbers
    };
    assert_eq!(sorted(&scene.output()), sorted(&groups(user)), "{user}");
    launched.close().expect("it is closed");
}

pub fn closed_folder(scene: &Scene) {
    let closed = scene.path("closed");
    fs::create_dir(&closed).expect("a folder");
    fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(0o700))
        .expect("a mode");
    let job = Job {
        user: Some("nobody".to_owned()),
        folder: Some(closed),
        ..scene.script("echo begun")
    };
    let gated = scene.gated(job);
    let error = match scene.launcher.launch(&gated) {
        Ok(mut launched) => launched
            .open_exec_gate(b"go")
            .expect_err("it cannot have begun"),
        Err(error) => error,
    };
    assert!(
        !scene.output().contains("begun"),
        "{error}: {}",
        scene.output()
    );
}

pub fn open_files(scene: &Scene) {
    for user in [None, Some("nobody".to_owned())] {
        let script = scene.script("echo \"$(id -un): $(ulimit -Sn) $(ulimit -Hn)\"");
        let name = user.clone().unwrap_or("root".to_owned());
        let mut launched = scene.launch(&scene.gated(Job {
            open_files: Some(1234),
            user,
            ..script
        }));
        launched.open_exec_gate(b"go").expect("its gate is opened");
        assert_eq!(end_of(&mut *launched), End::Code(0));
        scene.says(&format!("{name}: 1234 1234"));
        launched.close().expect("it is closed");
    }
}

pub fn too_many_files(scene: &Scene) {
    let error = scene.refused(&scene.gated(Job {
        open_files: Some(1 << 50),
        ..scene.job(&["true"])
    }));
    assert!(error.contains("open files"), "{error}");
    let most = scene
        .launcher
        .abilities()
        .open_files
        .expect("it is known how many there can be");
    let mut launched = scene.launch(&Job {
        open_files: Some(most),
        ..scene.script("ulimit -n")
    });
    assert_eq!(end_of(&mut *launched), End::Code(0), "{}", scene.output());
    scene.says(&most.to_string());
    launched.close().expect("it is closed");
}

pub fn same_name(scene: &Scene) {
    let first = scene.launch(&scene.job(&["sleep", "1000"]));
    let error = scene
        .launcher
        .launch(&scene.job(&["true"]))
        .err()
        .expect("a second one is refused");
    assert!(!error.to_string().is_empty());
    assert!(is_alive(first.pid()));
    let sibling = CgroupName {
        role: "recorder".to_owned(),
        ..scene.name()
    };
    let second = scene.launch(&Job {
        name: sibling,
        ..scene.job(&["sleep", "1000"])
    });
    first.close().expect("it is closed");
    assert!(
        is_alive(second.pid()),
        "another part of the same run lives on"
    );
    second.close().expect("it is closed");
    scene
        .launch(&scene.job(&["true"]))
        .close()
        .expect("the name is free again");
}

pub fn nothing_left_of_failures(scene: &Scene) {
    let job = |command: &str| scene.gated(scene.job(&[command]));
    let not_there = |command: &str| Job {
        command: vec![command.into()],
        ..job(command)
    };
    let error = scene.refused(&not_there("no-such-program"));
    assert!(error.contains("no-such-program"), "{error}");
    scene.refused(&not_there("/nonexistent/program"));
    let error = scene.refused(&Job {
        user: Some("no-such-user".to_owned()),
        ..job("true")
    });
    assert!(error.contains("no-such-user"), "{error}");
    let error = scene.refused(&Job {
        folder: Some("/nonexistent/folder".into()),
        ..job("true")
    });
    assert!(error.contains("/nonexistent/folder"), "{error}");
    scene.refused(&Job {
        output: "/nonexistent/folder/output".into(),
        ..job("true")
    });
    scene.refused(&Job {
        exec_gate: Some("/nonexistent/folder/gate".into()),
        ..job("true")
    });
    scene.refused(&Job {
        command: Vec::new(),
        ..job("true")
    });
    let text = scene.path("text");
    fs::write(&text, "no program").expect("a file");
    scene.refused(&Job {
        command: vec![text.into()],
        ..job("true")
    });
}

pub fn bad_names(scene: &Scene) {
    for bad in ["", "../x", "a/b", "a-b", "a.b", "A", "a b", "\u{fc}"] {
        for part in 0..3 {
            let mut name = scene.name();
            *[&mut name.experiment, &mut name.run, &mut name.role][part] = bad.to_owned();
            let error = scene
                .launcher
                .launch(&Job {
                    name,
                    ..scene.job(&["true"])
                })
                .err()
                .expect("it is refused");
            assert!(error.to_string().contains(bad), "{error}");
        }
    }
}
