//! Completes the manifest of a process with facts that come later: the digest of its executable,
//! and the version and identity, which it reports once it runs.

use super::{BinaryDigest, hash_file, insert_some, messages, process};
use faultline_core::{
    publish::Latest,
    supervisor::{FS_CALL_TIMEOUT, FsCalls, Stop},
};
use faultline_kernel::{HostRoot, ProcessFiles, hardware::Hardware};
use faultline_sources::{
    admin::AdminFacts,
    conclusions::client,
    discovery::{Target, may_be_same_program},
    rpc::{self, identity_of},
};
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

const POLL_INTERVAL: Duration = Duration::from_secs(1);

const LOWEST_PRIORITY: i32 = 19;

#[derive(Debug)]
pub struct ProcessManifest {
    /// The process, with the program that the manifest describes.
    pub target: Arc<Target>,
    pub manifest: Value,
}

#[derive(Default)]
pub struct ReportedFacts {
    pub rpc: rpc::Handle,
    pub admin: Latest<AdminFacts>,
}

#[derive(Clone)]
pub struct ManifestCollector {
    root: HostRoot,
    /// The newest manifest from `describe`.
    initial: Latest<ProcessManifest>,
    fs_calls: Arc<FsCalls>,
    /// The newest completed manifest. It may belong to an earlier process.
    pub completed: Latest<ProcessManifest>,
}

impl ManifestCollector {
    pub fn new(root: HostRoot) -> Self {
        Self {
            root,
            initial: Latest::default(),
            fs_calls: Arc::new(FsCalls::new("manifest-path")),
            completed: Latest::default(),
        }
    }

    /// Returns the facts that are available at once, from some dozens of small files. Never fails.
    /// Passes them to `run`, which completes them.
    pub fn describe(&self, target: &Target) -> Value {
        let (mut manifest, mut problems) = process::describe(&self.root, target);
        let (root, process_target) = (self.root.clone(), target.clone());
        let folders = self.fs_calls.call(FS_CALL_TIMEOUT, move || {
            process::folders(&root, &process_target, &Hardware::read(&root).disks)
        });
        match folders {
            Ok(folders) => insert_some(&mut manifest, "folders", folders),
            Err(error) => problems.push(format!("a folder of the process: {error}")),
        }
        insert_some(&mut manifest, "problems", messages(&problems));
        self.initial.set(Some(Arc::new(ProcessManifest {
            target: Arc::new(target.clone()),
            manifest: manifest.clone(),
        })));
        manifest
    }

    pub fn run(&self, facts: &ReportedFacts, stop: &Stop) {
        let mut current: Option<Arc<ProcessManifest>> = None;
        let (mut digest, mut reported, mut published) = (None, json!({}), None);
        let (hash_calls, mut pending_digest) = (FsCalls::new("binary-digest"), None);
        while !stop.sleep(POLL_INTERVAL) {
            let Some(initial) = self.initial.get() else {
                continue;
            };
            if !current
                .as_ref()
                .is_some_and(|before| Arc::ptr_eq(before, &initial))
            {
                (digest, pending_digest) = (None, None);
                reported = json!({});
                published = Some(initial.manifest.clone());
                current = Some(Arc::clone(&initial));
            }
            if pending_digest.is_none() {
                let (root, target) = (self.root.clone(), Arc::clone(&initial.target));
                let stop = stop.clone();
                pending_digest = hash_calls
                    .start(move || hash_program(&root, &target, &stop))
                    .ok();
            }
            if let Some(result) = pending_digest
                .as_ref()
                .and_then(|pending| pending.try_recv().ok())
            {
                digest = result;
            }
            // Facts remain when they are no longer reported, for example after the process ended.
            add_reported(&mut reported, &initial.target, facts);
            let manifest = completed_manifest(&initial.manifest, digest.as_ref(), &reported);
            if published.as_ref() != Some(&manifest) {
                self.completed.set(Some(Arc::new(ProcessManifest {
                    target: Arc::clone(&initial.target),
                    manifest: manifest.clone(),
                })));
                published = Some(manifest);
            }
        }
    }
}

fn add_reported(to: &mut Value, target: &Target, facts: &ReportedFacts) {
    let (process, rpc, admin) = (target.process, facts.rpc.facts(), facts.admin.get());
    let version = rpc
        .as_ref()
        .filter(|facts| facts.process == process)
        .and_then(|facts| facts.version.clone());
    if let Some(version) = version {
        insert_some(to, "client", client(target, Some(&version.solana_core)));
        insert_some(to, "version", Some(version.solana_core));
        insert_some(to, "feature_set", version.feature_set);
    }
    insert_some(
        to,
        "identity",
        identity_of(process, rpc.as_deref(), admin.as_deref()).map(|key| key.to_string()),
    );
}

