//! An HTTP client that controls which bytes it sends, and when.

use flate2::{Compression, write::GzEncoder};
use std::{io::Write, net::SocketAddr, time::Duration};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};

const TIMEOUT: Duration = Duration::from_secs(60);
const HEAD: &str = "POST /write?db=d&u=u&p=p&precision=n HTTP/1.1\r\nHost: x\r\n";

pub struct Client(BufReader<TcpStream>);

impl Client {
    pub async fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self(BufReader::new(stream))
    }

    pub async fn write(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.unwrap();
    }

    /// Like `write`, but the connection may be closed already.
    pub async fn try_write(&mut self, bytes: &[u8]) {
        drop(self.0.write_all(bytes).await);
    }

    /// Writes the bytes in pieces of these sizes, in turn.
    pub async fn trickle(&mut self, bytes: &[u8], sizes: &[usize]) {
        for piece in cut(bytes, sizes) {
            self.write(piece).await;
            tokio::task::yield_now().await;
        }
    }

    /// The status of the next response; `None` if the connection is closed. Skips the body.
    pub async fn status(&mut self) -> Option<u16> {
        tokio::time::timeout(TIMEOUT, self.answer())
            .await
            .expect("an answer or the end")
    }

    /// All bytes until the connection is closed.
    pub async fn rest(&mut self) -> String {
        let mut rest = String::new();
        tokio::time::timeout(TIMEOUT, self.0.read_to_string(&mut rest))
            .await
            .expect("the end")
            .unwrap();
        rest
    }

    async fn answer(&mut self) -> Option<u16> {
        let line = self.line().await?;
        let status = line.split(' ').nth(1)?.parse().ok()?;
        let mut length = 0;
        loop {
            let header = self.line().await?;
            match header.to_ascii_lowercase().split_once(": ") {
                Some(("content-length", value)) => length = value.parse().ok()?,
                Some(_) => {}
                None => break,
            }
        }
        self.0.read_exact(&mut vec![0; length]).await.ok()?;
        Some(status)
    }

    async fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.0.read_line(&mut line).await.ok()?;
        (read > 0).then(|| line.trim_end().to_owned())
    }
}

/// A push with a `Content-Length`.
pub fn post(headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("{HEAD}{headers}Content-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// A push in chunks of these sizes, in turn.
pub fn chunked(body: &[u8], sizes: &[usize]) -> Vec<u8> {
    let mut request = format!("{HEAD}Transfer-Encoding: chunked\r\n\r\n").into_bytes();
    for piece in cut(body, sizes) {
        request.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        request.extend_from_slice(piece);
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"0\r\n\r\n");
    request
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn cut<'b>(mut bytes: &'b [u8], sizes: &[usize]) -> Vec<&'b [u8]> {
    let mut pieces = Vec::new();
    for size in sizes.iter().cycle() {
        if bytes.is_empty() {
            break;
        }
        let (piece, rest) = bytes.split_at(bytes.len().min(*size));
        pieces.push(piece);
        bytes = rest;
    }
    pieces
}
