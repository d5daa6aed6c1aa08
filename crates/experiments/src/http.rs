//! One request over plain HTTP: a client of a dozen lines for what needs no more.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// All vote accounts of mainnet-beta take about a mebibyte.
const LONGEST_ANSWER: u64 = 32 << 20;

/// The body of the answer. HTTP/1.0, so that it comes in one piece and ends with the connection.
///
/// # Errors
/// Nobody answers within so long at each step, or not with 200; in words.
pub(crate) fn post(url: &str, body: &str, patience: Duration) -> Result<Vec<u8>, String> {
    let Some(rest) = url.strip_prefix("http://") else {
        return Err(
            "speaks TLS (https), which this program does not, so it was not asked".to_owned(),
        );
    };
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let path = if path.is_empty() { "/" } else { path };
    let named = if host.rsplit(']').next().is_some_and(|end| end.contains(':')) {
        host.to_owned()
    } else {
        format!("{host}:80")
    };
    let asked = |error: std::io::Error| error.to_string();
    let address = named
        .to_socket_addrs()
        .map_err(asked)?
        .next()
        .ok_or("has no address")?;
    let mut stream = TcpStream::connect_timeout(&address, patience).map_err(asked)?;
    stream
        .set_read_timeout(Some(patience))
        .and_then(|()| stream.set_write_timeout(Some(patience)))
        .map_err(asked)?;
    let head = format!(
        "POST {path} HTTP/1.0\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + body).as_bytes()).map_err(asked)?;
    let mut answer = Vec::new();
    stream
        .take(LONGEST_ANSWER)
        .read_to_end(&mut answer)
        .map_err(asked)?;
    let split = answer
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .ok_or("its answer is no HTTP")?;
    let head = String::from_utf8_lossy(answer.get(..split).unwrap_or_default()).into_owned();
    let status = head.lines().next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("200") {
        return Err(format!("it answers {status:?}"));
    }
    Ok(answer.split_off(split + 4))
}