/// `None` if the process has ended, or has executed another program and gets a new manifest.
fn hash_program(
    root: &HostRoot,
    target: &Target,
    stop: &Stop,
) -> Option<Result<BinaryDigest, String>> {
    // A failure to lower the priority does not matter.
    let _ = rustix::process::setpriority_process(None, LOWEST_PRIORITY);
    let id = target.process;
    let files = ProcessFiles::open(root, id.pid)
        .ok()
        .filter(|files| files.id() == id)?;
    let file = files.open_exe();
    // Checked after the open, so that the file is certainly this program's.
    if file.is_ok() && !may_be_same_program(files.exe().ok().as_deref(), target.exe.as_deref()) {
        return None;
    }
    let hashed = file.map_err(|error| error.to_string()).and_then(|file| {
        hash_file(&file, stop).map_err(|error| format!("the program's file: {error}"))
    });
    if let Err(error) = &hashed {
        tracing::debug!(pid = id.pid, error, "cannot compute the program's digest");
    }
    Some(hashed)
}

fn completed_manifest(
    initial: &Value,
    digest: Option<&Result<BinaryDigest, String>>,
    reported: &Value,
) -> Value {
    let mut manifest = initial.clone();
    let binary = digest.map(|digest| match digest {
        Ok(digest) => json!({ "sha256": digest.sha256, "bytes": digest.bytes }),
        Err(why) => json!({ "problem": why }),
    });
    insert_some(&mut manifest, "binary", binary);
    insert_some(
        &mut manifest,
        "validator",
        (*reported != json!({})).then(|| reported.clone()),
    );
    manifest
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultline_kernel::ProcessId;
    use faultline_metrics::Stamp;
    use faultline_testkit::eventually::eventually_ok;

    const TIMEOUT: Duration = Duration::from_secs(60);
    const FIRST: &str = "DMz6SsztgBqTVkGc6CTcs4EYSJPUTfqKKwEzHLC7P8sr";
    const SECOND: &str = "7Np41oeYqPefeNQEHSv1UDhYrehxin3NStELsSKCT4K2";
    const THIRD: &str = "EtWTRABZaYq6iMfeYKouRu166VU2xqa1wcaWoxPkrZBG";

    fn reported(process: ProcessId, identity: &str) -> AdminFacts {
        AdminFacts {
            process,
            polled_at: Stamp::default(),
            progress: None,
            identity: identity.parse().ok(),
            rpc_address: None,
            admission: None,
            problems: Vec::new(),
            up: true,
        }
    }

    #[test]
    fn later_manifest_facts_are_added_only_from_the_same_process() {
        let root = HostRoot::default();
        let process = ProcessFiles::open(&root, std::process::id()).unwrap().id();
        let (comm, exe) = ("test".to_owned(), std::env::current_exe().ok());
        let target = Target {
            process,
            comm,
            exe,
            validator: None,
            ledger: None,
            found_by: "pid",
        };
        let collector = ManifestCollector::new(root);
        let facts = ReportedFacts::default();
        facts.admin.set(Some(Arc::new(reported(
            ProcessId {
                start_ticks: 1,
                ..process
            },
            THIRD,
        ))));
        let stop = Stop::default();
        std::thread::scope(|scope| {
            scope.spawn(|| collector.run(&facts, &stop));
            assert_eq!(collector.describe(&target)["binary"], Value::Null);
            let completed = |key: &str, wanted: fn(&Value) -> bool| {
                eventually_ok(TIMEOUT, key, || match collector.completed.clone().get() {
                    Some(completed) if wanted(&completed.manifest) => Ok(completed),
                    other => Err(other),
                })
            };
            let digest = completed("the digest", |manifest| {
                manifest["binary"]["sha256"].is_string()
            });
            assert_eq!(
                (digest.target.process, &digest.manifest["validator"]),
                (process, &Value::Null)
            );
            facts.admin.set(Some(Arc::new(reported(process, FIRST))));
            completed("its identity", |manifest| {
                manifest["validator"]["identity"] == FIRST
            });
            facts.admin.set(Some(Arc::new(reported(process, SECOND))));
            let last = completed("its other identity", |manifest| {
                manifest["validator"]["identity"] == SECOND
            });
            assert_eq!(last.manifest["binary"], digest.manifest["binary"]);
            stop.set();
        });
    }
}
