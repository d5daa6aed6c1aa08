//! Measures the time from the start of the program to the first page that has the process, for each
//! method to find it. Prints the median and the worst of 20 starts in milliseconds. The target is a
//! process of 600 threads with a validator's name and arguments.
//!
//! A scan needs a host with one validator: `unshare --pid --fork --mount-proc` hides others. The
//! unit's cgroup is a folder.
#![expect(
    clippy::disallowed_methods,
    clippy::expect_used,
    reason = "measures the time of programs that it starts; cannot go on without them"
)]

use std::{
    env, fs,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

const STARTS: usize = 20;
const THREADS: usize = 600;
const AS_TARGET: &str = "be-the-target";
const TIMEOUT: Duration = Duration::from_secs(10);

fn main() {
    if env::args().any(|argument| argument == AS_TARGET) {
        return park();
    }
    let folder = env::temp_dir().join(format!("faultline-start-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let mut target = start_target(&folder);
    let pid = target.id().to_string();
    let unit = folder.join("cgroup/systemd/bench.service");
    fs::create_dir_all(&unit).expect("a folder");
    fs::write(unit.join("cgroup.procs"), &pid).expect("a file");
    let config = folder.join("unit.toml");
    let cgroup = folder.join("cgroup");
    fs::write(&config, format!("[paths]\ncgroup = {cgroup:?}\n")).expect("a file");
    let [ledger, config] = [&folder, &config].map(|path| path.display().to_string());
    println!("milliseconds from the start to a page with the process, median / worst of {STARTS}");
    for (way, options, budget) in [
        ("pid", vec!["--pid", &pid], 50.0),
        ("ledger", vec!["--ledger", &ledger], 150.0),
        ("unit", vec!["--unit", "bench", "--config", &config], 150.0),
        ("scan", vec![], 150.0),
    ] {
        let times: Option<Vec<f64>> = (0..STARTS).map(|_| first_page(&options)).collect();
        let Some(mut times) = times else {
            println!(
                "{way:8} no page with the process within {} s",
                TIMEOUT.as_secs()
            );
            continue;
        };
        times.sort_by(f64::total_cmp);
        let (median, worst) = (times[times.len() / 2], times[times.len() - 1]);
        let verdict = if median <= budget { "within" } else { "OVER" };
        println!("{way:8} {median:7.1} / {worst:7.1}   {verdict} {budget}");
    }
    drop(target.stdin.take());
    target.wait().expect("the target's end");
    fs::remove_dir_all(folder).expect("the folder is not needed any more");
}

/// Parks threads, one of them with a validator's thread name, until standard input closes.
fn park() {
    for n in 0..THREADS - 1 {
        let name = match n {
            0 => "solReplayStage".to_owned(),
            n => format!("solPool{:02}T{n:03}", n % 70),
        };
        let builder = std::thread::Builder::new().name(name).stack_size(64 * 1024);
        builder.spawn(std::thread::park).expect("a thread");
    }
    println!("ready");
    std::io::stdin()
        .read_to_end(&mut Vec::new())
        .expect("standard input");
}

fn start_target(folder: &Path) -> Child {
    let program = folder.join("agave-validator");
    std::os::unix::fs::symlink(env::current_exe().expect("this program"), &program)
        .expect("a link");
    let mut child = Command::new(&program)
        .arg("--ledger")
        .arg(folder)
        .arg(AS_TARGET)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the target");
    let output = child.stdout.take().expect("a pipe");
    BufReader::new(output)
        .read_line(&mut String::new())
        .expect("the target's word");
    child
}

/// Milliseconds until the page has the process; `None` after the timeout.
fn first_page(options: &[&str]) -> Option<f64> {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let address = free.expect("a free port");
    let began = Instant::now();
    let mut daemon = Command::new(env!("CARGO_BIN_EXE_faultlined"))
        .args([
            "run",
            "--listen",
            &address.to_string(),
            "--ingest",
            "127.0.0.1:0",
        ])
        .args(options)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the daemon");
    let mut found = false;
    while !found && began.elapsed() < TIMEOUT {
        found = page(address).is_some_and(|page| page.contains("\nagave_process_threads "));
        if !found {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let took = began.elapsed().as_secs_f64() * 1e3;
    daemon.kill().expect("the daemon can be ended");
    daemon.wait().expect("the daemon's end");
    found.then_some(took)
}

fn page(address: SocketAddr) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    let head = format!("Host: {address}\r\nConnection: close");
    let request = format!("GET /metrics HTTP/1.1\r\n{head}\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut page = String::new();
    stream.read_to_string(&mut page).ok()?;
    Some(page)
}
