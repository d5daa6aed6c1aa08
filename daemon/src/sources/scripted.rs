//! A scripted HTTP server for tests.

use faultline_agave::PublicKey;
use serde_json::Value;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinSet;

/// A valid address. `name` must have only base58 letters.
pub(super) fn key(name: &str) -> PublicKey {
    format!("Demo{name:1>40}").parse().unwrap()
}

#[derive(Clone)]
pub(super) enum Reply {
    Status(u16, String),
    Raw(String),
    /// No response; the connection stays open.
    Never,
}

impl Reply {
    pub(super) fn json(body: &Value) -> Self {
        Reply::Status(200, body.to_string())
    }
}

type Script = dyn Fn(usize, &Value) -> Reply + Send + Sync;

struct Shared {
    script: Box<Script>,
    bodies: Mutex<Vec<Value>>,
    connections: AtomicUsize,
    waiting: AtomicUsize,
    most_waiting: AtomicUsize,
}

/// Listens until it is dropped. Keeps its port, also while it is closed.
pub(super) struct Server {
    shared: Arc<Shared>,
    port: u16,
    listening: JoinSet<()>,
}

impl Server {
    /// `script` gets the number of earlier requests, and the body.
    pub(super) async fn start(
        script: impl Fn(usize, &Value) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let shared = Shared {
            script: Box::new(script),
            bodies: Mutex::default(),
            connections: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            most_waiting: AtomicUsize::new(0),
        };
        let mut server = Server {
            shared: Arc::new(shared),
            port: 0,
            listening: JoinSet::new(),
        };
        server.open().await;
        server
    }

    pub(super) async fn open(&mut self) {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(([127, 0, 0, 1], self.port).into()).unwrap();
        let listener = socket.listen(16).unwrap();
        self.port = listener.local_addr().unwrap().port();
        self.listening
            .spawn(accept(listener, Arc::clone(&self.shared)));
    }

    pub(super) async fn close(&mut self) {
        self.listening.shutdown().await;
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    pub(super) fn bodies(&self) -> Vec<Value> {
        self.shared.bodies.lock().unwrap().clone()
    }

    pub(super) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    pub(super) fn most_waiting(&self) -> usize {
        self.shared.most_waiting.load(Ordering::SeqCst)
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        shared.connections.fetch_add(1, Ordering::SeqCst);
        let shared = Arc::clone(&shared);
        connections.spawn(async move { serve(stream, &shared).await });
    }
}

async fn serve(stream: TcpStream, shared: &Shared) -> Option<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let body = request(&mut stream).await?;
        let n = {
            let mut bodies = shared.bodies.lock().unwrap();
            bodies.push(body.clone());
            bodies.len() - 1
        };
        let text = match (shared.script)(n, &body) {
            Reply::Raw(text) => text,
            Reply::Status(status, body) => {
                format!(
                    "HTTP/1.1 {status} x\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                )
            }
            Reply::Never => {
                let waiting = shared.waiting.fetch_add(1, Ordering::SeqCst) + 1;
                shared.most_waiting.fetch_max(waiting, Ordering::SeqCst);
                stream.read_u8().await.ok();
                shared.waiting.fetch_sub(1, Ordering::SeqCst);
                return None;
            }
        };
        stream.write_all(text.as_bytes()).await.ok()?;
    }
}

async fn request(stream: &mut BufReader<TcpStream>) -> Option<Value> {
    let mut length = 0;
    let mut line = String::new();
    loop {
        line.clear();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        let header = line.trim().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some(serde_json::from_slice(&body).unwrap())
}
