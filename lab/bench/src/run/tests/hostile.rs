//! The engine against misbehaving nodes: each request fails, and the next one succeeds.
#![expect(
    clippy::disallowed_methods,
    reason = "the witness has threads of its own"
)]

use super::{
    super::Engine,
    plan_of,
    server::{Reply, Server, good, http},
};
use crate::{endpoint::Endpoint, failure::Failure, plan::Plan, protocol::Protocol};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpListener, TcpStream},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Misbehaviour {
    Good,
    Error,
    WrongId,
    Deep,
    Endless,
    Half,
    Stuck,
    Noise,
}

/// Accepted failures for every protocol.
const MISBEHAVIOURS: [(Misbehaviour, &[&str]); 7] = [
    (Misbehaviour::Error, &["JSON-RPC -32602"]),
    (Misbehaviour::WrongId, &["wrong id"]),
    (Misbehaviour::Deep, &["malformed answer"]),
    (Misbehaviour::Endless, &["answer too large"]),
    (Misbehaviour::Half, &["connection closed"]),
    (Misbehaviour::Stuck, &["timeout"]),
    // A protocol that checks its frames closes the connection.
    (
        Misbehaviour::Noise,
        &["malformed answer", "connection closed"],
    ),
];

fn body(deed: Misbehaviour, id: u64) -> String {
    match deed {
        Misbehaviour::Error => {
            format!(r#"{{"jsonrpc":"2.0","error":{{"code":-32602,"message":"no"}},"id":{id}}}"#)
        }
        Misbehaviour::WrongId => good(id + 1),
        Misbehaviour::Deep => "[".repeat(15_000) + &"]".repeat(15_000),
        _ => good(id),
    }
}

/// Misbehaves on every other request, and answers the others.
fn serve(protocol: Protocol) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        let mut deeds = MISBEHAVIOURS
            .into_iter()
            .flat_map(|(deed, _)| [deed, Misbehaviour::Good]);
        let mut next = move || deeds.next().unwrap_or(Misbehaviour::Good);
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            stream.set_nodelay(true).unwrap();
            let _ = match protocol {
                Protocol::Http2 => two(&mut stream, &mut next),
                Protocol::WebSocket => socket(&mut stream, &mut next),
                _ => one(&mut stream, &mut next),
            };
        }
    });
    address
}

fn head(stream: &mut TcpStream) -> io::Result<(String, Vec<u8>)> {
    let mut read = Vec::new();
    loop {
        if let Some(end) = read.windows(4).position(|four| four == b"\r\n\r\n") {
            let rest = read.split_off(end + 4);
            return Ok((String::from_utf8(read).unwrap().to_ascii_lowercase(), rest));
        }
        more(stream, &mut read)?;
    }
}

fn more(stream: &mut TcpStream, read: &mut Vec<u8>) -> io::Result<()> {
    let mut buffer = [0; 4096];
    let bytes = stream.read(&mut buffer)?;
    if bytes == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    read.extend(&buffer[..bytes]);
    Ok(())
}

fn at_least(stream: &mut TcpStream, read: &mut Vec<u8>, bytes: usize) -> io::Result<()> {
    while read.len() < bytes {
        more(stream, read)?;
    }
    Ok(())
}

fn id_of(body: &[u8]) -> u64 {
    serde_json::from_slice::<serde_json::Value>(body).unwrap()["id"]
        .as_u64()
        .unwrap()
}

fn stuck(stream: &mut TcpStream) -> io::Result<()> {
    loop {
        more(stream, &mut Vec::new())?;
    }
}

