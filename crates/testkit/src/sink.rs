//! A metrics server that stores the pushes of a validator or of the daemon's forwarder.

use std::{
    io::{BufReader, Write},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{
    Result,
    http::{UnknownLength, read_body, read_headers, read_line},
    server::Server,
};

/// One received request.
#[derive(Debug, Clone)]
pub struct Arrival {
    /// When its last byte was read.
    pub at: Instant,
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Header names in lower case with their values.
    pub headers: Vec<(String, String)>,
    /// The body without the transfer coding.
    pub body: Vec<u8>,
}

/// How the sink treats requests from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseMode {
    /// Answers at once with this status; 204 by default.
    Answer(u16),
    /// Answers with this status after a delay, as an overloaded server does.
    AnswerAfter(Duration, u16),
    /// Reads the request, then closes the connection without an answer.
    CloseConnection,
}

/// A listening sink; ends when dropped.
#[derive(Debug)]
pub struct Sink {
    server: Server,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    arrivals: Mutex<Vec<Arrival>>,
    behaviour: Mutex<ResponseMode>,
}

impl Sink {
    /// Listens on a free loopback port and answers 204.
    ///
    /// # Errors
    /// [`Error::Connection`](crate::Error::Connection) without a free port.
    pub fn start() -> Result<Self> {
        let shared = Arc::new(Shared {
            arrivals: Mutex::new(Vec::new()),
            behaviour: Mutex::new(ResponseMode::Answer(204)),
        });
        let of_server = Arc::clone(&shared);
        let server = Server::start(move |connection, stop| {
            // The incomplete request of a client that disconnects is ignored.
            serve(connection, &of_server, stop).unwrap_or_default();
        })?;
        Ok(Self { server, shared })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// `http://127.0.0.1:port`, without a path.
    pub fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// Sets the mode for requests whose last byte has not arrived yet.
    pub fn set_response_mode(&self, behaviour: ResponseMode) {
        *lock(&self.shared.behaviour) = behaviour;
    }

    /// All complete requests in order of arrival, also those that got an error or no answer.
    pub fn arrivals(&self) -> Vec<Arrival> {
        lock(&self.shared.arrivals).clone()
    }

    /// The bodies of [`Sink::arrivals`].
    pub fn bodies(&self) -> Vec<Vec<u8>> {
        lock(&self.shared.arrivals)
            .iter()
            .map(|arrival| arrival.body.clone())
            .collect()
    }

    /// The first `Some` that `look` returns for a request. Copies nothing, so that polling for a push is cheap. New
    /// requests wait until it returns.
    pub fn find_map<T>(&self, look: impl FnMut(&Arrival) -> Option<T>) -> Option<T> {
        lock(&self.shared.arrivals).iter().find_map(look)
    }

    /// How many requests have arrived.
    pub fn count(&self) -> usize {
        lock(&self.shared.arrivals).len()
    }
}

/// Stores and answers the requests of one connection. Returns `None` at its end, or after something that is not HTTP.
fn serve(connection: TcpStream, shared: &Shared, stop: &AtomicBool) -> Option<()> {
    let mut answers = connection.try_clone().ok()?;
    let mut from = BufReader::new(connection);
    loop {
        let arrival = read_request(&mut from, &mut answers)?;
        let last = arrival
            .headers
            .iter()
            .any(|(name, value)| name == "connection" && value == "close");
        lock(&shared.arrivals).push(arrival);
        let behaviour = *lock(&shared.behaviour);
        let status = match behaviour {
            ResponseMode::Answer(status) => status,
            ResponseMode::AnswerAfter(delay, status) => {
                std::thread::sleep(delay);
                status
            }
            ResponseMode::CloseConnection => return None,
        };
        let length = if status == 204 {
            ""
        } else {
            "Content-Length: 0\r\n"
        };
        answers
            .write_all(format!("HTTP/1.1 {status} x\r\n{length}\r\n").as_bytes())
            .ok()?;
        if last || stop.load(Ordering::Relaxed) {
            return None;
        }
    }
}

pub(crate) fn read_request(
    from: &mut BufReader<TcpStream>,
    answers: &mut TcpStream,
) -> Option<Arrival> {
    let line = read_line(from).ok()?;
    let mut words = line.split(' ');
    let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
    let headers = read_headers(from).ok()?;
    if headers
        .iter()
        .any(|(name, value)| name == "expect" && value.eq_ignore_ascii_case("100-continue"))
    {
        answers.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").ok()?;
    }
    let body = read_body(from, &headers, UnknownLength::Empty).ok()?;
    Some(Arrival {
        at: Instant::now(),
        method,
        target,
        headers,
        body,
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, http};

    #[test]
    fn a_push_is_stored_byte_for_byte_and_answered_with_204() -> Result<()> {
        let sink = Sink::start()?;
        let body = b"name,host_id=x f=1i 1\n\xff\0";
        let answer = http::post(
            &sink.address().to_string(),
            "/write?db=prof&u=a&p=b&precision=n",
            body,
        )?;
        assert_eq!((answer.status, answer.body.len()), (204, 0));
        let arrival = sink.arrivals().remove(0);
        assert_eq!(
            (arrival.method.as_str(), arrival.target.as_str()),
            ("POST", "/write?db=prof&u=a&p=b&precision=n")
        );
        assert_eq!(arrival.body, body);
        assert_eq!(sink.url(), format!("http://{}", sink.address()));
        Ok(())
    }

    #[test]
    fn pushes_over_one_connection_are_stored_in_order() {
        let sink = Sink::start().unwrap();
        let mut stream = TcpStream::connect(sink.address()).unwrap();
        let mut from = BufReader::new(stream.try_clone().unwrap());
        for body in ["one", "two!"] {
            let request = format!(
                "POST /write HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
            stream.write_all(request.as_bytes()).unwrap();
            assert_eq!(read_line(&mut from).ok().as_deref(), Some("HTTP/1.1 204 x"));
            assert_eq!(read_line(&mut from).ok().as_deref(), Some(""));
        }
        assert_eq!(sink.bodies(), [b"one".to_vec(), b"two!".to_vec()]);
    }

    #[test]
    fn a_failing_sink_still_stores_pushes() {
        let sink = Sink::start().unwrap();
        let address = sink.address().to_string();
        sink.set_response_mode(ResponseMode::Answer(503));
        assert_eq!(http::post(&address, "/write", b"a").unwrap().status, 503);
        sink.set_response_mode(ResponseMode::CloseConnection);
        assert!(matches!(
            http::post(&address, "/write", b"b"),
            Err(Error::Connection { .. })
        ));
        assert_eq!(sink.count(), 2);
    }

    #[test]
    fn a_slow_sink_delays_only_its_own_response() {
        let sink = Sink::start().unwrap();
        let address = sink.address().to_string();
        sink.set_response_mode(ResponseMode::AnswerAfter(Duration::from_secs(3600), 204));
        let impatient = http::Request::new("POST", "/write")
            .body(b"a")
            .timeout(Duration::from_millis(50));
        assert!(matches!(
            impatient.send(&address),
            Err(Error::Connection { .. })
        ));
        sink.set_response_mode(ResponseMode::Answer(204));
        assert_eq!(http::post(&address, "/write", b"b").unwrap().status, 204);
    }

    #[test]
    fn a_chunked_push_is_reassembled() {
        let sink = Sink::start().unwrap();
        let mut stream = TcpStream::connect(sink.address()).unwrap();
        let request = "POST /write HTTP/1.1\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n";
        stream
            .write_all(format!("{request}3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n").as_bytes())
            .unwrap();
        let mut answer = String::new();
        std::io::Read::read_to_string(&mut stream, &mut answer).unwrap();
        assert_eq!(
            answer,
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 x\r\n\r\n"
        );
        assert_eq!(sink.bodies(), [b"abcde"]);
    }
}
