//! A JSON-RPC node whose answers a test sets, valid or not.

use crate::{
    Error, Result,
    http::{UnknownLength, read_body, read_headers, read_line},
};
use serde_json::{Value, json};
use std::{
    io::{BufReader, Read, Write},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::JoinHandle,
};

/// An answer to one request.
#[derive(Debug, Clone)]
pub enum Reply {
    /// A result or an error of JSON-RPC, with the id of the request.
    Rpc(&'static str, Value),
    /// A whole answer; the connection stays open.
    Http(Vec<u8>),
    /// These bytes, then the end of the connection.
    Raw(Vec<u8>),
    /// Endless spaces.
    Endless,
    /// Nothing, on a connection that stays open.
    Never,
}

impl Reply {
    pub fn result(value: Value) -> Self {
        Self::Rpc("result", value)
    }

    pub fn error(code: i64, message: &str) -> Self {
        Self::Rpc("error", json!({"code": code, "message": message}))
    }

    pub fn json(body: &Value) -> Self {
        Self::status(200, &[], &body.to_string())
    }

    pub fn status(status: u16, headers: &[(&str, &str)], body: &str) -> Self {
        Self::Http(http(status, headers, body))
    }
}

fn http(status: u16, headers: &[(&str, &str)], body: &str) -> Vec<u8> {
    let headers: String = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let length = body.len();
    format!("HTTP/1.1 {status} X\r\n{headers}Content-Length: {length}\r\n\r\n{body}").into_bytes()
}

type Script = dyn FnMut(usize, &Value) -> Reply + Send;

struct Shared {
    script: Mutex<Box<Script>>,
    bodies: Mutex<Vec<Value>>,
    streams: Mutex<Vec<TcpStream>>,
    closed: AtomicBool,
    connections: AtomicUsize,
    waiting: AtomicUsize,
    max_waiting: AtomicUsize,
}

/// Listens until it is dropped. Its port number stays the same while it is closed, but another process may take the port.
pub struct MockNode {
    shared: Arc<Shared>,
    address: SocketAddr,
    acceptor: Option<JoinHandle<()>>,
}

impl MockNode {
    /// Starts a node. `script` gets the number of earlier requests and the body, and returns the answer.
    ///
    /// # Errors
    /// No port is free.
    pub fn start(script: impl FnMut(usize, &Value) -> Reply + Send + 'static) -> Result<Self> {
        let shared = Shared {
            script: Mutex::new(Box::new(script)),
            bodies: Mutex::default(),
            streams: Mutex::default(),
            closed: AtomicBool::new(true),
            connections: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            max_waiting: AtomicUsize::new(0),
        };
        let mut node = Self {
            shared: Arc::new(shared),
            address: (Ipv4Addr::LOCALHOST, 0).into(),
            acceptor: None,
        };
        node.open()?;
        Ok(node)
    }

    /// Starts a node whose script gets the method and its parameters.
    ///
    /// # Errors
    /// As [`MockNode::start`].
    pub fn of_methods(
        mut script: impl FnMut(&str, &Value) -> Reply + Send + 'static,
    ) -> Result<Self> {
        Self::start(move |_, request| {
            let method = request["method"].as_str().unwrap_or_default();
            script(method, &request["params"])
        })
    }

    /// Starts a node that sends these answers in order, then status 500.
    ///
    /// # Errors
    /// As [`MockNode::start`].
    pub fn of_replies(replies: Vec<Reply>) -> Result<Self> {
        let mut replies = replies.into_iter();
        let no_more = Reply::status(500, &[], "no more");
        Self::start(move |_, _| replies.next().unwrap_or_else(|| no_more.clone()))
    }

    /// Listens again.
    ///
    /// # Errors
    /// The port is taken.
    pub fn open(&mut self) -> Result<()> {
        let broken = |source| Error::Connection {
            address: self.address.to_string(),
            source,
        };
        let listener = TcpListener::bind(self.address).map_err(broken)?;
        self.address = listener.local_addr().map_err(broken)?;
        self.shared.closed.store(false, Ordering::SeqCst);
        let shared = Arc::clone(&self.shared);
        self.acceptor = Some(std::thread::spawn(move || accept(&listener, &shared)));
        Ok(())
    }

    /// Closes the port and every connection.
    pub fn close(&mut self) {
        self.shared.closed.store(true, Ordering::SeqCst);
        if let Some(acceptor) = self.acceptor.take() {
            // The acceptor sleeps in accept(): one more connection wakes it.
            drop(TcpStream::connect(self.address));
            drop(acceptor.join());
        }
        for stream in lock(&self.shared.streams).drain(..) {
            // The client may have closed it already.
            stream.shutdown(Shutdown::Both).unwrap_or_default();
        }
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn bodies(&self) -> Vec<Value> {
        lock(&self.shared.bodies).clone()
    }

    /// Methods and parameters of all requests.
    pub fn requests(&self) -> Vec<(String, Value)> {
        let bodies = lock(&self.shared.bodies);
        let method = |body: &Value| body["method"].as_str().unwrap_or_default().to_owned();
        bodies
            .iter()
            .map(|body| (method(body), body["params"].clone()))
            .collect()
    }

    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Maximum connections that waited for an answer at the same time.
    pub fn max_waiting(&self) -> usize {
        self.shared.max_waiting.load(Ordering::SeqCst)
    }
}

impl Drop for MockNode {
    fn drop(&mut self) {
        self.close();
    }
}

fn lock<T>(shared: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming().flatten() {
        if shared.closed.load(Ordering::SeqCst) {
            return;
        }
        shared.connections.fetch_add(1, Ordering::SeqCst);
        if let Ok(second) = stream.try_clone() {
            lock(&shared.streams).push(second);
        }
        let shared = Arc::clone(shared);
        std::thread::spawn(move || {
            serve(&stream, &shared);
            // The list of streams has another handle, which would keep it open.
            stream.shutdown(Shutdown::Both).unwrap_or_default();
        });
    }
}

/// Answers the requests of one connection until it ends.
fn serve(mut stream: &TcpStream, shared: &Shared) -> Option<()> {
    let mut reader = BufReader::new(stream);
    loop {
        read_line(&mut reader).ok()?;
        let headers = read_headers(&mut reader).ok()?;
        let body = read_body(&mut reader, &headers, UnknownLength::Empty).ok()?;
        let request: Value = serde_json::from_slice(&body).ok()?;
        let number = {
            let mut bodies = lock(&shared.bodies);
            bodies.push(request.clone());
            bodies.len() - 1
        };
        let reply = lock(&shared.script)(number, &request);
        match reply {
            Reply::Rpc(what, value) => {
                let answer = json!({"jsonrpc": "2.0", "id": request["id"], what: value});
                stream
                    .write_all(&http(200, &[], &answer.to_string()))
                    .ok()?;
            }
            Reply::Raw(bytes) => return stream.write_all(&bytes).ok(),
            Reply::Http(bytes) => stream.write_all(&bytes).ok()?,
            Reply::Endless => {
                let blanks = vec![b' '; 1 << 20];
                stream
                    .write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
                    .ok()?;
                while stream.write_all(&blanks).is_ok() {}
                return None;
            }
            Reply::Never => {
                let waiting = shared.waiting.fetch_add(1, Ordering::SeqCst) + 1;
                shared.max_waiting.fetch_max(waiting, Ordering::SeqCst);
                // Until the client disconnects.
                reader.read_exact(&mut [0]).ok();
                shared.waiting.fetch_sub(1, Ordering::SeqCst);
                return None;
            }
        }
    }
}