fn one(stream: &mut TcpStream, next: &mut impl FnMut() -> Misbehaviour) -> io::Result<()> {
    loop {
        let (head, mut rest) = head(stream)?;
        let length = head
            .split_once("content-length:")
            .unwrap()
            .1
            .lines()
            .next()
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        at_least(stream, &mut rest, length)?;
        let (deed, id) = (next(), id_of(&rest));
        let answer = http("200 OK", "", &body(deed, id));
        match deed {
            Misbehaviour::Good
            | Misbehaviour::Error
            | Misbehaviour::WrongId
            | Misbehaviour::Deep => stream.write_all(answer.as_bytes())?,
            Misbehaviour::Half => return stream.write_all(&answer.as_bytes()[..answer.len() / 2]),
            Misbehaviour::Stuck => {
                stream.write_all(&answer.as_bytes()[..answer.len() / 2])?;
                return stuck(stream);
            }
            Misbehaviour::Noise => return stream.write_all(b"\0\xff\x16SSH-2.0\r\n\r\n"),
            Misbehaviour::Endless => {
                stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
                loop {
                    stream.write_all(format!("400\r\n{}\r\n", " ".repeat(1024)).as_bytes())?;
                }
            }
        }
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const END: u8 = 1;
/// `:status: 200` of HPACK's static table.
const OK: [u8; 1] = [0x88];

fn two(stream: &mut TcpStream, next: &mut impl FnMut() -> Misbehaviour) -> io::Result<()> {
    let mut read = Vec::new();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len();
    at_least(stream, &mut read, preface)?;
    read.drain(..preface);
    stream.write_all(&frame(SETTINGS, 0, 0, &[]))?;
    let mut requested = Vec::new();
    loop {
        at_least(stream, &mut read, 9)?;
        let length = u32::from_be_bytes([0, read[0], read[1], read[2]]) as usize;
        let (kind, flags) = (read[3], read[4]);
        let number = u32::from_be_bytes([read[5], read[6], read[7], read[8]]);
        at_least(stream, &mut read, 9 + length)?;
        let payload: Vec<u8> = read.drain(..9 + length).skip(9).collect();
        match (kind, flags & END) {
            (SETTINGS, 0) => stream.write_all(&frame(SETTINGS, END, 0, &[]))?,
            (DATA, ended) => {
                requested.extend(payload);
                if ended == 0 {
                    continue;
                }
                let (deed, id) = (next(), id_of(&requested));
                requested.clear();
                answered_two(stream, deed, id, number)?;
            }
            _ => {}
        }
    }
}

fn answered_two(
    stream: &mut TcpStream,
    deed: Misbehaviour,
    id: u64,
    number: u32,
) -> io::Result<()> {
    stream.write_all(&frame(HEADERS, 4, number, &OK))?;
    let body = body(deed, id).into_bytes();
    match deed {
        Misbehaviour::Good | Misbehaviour::Error | Misbehaviour::WrongId | Misbehaviour::Deep => {
            // A frame has at most 16,384 bytes.
            for piece in body.chunks(16_000) {
                stream.write_all(&frame(DATA, 0, number, piece))?;
            }
            stream.write_all(&frame(DATA, END, number, &[]))
        }
        Misbehaviour::Half | Misbehaviour::Stuck => {
            let data = frame(DATA, END, number, &body);
            stream.write_all(&data[..data.len() / 2])?;
            if deed == Misbehaviour::Stuck {
                stuck(stream)
            } else {
                Err(io::ErrorKind::Other.into())
            }
        }
        Misbehaviour::Noise => {
            stream.write_all(&[0xff; 64])?;
            Err(io::ErrorKind::Other.into())
        }
        // More than the limit of an answer, less than the first window.
        Misbehaviour::Endless => {
            for _ in 0..3 {
                stream.write_all(&frame(DATA, 0, number, &[b' '; 16_000]))?;
            }
            stuck(stream)
        }
    }
}

/// A frame with a text, or with its first fragment.
fn text(first: u8, payload: &[u8]) -> Vec<u8> {
    let length = u64::try_from(payload.len()).unwrap().to_be_bytes();
    [&[first, 127][..], &length, payload].concat()
}

fn upgrade(stream: &mut TcpStream) -> io::Result<()> {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n") {
        more(stream, &mut read)?;
    }
    let requested = String::from_utf8(read).unwrap();
    let key = requested
        .lines()
        .find_map(|line| line.strip_prefix("sec-websocket-key: "))
        .unwrap();
    let guid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
    let accept = STANDARD.encode(digest(
        &SHA1_FOR_LEGACY_USE_ONLY,
        format!("{key}{guid}").as_bytes(),
    ));
    let upgrade =
        "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n";
    stream.write_all(format!("{upgrade}Sec-WebSocket-Accept: {accept}\r\n\r\n").as_bytes())
}

fn socket(stream: &mut TcpStream, next: &mut impl FnMut() -> Misbehaviour) -> io::Result<()> {
    upgrade(stream)?;
    loop {
        let mut read = Vec::new();
        at_least(stream, &mut read, 6)?;
        let short = usize::from(read[1] & 127);
        assert!(
            short < 126 && read[0] == 0x81,
            "one short message in one frame"
        );
        at_least(stream, &mut read, 6 + short)?;
        let requested: Vec<u8> = read[6..6 + short]
            .iter()
            .zip(read[2..6].iter().cycle())
            .map(|(a, b)| a ^ b)
            .collect();
        let (deed, id) = (next(), id_of(&requested));
        let answer = text(0x81, body(deed, id).as_bytes());
        match deed {
            Misbehaviour::Good
            | Misbehaviour::Error
            | Misbehaviour::WrongId
            | Misbehaviour::Deep => stream.write_all(&answer)?,
            Misbehaviour::Half => return stream.write_all(&answer[..answer.len() / 2]),
            Misbehaviour::Stuck => {
                stream.write_all(&answer[..answer.len() / 2])?;
                return stuck(stream);
            }
            Misbehaviour::Noise => return stream.write_all(&[0xff; 64]),
            Misbehaviour::Endless => {
                stream.write_all(&text(1, &[b' '; 1024]))?;
                loop {
                    stream.write_all(&text(0, &[b' '; 1024]))?;
                }
            }
        }
    }
}

fn what_came(protocol: Protocol) {
    let address = serve(protocol);
    let endpoint = match protocol {
        Protocol::WebSocket => Endpoint::parse_websocket(&format!("ws://{address}")),
        _ => Endpoint::parse(&format!("http://{address}")),
    };
    let plan = plan_of(endpoint.unwrap(), 2 * MISBEHAVIOURS.len() as u32, 1, None);
    // The excess must fit into the first HTTP/2 window.
    let mut plan = Plan {
        timeout: Duration::from_secs(2),
        max_answer_bytes: 40_000,
        ..plan.as_ref().clone()
    };
    plan.connections[0].protocol = protocol;
    let measured = Engine::new(&plan, None)
        .unwrap()
        .run(&Rc::new(plan), &|_, _| ())
        .unwrap();
    let failed: Vec<Option<&str>> = measured
        .samples
        .iter()
        .map(|sample| sample.result.as_ref().err().map(String::as_str))
        .collect();
    assert_eq!(failed.len(), 2 * MISBEHAVIOURS.len(), "{protocol:?}");
    for (pair, (deed, kinds)) in failed.chunks(2).zip(MISBEHAVIOURS) {
        let known = pair[0].is_some_and(|kind| kinds.contains(&kind));
        assert!(
            known && pair[1].is_none(),
            "{protocol:?}, {deed:?}: {pair:?}"
        );
    }
    assert_eq!(measured.state.stopped_by, None);
    // An error is an answer: the connection stays usable.
    let connect = measured.samples[1].timing().unwrap().phases[1];
    assert_eq!(
        connect == 0,
        protocol != Protocol::HttpNewConnection,
        "{protocol:?}"
    );
}

#[test]
fn over_http_1_any_node_misbehaviour_fails_only_that_request() {
    what_came(Protocol::Http);
    what_came(Protocol::HttpNewConnection);
}

#[test]
fn over_http_2_any_node_misbehaviour_fails_only_that_request() {
    what_came(Protocol::Http2);
}

#[test]
fn over_websocket_any_node_misbehaviour_fails_only_that_request() {
    what_came(Protocol::WebSocket);
}

#[test]
fn a_node_that_closes_instead_of_upgrading_closed_the_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || head(&mut listener.accept().unwrap().0).unwrap());
    let endpoint = Endpoint::parse_websocket(&format!("ws://{address}")).unwrap();
    let mut plan = plan_of(endpoint, 1, 1, None).as_ref().clone();
    plan.connections[0].protocol = Protocol::WebSocket;
    let engine = Engine::new(&plan, None).unwrap();
    let tls = engine.tls.as_ref();
    let connection = engine.run_preparation(async {
        let limit = Duration::from_secs(5);
        Ok(crate::connection::WebSocket::open(&plan.connections[0], tls, 1, limit).await)
    });
    assert_eq!(connection.unwrap().err(), Some(Failure::Closed));
}

