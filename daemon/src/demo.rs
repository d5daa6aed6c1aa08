//! `run --demo`: a stand-in for a validator, for machines where none runs.
//!
//! The daemon starts itself a second time, under the name and with the arguments of `agave-validator`. That child holds
//! real memory, takes real page faults, has threads named as the validator's, and tells through the validator's own
//! ways (datapoint pushes, JSON-RPC, admin socket, ledger lock) of a start, a catch-up and then a steady load. What it
//! pushes was recorded from a validator; nothing is validated.

mod child;
mod memory;
mod recording;
mod replay;
mod story;

use crate::supervisor;
use anyhow::Context;
use faultline_mock_validator::{Consensus, NAME};
use rustix::net::{self, AddressFamily, SocketFlags, SocketType};
use std::fs::Permissions;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode, Stdio};
use tempfile::TempDir;

/// Set in the stand-in's environment only; its value is the process id of the daemon that started it.
const MARK: &str = "FAULTLINE_DEMO_TARGET";
/// Where the stand-in is told to push, as a validator is.
const METRICS_CONFIG: &str = "SOLANA_METRICS_CONFIG";
/// What the stand-in writes to its standard output once it can be followed.
const READY: &str = "ready";
/// The stand-in's identity. A valid public key that nobody has the private key of.
pub const IDENTITY: &str = "DemoFauLtLine1111111111111111111111111111111";

/// What it votes with, as mainnet-beta does.
const CONSENSUS: Consensus = Consensus::Alpenglow;

/// A running stand-in. Dropping it ends the process and removes its folder.
#[derive(Debug)]
pub struct Demo {
    child: Child,
    folder: TempDir,
}

/// Starts the stand-in, which pushes to `ingest`, and waits until it can be followed (some milliseconds).
///
/// Call it from a thread that lives as long as the daemon: the kernel ends the stand-in together with the thread that
/// started it, so that not even a killed daemon leaves one behind.
///
/// # Errors
/// No folder can be made, the daemon's own program cannot be started, or it ended at once; why is on standard error.
pub fn start(ingest: SocketAddr) -> anyhow::Result<Demo> {
    start_program(
        &std::env::current_exe().context("the daemon's own program is not known")?,
        ingest,
    )
}

/// [`start`] with the daemon's program given.
///
/// # Errors
/// As [`start`].
pub fn start_program(program: &Path, ingest: SocketAddr) -> anyhow::Result<Demo> {
    let folder = new_folder()?;
    let (socket, port) = reserve_port().context("no port for the demo's JSON-RPC")?;
    let child = supervisor::program_sync(program)
        .arg0(NAME)
        .arg("--ledger")
        .arg(folder.path())
        .args(["--rpc-port", &port.to_string()])
        .arg("--identity")
        .arg(folder.path().join("demo-keypair.json"))
        // No machine has so many CPUs: it pins no thread, and nobody has to keep off one.
        .args(["--experimental-poh-pinned-cpu-core", "1024"])
        .env_clear()
        .env(MARK, std::process::id().to_string())
        .env(
            METRICS_CONFIG,
            format!("host=http://{ingest},db=demo,u=demo,p=demo"),
        )
        .stdin(Stdio::from(socket))
        .stdout(Stdio::piped())
        // Ctrl-C is for the daemon; it ends the stand-in when it has stopped watching.
        .process_group(0)
        .spawn()
        .with_context(|| format!("the demo, {}, cannot be started", program.display()))?;
    let mut demo = Demo { child, folder };
    demo.wait_until_ready()?;
    Ok(demo)
}

/// Whether this process was started as a stand-in: then `main` does nothing but [`child_main`].
pub fn is_child() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Is the stand-in until it is killed. Call it from the main thread, before anything else.
pub fn child_main() -> ExitCode {
    match child::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            child::say(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

impl Demo {
    /// The stand-in's process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Its ledger folder, which holds `admin.rpc` and `ledger.lock`.
    pub fn ledger(&self) -> &Path {
        self.folder.path()
    }

    fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        let mut line = String::new();
        if let Some(stdout) = self.child.stdout.take() {
            BufReader::new(stdout)
                .read_line(&mut line)
                .context("the demo cannot be heard")?;
        }
        anyhow::ensure!(line.trim_end() == READY, "the demo ended before it began");
        Ok(())
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        if let Err(error) = self.child.kill().and_then(|()| self.child.wait()) {
            tracing::warn!(%error, "cannot stop the demo");
        }
    }
}

/// Takes a port of the loopback without listening at it: a validator's JSON-RPC is closed until its services run.
fn reserve_port() -> anyhow::Result<(OwnedFd, u16)> {
    let socket = net::socket_with(
        AddressFamily::INET,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    net::bind(&socket, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let address = SocketAddr::try_from(net::getsockname(&socket)?)?;
    Ok((socket, address.port()))
}

/// The stand-in's ledger: a new folder that only this user may enter, removed with the value.
fn new_folder() -> anyhow::Result<TempDir> {
    let parent = parent_folder();
    let mode = Permissions::from_mode(0o700);
    let folder = tempfile::Builder::new()
        .prefix("faultline-demo-")
        .permissions(mode)
        .tempdir_in(&parent);
    folder.with_context(|| format!("the demo needs a folder in {}", parent.display()))
}

/// A folder for temporary files, on a disk if there is one: a file in memory has no major faults to offer.
fn parent_folder() -> PathBuf {
    const TMPFS: i64 = 0x0102_1994;
    let on_disk =
        |path: &PathBuf| rustix::fs::statfs(path).is_ok_and(|found| found.f_type != TMPFS);
    let usual = std::env::temp_dir();
    [usual.clone(), PathBuf::from("/var/tmp")]
        .into_iter()
        .find(on_disk)
        .unwrap_or(usual)
}

#[cfg(test)]
mod tests;
