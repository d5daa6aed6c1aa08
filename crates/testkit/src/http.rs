//! A small blocking HTTP/1.1 client with one connection per request.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{TcpStream, ToSocketAddrs},
    time::Duration,
};

use crate::{Error, Result};

/// An answer. Its body has no transfer coding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    /// Header names in lower case with their values, in order of arrival.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Response {
    /// The first header of that name, whatever the case of `name`.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// The body as text; invalid UTF-8 becomes U+FFFD.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// `GET http://address/path`.
///
/// # Errors
/// [`Error::Connection`] if the server refuses or ends the connection, or is silent for 30 s;
/// [`Error::Malformed`] if its answer is not HTTP/1.
pub fn get(address: &str, path: &str) -> Result<Response> {
    Request::new("GET", path).send(address)
}

/// `POST http://address/path` with a body.
///
/// # Errors
/// As [`get`].
pub fn post(address: &str, path: &str, body: &[u8]) -> Result<Response> {
    Request::new("POST", path).body(body).send(address)
}

/// A request with any method, headers and body.
#[derive(Debug, Clone)]
pub struct Request {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    timeout: Duration,
}

impl Request {
    /// A request without body; `path` with its query, from the first `/` on.
    pub fn new(method: &str, path: &str) -> Self {
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            timeout: Duration::from_secs(30),
        }
    }

    /// Adds a header; `Host`, `Connection` and `Content-Length` are set already.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    #[must_use]
    pub fn body(mut self, body: &[u8]) -> Self {
        body.clone_into(&mut self.body);
        self
    }

    /// Sets the timeout of the connection and of each read or write. Default: 30 s.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sends to `host:port` and reads the whole answer.
    ///
    /// # Errors
    /// As [`get`].
    pub fn send(&self, address: &str) -> Result<Response> {
        let broken = |source| Error::Connection {
            address: address.to_owned(),
            source,
        };
        let mut stream = self.connect(address).map_err(broken)?;
        stream.write_all(&self.bytes(address)).map_err(broken)?;
        read_response(&mut BufReader::new(stream), self.method == "HEAD").map_err(|trouble| {
            match trouble {
                HttpError::Io(source) => broken(source),
                HttpError::Malformed(error) => error,
            }
        })
    }

    fn connect(&self, address: &str) -> io::Result<TcpStream> {
        let mut last = io::Error::other("the address has no IP");
        for candidate in address.to_socket_addrs()? {
            match TcpStream::connect_timeout(&candidate, self.timeout) {
                Ok(stream) => {
                    stream.set_read_timeout(Some(self.timeout))?;
                    stream.set_write_timeout(Some(self.timeout))?;
                    return Ok(stream);
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    fn bytes(&self, address: &str) -> Vec<u8> {
        let mut head = format!(
            "{} {} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n",
            self.method, self.path
        );
        if !self.body.is_empty() || self.method == "POST" {
            head += &format!("Content-Length: {}\r\n", self.body.len());
        }
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += "\r\n";
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

pub(crate) enum HttpError {
    Io(io::Error),
    Malformed(Error),
}

impl From<io::Error> for HttpError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

fn malformed(what: &'static str, text: &str) -> HttpError {
    HttpError::Malformed(Error::malformed(what, text))
}

type HttpResult<T> = std::result::Result<T, HttpError>;

pub(crate) fn read_response(from: &mut impl BufRead, headers_only: bool) -> HttpResult<Response> {
    let status_line = read_line(from)?;
    let status = status_line
        .strip_prefix("HTTP/1.")
        .and_then(|rest| rest.split(' ').nth(1))
        .and_then(|code| code.parse().ok())
        .ok_or_else(|| malformed("not an HTTP/1 status line", &status_line))?;
    let headers = read_headers(from)?;
    let has_no_body = headers_only || status == 204 || status == 304;
    let body = if has_no_body {
        Vec::new()
    } else {
        read_body(from, &headers, UnknownLength::UntilClose)?
    };
    Ok(Response {
        status,
        headers,
        body,
    })
}

pub(crate) fn read_headers(from: &mut impl BufRead) -> HttpResult<Vec<(String, String)>> {
    let mut headers = Vec::new();
    loop {
        let line = read_line(from)?;
        if line.is_empty() {
            return Ok(headers);
        }
        let (name, value) = line
            .split_once(':')
            .ok_or_else(|| malformed("header without a colon", &line))?;
        headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
    }
}

/// What a missing length means: the body of an answer ends with the connection, and a request has no body.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnknownLength {
    UntilClose,
    Empty,
}

pub(crate) fn read_body(
    from: &mut impl BufRead,
    headers: &[(String, String)],
    unknown: UnknownLength,
) -> HttpResult<Vec<u8>> {
    let find = |name: &str| {
        headers
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    };
    let mut body = Vec::new();
    if find("transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
        read_chunks(from, &mut body)?;
    } else if let Some(length) = find("content-length") {
        let length: u64 = length
            .parse()
            .map_err(|_| malformed("content-length is not a number", length))?;
        take_exactly(from, length, &mut body)?;
    } else if unknown == UnknownLength::UntilClose {
        from.read_to_end(&mut body)?;
    }
    Ok(body)
}

fn read_chunks(from: &mut impl BufRead, body: &mut Vec<u8>) -> HttpResult<()> {
    loop {
        let line = read_line(from)?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(size, 16)
            .map_err(|_| malformed("chunk size is not a number", &line))?;
        if size == 0 {
            while !read_line(from)?.is_empty() {}
            return Ok(());
        }
        take_exactly(from, size, body)?;
        let end = read_line(from)?;
        if !end.is_empty() {
            return Err(malformed("chunk longer than its size", &end));
        }
    }
}

fn take_exactly(from: &mut impl BufRead, length: u64, body: &mut Vec<u8>) -> HttpResult<()> {
    let got = from.take(length).read_to_end(body)?;
    if got as u64 != length {
        return Err(HttpError::Io(io::ErrorKind::UnexpectedEof.into()));
    }
    Ok(())
}

pub(crate) fn read_line(from: &mut impl BufRead) -> HttpResult<String> {
    let mut line = Vec::new();
    from.take(64 * 1024).read_until(b'\n', &mut line)?;
    if line.pop() != Some(b'\n') {
        return Err(HttpError::Io(io::ErrorKind::UnexpectedEof.into()));
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    String::from_utf8(line).map_err(|error| malformed("header is not UTF-8", &error.to_string()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(bytes: &[u8]) -> HttpResult<Response> {
        read_response(&mut BufReader::new(bytes), false)
    }

    fn body_of(bytes: &[u8]) -> Option<Vec<u8>> {
        read(bytes).ok().map(|response| response.body)
    }

    #[test]
    fn a_body_ends_by_content_length_chunks_or_connection_close() {
        assert_eq!(
            body_of(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabX"),
            Some(b"ab".to_vec())
        );
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\nA\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n";
        assert_eq!(body_of(chunked), Some(b"ab0123456789".to_vec()));
        assert_eq!(body_of(b"HTTP/1.0 200 OK\r\n\r\nab"), Some(b"ab".to_vec()));
        assert_eq!(
            body_of(b"HTTP/1.1 204 No Content\r\n\r\n"),
            Some(Vec::new())
        );
    }

    #[test]
    fn a_truncated_http_response_is_an_error() {
        let whole = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n";
        for end in 0..whole.len() {
            assert!(
                read(&whole[..end]).is_err(),
                "{}",
                String::from_utf8_lossy(&whole[..end])
            );
        }
        assert!(body_of(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab").is_none());
    }

    #[test]
    fn headers_are_found_case_insensitively() {
        let response =
            read(b"HTTP/1.1 404 Not Found\r\nX-Thing:  a b \r\nContent-Length: 0\r\n\r\n")
                .ok()
                .unwrap();
        assert_eq!(
            (response.status, response.header("x-THING")),
            (404, Some("a b"))
        );
        assert_eq!(response.header("other"), None);
    }

    #[test]
    fn a_request_is_serialized_with_its_headers_and_body() {
        let request = Request::new("GET", "/metrics?a=b").header("Accept", "text/plain");
        let expected = "GET /metrics?a=b HTTP/1.1\r\nHost: h:1\r\nConnection: close\r\nAccept: text/plain\r\n\r\n";
        assert_eq!(String::from_utf8(request.bytes("h:1")).unwrap(), expected);
        let post = String::from_utf8(Request::new("POST", "/").body(b"xy").bytes("h:1")).unwrap();
        assert!(post.ends_with("Content-Length: 2\r\n\r\nxy"), "{post}");
    }

    proptest! {
        #[test]
        fn the_http_reader_never_panics(bytes: Vec<u8>) {
            let head: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            prop_assert!(read(&bytes).is_err());
            prop_assert!(read(&[head, &bytes].concat()).is_err() || bytes.contains(&b'0'));
        }
    }
}
