//! Resources that a node runs out of, as a real Prometheus with the shipped rules sees them. File
//! systems are filled and made read-only, and a socket is flooded. Needs root, because it mounts
//! file systems.

#![allow(
    clippy::expect_used,
    reason = "a test that cannot prepare its scene fails"
)]

use crate::support::mounted::{Mounted, run};
use faultline_testkit::{
    Result,
    daemon::Daemon,
    eventually::{eventually, eventually_ok},
    process::{Program, Running},
    prometheus::{Prometheus, PrometheusOptions, SKIP_MESSAGE},
};
use std::{
    env,
    fs::{self, File},
    io::Write,
    net::UdpSocket,
    path::{Path, PathBuf},
    time::Duration,
};

const FAULTLINED: &str = env!("CARGO_BIN_EXE_faultlined");
const PATIENCE: Duration = Duration::from_secs(240);
/// If this is set, the program is the mock validator. The value is the port.
const PORT: &str = "FAULTLINE_TEST_UDP_PORT";
const MIB: usize = 1 << 20;

/// The mock validator. It is started under a validator's name, and has a socket that it never
/// reads.
#[test]
fn start_mock_validator_with_socket() {
    let Ok(port) = env::var(PORT) else {
        return;
    };
    let port: u16 = port.parse().expect("a port");
    let _socket = UdpSocket::bind(("127.0.0.1", port)).expect("a socket");
    // The test that started this process kills it.
    std::thread::park();
}

struct Scene {
    ledger: Mounted,
    snapshots: Mounted,
    port: u16,
    prometheus: Prometheus,
    _daemon: Daemon,
    _validator: Running,
    _folder: tempfile::TempDir,
}

impl Scene {
    /// `None` without Prometheus or without the right to mount.
    fn start() -> Result<Option<Self>> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let image = folder.path().join("image");
        File::create(&image)
            .and_then(|file| file.set_len(64 << 20))
            .expect("an image");
        let image = image.display().to_string();
        let tmpfs = ["-t", "tmpfs", "-o", "size=16m,nr_inodes=200", "none"];
        let ledger = Mounted::new(folder.path().join("ledger"), &tmpfs);
        let made = run("mkfs.ext4", &["-q", "-F", "-m", "0", &image]);
        let snapshots = made
            .then(|| Mounted::new(folder.path().join("snapshots"), &["-o", "loop", &image]))
            .flatten();
        let (Some(ledger), Some(snapshots)) = (ledger, snapshots) else {
            println!("SKIPPED: no right to mount here, or no mkfs.ext4");
            return Ok(None);
        };
        let port = UdpSocket::bind("127.0.0.1:0")
            .and_then(|free| free.local_addr())
            .expect("a free port")
            .port();
        let validator = start_validator(folder.path(), (&ledger.0, &snapshots.0), port)?;
        let config = folder.path().join("faultlined.toml");
        let text = "[host]\ninterval = \"1s\"\n[rpc]\nenabled = false\n[admin]\nenabled = false\n";
        fs::write(&config, text).expect("a configuration");
        let (config, pid) = (config.display().to_string(), validator.pid().to_string());
        let daemon = Daemon::start(
            FAULTLINED,
            &["--config", &config, "--pid", &pid],
            folder.path(),
        )?;
        let mut prometheus = Prometheus::start(&PrometheusOptions {
            targets: vec![daemon.metrics().parse().expect("an address")],
            rule_files: quick_rules(folder.path()),
            ..PrometheusOptions::default()
        })?;
        prometheus.wait_until_up(PATIENCE)?;
        let (_daemon, _validator, _folder) = (daemon, validator, folder);
        Ok(Some(Self {
            ledger,
            snapshots,
            port,
            prometheus,
            _daemon,
            _validator,
            _folder,
        }))
    }

    fn firing(&self) -> Vec<String> {
        // AgaveDiskSlow is left out, because the speed of the disk depends on other users of the
        // machine.
        let names =
            "AgaveDisk(FullAhead|NearlyFull|InodesLow)|AgaveFilesystem.*|AgaveUdpDrops|AgaveOpen.*";
        let query = format!("ALERTS{{alertstate=\"firing\",alertname=~\"{names}\"}}");
        let series = self.prometheus.query(&query).unwrap_or_default();
        let word =
            |labels: &std::collections::BTreeMap<String, String>, name| labels.get(name).cloned();
        let all = series.iter().map(|(labels, _)| {
            let on = word(labels, "holds")
                .map(|holds| format!(" {holds}"))
                .unwrap_or_default();
            word(labels, "alertname").unwrap_or_default() + &on
        });
        let mut all: Vec<String> = all.collect();
        all.sort();
        all.dedup();
        all
    }

    /// Repeats an action until exactly these alerts fire.
    fn until(&self, wanted: &[&str], mut again: impl FnMut()) {
        eventually_ok(PATIENCE, &format!("{wanted:?} and no other"), || {
            again();
            let firing = self.firing();
            if firing == wanted {
                Ok(())
            } else {
                Err(firing)
            }
        });
    }
}

