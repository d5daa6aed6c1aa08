//! Checks `systemd/` with systemd's own programs. `scripts/vm-test` checks it on a real host.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot prepare its scene fails"
)]
#![expect(clippy::disallowed_methods, reason = "a test starts programs itself")]

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// Maximum exposure 2.0. The option counts tenths.
const THRESHOLD: &str = "--threshold=20";

fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../systemd")
}

fn names(folder: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<fs::DirEntry>| {
        entry
            .expect("an entry")
            .file_name()
            .into_string()
            .expect("UTF-8")
    };
    let mut names: Vec<String> = fs::read_dir(folder).expect("a folder").map(name).collect();
    names.sort();
    names
}

fn unit(name: &str) -> String {
    fs::read_to_string(shipped().join("system").join(name)).expect("a unit")
}

/// The lines with settings.
fn settings(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// The units in a separate folder, with programs that exist.
fn installed() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for name in names(&shipped().join("system")) {
        let text = unit(&name);
        let text = text
            .replace("/usr/bin/faultline ", "/bin/true ")
            .replace("/usr/bin/faultlined ", "/bin/true ")
            .replace("/usr/local/bin/vmagent ", "/bin/true ")
            .replace("/usr/bin/rclone ", "/bin/true ")
            .replace("/usr/local/bin/%i ", "/bin/true ")
            .replace("/home/sol/bin/validator.sh", "/bin/true");
        fs::write(folder.path().join(name), text).expect("a file");
    }
    let validator = "[Service]\nExecStart=/bin/true\n";
    fs::write(folder.path().join("agave-validator.service"), validator).expect("a file");
    folder
}

/// Writes a drop-in of a unit, as an operator does.
fn drop_in(folder: &Path, unit: &str, which: &str) {
    let file = shipped().join("drop-ins").join(which);
    let beside = folder.join(format!("{unit}.d"));
    fs::create_dir_all(&beside).expect("a folder");
    fs::copy(&file, beside.join(file.file_name().expect("a name"))).expect("a copy");
}

/// Whether `systemd-analyze` succeeds, and its output. `None` if it is missing.
fn analyze(folder: &Path, arguments: &[&str]) -> Option<(bool, String)> {
    let path = format!("{}:", folder.display());
    let mut analyze = Command::new("systemd-analyze");
    let output = match analyze
        .args(arguments)
        .env("SYSTEMD_UNIT_PATH", path)
        .current_dir(folder)
        .output()
    {
        Ok(output) => output,
        Err(error) => {
            println!("SKIPPED: systemd-analyze cannot be started: {error}");
            return None;
        }
    };
    let output_text = [output.stdout, output.stderr]
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .concat();
    Some((output.status.success(), output_text))
}

fn verify(folder: &Path, unit: &str) -> Option<(bool, String)> {
    analyze(
        folder,
        &["verify", "--man=no", "--recursive-errors=yes", unit],
    )
}

/// Names a template unit with an instance.
fn instance(name: &str) -> String {
    name.replace("agave-validator@.", "agave-validator@512G.")
        .replace("@.", "@2.")
}

#[test]
fn systemd_accepts_every_unit_without_warnings() {
    let folder = installed();
    for name in names(&shipped().join("system")) {
        let Some((fine, output_text)) = verify(folder.path(), &instance(&name)) else {
            return;
        };
        assert!(fine && output_text.is_empty(), "{name}: {output_text}");
    }
    fs::write(
        folder.path().join("broken.service"),
        "[Service]\nExecStart=/bin/true\nMemoryMaxx=1\n",
    )
    .expect("a file");
    let output_text = verify(folder.path(), "broken.service").map(|(_, output_text)| output_text);
    assert!(
        output_text.is_some_and(|output_text| output_text.contains("MemoryMaxx")),
        "what is wrong would be told"
    );
}

#[test]
fn systemd_accepts_every_drop_in_without_warnings() {
    for (unit, folder_of) in [
        ("faultlined.service", "faultlined"),
        ("agave-validator.service", "validator"),
    ] {
        for name in names(&shipped().join("drop-ins").join(folder_of)) {
            let folder = installed();
            drop_in(folder.path(), unit, &format!("{folder_of}/{name}"));
            let Some((fine, output_text)) = verify(folder.path(), unit) else {
                return;
            };
            assert!(fine && output_text.is_empty(), "{name}: {output_text}");
        }
    }
}

