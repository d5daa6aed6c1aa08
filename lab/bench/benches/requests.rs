//! Requests a second of this tool on one core, against a minimal server on another; also of `wrk` and `oha` if they are installed.
//!
//! All tools send the same JSON-RPC request over the same number of connections, in turn. `wrk` and `oha` do not decode answers.
//! This tool decodes each answer, compares its id, and stores its times.

#![allow(
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark that cannot prepare its scene fails"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "it starts programs and reads clocks"
)]

use clap::Parser;
use faultline_bench::args::BenchArgs;
use std::{
    env, fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::Instant,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::{LocalSet, spawn_local},
};

/// Number of runs of each tool. The tools take turns.
const RUNS: usize = 5;
/// Connections, each with one request at a time.
const CONNECTIONS: u32 = 64;
/// Requests of one run of this tool and of `oha`.
const REQUESTS: u64 = 300_000;
/// Duration of one run of `wrk`.
const WRK_SECONDS: u32 = 4;
const BODY: &str = r#"{"jsonrpc":"2.0","id":1,"method":"getHealth","params":[]}"#;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: BenchArgs,
}

fn main() {
    let words: Vec<String> = env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    match words
        .iter()
        .map(String::as_str)
        .collect::<Vec<_>>()
        .as_slice()
    {
        ["--server"] => serve(),
        ["--client", plan] => client(plan),
        _ => compare(),
    }
}

/// Result of one run of a tool.
#[derive(Debug, Clone, Copy)]
struct ToolRun {
    per_second: f64,
    /// Microseconds of CPU time per request.
    cpu_us: f64,
}

fn compare() {
    let mut server = pinned(1, &this_program())
        .arg("--server")
        .stdout(Stdio::piped())
        .spawn()
        .expect("taskset");
    let url = first_line(&mut server);
    let folder = tempfile::tempdir().expect("a folder");
    let plan = folder.path().join("plan.toml");
    let text = format!(
        "rounds = {REQUESTS}\nwarm_up = 5000\nworkers = {CONNECTIONS}\n[[arm]]\nname = \"a\"\nurl = \"{url}\"\n\
         [[request]]\nmethod = \"getHealth\"\n"
    );
    fs::write(&plan, text).expect("a plan");
    let script = folder.path().join("post.lua");
    let lua = format!(
        "wrk.method = \"POST\"\nwrk.body = '{BODY}'\nwrk.headers[\"Content-Type\"] = \"application/json\"\n"
    );
    fs::write(&script, lua).expect("a script");
    let tools: [(&str, &dyn Fn() -> Option<ToolRun>); 3] = [
        ("faultline bench", &|| run_this_tool(&plan)),
        ("wrk", &|| run_wrk(&script, &url)),
        ("oha", &|| run_oha(&url)),
    ];
    let mut runs = vec![Vec::new(); tools.len()];
    for _ in 0..RUNS {
        for ((_, tool), runs) in tools.iter().zip(&mut runs) {
            runs.extend(tool());
        }
    }
    server.kill().expect("the server");
    server.wait().expect("the server");
    for ((name, _), runs) in tools.iter().zip(&runs) {
        let median_and_range = |value: fn(&ToolRun) -> f64| {
            let mut all: Vec<f64> = runs.iter().map(value).collect();
            all.sort_by(f64::total_cmp);
            Some((*all.get(all.len() / 2)?, *all.first()?, *all.last()?))
        };
        match median_and_range(|run| run.per_second).zip(median_and_range(|run| run.cpu_us)) {
            None => println!("{name:16} is not installed, or failed"),
            Some(((rate, low, high), (cpu, ..))) => {
                println!(
                    "{name:16} {rate:9.0} requests/s ({low:.0} to {high:.0}), {cpu:.2} us of CPU each"
                );
            }
        }
    }
}

fn this_program() -> String {
    env::current_exe()
        .expect("this program")
        .display()
        .to_string()
}

/// Limits a program to one core.
fn pinned(core: u32, program: &str) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", &core.to_string(), program]);
    command
}

fn first_line(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("its output"))
        .read_line(&mut line)
        .expect("a line");
    line.trim().to_owned()
}

/// Runs a tool. Returns what it printed and its CPU time in seconds; `None` if it is not installed or failed.
fn output(command: &mut Command) -> Option<(String, f64)> {
    let before = ended_children_cpu();
    let done = command.stderr(Stdio::null()).output().expect("taskset");
    let cpu = ended_children_cpu() - before;
    done.status
        .success()
        .then(|| (String::from_utf8_lossy(&done.stdout).into_owned(), cpu))
}

/// CPU seconds of children that have ended.
fn ended_children_cpu() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").expect("procfs");
    let (_, fields) = stat.rsplit_once(')').expect("a name in parentheses");
    let ticks: f64 = fields
        .split_whitespace()
        .skip(13)
        .take(2)
        .map(|field| field.parse::<f64>().expect("ticks"))
        .sum();
    ticks / 100.0
}

