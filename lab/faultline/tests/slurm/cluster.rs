//! A controller and three nodes on this machine, with a folder of their own.

use faultline_testkit::{binaries::in_search_path, eventually::eventually};
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    time::Duration,
};

pub const FAULTLINE: &str = env!("CARGO_BIN_EXE_faultline");
pub const PATIENCE: Duration = Duration::from_secs(240);
const NODES: [&str; 3] = ["n1", "n2", "n3"];
/// `cred_expire` is also the time that a requeued job waits.
const CONFIGURATION: &str = "ClusterName=faultline
SlurmctldHost=HOST(127.0.0.1)
SlurmctldPort=17000
SlurmUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=DIR/munge/munge.sock,cred_expire=5
StateSaveLocation=DIR/controller
SlurmdSpoolDir=DIR/spool/%n
SlurmctldPidFile=DIR/slurmctld.pid
SlurmdPidFile=DIR/%n.pid
SlurmctldLogFile=DIR/log/slurmctld.log
SlurmdLogFile=DIR/log/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerParameters=sched_interval=5,bf_interval=5,batch_sched_delay=1,sched_min_interval=0
JobRequeue=1
RequeueExit=75
ReturnToService=2
SlurmdTimeout=15
SlurmctldTimeout=10
MessageTimeout=5
TCPTimeout=2
BatchStartTimeout=10
KillWait=10
SlurmdParameters=config_overrides
NodeName=n[1-3] NodeHostname=HOST NodeAddr=127.0.0.1 Port=[17001-17003] CPUs=2 RealMemory=4000 Feature=lab State=UNKNOWN
PartitionName=lab Nodes=n[1-3] Default=YES MaxTime=INFINITE State=UP
";

pub struct Cluster {
    root: tempfile::TempDir,
    /// The ports are fixed, so there is one cluster on a machine.
    _lock: fs::File,
}

impl Cluster {
    /// `None`, with a message, without Slurm, root or the daemon.
    pub fn start() -> Option<Self> {
        Self::start_with("")
    }

