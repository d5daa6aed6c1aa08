//! Measures a scrape of 1,500 series: the exposition alone, and a whole request over an open
//! loopback connection. The budget is 2 ms at the 99th percentile. Every tick is new unless the row
//! says "kept".

#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
#![expect(clippy::unwrap_used, reason = "a benchmark that cannot run ends")]

use faultline_core::{
    auth_failures::AuthFailures,
    clock::Clock,
    config::{Metrics, TargetSelector},
    publish::{Latest, Sink},
    supervisor::WorkerGroup,
};
use faultline_http::{
    sinks::{
        history::History,
        prometheus::{ConstantLabels, DroppedSeries, Exposition, ExpositionFormat},
    },
    web::{PageInfo, Server, WebState},
};
use faultline_metrics::{Batch, LabelText, Reading, Source, Stamp, Tick, metrics};
use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};

const SERIES: u64 = 1500;
const ROUNDS: u64 = 2000;

/// Ticks share the names of pools, as in the daemon.
static POOL_NAMES: LazyLock<Vec<LabelText>> = LazyLock::new(|| {
    let name = |i| format!("solPohTickProd{i}").into();
    (0..SERIES).map(name).collect()
});

fn tick(number: u64) -> Arc<Tick> {
    let pool = |i: u64| POOL_NAMES[i as usize].clone();
    let readings = (0..SERIES)
        .map(|i| match i / 150 {
            0 => Reading::integer(&metrics::pools::THREADS, [pool(i)], i),
            1 | 2 => Reading::real(
                &metrics::pools::RUN_QUEUE,
                [pool(i)],
                (number * i) as f64 / 1e9,
            ),
            3..=5 => Reading::integer(
                &metrics::pools::PAGE_FAULTS,
                [pool(i), "minor".into()],
                number * i,
            ),
            _ => Reading::real(
                &metrics::pools::CPU,
                [pool(i), "user".into()],
                (number * i) as f64 / 100.0,
            ),
        })
        .collect();
    let batch = Batch {
        readings,
        up: true,
        ..Batch::empty(Source::Threads, Stamp::default())
    };
    Arc::new(Tick {
        number,
        at: Stamp::default(),
        batches: vec![Arc::new(batch)],
    })
}

fn report(what: &str, mut prepare: impl FnMut(u64), mut run: impl FnMut(u64) -> usize) {
    let mut times = Vec::new();
    let mut bytes = 0;
    for round in 1..=ROUNDS {
        prepare(round);
        let start = Instant::now();
        bytes = run(round);
        times.push(start.elapsed());
    }
    times.sort();
    let at = |share: f64| times[(share * (times.len() - 1) as f64) as usize].as_secs_f64() * 1e3;
    println!(
        "{what:<28} min {:.3} ms  median {:.3} ms  p99 {:.3} ms  ({bytes} bytes)",
        at(0.0),
        at(0.5),
        at(0.99)
    );
}

/// Sends a request on an open connection. Returns the number of bytes of the response.
fn scrape(stream: &mut TcpStream, headers: &str, buffer: &mut Vec<u8>) -> usize {
    write!(
        stream,
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n"
    )
    .unwrap();
    buffer.clear();
    let mut chunk = [0; 65536];
    loop {
        let n = stream.read(&mut chunk).unwrap();
        buffer.extend_from_slice(&chunk[..n]);
        let Some(head) = buffer.windows(4).position(|four| four == b"\r\n\r\n") else {
            continue;
        };
        let text = std::str::from_utf8(&buffer[..head]).unwrap();
        let length = text
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .unwrap();
        if buffer.len() >= head + 4 + length.parse::<usize>().unwrap() {
            return buffer.len();
        }
    }
}

fn pages(constant: &ConstantLabels) {
    let one = tick(1);
    for (what, dialect) in [
        ("page, classic", ExpositionFormat::Classic),
        ("page, OpenMetrics", ExpositionFormat::OpenMetrics),
        ("page, protobuf", ExpositionFormat::Protobuf),
    ] {
        report(
            what,
            |_| {},
            |_| {
                let exposition = Exposition::new(&one, &Arc::new(constant.clone()), None);
                exposition.encode(dialect, None).unwrap().bytes.len()
            },
        );
    }
}

fn requests(stream: &mut TcpStream, newest_tick: &mut Latest<Tick>) {
    let mut buffer = Vec::new();
    // The daemon compresses no response for a client on its own host.
    let open_metrics = "Accept: application/openmetrics-text\r\nAccept-Encoding: gzip\r\n";
    report(
        "request",
        |n| newest_tick.receive(&tick(n)),
        |_| scrape(stream, "", &mut buffer),
    );
    report(
        "request, OpenMetrics",
        |n| newest_tick.receive(&tick(ROUNDS + n)),
        |_| scrape(stream, open_metrics, &mut buffer),
    );
    report("request, kept", |_| {}, |_| scrape(stream, "", &mut buffer));
    report(
        "request, OpenMetrics, kept",
        |_| {},
        |_| scrape(stream, open_metrics, &mut buffer),
    );
}

fn main() {
    let none = ConstantLabels::new();
    pages(&none);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let mut newest_tick = Latest::default();
    let state = WebState {
        clock: Clock::start(),
        tick_interval: Duration::from_secs(1),
        newest_tick: newest_tick.clone(),
        history: History::default(),
        status_config: Latest::default(),
        constant_labels: none,
        page_info: PageInfo::new("0.0.0", &TargetSelector::Scan),
        recorder: None,
        flight_recorder: None,
        host_name: None,
        auth_failures: AuthFailures::new("metrics"),
        dropped_series: DroppedSeries::default(),
    };
    let config = Metrics {
        listen: ([127, 0, 0, 1], 0).into(),
        ..Metrics::default()
    };
    let server = Server::build(&config, Vec::new(), state).unwrap();
    let mut stream = TcpStream::connect(server.local_addr().unwrap()).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut workers = WorkerGroup::new("web", runtime.handle());
    workers.task("web", |stop| server.run(stop));

    requests(&mut stream, &mut newest_tick);
    drop(stream);
    assert!(
        runtime
            .block_on(workers.end(Duration::from_secs(10)))
            .is_empty()
    );
}