#[test]
fn a_node_flooding_pings_is_reported_before_pongs_fill_memory() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sent, ended) = (Arc::new(AtomicU64::new(0)), std::sync::mpsc::channel());
    let count = sent.clone();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        upgrade(&mut stream).unwrap();
        // The node never reads.
        let pings = [&[0x89, 125][..], &[b'x'; 125]].concat().repeat(100);
        while stream.write_all(&pings).is_ok() {
            count.fetch_add(pings.len() as u64, Ordering::SeqCst);
        }
        ended.0.send(()).unwrap();
    });
    let endpoint = Endpoint::parse_websocket(&format!("ws://{address}")).unwrap();
    let mut plan = Plan {
        timeout: Duration::from_secs(120),
        ..plan_of(endpoint, 1, 1, None).as_ref().clone()
    };
    plan.connections[0].protocol = Protocol::WebSocket;
    let engine = Engine::new(&plan, None).unwrap();
    let measured = engine.run(&Rc::new(plan), &|_, _| ()).unwrap();
    let failure = measured.samples[0]
        .result
        .as_ref()
        .err()
        .map(String::as_str);
    let named = format!("hostile: ws://{address} sends control frames without an answer");
    assert_eq!(failure, Some(named.as_str()));
    ended.1.recv_timeout(Duration::from_secs(60)).unwrap();
    // The kernel's buffers took the rest.
    let sent = sent.load(Ordering::SeqCst);
    assert!(sent < 32 << 20, "{sent}");
}