fn run_this_tool(plan: &Path) -> Option<ToolRun> {
    let (printed, _) = output(pinned(0, &this_program()).arg("--client").arg(plan))?;
    let mut numbers = printed
        .split_whitespace()
        .map(|number| number.parse::<f64>().expect("a number"));
    Some(ToolRun {
        per_second: numbers.next()?,
        cpu_us: numbers.next()?,
    })
}

fn run_wrk(script: &Path, url: &str) -> Option<ToolRun> {
    let (connections, time) = (format!("-c{CONNECTIONS}"), format!("-d{WRK_SECONDS}s"));
    let (printed, cpu) = output(
        pinned(0, "wrk")
            .args(["-t1", &connections, &time, "-s"])
            .arg(script)
            .arg(url),
    )?;
    assert!(
        !printed.contains("Non-2xx") && !printed.contains("Socket errors"),
        "{printed}"
    );
    let number = |before: &str, after: &str| -> Option<f64> {
        let (printed, _) = printed.split_once(after)?;
        printed.rsplit_once(before)?.1.trim().parse().ok()
    };
    let requests = number("\n", " requests in")?;
    let per_second = printed
        .split_once("Requests/sec:")?
        .1
        .split_whitespace()
        .next()?
        .parse()
        .ok()?;
    Some(ToolRun {
        per_second,
        cpu_us: cpu / requests * 1e6,
    })
}

fn run_oha(url: &str) -> Option<ToolRun> {
    let (connections, requests) = (CONNECTIONS.to_string(), REQUESTS.to_string());
    let words = [
        "--no-tui",
        "--output-format",
        "json",
        "-m",
        "POST",
        "-T",
        "application/json",
        "-d",
        BODY,
    ];
    let (printed, cpu) = output(
        pinned(0, "oha")
            .args(words)
            .args(["-c", &connections, "-n", &requests])
            .arg(url),
    )?;
    let printed: serde_json::Value = serde_json::from_str(&printed).ok()?;
    let per_second = printed["summary"]["requestsPerSec"].as_f64()?;
    Some(ToolRun {
        per_second,
        cpu_us: cpu / REQUESTS as f64 * 1e6,
    })
}

/// One run of this tool. Prints requests a second and microseconds of CPU each, without the report.
fn client(plan: &str) {
    let cli = Cli::try_parse_from(["bench", "run", plan, "--format", "json"]).expect("good words");
    let begun = Instant::now();
    let (printed, code) = faultline_bench::run(&cli.args).expect("results");
    assert!(code == 0, "{printed}");
    let printed: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
    assert_eq!(printed["cells"][0]["successes"], REQUESTS, "{printed}");
    let seconds = printed["run"]["length_ns"].as_f64().expect("a time") / 1e9;
    let cpu = printed["run"]["own_cpu_ns"].as_f64().expect("a time") / 1e3;
    eprintln!("{seconds:.2} s of {:.2} s", begun.elapsed().as_secs_f64());
    println!("{} {cpu}", REQUESTS as f64 / seconds);
}

/// A server that prints its address and answers every request with the id of the request.
fn serve() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .expect("a runtime");
    LocalSet::new().block_on(&runtime, async {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        println!("http://{}/", listener.local_addr().expect("an address"));
        loop {
            let (stream, _) = listener.accept().await.expect("a connection");
            spawn_local(answer_all(stream));
        }
    });
}

async fn answer_all(mut stream: TcpStream) {
    stream.set_nodelay(true).expect("TCP");
    let (mut received, mut unsent) = (Vec::with_capacity(4096), Vec::with_capacity(4096));
    while stream
        .read_buf(&mut received)
        .await
        .is_ok_and(|bytes| bytes > 0)
    {
        let mut at = 0;
        while let Some(length) = request_length(&received[at..]) {
            let body = &received[at..at + length];
            let id = index(body, b"\"id\":").map_or(0, |id| id + 5);
            let digits = body[id..]
                .iter()
                .take_while(|byte| byte.is_ascii_digit())
                .count();
            let body_bytes = 37 + digits;
            unsent.extend(
                format!("HTTP/1.1 200 OK\r\nContent-Length: {body_bytes}\r\n\r\n").as_bytes(),
            );
            unsent.extend(br#"{"jsonrpc":"2.0","result":"ok","id":"#);
            unsent.extend(&body[id..id + digits]);
            unsent.push(b'}');
            at += length;
        }
        received.drain(..at);
        if stream.write_all(&unsent).await.is_err() {
            return;
        }
        unsent.clear();
    }
}

/// The length of the request at the start of `bytes`. `None` if the request is incomplete.
fn request_length(bytes: &[u8]) -> Option<usize> {
    let head = index(bytes, b"\r\n\r\n")? + 4;
    let name = [&b"content-length: "[..], b"Content-Length: "]
        .into_iter()
        .find_map(|name| Some(index(&bytes[..head], name)? + 16))?;
    let length: usize = bytes[name..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .fold(0, |n, byte| n * 10 + usize::from(byte - b'0'));
    (bytes.len() >= head + length).then_some(head + length)
}

fn index(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes
        .windows(wanted.len())
        .position(|window| window == wanted)
}