    /// With these lines at the end of `slurm.conf`, where `DIR` is the cluster's folder.
    pub fn start_with(lines: &str) -> Option<Self> {
        let programs = ["slurmctld", "slurmd", "sbatch", "munged", "unshare"];
        let missing: Vec<_> = programs
            .iter()
            .filter(|name| in_search_path(name).is_none())
            .collect();
        let daemon = Path::new(FAULTLINE).with_file_name("faultlined");
        if !missing.is_empty() || !daemon.is_file() || !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: it takes root, faultlined, and {missing:?}");
            return None;
        }
        let lock = fs::File::create(std::env::temp_dir().join("faultline-slurm.lock")).unwrap();
        lock.lock().unwrap();
        let root = tempfile::tempdir().unwrap();
        let cluster = Self { root, _lock: lock };
        cluster.write_files(lines);
        cluster.start_munge();
        cluster.start_controller();
        NODES.iter().for_each(|node| cluster.start_node(node));
        eventually(PATIENCE, "three idle nodes", || {
            let nodes = cluster.call("sinfo", &["--noheader", "--Node", "--states=idle"]);
            (nodes.lines().count() == 3).then_some(())
        });
        Some(cluster)
    }

    fn write_files(&self, lines: &str) {
        // Users' jobs read it.
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(self.root.path(), mode).unwrap();
        for folder in ["controller", "log", "munge", "ledger"] {
            fs::create_dir_all(self.path(folder)).unwrap();
        }
        for node in NODES {
            fs::create_dir_all(self.path("spool").join(node)).unwrap();
            fs::create_dir_all(self.path("ledgers").join(node)).unwrap();
        }
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        let host = host.trim().split('.').next().unwrap();
        let folder = self.root.path().to_str().unwrap();
        let text = format!("{CONFIGURATION}{lines}");
        let text = text.replace("HOST", host).replace("DIR", folder);
        // The name of a key ends like a placeholder.
        let text = text.replace(&format!("Slurmctld{host}"), "SlurmctldHost");
        fs::write(self.path("slurm.conf"), text).unwrap();
    }

    fn start_munge(&self) {
        let key = self.path("munge/munge.key");
        fs::write(&key, [7; 1024]).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o400);
        fs::set_permissions(&key, mode).unwrap();
        let option = |name: &str, file: &str| format!("--{name}={}", self.path(file).display());
        let options = [
            option("key-file", "munge/munge.key"),
            option("socket", "munge/munge.sock"),
            option("pid-file", "munge/munged.pid"),
            option("log-file", "munge/munged.log"),
            option("seed-file", "munge/munged.seed"),
            "--force".to_owned(),
        ];
        self.call("munged", &options.each_ref().map(String::as_str));
    }

    pub fn start_controller(&self) {
        self.call("slurmctld", &[]);
    }

    /// Each node has a ledger of its own at the same path.
    pub fn start_node(&self, node: &str) {
        let script = format!(
            "mount --bind {0}/ledgers/{node} {0}/ledger && exec slurmd -N {node}",
            self.root.path().display()
        );
        self.call("unshare", &["--mount", "sh", "-c", &script]);
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    pub fn output(&self, program: &str, arguments: &[&str]) -> Output {
        let mut command = Command::new(program);
        let command = command.args(arguments).current_dir(self.root.path());
        command
            .env("SLURM_CONF", self.path("slurm.conf"))
            .output()
            .unwrap()
    }

    /// What a program prints that succeeds.
    pub fn call(&self, program: &str, arguments: &[&str]) -> String {
        let output = self.output(program, arguments);
        let printed = [output.stdout, output.stderr]
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        assert!(
            output.status.success(),
            "{program} {arguments:?}: {printed:?}"
        );
        printed[0].clone()
    }

    pub fn pid(&self, file: &str) -> String {
        fs::read_to_string(self.path(file))
            .unwrap()
            .trim()
            .to_owned()
    }

    /// Kills the runner that has this lock, and the node's programs.
    pub fn kill_host(&self, node: &str, lock: &str) {
        let runner = self.pid(lock);
        let stat = fs::read_to_string(format!("/proc/{runner}/stat")).unwrap();
        let after_name = stat.rsplit_once(") ").unwrap().1;
        let parent = after_name.split(' ').nth(1).unwrap();
        self.kill(&[&self.pid(&format!("{node}.pid")), parent, &runner]);
    }

    pub fn kill(&self, pids: &[&str]) {
        self.call("kill", &[&["-9"], pids].concat());
    }

    /// Two arms that wait, one run after the other.
    pub fn write_plan(&self, folder: &str, seconds: u32, replicates: u32, slurm: &str) {
        let head = format!("folder = \"{folder}\"\nreplicates = {replicates}");
        let arms = "[[arm]]\nname = \"a\"\nmemory_max = \"64M\"\n[[arm]]\nname = \"b\"\nmemory_max = \"96M\"\n";
        let plan = self.plan(&head, "sleep", seconds, &format!("{slurm}\n{arms}"));
        fs::write(self.path("plan.toml"), plan).unwrap();
    }

    /// A folder with two releases that wait as their baseline does.
    pub fn write_campaign(&self, folder: &str, seconds: u32) {
        let program = self.path("waits");
        fs::write(&program, "#!/bin/sh\nexec sleep \"$1\"\n").unwrap();
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(&program, executable).unwrap();
        let path = format!("path = {program:?}\n");
        let mut text = format!("name = \"waits\"\n[baseline]\nversion = \"1.0.0\"\n{path}");
        for version in ["1.1.0", "1.2.0"] {
            text += &format!("[[program]]\nversion = \"{version}\"\n{path}");
        }
        let folder = self.path(folder);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("campaign.toml"), text).unwrap();
        fs::write(
            folder.join("plan.toml"),
            self.plan("", "{binary}", seconds, ""),
        )
        .unwrap();
    }

    fn plan(&self, head: &str, program: &str, seconds: u32, rest: &str) -> String {
        let ledger = self.path("ledger");
        format!(
            r#"name = "waits"
{head}
[workload]
kind = "replay"
command = ["{program}", "{seconds}"]
ledger = "{}"
[begin]
how = "as-is"
[stop]
duration = "2m"
grace = "5s"
[host]
cool_down = "0s"
patience = "0s"
busy_cpus = {{ at_most = 1000, otherwise = "ignore" }}
free_disk = {{ at_least = "0K", otherwise = "ignore" }}
swap = "ignore"
huge_pages = "ignore"
governor = "ignore"
leftovers = "ignore"
[recorder]
interval = "200ms"
[slurm]
constraint = "lab"
{rest}
"#,
            ledger.display()
        )
    }

    pub fn experiment(&self, words: &[&str]) -> String {
        self.call(FAULTLINE, &[&["experiment"], words].concat())
    }

    pub fn status(&self) -> Value {
        serde_json::from_str(&self.experiment(&["status", "state", "--json"])).unwrap()
    }

    pub fn wait_for(&self, what: &str, is: impl Fn(&Value) -> bool) -> Value {
        eventually(PATIENCE, what, || {
            Some(self.status()).filter(|status| is(status))
        })
    }

    pub fn wait_until_running(&self, runs: usize) {
        self.wait_for("runs", |status| {
            let all = status["runs"].as_array().unwrap();
            all.iter().filter(|run| run["step"] == "watch").count() == runs
        });
    }

    pub fn wait_for_no_job(&self) {
        eventually(PATIENCE, "no job", || {
            self.call("squeue", &["--noheader"])
                .is_empty()
                .then_some(())
        });
    }

    /// Waits for the end of all jobs. Every run then counts once, and the report exists.
    pub fn assert_all_count(&self, runs: usize) -> Value {
        self.wait_for_no_job();
        let status = self.status();
        assert_eq!(status["state"]["is"], "finished", "{status:#}");
        assert_eq!(
            (&status["done"], &status["of"]),
            (&runs.into(), &runs.into())
        );
        for run in status["runs"].as_array().unwrap() {
            assert_eq!(run["outcome"]["what"], "completed", "{status:#}");
        }
        assert!(self.path("state/report/report.html").is_file());
        status
    }

    /// The node of a block that runs.
    pub fn node_of(&self, block: u64) -> String {
        let status = self.status();
        let jobs = status["jobs"].as_array().unwrap();
        let job = jobs.iter().find(|job| job["block"] == block).unwrap();
        job["host"].as_str().unwrap().to_owned()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.output("scancel", &["--partition=lab"]);
        std::thread::sleep(Duration::from_secs(2));
        // Munge last: the others need it to end.
        for file in [
            "n1.pid",
            "n2.pid",
            "n3.pid",
            "slurmctld.pid",
            "munge/munged.pid",
        ] {
            let Ok(pid) = fs::read_to_string(self.path(file)) else {
                continue;
            };
            // A zombie has no arguments.
            let arguments = format!("/proc/{}/cmdline", pid.trim());
            for _ in 0..100 {
                if fs::read(&arguments).unwrap_or_default().is_empty() {
                    break;
                }
                let _ = self.output("kill", &[pid.trim()]);
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        for folder in ["spool/n1", "state"] {
            let _ = self.output("umount", &[folder]);
        }
    }
}
