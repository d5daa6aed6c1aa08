//! Measures this tool's own cost for a request to a minimal local server.

use crate::{
    answer::Expected,
    endpoint::Endpoint,
    plan::{ConnectionConfig, Plan},
    protocol::Protocol,
    results::{LoopbackCost, Sample, ns},
    run::Engine,
};
use anyhow::{Result, bail};
use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    rc::Rc,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

const ROUNDS: u32 = 1000;
const WARM_UP_ROUNDS: u32 = 200;
const TIMEOUT: Duration = Duration::from_secs(5);
/// After this silence, the server takes the next connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(1);
const MAX_BYTES: usize = 4096;

/// `None` if the server cannot listen.
pub fn measure(engine: &Engine) -> Result<Option<LoopbackCost>> {
    let Some((listener, address, endpoint)) = server() else {
        return Ok(None);
    };
    let is_ended = AtomicBool::new(false);
    let run = thread::scope(|scope| {
        scope.spawn(|| serve(&listener, &is_ended));
        let run = engine.run(&Rc::new(make_plan(endpoint)), &|_, _| ());
        is_ended.store(true, Ordering::Relaxed);
        // Unblocks a pending `accept`.
        drop(TcpStream::connect_timeout(&address, TIMEOUT));
        run
    })?;
    if let Some(signal) = run.state.stopped_by {
        bail!("nothing was measured: ended by {signal}");
    }
    let mut latencies = Vec::from_iter(run.samples.iter().filter_map(Sample::latency_ns));
    latencies.sort_unstable();
    let median = latencies.get(latencies.len() / 2);
    Ok(run
        .state
        .tool_cpu_per_request
        .zip(median)
        .map(|(cpu, median)| LoopbackCost {
            cpu_ns: ns(cpu),
            median_ns: *median,
        }))
}

fn make_plan(endpoint: Endpoint) -> Plan {
    let mut plan = Plan {
        arms: vec!["this tool".to_owned()],
        connections: vec![ConnectionConfig::new(endpoint, Protocol::Http)],
        rounds: ROUNDS,
        warm_up: WARM_UP_ROUNDS,
        timeout: TIMEOUT,
        max_answer_bytes: MAX_BYTES,
        ..Plan::default()
    };
    plan.add_request(
        "nothing".to_owned(),
        r#""method":"getHealth","params":[]"#.to_owned(),
        None,
        Expected::Unverified,
    );
    plan
}

fn server() -> Option<(TcpListener, SocketAddr, Endpoint)> {
    let listener = TcpListener::bind("127.0.0.1:0").ok()?;
    let address = listener.local_addr().ok()?;
    let endpoint = Endpoint::parse(&format!("http://{address}")).ok()?;
    Some((listener, address, endpoint))
}

/// One connection at a time. Errors are ignored: a request without an answer is not measured.
fn serve(listener: &TcpListener, is_ended: &AtomicBool) {
    while !is_ended.load(Ordering::Relaxed) {
        let Ok((stream, _)) = listener.accept() else {
            return;
        };
        let _ = answer_all(&stream, is_ended);
    }
}

fn answer_all(stream: &TcpStream, is_ended: &AtomicBool) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(IDLE_TIMEOUT))?;
    let (mut reader, mut writer) = (BufReader::new(stream), stream);
    let mut request = Vec::new();
    while !is_ended.load(Ordering::Relaxed) {
        request.clear();
        // Only the last byte of a request is a closing brace.
        let read = reader
            .by_ref()
            .take(MAX_BYTES as u64)
            .read_until(b'}', &mut request)?;
        if read == 0 {
            return Ok(());
        }
        let id: String = String::from_utf8_lossy(&request)
            .split_once("\"id\":")
            .map_or("", |(_, rest)| rest)
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        let body = format!(r#"{{"jsonrpc":"2.0","result":"ok","id":{id}}}"#);
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        writer.write_all((head + &body).as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tools_own_cost_per_request_is_small_but_not_zero() {
        let engine = Engine::new(
            &make_plan(Endpoint::parse("http://127.0.0.1:1").unwrap()),
            None,
        )
        .unwrap();
        let own = measure(&engine).unwrap().unwrap();
        assert!(own.cpu_ns > 1000 && own.median_ns > 1000, "{own:?}");
        assert!(
            own.cpu_ns < 100_000_000 && own.median_ns < 1_000_000_000,
            "{own:?}"
        );
    }
}
