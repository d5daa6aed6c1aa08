//! The contract of [`Launcher`], for each launcher of this host, with real processes and limits.
//!
//! The test program may be copied to another machine and run there on its own, as root. `FAULTLINE_TEST_CGROUP` names a
//! folder of cgroup version 2 for the direct launcher, if not the program's own.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that cannot prepare its scene fails"
)]
#![expect(clippy::disallowed_methods, reason = "a test starts programs itself")]

#[path = "launch/beginning.rs"]
mod beginning;
#[path = "launch/ending.rs"]
mod ending;
#[path = "launch/limits.rs"]
mod limits;
#[path = "launch/scene.rs"]
mod scene;
#[path = "launch/systemd.rs"]
mod systemd;

use faultline_kernel::HostRoot;
use faultline_runner::isolation::{DirectLauncher, DirectLauncherPaths, Launcher, SystemdLauncher};
use scene::Scene;
use std::env;

type Case = fn(&Scene);

const CONTRACT: &[(&str, Case)] = &[
    (
        "a program runs in its cgroup and not in that of the test",
        beginning::runs_in_its_cgroup,
    ),
    (
        "a program waits at its gate until the gate is opened",
        beginning::waits_at_its_gate,
    ),
    (
        "the message through a gate may be larger than a pipe",
        beginning::large_gate_message,
    ),
    (
        "a program that ended at its gate cannot go on",
        beginning::ended_at_the_gate,
    ),
    (
        "its output is appended to the file",
        beginning::output_is_appended,
    ),
    (
        "its environment is what was given and nothing else",
        beginning::environment_is_given,
    ),
    (
        "it runs as the user and in the folder that were given",
        beginning::user_and_folder,
    ),
    (
        "a gate is open to another user",
        beginning::gate_of_another_user,
    ),
    (
        "another user has the groups that the host gives him",
        beginning::groups_of_the_user,
    ),
    (
        "a folder that the user cannot enter is no place to begin",
        beginning::closed_folder,
    ),
    (
        "it may open as many files as were given",
        beginning::open_files,
    ),
    (
        "more open files than there can be are refused",
        beginning::too_many_files,
    ),
    (
        "a second cgroup of the same name is refused and the first stays",
        beginning::same_name,
    ),
    (
        "what cannot be started leaves nothing behind",
        beginning::nothing_left_of_failures,
    ),
    (
        "names that could lead elsewhere are refused",
        beginning::bad_names,
    ),
    (
        "limits are read back as they were asked for",
        limits::read_back,
    ),
    ("without limits none is read back", limits::none),
    ("only the CPUs that were given are used", limits::cpus_hold),
    (
        "a limit that cannot be set leaves nothing behind",
        limits::refused,
    ),
    (
        "a kill by the memory limit is told apart from another kill",
        limits::out_of_memory,
    ),
    (
        "a limit that slows down is told from one that kills",
        limits::slowed_down,
    ),
    (
        "a limit that is moved holds and is read back, and is lifted",
        limits::moved,
    ),
    (
        "a limit that is moved reclaims page cache and kills nothing",
        limits::moved_without_a_kill,
    ),
    (
        "the state is there after the end of the program",
        limits::cgroup_state_after_the_end,
    ),
    ("an exit code is told", ending::exit_code),
    ("a signal is told", ending::signal),
    ("asked to end a program ends in its own way", ending::asked),
    (
        "what a program started is asked as well",
        ending::children_are_asked,
    ),
    (
        "what a program started has time to end, even if the program itself is gone",
        ending::children_have_time,
    ),
    (
        "what outlives the program is left alone until it is asked",
        ending::left_alone,
    ),
    (
        "closing ends children that left their parents and sessions",
        ending::close_ends_all,
    ),
    ("dropping ends everything as well", ending::drop_ends_all),
    (
        "a sweep ends what a killed program of ours left and nothing else",
        ending::sweep,
    ),
    (
        "a sweep lets programs end in their own way",
        ending::sweep_with_grace,
    ),
];

fn keeps_the_contract(launcher: &dyn Launcher) {
    for (promise, case) in CONTRACT {
        eprintln!("{}: {promise}", launcher.name());
        let scene = Scene::new(launcher);
        case(&scene);
        assert_eq!(
            launcher
                .leftovers(&scene.experiment)
                .expect("cgroups are listed"),
            [""; 0],
            "after: {promise}"
        );
    }
}

fn direct() -> anyhow::Result<DirectLauncher> {
    let delegated = env::var_os("FAULTLINE_TEST_CGROUP").map(Into::into);
    DirectLauncher::new(&DirectLauncherPaths {
        delegated,
        ..DirectLauncherPaths::default()
    })
}

#[test]
fn the_direct_launcher_fulfils_the_launcher_contract() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("SKIPPED: only root can make cgroups here");
    }
    match direct() {
        Ok(launcher) => {
            keeps_the_contract(&launcher);
            drop(launcher);
            let own = std::fs::read_to_string("/proc/self/cgroup").expect("a cgroup");
            assert!(
                !own.contains("faultline"),
                "this program is back where it was: {own}"
            );
        }
        Err(error) => eprintln!("SKIPPED: no cgroups can be made by hand: {error}"),
    }
}

#[test]
fn the_systemd_launcher_fulfils_the_launcher_contract() {
    match SystemdLauncher::connect(&HostRoot::default()) {
        Ok(launcher) if rustix::process::geteuid().is_root() => {
            keeps_the_contract(&launcher);
            systemd::longest(&launcher);
            systemd::slice_and_service(&launcher);
            systemd::outlives_reloads(&launcher);
        }
        Ok(launcher) => systemd::refused(&launcher),
        Err(error) => eprintln!("SKIPPED: {error}"),
    }
}

/// Not a test by itself: what [`ending::sweep`] starts and kills, this program again.
#[test]
fn helper() {
    if let Some(name) = env::var_os(ending::HELPER) {
        let launcher: Box<dyn Launcher> = match name.to_str() {
            Some("cgroup v1" | "cgroup v2") => Box::new(direct().expect("as before")),
            Some("systemd") => {
                Box::new(SystemdLauncher::connect(&HostRoot::default()).expect("as before"))
            }
            name => unreachable!("no launcher {name:?}"),
        };
        ending::launch_and_wait_for_the_end(&*launcher);
    }
}
