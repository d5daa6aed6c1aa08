//! Metrics of simulated hosts: a real daemon's present page with other values.

use crate::{Agent, SITES, now, site};
use faultline_testkit::http;
use std::{
    io::{BufRead, BufReader, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    ops::Range,
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

/// An agent sends one request at a time, so a single agent would be too slow for a whole site.
const HOSTS_OF_AGENT: usize = 15;

/// One scrape that got a response.
#[derive(Clone, Copy)]
pub struct Answer {
    pub host: usize,
    /// Milliseconds since 1970, after the last byte was sent.
    pub at: i64,
    pub samples: usize,
}

/// Serves `/NUMBER` for each host.
pub struct Pages {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    page: Mutex<String>,
    answers: Mutex<Vec<Answer>>,
}

impl Pages {
    /// Reads the page of the daemon at `source` once a second.
    pub fn start(source: String) -> Self {
        let read = move || http::get(&source, "/metrics").map(|response| response.text());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            page: Mutex::new(read().expect("a page")),
            answers: Mutex::default(),
        });
        let reading = Arc::clone(&shared);
        thread::spawn(move || {
            loop {
                if let Ok(page) = read() {
                    *reading.page.lock().expect("no panic") = page;
                }
                thread::sleep(Duration::from_secs(1));
            }
        });
        let serving = Arc::clone(&shared);
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let shared = Arc::clone(&serving);
                thread::spawn(move || shared.serve(connection));
            }
        });
        Self { address, shared }
    }

    /// The agents of each site. Each scrapes a few of the site's hosts.
    pub fn agents(
        &self,
        hosts: Range<usize>,
        interval: Duration,
        centres: impl Fn(&str) -> [String; 2],
    ) -> Vec<Agent> {
        let mut agents = Vec::new();
        for place in SITES {
            let hosts = hosts.clone().filter(|number| site(*number) == place);
            let target = |number| (number, self.address.to_string(), format!("/{number}"));
            let targets: Vec<_> = hosts.map(target).collect();
            agents.extend(targets.chunks(HOSTS_OF_AGENT).map(|targets| Agent {
                site: place,
                host: None,
                targets: targets.to_vec(),
                interval,
                centres: centres(place),
            }));
        }
        agents
    }

    pub fn answers(&self) -> Vec<Answer> {
        self.shared.answers.lock().expect("no panic").clone()
    }
}

impl Shared {
    /// Serves requests. Returns `None` when the connection ends.
    fn serve(&self, connection: TcpStream) -> Option<()> {
        let mut answers = connection.try_clone().ok()?;
        let mut lines = BufReader::new(connection).lines().map_while(Result::ok);
        loop {
            let request = lines.next()?;
            lines.find(|line| line.is_empty())?;
            let host = request.split(' ').nth(1)?.trim_start_matches('/');
            let host: usize = host.parse().ok()?;
            let page = self.page.lock().expect("no panic").clone();
            let (page, samples) = of_host(&page, host);
            let length = page.len();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
            answers.write_all((head + &page).as_bytes()).ok()?;
            let answer = Answer {
                host,
                at: now(),
                samples,
            };
            self.answers.lock().expect("no panic").push(answer);
        }
    }
}

/// The page of a host, and its number of samples. Amounts and counters are multiplied by a factor
/// that depends on the host.
fn of_host(page: &str, host: usize) -> (String, usize) {
    let factor = 1.0 + host as f64 / 1000.0;
    let mut text = String::with_capacity(page.len() + page.len() / 8);
    let mut samples = 0;
    for line in page.lines() {
        let sample = line.rsplit_once(' ').filter(|_| !line.starts_with('#'));
        samples += usize::from(sample.is_some());
        let (series, value) = sample.unwrap_or((line, ""));
        let name = series.split('{').next().unwrap_or_default();
        let grows = ["_total", "_bytes", "_bucket", "_count", "_sum"];
        text += match value.parse::<f64>() {
            Ok(number) if grows.iter().any(|end| name.ends_with(end)) => {
                let whole = number.fract() == 0.0;
                let number = number * factor;
                let number = if whole { number.floor() } else { number };
                format!("{series} {number}\n")
            }
            _ => format!("{line}\n"),
        }
        .as_str();
    }
    (text, samples)
}
