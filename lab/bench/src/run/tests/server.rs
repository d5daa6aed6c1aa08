//! A test server with known answer times and errors.
#![expect(
    clippy::disallowed_methods,
    reason = "the witness has threads and a clock of its own"
)]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    After(Duration),
    Raw(String),
    Endless,
    Silent,
}

pub struct Server {
    pub address: SocketAddr,
    /// From the request's last byte to the answer's first.
    pub took: Arc<Mutex<Vec<Duration>>>,
    pub connections: Arc<AtomicUsize>,
}

pub fn good(id: u64) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","result":{{"context":{{"slot":9}},"value":{{"data":["AAEC","base64"]}}}},"id":{id}}}"#
    )
}

pub fn http(status: &str, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\n{headers}\r\n{body}",
        body.len()
    )
}

impl Server {
    /// `reply` gets the index of the request, counted over all connections, and its JSON-RPC id.
    pub fn start(reply: impl Fn(usize, u64) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let took: Arc<Mutex<Vec<Duration>>> = Arc::default();
        let connections: Arc<AtomicUsize> = Arc::default();
        let made = connections.clone();
        let (shared, number, saved) =
            (Arc::new(reply), Arc::new(AtomicUsize::new(0)), took.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                made.fetch_add(1, Ordering::SeqCst);
                let (shared, number, saved) = (shared.clone(), number.clone(), saved.clone());
                thread::spawn(move || {
                    let _ = serve(&stream, &*shared, &number, &saved);
                });
            }
        });
        Self {
            address,
            took,
            connections,
        }
    }
}

fn serve(
    stream: &TcpStream,
    reply: &(impl Fn(usize, u64) -> Reply + ?Sized),
    number: &AtomicUsize,
    took: &Mutex<Vec<Duration>>,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut reader, mut writer) = (BufReader::new(stream), stream);
    loop {
        let (mut line, mut length) = (String::new(), 0);
        loop {
            line.clear();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let begun = Instant::now();
        let id = serde_json::from_slice::<serde_json::Value>(&body).unwrap()["id"]
            .as_u64()
            .unwrap();
        match reply(number.fetch_add(1, Ordering::SeqCst), id) {
            Reply::After(wait) => {
                thread::sleep(wait);
                let answer = http("200 OK", "", &good(id));
                took.lock().unwrap().push(begun.elapsed());
                writer.write_all(answer.as_bytes())?;
            }
            Reply::Raw(bytes) => return writer.write_all(bytes.as_bytes()),
            Reply::Endless => {
                writer.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
                loop {
                    writer.write_all(format!("400\r\n{}\r\n", " ".repeat(1024)).as_bytes())?;
                }
            }
            Reply::Silent => return reader.read_exact(&mut [0]),
        }
    }
}
