//! Measures this tool's own cost with a minimal local server.

use crate::{
    answer::Expected,
    endpoint::Endpoint,
    plan::{LinkConfig, Plan},
    protocol::Protocol,
    results::{OwnCost, Sample, ns},
    run::Engine,
};
use anyhow::{Result, bail};
use std::{
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    rc::Rc,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

/// Counted and warm-up requests.
const ROUNDS: (u32, u32) = (1000, 200);
const TIMEOUT: Duration = Duration::from_secs(5);
/// After this silence, the server takes the next connection.
const IDLE_TIMEOUT: Duration = Duration::from_secs(1);
const MAX_BYTES: usize = 4096;

/// `None` without a server.
pub fn measured(engine: &Engine) -> Result<Option<OwnCost>> {
    let Some((listener, address, endpoint)) = server() else {
        return Ok(None);
    };
    let (plan, ended) = (plan(endpoint), AtomicBool::new(false));
    let done = thread::scope(|scope| {
        scope.spawn(|| serve(&listener, &ended));
        let done = engine.run(&Rc::new(plan), &|_, _| ());
        ended.store(true, Ordering::Relaxed);
        // Unblocks a pending `accept`.
        drop(TcpStream::connect_timeout(&address, TIMEOUT));
        done
    })?;
    if let Some(by) = done.state.stopped_by {
        bail!("ended by {by} before anything was measured");
    }
    let latencies = done.samples.iter().filter_map(Sample::latency_ns);
    let mut latencies: Vec<u64> = latencies.collect();
    latencies.sort_unstable();
    let median = latencies.get(latencies.len() / 2);
    Ok(done.state.own_cpu.zip(median).map(|(cpu, median)| OwnCost {
        cpu_ns: ns(cpu),
        median_ns: *median,
    }))
}

fn plan(endpoint: Endpoint) -> Plan {
    let mut plan = Plan {
        arms: vec!["this tool".to_owned()],
        links: vec![LinkConfig::new(endpoint, Protocol::Http)],
        rounds: ROUNDS.0,
        warm_up: ROUNDS.1,
        timeout: TIMEOUT,
        limit: MAX_BYTES,
        ..Plan::default()
    };
    let method = r#""method":"getHealth","params":[]"#.to_owned();
    let expected = Expected::Json { same: false };
    plan.add_request("nothing".to_owned(), method, None, expected);
    plan
}

fn server() -> Option<(TcpListener, SocketAddr, Endpoint)> {
    let listener = TcpListener::bind("127.0.0.1:0").ok()?;
    let address = listener.local_addr().ok()?;
    let endpoint = Endpoint::parse(&format!("http://{address}")).ok()?;
    Some((listener, address, endpoint))
}

/// One connection at a time. Errors are ignored: a request without an answer is not measured.
fn serve(listener: &TcpListener, ended: &AtomicBool) {
    while !ended.load(Ordering::Relaxed) {
        let Ok((stream, _)) = listener.accept() else {
            return;
        };
        let _ = answer_all(&stream, ended);
    }
}

fn answer_all(stream: &TcpStream, ended: &AtomicBool) -> io::Result<()> {
    stream.set_nodelay(true)?;
    // Limits the delay by another idle connection.
    stream.set_read_timeout(Some(IDLE_TIMEOUT))?;
    let (mut reader, mut writer) = (BufReader::new(stream), stream);
    let mut request = Vec::new();
    while !ended.load(Ordering::Relaxed) {
        request.clear();
        // Only the last byte of a request is a closing brace.
        let mut limited = reader.by_ref().take(MAX_BYTES as u64);
        if limited.read_until(b'}', &mut request)? == 0 {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&request);
        let id: String = text
            .split_once("\"id\":")
            .map_or("", |(_, rest)| rest)
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        let output = format!(r#"{{"jsonrpc":"2.0","result":"ok","id":{id}}}"#);
        writer.write_all(
            format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{output}",
                output.len()
            )
            .as_bytes(),
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tools_own_cost_per_request_is_small_but_not_zero() {
        let engine =
            Engine::new(&plan(Endpoint::parse("http://127.0.0.1:1").unwrap()), None).unwrap();
        let own = measured(&engine).unwrap().unwrap();
        assert!(own.cpu_ns > 1000 && own.median_ns > 1000, "{own:?}");
        assert!(
            own.cpu_ns < 100_000_000 && own.median_ns < 1_000_000_000,
            "{own:?}"
        );
    }
}
