//! The poller with a fake host.

use super::*;
use crate::discovery::Finder;
use faultline_core::config::{self, Config, TargetSelector};
use faultline_kernel::filesystem::{FileSystem, Space};
use faultline_testkit::host::FakeHost;

/// A fake host with a validator as process 70, and the poller that follows it.
struct FollowedHost {
    host: FakeHost,
    finder: Finder,
    poller: Poller,
}

impl FollowedHost {
    fn new(arguments: &str) -> Self {
        let host = FakeHost::empty().unwrap();
        let socket =
            "1: 0100007F:1F41 00000000:0000 07 00000000:00000000 00:00000000 00000000 0 0 5 2 0 0";
        for (file, text) in [
            ("self/mountinfo", "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"),
            ("70/mountinfo", "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"),
            ("70/status", "Uid:\t0\t0\t0\t0\n"),
            ("70/net/udp", &format!("head\n{socket}\n")),
        ] {
            host.write(&format!("proc/{file}"), text).unwrap();
        }
        let line = format!("agave-validator {arguments}").replace(' ', "\0") + "\0";
        host.write("proc/70/cmdline", line).unwrap();
        let (root, clock) = (HostRoot::below(host.root()), Clock::start());
        let target = config::Target {
            selector: TargetSelector::Pid(70),
            ..config::Target::default()
        };
        let finder = Finder::build(&target, root.clone(), clock);
        let context = BuildContext {
            config: &Config::default(),
            clock,
            root: &root,
            target_handle: &finder.target_handle,
        };
        let poller = Poller::new(&context, Latest::default());
        Self {
            host,
            finder,
            poller,
        }
    }

    fn follow(&mut self, start: u64) {
        self.start(start);
        self.finder.find_once().unwrap();
    }

    fn start(&self, start: u64) {
        let (zeros, rest) = ("0 ".repeat(15), "0 ".repeat(30));
        let stat = format!("70 (agave-validator) S 1 {zeros}1 0 {start} {rest}\n");
        self.host.write("proc/70/stat", stat).unwrap();
    }

    async fn poll(&mut self) -> Arc<PollResult> {
        self.poller.poll().await;
        self.poller.latest.get().unwrap()
    }

    async fn poll_problems(&mut self) -> Vec<String> {
        let result = self.poll().await;
        let problems = result.output.problems.iter();
        problems.map(Problem::to_string).collect()
    }
}

#[tokio::test]
async fn udp_ports_of_an_earlier_process_are_not_those_of_the_next() {
    let mut followed = FollowedHost::new("--ledger /l");
    let sockets = |result: &PollResult| {
        let (_, readings) = result.process_readings.as_ref().unwrap();
        number(readings, &m::UDP_SOCKETS)
    };
    followed.follow(100);
    assert_eq!(sockets(&*followed.poll().await), Some(1.0));
    followed.follow(200);
    followed.host.remove("proc/70/cmdline").unwrap();
    let result = followed.poll().await;
    assert_eq!(sockets(&result), None, "{:?}", result.output.problems);
}

#[tokio::test]
async fn arguments_of_a_later_process_with_the_pid_are_not_read() {
    let mut followed = FollowedHost::new("--ledger /l");
    followed.follow(100);
    followed.start(200);
    let problems = followed.poll_problems().await;
    let is_gone = |problem: &String| problem.starts_with("gone: ") && problem.ends_with(": gone");
    assert!(problems.iter().any(is_gone), "{problems:?}");
    assert!(followed.poller.file_systems.folder_polls.is_empty());
}

#[tokio::test]
async fn a_relative_folder_without_a_working_directory_is_only_a_problem() {
    let mut followed = FollowedHost::new("--ledger l --accounts accounts");
    followed.follow(100);
    let output = &followed.poll().await.output;
    let is_named = |problem: &Problem| {
        problem.kind == ProblemKind::Forbidden
            && problem.what.starts_with("accounts accounts: relative, ")
    };
    assert!(
        output.problems.iter().any(is_named),
        "{:?}",
        output.problems
    );
    assert!(output.up, "{:?}", output.problems);
}

#[tokio::test]
async fn folders_beyond_the_limit_are_problems() {
    let accounts: Vec<String> = (1..=13).map(|number| format!("/a{number}")).collect();
    let mut followed = FollowedHost::new(&format!("--ledger /l --accounts {}", accounts.join(",")));
    followed.follow(100);
    let problems = followed.poll_problems().await;
    let left_out = |problem: &&String| problem.contains("left out");
    let left_out: Vec<&String> = problems.iter().filter(left_out).collect();
    assert_eq!(
        left_out,
        [
            "absent: accounts /a12: left out; at most 12 folders on 5 file systems have series",
            "absent: accounts /a13: left out; at most 12 folders on 5 file systems have series",
            "absent: snapshots /l: left out; at most 12 folders on 5 file systems have series",
        ]
    );
    assert_eq!(filesystems::MAX_FOLDERS, 12);
}

#[test]
fn folders_of_a_sixth_file_system_are_problems() {
    let mount = mounts().reader[0].clone();
    let space = Space {
        size: 9,
        avail: 5,
        inodes: None,
    };
    let mut systems = FileSystems::default();
    let folders = (1..=7).map(|number| folder("accounts", format!("/a{number}")));
    systems.set_folders(folders.collect());
    for (minor, poll) in (1..).zip(&mut systems.folder_polls) {
        let mut mount = mount.clone();
        // The last folder lies on the first file system.
        mount.device.minor = minor % 6;
        mount.device.major = 8;
        let system = FileSystem {
            mount,
            is_process_mount: true,
            space: Some(space),
        };
        poll.last_result = Ok((system, Stamp::default()));
    }
    let problems: Vec<String> = systems
        .problems()
        .map(|problem| problem.to_string())
        .collect();
    assert_eq!(
        problems,
        ["absent: accounts /a6: left out; at most 12 folders on 5 file systems have series"]
    );
    assert!(systems.is_up());
    assert_eq!(systems.usages().len(), 5);
}
