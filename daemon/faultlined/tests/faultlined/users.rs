//! Without a password, only the validator's user may push. Needs root, to act as several users.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot prepare its scene fails; it starts programs of other users"
)]

use faultline_testkit::{Result, daemon::Daemon, eventually::eventually_ok};
use rustix::process::{Pid, Signal, geteuid, kill_process_group};
use std::{
    fs,
    io::Write,
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

const PATIENCE: Duration = Duration::from_secs(60);
const ID: &str = "DMz6SsztgBqTVkGc6CTcs4EYSJPUTfqKKwEzHLC7P8sr";
const VALIDATOR: u32 = 12_345;
const OTHER: u32 = 23_456;

/// A process of the validator's user, or a wrapper. Dropping it kills it and its descendants.
struct Validator(Child);

impl Validator {
    fn start(folder: &Path) -> Self {
        let mut command = Command::new(program(folder));
        Self::spawn(command.arg("600").uid(VALIDATOR))
    }

    fn spawn(command: &mut Command) -> Self {
        Self(command.process_group(0).spawn().unwrap())
    }

    /// A shell of root that runs the validator by this script when the file exists.
    fn below_a_wrapper(folder: &Path, file: &Path, script: &str) -> Self {
        let wait = format!("until [ -e $0 ]; do sleep 0.05; done; {script}");
        let mut command = Command::new("sh");
        command.args(["-c", &wait]).arg(file).arg(program(folder));
        Self::spawn(&mut command)
    }
}

/// A program with a validator's name.
fn program(folder: &Path) -> PathBuf {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    let program = folder.join("agave-validator");
    fs::copy("/bin/sleep", &program).unwrap();
    program
}

impl Drop for Validator {
    fn drop(&mut self) {
        if let Some(group) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

/// The status line of the response to a push of this user.
fn push(daemon: &Daemon, user: u32, lines: &str) -> String {
    let (host, port) = daemon.ingest().rsplit_once(':').unwrap();
    let length = lines.len();
    let script = format!(
        "exec 3<>/dev/tcp/{host}/{port}; {{ printf 'POST /write?db=a HTTP/1.1\\r\\nHost: x\\r\\n\
         Content-Length: {length}\\r\\nConnection: close\\r\\n\\r\\n'; cat; }} >&3; head -n 1 <&3"
    );
    let mut command = Command::new("bash");
    command.args(["-c", &script]).uid(user);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(lines.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Points of a validator: its slot, the cluster's slot, lost points and its version.
fn points(frozen: Option<u64>, optimistic: u64, lost: u64, version: &str) -> String {
    let frozen = frozen.map(|slot| format!("bank_frozen,host_id={ID} slot={slot}i,hash=\"x\" 1\n"));
    frozen.unwrap_or_default()
        + &format!(
            "optimistic_slot,host_id={ID} slot={optimistic}i {optimistic}\n\
             validator-new,host_id={ID} version=\"{version}\" {optimistic}\n\
             metrics,host_id={ID} points_lost={lost}i {optimistic}\n"
        )
}

/// Optimistic slot, lost points and refused pushes on the page, and whether the page has the
/// version.
fn shown(daemon: &Daemon, version: &str) -> (Option<f64>, Option<f64>, Option<f64>, bool) {
    let Ok(page) = daemon.scrape() else {
        return (None, None, None, false);
    };
    (
        page.get("agave_slot", &[("kind", "optimistic")]),
        page.get("faultline_points_lost_total", &[]),
        page.get("faultline_ingest_requests_total", &[("code", "user")]),
        !page
            .matching("agave_target_info", &[("version", version)])
            .is_empty(),
    )
}

fn start(folder: &Path, validator: &Validator, ingest: &str) -> Result<Daemon> {
    let daemon = start_following(folder, ("--pid", validator), ingest)?;
    eventually_ok(
        PATIENCE,
        "the validator's identity is known",
        || match daemon.scrape() {
            Ok(page)
                if !page
                    .matching("agave_target_info", &[("identity", ID)])
                    .is_empty() =>
            {
                Ok(())
            }
            other => Err(other
                .map(|page| page.samples.len())
                .map_err(|e| e.to_string())),
        },
    );
    Ok(daemon)
}

/// A daemon that knows the validator's identity, and finds the process by this option.
fn start_following(
    folder: &Path,
    (option, process): (&str, &Validator),
    ingest: &str,
) -> Result<Daemon> {
    let config = folder.join("faultlined.toml");
    let text = format!("[target]\nidentity = {ID:?}\n[rpc]\nenabled = false\n[ingest]\n{ingest}");
    fs::write(&config, text).unwrap();
    let (config, pid) = (config.display().to_string(), process.0.id().to_string());
    let arguments = ["--config", &config, option, &pid];
    Daemon::start(env!("CARGO_BIN_EXE_faultlined"), &arguments, folder)
}

/// Waits until the page shows these values.
fn sees(daemon: &Daemon, version: &str, wanted: (f64, f64, f64)) {
    let (slot, lost, refused) = wanted;
    let wanted = (Some(slot), Some(lost), Some(refused), true);
    eventually_ok(PATIENCE, "the page shows what was pushed", || {
        let seen = shown(daemon, version);
        if seen == wanted { Ok(()) } else { Err(seen) }
    });
}

#[test]
fn another_local_user_cannot_forge_slots_lost_points_or_version() -> Result<()> {
    if !geteuid().is_root() {
        println!("SKIPPED: only root can be another user");
        return Ok(());
    }
    let folder = tempfile::tempdir().unwrap();
    let validator = Validator::start(folder.path());
    let daemon = start(folder.path(), &validator, "")?;
    let true_points = points(Some(1000), 1000, 2, "2.1.14");
    assert!(push(&daemon, VALIDATOR, &true_points).contains(" 204 "));
    sees(&daemon, "2.1.14", (1000.0, 2.0, 0.0));
    for forged in 1..=5 {
        let forged = points(None, 1000 + forged * 400, 9, "9.9.9");
        assert!(push(&daemon, OTHER, &forged).contains(" 403 "));
    }
    sees(&daemon, "2.1.14", (1000.0, 2.0, 5.0));
    let reason = format!("sent by user {OTHER}, but the validator runs as user {VALIDATOR}");
    eventually_ok(PATIENCE, "the log says why", || {
        let log = daemon.log();
        if log.contains(&reason) {
            Ok(())
        } else {
            Err(log)
        }
    });
    assert_eq!(daemon.stop()?, Some(0));

    // The operator now allows the other user. So its points count: those that were refused were
    // valid, too.
    let daemon = start(
        folder.path(),
        &validator,
        &format!("allow_users = [{OTHER}]\n"),
    )?;
    assert!(push(&daemon, VALIDATOR, &true_points).contains(" 204 "));
    sees(&daemon, "2.1.14", (1000.0, 2.0, 0.0));
    let forged = points(None, 1400, 9, "9.9.9");
    assert!(push(&daemon, OTHER, &forged).contains(" 204 "));
    sees(&daemon, "9.9.9", (1400.0, 11.0, 0.0));
    Ok(())
}

#[test]
fn pushes_are_pending_while_another_users_wrapper_has_no_validator() -> Result<()> {
    if !geteuid().is_root() {
        println!("SKIPPED: only root can be another user");
        return Ok(());
    }
    // The wrapper remains the validator's parent, or it becomes the validator.
    for exec in ["", "exec "] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("go");
        let script = format!("{exec}setpriv --reuid {VALIDATOR} --clear-groups $1 600; true");
        let wrapper = Validator::below_a_wrapper(folder.path(), &file, &script);
        let daemon = start_following(folder.path(), ("--process-tree", &wrapper), "")?;
        eventually_ok(PATIENCE, "the wrapper is followed", || {
            let page = daemon.page().map_err(|error| error.to_string())?;
            let followed = page.contains("agave_target_info{") && page.contains("comm=\"sh\"");
            if followed { Ok(()) } else { Err(page) }
        });
        let (true_points, forged) = (
            points(Some(1000), 1000, 2, "2.1.14"),
            points(None, 1400, 9, "9.9.9"),
        );
        assert!(push(&daemon, OTHER, &forged).contains(" 204 "), "it waits");
        assert!(
            push(&daemon, VALIDATOR, &true_points).contains(" 204 "),
            "it waits"
        );
        fs::write(&file, "").unwrap();
        sees(&daemon, "2.1.14", (1000.0, 2.0, 0.0));
        assert!(push(&daemon, OTHER, &forged).contains(" 403 "));
        sees(&daemon, "2.1.14", (1000.0, 2.0, 1.0));
        assert_eq!(daemon.stop()?, Some(0));
    }
    Ok(())
}

#[test]
fn with_a_push_password_any_local_user_is_accepted() -> Result<()> {
    if !geteuid().is_root() {
        println!("SKIPPED: only root can be another user");
        return Ok(());
    }
    let folder = tempfile::tempdir().unwrap();
    let validator = Validator::start(folder.path());
    let password = folder.path().join("password");
    fs::write(&password, "p\n").unwrap();
    let ingest = format!("db = \"a\"\nuser = \"u\"\npassword_file = {password:?}\n");
    let daemon = start(folder.path(), &validator, &ingest)?;
    let points = points(Some(1000), 1000, 2, "2.1.14");
    assert!(push(&daemon, OTHER, &points).contains(" 401 "));
    assert!(push(&daemon, VALIDATOR, &points).contains(" 401 "));
    let page = daemon.scrape()?;
    assert_eq!(
        page.get("faultline_ingest_requests_total", &[("code", "user")]),
        Some(0.0)
    );
    Ok(())
}