/// The pings of CVE-2019-9512, over HTTP/2.
#[test]
fn reading_stops_from_an_http_2_ping_flooder_that_does_not_read() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (sent, ended) = (Arc::new(AtomicU64::new(0)), std::sync::mpsc::channel());
    let count = sent.clone();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(&frame(SETTINGS, 0, 0, &[])).unwrap();
        let pings = frame(PING, 0, 0, &[7; 8]).repeat(100);
        while stream.write_all(&pings).is_ok() {
            count.fetch_add(pings.len() as u64, Ordering::SeqCst);
        }
        ended.0.send(()).unwrap();
    });
    let endpoint = Endpoint::parse(&format!("http://{address}")).unwrap();
    let mut plan = Plan {
        timeout: Duration::from_secs(3),
        ..plan_of(endpoint, 1, 1, None).as_ref().clone()
    };
    plan.connections[0].protocol = Protocol::Http2;
    let engine = Engine::new(&plan, None).unwrap();
    let measured = engine.run(&Rc::new(plan), &|_, _| ()).unwrap();
    let failure = measured.samples[0]
        .result
        .as_ref()
        .err()
        .map(String::as_str);
    assert!(
        matches!(failure, Some("timeout" | "connection closed")),
        "{failure:?}"
    );
    ended.1.recv_timeout(Duration::from_secs(60)).unwrap();
    let sent = sent.load(Ordering::SeqCst);
    assert!(sent < 64 << 20, "{sent}");
}

#[test]
fn an_invalid_chunk_is_a_malformed_answer_and_a_cut_one_is_not() {
    let failure_after = |chunk: &'static str| {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let server = Server::start(move |_, _| Reply::Raw(head.to_owned() + chunk));
        let plan = super::plan(&server, 1, 1, None);
        let engine = Engine::new(&plan, None).unwrap();
        let measured = engine.run(&plan, &|_, _| ()).unwrap();
        measured.samples[0].result.clone().unwrap_err()
    };
    for invalid in ["zz\r\n{garbage", "fffffffffffffffff\r\n{"] {
        assert_eq!(failure_after(invalid), "malformed answer", "{invalid}");
    }
    assert_eq!(failure_after("400\r\n{"), "connection closed");
}
