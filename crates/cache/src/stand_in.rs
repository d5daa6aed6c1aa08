//! A fake JSON-RPC node for tests.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// A JSON-RPC result or error, with the id of the request.
    Rpc(&'static str, Value),
    /// These bytes, then the end of the connection.
    Raw(Vec<u8>),
    /// Endless blanks.
    Endless,
    /// No answer, and the connection stays open.
    Silence,
}

impl Reply {
    pub(crate) fn result(value: Value) -> Self {
        Reply::Rpc("result", value)
    }

    pub(crate) fn error(code: i64, message: &str) -> Self {
        Reply::Rpc("error", json!({"code": code, "message": message}))
    }

    pub(crate) fn status(status: u16, headers: &[(&str, &str)], body: &str) -> Self {
        let headers: String = headers
            .iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        Reply::Raw(
            format!(
                "HTTP/1.1 {status} X\r\n{headers}Content-Length: {}\r\n\r\n{body}",
                body.len()
            )
            .into_bytes(),
        )
    }

    fn send(&self, id: &Value, mut stream: TcpStream) {
        let _ = match self {
            Reply::Rpc(what, value) => {
                let body = json!({"jsonrpc": "2.0", "id": id, *what: value}).to_string();
                let head = format!(
                    "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
                    body.len()
                );
                stream
                    .write_all(head.as_bytes())
                    .and_then(|()| stream.write_all(body.as_bytes()))
            }
            Reply::Raw(bytes) => stream.write_all(bytes),
            Reply::Silence => {
                std::mem::forget(stream);
                Ok(())
            }
            Reply::Endless => {
                let blanks = vec![b' '; 1 << 20];
                let mut sent = stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
                while sent.is_ok() {
                    sent = stream.write_all(&blanks);
                }
                sent
            }
        };
    }
}

type Answers = Box<dyn FnMut(&str, &Value) -> Reply + Send>;

pub(crate) struct FakeNode {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<(String, Value)>>>,
}

impl FakeNode {
    #[expect(
        clippy::disallowed_methods,
        reason = "a test's server has a thread of its own"
    )]
    pub(crate) fn new(mut answers: Answers) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let node = FakeNode {
            address: listener.local_addr().unwrap(),
            requests: Arc::default(),
        };
        let requests = Arc::clone(&node.requests);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let Some(question) = read(&stream) else {
                    continue;
                };
                let method = question["method"].as_str().unwrap_or_default().to_owned();
                requests
                    .lock()
                    .unwrap()
                    .push((method.clone(), question["params"].clone()));
                answers(&method, &question["params"]).send(&question["id"], stream);
            }
        });
        node
    }

    pub(crate) fn of_replies(replies: Vec<Reply>) -> Self {
        let mut replies = replies.into_iter();
        Self::new(Box::new(move |_, _| {
            replies
                .next()
                .unwrap_or_else(|| Reply::status(500, &[], "no more"))
        }))
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn requests(&self) -> Vec<(String, Value)> {
        self.requests.lock().unwrap().clone()
    }
}

fn read(stream: &TcpStream) -> Option<Value> {
    let mut reader = BufReader::new(stream);
    let (mut length, mut line) = (0, String::new());
    while reader.read_line(&mut line).ok()? > 2 {
        let lower = line.to_ascii_lowercase();
        length = lower
            .strip_prefix("content-length:")
            .map_or(length, |value| value.trim().parse().unwrap());
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}
