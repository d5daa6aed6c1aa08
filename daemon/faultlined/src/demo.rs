//! `run --demo`: a mock validator for machines without one. The daemon starts itself again with the
//! name and arguments of `agave-validator`. The child has real memory, page faults and thread
//! names, and replays recorded datapoints. It validates nothing.

mod child;
mod memory;
mod recording;
mod timeline;

use crate::METRICS_CONFIG;
use anyhow::{Context, Result};
use faultline_core::{config::Credentials, supervisor};
use faultline_mock_validator::{PROGRAM_NAME, Protocol};
use std::{
    env,
    fs::Permissions,
    io::{BufRead, BufReader},
    net::{Ipv4Addr, SocketAddr},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{fs::PermissionsExt, process::CommandExt},
    },
    path::{Path, PathBuf},
    process::{Child, ExitCode, Stdio},
};
use tempfile::TempDir;
use tokio::net::TcpSocket;

/// Set only in the child's environment: the process id of its daemon.
const PARENT_PID_VARIABLE: &str = "FAULTLINE_DEMO_PARENT_PID";
/// Set only in the child's environment: the capacity of its program cache.
const CACHE_ENTRIES_VARIABLE: &str = "FAULTLINE_DEMO_CACHE_ENTRIES";
/// The line that the child writes to standard output once it can be followed.
const READY_LINE: &str = "ready";
/// A valid public key without a known private key.
pub const IDENTITY: &str = "DemoFauLtLine1111111111111111111111111111111";

/// The consensus protocol of mainnet-beta since 21 October 2026.
const CONSENSUS: Protocol = Protocol::Alpenglow;

/// A running mock validator. Dropping it ends the process and removes its folder.
pub struct Demo {
    child: Child,
    folder: TempDir,
}

fn is_unreserved(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '~')
}

/// Starts `program`, the daemon's own, as the mock validator, which pushes to `ingest` with
/// `credentials`. Waits without a timeout until it can be followed, normally some milliseconds. The
/// kernel kills the child when the calling thread ends, so that thread must live as long as the
/// daemon. With `cache_entries` the validator has a program cache of that size and begins at the
/// tip.
///
/// # Errors
/// No folder or port can be made, or the child cannot start or ends at once. The child writes its
/// reason to standard error.
pub fn start(
    program: &Path,
    ingest: SocketAddr,
    credentials: Option<&Credentials>,
    cache_entries: Option<u64>,
) -> Result<Demo> {
    let login = match credentials {
        // `SOLANA_METRICS_CONFIG` cannot escape other characters. The demo's login is then refused.
        Some(Credentials { db, user, password })
            if format!("{db}{user}{password}").chars().all(is_unreserved) =>
        {
            format!("db={db},u={user},p={password}")
        }
        _ => "db=demo,u=demo,p=demo".to_owned(),
    };
    let folder = new_folder()?;
    let (socket, port) = reserve_port().context("no port for the demo's JSON-RPC")?;
    let child = supervisor::sync_command(program)
        .arg0(PROGRAM_NAME)
        .arg("--ledger")
        .arg(folder.path())
        .args(["--rpc-port", &port.to_string()])
        .arg("--identity")
        .arg(folder.path().join("demo-keypair.json"))
        // The kernel's sets of CPUs end at 1023, so this pins no thread and reserves no CPU.
        .args(["--experimental-poh-pinned-cpu-core", "1024"])
        .env_clear()
        .env(PARENT_PID_VARIABLE, std::process::id().to_string())
        .env(METRICS_CONFIG, format!("host=http://{ingest},{login}"))
        .envs(cache_entries.map(|entries| (CACHE_ENTRIES_VARIABLE, entries.to_string())))
        // The child listens on this socket later.
        .stdin(Stdio::from(socket))
        .stdout(Stdio::piped())
        // Ctrl-C is for the daemon, which then ends the child.
        .process_group(0)
        .spawn()
        .with_context(|| format!("the demo, {}, cannot be started", program.display()))?;
    let mut demo = Demo { child, folder };
    demo.wait_until_ready()?;
    Ok(demo)
}

pub fn is_child() -> bool {
    env::var_os(PARENT_PID_VARIABLE).is_some()
}

/// Runs until it is killed. Call it from the main thread, before anything else.
pub fn child_main() -> ExitCode {
    match child::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            child::log_line(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

impl Demo {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn ledger(&self) -> &Path {
        self.folder.path()
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let mut line = String::new();
        if let Some(stdout) = self.child.stdout.take() {
            BufReader::new(stdout)
                .read_line(&mut line)
                .context("the output of the demo cannot be read")?;
        }
        anyhow::ensure!(
            line.trim_end() == READY_LINE,
            "the demo ended before it was ready"
        );
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

/// Binds a loopback port without listening: a validator's JSON-RPC is closed until its services
/// run.
fn reserve_port() -> std::io::Result<(OwnedFd, u16)> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    let port = socket.local_addr()?.port();
    Ok((socket.as_fd().try_clone_to_owned()?, port))
}

fn new_folder() -> Result<TempDir> {
    let parent = parent_folder();
    let folder = tempfile::Builder::new()
        .prefix("faultline-demo-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir_in(&parent);
    folder.with_context(|| format!("the demo needs a folder in {}", parent.display()))
}

/// A temporary folder, preferably on disk: a file in memory causes no major faults.
fn parent_folder() -> PathBuf {
    const TMPFS: i64 = 0x0102_1994;
    let on_disk =
        |path: &PathBuf| rustix::fs::statfs(path).is_ok_and(|found| found.f_type != TMPFS);
    let default_folder = env::temp_dir();
    [default_folder.clone(), PathBuf::from("/var/tmp")]
        .into_iter()
        .find(on_disk)
        .unwrap_or(default_folder)
}

#[cfg(test)]
mod tests;