/// Starts this program with the name and the arguments of a validator.
fn start_validator(
    folder: &Path,
    (ledger, snapshots): (&Path, &Path),
    port: u16,
) -> Result<Running> {
    let path = folder.join("agave-validator");
    fs::copy(env::current_exe().expect("this program"), &path).expect("a copy");
    let words = [
        "runs_out::start_mock_validator_with_socket",
        "--exact",
        "--",
    ]
    .map(str::to_owned);
    let ports = format!("{port}-{}", u32::from(port) + 1);
    let own = [
        "--ledger",
        &ledger.to_string_lossy(),
        "--snapshots",
        &snapshots.to_string_lossy(),
    ]
    .map(str::to_owned);
    let arguments = [
        &words[..],
        &own,
        &["--dynamic-port-range".to_owned(), ports],
    ]
    .concat();
    let environment = vec![(PORT.to_owned(), Some(port.to_string()))];
    Running::start(&Program {
        path,
        arguments,
        environment,
        output: ledger.join("validator.log"),
    })
}

/// The shipped rules, evaluated each second, with a `for` of one second.
fn quick_rules(folder: &Path) -> Vec<PathBuf> {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../grafana/prometheus/rules");
    let quick = |line: &str| match line.trim_start() {
        words if words.starts_with("for: ") => "        for: 1s\n".to_owned(),
        words if words.starts_with("interval: ") => "    interval: 1s\n".to_owned(),
        // The mock validator never leaves its start phase, in which drops are normal. So the rule's
        // condition on the phase is removed.
        words
            if words.starts_with(
                "unless on (job, instance) max_over_time(instance:agave_starting:max",
            ) =>
        {
            "\n".to_owned()
        }
        _ => format!("{line}\n"),
    };
    let files = ["faultline.recording.yml", "faultline.alerts.yml"].map(|name| {
        let text = fs::read_to_string(shipped.join(name)).expect("the rules");
        let copy = folder.join(name);
        fs::write(&copy, text.lines().map(quick).collect::<String>()).expect("a copy of the rules");
        copy
    });
    files.into()
}

#[test]
fn each_simulated_resource_exhaustion_fires_only_its_own_alert() -> Result<()> {
    if !Prometheus::is_installed() {
        println!("{SKIP_MESSAGE}");
        return Ok(());
    }
    let Some(scene) = Scene::start()? else {
        return Ok(());
    };
    let number = |query: &str| {
        scene
            .prometheus
            .query(query)
            .ok()
            .and_then(|series| series.first().map(|one| one.1))
    };
    eventually(PATIENCE, "both file systems", || {
        number("count(agave_filesystem_avail_bytes)").filter(|count| *count == 2.0)
    });
    eventually(PATIENCE, "its socket", || {
        number("agave_udp_sockets").filter(|count| *count == 1.0)
    });
    scene.until(&[], || {});
    file_system_fills(&scene);
    file_system_becomes_read_only(&scene);
    inodes_run_out(&scene);
    socket_is_flooded(&scene);
    Ok(())
}

fn file_system_fills(scene: &Scene) {
    // The file system fills. The forecast of AgaveDiskFullAhead needs ten minutes, so promtool
    // tests that alert.
    let mut file = File::create(scene.snapshots.0.join("snapshot")).expect("a file");
    let mut add = |bytes: usize| {
        drop(
            file.write_all(&vec![7; bytes])
                .and_then(|()| file.sync_data()),
        )
    };
    while scene.snapshots.avail() > MIB as u64 {
        add(MIB / 4);
    }
    scene.until(&["AgaveDiskNearlyFull snapshots"], || {});
}

fn file_system_becomes_read_only(scene: &Scene) {
    assert!(
        run(
            "mount",
            &["-o", "remount,ro", &scene.snapshots.0.to_string_lossy()]
        ),
        "it can be made read-only"
    );
    scene.until(&["AgaveFilesystemReadOnly snapshots"], || {});
    assert!(
        run(
            "mount",
            &["-o", "remount,rw", &scene.snapshots.0.to_string_lossy()]
        ),
        "and writable again"
    );
    fs::remove_file(scene.snapshots.0.join("snapshot")).expect("the file");
    scene.until(&[], || {});
}

fn inodes_run_out(scene: &Scene) {
    let names = (0..400).map(|number| scene.ledger.0.join(number.to_string()));
    let made = names.take_while(|name| File::create(name).is_ok()).count();
    assert!(made > 100 && made < 400, "{made} inodes");
    scene.until(&["AgaveDiskInodesLow accounts,ledger,log"], || {});
    for number in 0..made {
        drop(fs::remove_file(scene.ledger.0.join(number.to_string())));
    }
    scene.until(&[], || {});
}

fn socket_is_flooded(scene: &Scene) {
    let sender = UdpSocket::bind("127.0.0.1:0").expect("a sender");
    scene.until(&["AgaveUdpDrops"], || {
        for _ in 0..5_000 {
            drop(sender.send_to(&[7; 1_000], ("127.0.0.1", scene.port)));
        }
    });
}