#[test]
fn systemd_security_exposure_is_low_even_as_the_validators_user() {
    let exposure = |folder: &Path, unit: &str| {
        analyze(folder, &["security", "--offline=yes", THRESHOLD, unit])
    };
    for more in [None, Some("faultlined/same-user.conf")] {
        let folder = installed();
        for unit in [
            "faultlined.service",
            "faultlined@.service",
            "faultline-vmagent.service",
            "faultline-centre@.service",
            "faultline-flight-upload.service",
        ] {
            more.iter()
                .for_each(|which| drop_in(folder.path(), unit, which));
            let Some((fine, output_text)) = exposure(folder.path(), &format!("./{unit}")) else {
                return;
            };
            assert!(
                fine && output_text.contains("Overall exposure level"),
                "{output_text}"
            );
        }
    }
    let open = tempfile::tempdir().expect("a folder");
    fs::write(
        open.path().join("open.service"),
        "[Service]\nExecStart=/bin/true\n",
    )
    .expect("a file");
    assert!(
        exposure(open.path(), "./open.service").is_some_and(|(fine, _)| !fine),
        "an open unit is over it"
    );
}

#[test]
fn the_template_unit_equals_the_service_unit() {
    for name in [
        "faultlined.service",
        "faultlined-ingest.socket",
        "faultlined-metrics.socket",
    ] {
        let (stem, kind) = name.split_once('.').expect("a name");
        let template = unit(&format!("{stem}@.{kind}"))
            .replace("@%i", "")
            .replace("127.0.0.%i", "127.0.0.1")
            .replace("/run/faultlined-%i", "/run/faultlined")
            .replace("StateDirectory=faultlined-%i", "StateDirectory=faultlined")
            .replace("/ingest-%i.env", "/ingest.env")
            .replace("/%i.toml", "/faultlined.toml");
        let one = unit(name);
        let of = |text: &str| -> Vec<String> {
            settings(text)
                .filter(|line| !line.starts_with("Description="))
                .map(str::to_owned)
                .collect()
        };
        assert_eq!(of(&template), of(&one), "{name}");
    }
}

#[test]
fn memory_limits_of_units_are_literal_and_match_slice_names() {
    let mut sizes = 0;
    for name in names(&shipped().join("system")) {
        let text = unit(&name);
        let limits: Vec<&str> = settings(&text)
            .filter(|line| line.starts_with("Memory"))
            .collect();
        assert!(
            !limits.iter().any(|line| line.contains('%')),
            "{name}: systemd ignores a size with a specifier"
        );
        if let Some(size) = name
            .strip_prefix("validator-")
            .and_then(|name| name.strip_suffix(".slice"))
        {
            assert_eq!(
                limits,
                [format!("MemoryMax={size}"), "MemorySwapMax=0".to_owned()],
                "{name}"
            );
            sizes += 1;
        }
    }
    assert!(
        sizes >= 8 && unit("agave-validator@.service").contains("\nSlice=validator-%i.slice\n"),
        "{sizes} sizes"
    );
}

#[test]
fn sysusers_and_tmpfiles_create_users_and_folders_as_declared() {
    let root = tempfile::tempdir().expect("a folder");
    let at = format!("--root={}", root.path().display());
    fs::create_dir(root.path().join("etc")).expect("a folder");
    let run = |program: &str, file: &str| {
        let file = shipped().join(file);
        match Command::new(program)
            .args(["--create", &at])
            .arg(&file)
            .output()
        {
            Ok(output) => Some(output),
            Err(error) => {
                println!("SKIPPED: {program} cannot be started: {error}");
                None
            }
        }
    };
    let root_only = rustix::process::geteuid().is_root();
    if !root_only {
        println!("SKIPPED: needs root, to give files to another user");
        return;
    }
    let sysusers = Command::new("systemd-sysusers")
        .arg(&at)
        .arg(shipped().join("sysusers.d/faultline.conf"))
        .output();
    let Ok(sysusers) = sysusers else {
        return println!("SKIPPED: systemd-sysusers cannot be started");
    };
    assert!(
        sysusers.status.success(),
        "{}",
        String::from_utf8_lossy(&sysusers.stderr)
    );
    let passwd = fs::read_to_string(root.path().join("etc/passwd")).expect("users");
    assert!(
        passwd
            .lines()
            .any(|line| line.starts_with("faultline:") && line.contains("nologin")),
        "{passwd}"
    );
    let Some(made) = run("systemd-tmpfiles", "tmpfiles.d/faultline.conf") else {
        return;
    };
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let folder = fs::metadata(root.path().join("etc/faultline")).expect("the folder");
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&folder.permissions()) & 0o7777,
        0o750
    );
}
