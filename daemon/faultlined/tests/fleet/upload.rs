//! The command of the systemd unit copies flight recordings to a real S3 server.

use super::{environment, shipped};
use faultline_testkit::{
    Result,
    binaries::{in_search_path, victoriametrics},
    eventually::eventually,
    ports::PortBlock,
    process::{Program, Running},
};
use std::{
    fs,
    path::{Path, PathBuf},
    thread::sleep,
    time::Duration,
};

const TIMEOUT: Duration = Duration::from_secs(60);
const LARGE: &str = "host-exit-20261127T100000Z.fltl";
const SMALL: &str = "host-behind-20261127T090000Z.fltl";

struct Upload {
    folder: tempfile::TempDir,
    ports: PortBlock,
}

impl Upload {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn start_server(&self, program: &Path) -> Running {
        let (store, port) = (self.path("store"), self.ports.port(1));
        let words = ["--port", &format!("127.0.0.1:{port}"), "posix"].map(str::to_owned);
        let variable = |name: &str, value: &str| (name.to_owned(), Some(value.to_owned()));
        let server = Running::start(&Program {
            path: program.to_owned(),
            arguments: [words.to_vec(), vec![store.display().to_string()]].concat(),
            environment: vec![
                variable("ROOT_ACCESS_KEY", "YOUR-KEY"),
                variable("ROOT_SECRET_KEY", "YOUR-SECRET"),
            ],
            output: self.path("server.log"),
        });
        server.expect("the server starts")
    }

    /// Starts the command of the unit with this limit in bytes a second.
    fn start_copy(&self, rate: &str) -> Running {
        let unit = shipped(
            "systemd/system/faultline-flight-upload.service",
            &[("--bwlimit=4M", &format!("--bwlimit={rate}"))],
        );
        let address = format!("http://127.0.0.1:{}", self.ports.port(1));
        let text = shipped(
            "grafana/prometheus/fleet/flight-upload.env",
            &[
                ("https://s3.example", &address),
                (
                    "/var/lib/faultlined/flight",
                    &self.path("recordings").display().to_string(),
                ),
            ],
        );
        let mut environment = environment(&text);
        environment.push(("AWS_CA_BUNDLE".to_owned(), None));
        let command = unit
            .lines()
            .find_map(|line| line.strip_prefix("ExecStart="));
        let command = command.expect("a command").replace('"', "");
        // A filter consists of a sign and a name.
        let command = command.replace("=- ", "=-\0").replace("=+ ", "=+\0");
        let command = ["FLIGHT_FOLDER", "UPLOAD_TO"]
            .iter()
            .fold(command, |command, name| {
                let mut variables = environment.iter().filter(|(own, _)| own == name);
                let value = variables.next().and_then(|(_, value)| value.clone());
                command.replace(&format!("${{{name}}}"), &value.expect("a value"))
            });
        let words = command.split(' ').skip(1);
        let started = Running::start(&Program {
            path: "rclone".into(),
            arguments: words.map(|word| word.replace('\0', " ")).collect(),
            environment,
            output: self.path("rclone.log"),
        });
        started.expect("rclone starts")
    }

    fn copy(&self) -> bool {
        let mut copy = self.start_copy("100M");
        eventually(TIMEOUT, "it ends", || copy.exit_status().ok().flatten()).success()
    }

    /// The objects in the bucket.
    fn objects(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("store/flight/fra1/validator-1"));
        let entries = entries.into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .map(|entry| entry.file_name().display().to_string())
            .collect();
        names.sort();
        names
    }

    fn is_whole(&self, name: &str) -> bool {
        let stored = self.path("store/flight/fra1/validator-1").join(name);
        fs::read(stored).ok() == fs::read(self.path("recordings").join(name)).ok()
    }
}

#[test]
#[ignore = "needs rclone and versitygw; part of .ci/run --long"]
fn flight_recordings_are_copied_whole_after_kills_and_never_changed() -> Result<()> {
    let (Some(server), Some(_)) = (victoriametrics("versitygw"), in_search_path("rclone")) else {
        eprintln!(
            "SKIPPED: needs rclone and versitygw (scripts/install-victoriametrics builds versitygw)"
        );
        return Ok(());
    };
    let upload = Upload {
        folder: tempfile::tempdir().expect("a folder"),
        ports: PortBlock::claim(21_200)?,
    };
    fs::create_dir_all(upload.path("store/flight")).expect("a bucket");
    fs::create_dir(upload.path("recordings")).expect("a folder");
    let write = |name: &str, bytes: &[u8]| {
        fs::write(upload.path("recordings").join(name), bytes).expect("a file");
    };
    write("ring.fltl", b"changes");
    write("host-exit-20261127T110000Z.fltl.part", b"is copied");
    write(LARGE, &vec![7; 8_000_000]);

    let running = upload.start_server(&server);
    let mut copy = upload.start_copy("1M");
    sleep(Duration::from_secs(3));
    copy.kill()?;
    assert_eq!(upload.objects(), [""; 0]);

    // The server is killed as well.
    let mut copy = upload.start_copy("1M");
    sleep(Duration::from_secs(3));
    drop(running);
    copy.kill()?;
    let _running = upload.start_server(&server);
    assert_eq!(upload.objects(), [""; 0]);

    write(SMALL, b"recording");
    eventually(TIMEOUT, "the next run completes it", || {
        upload.copy().then_some(())
    });
    assert_eq!(upload.objects(), [SMALL, LARGE]);
    assert!([SMALL, LARGE].iter().all(|name| upload.is_whole(name)));

    write(SMALL, b"another one of this name");
    assert!(!upload.copy());
    assert!(!upload.is_whole(SMALL) && upload.is_whole(LARGE));
    Ok(())
}
