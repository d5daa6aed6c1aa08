//! Requests that pages of other sites make a browser send.

use super::*;
use std::os::unix::net::{UnixListener, UnixStream};

const PAGES: [&str; 8] = [
    "/",
    "/metrics",
    "/healthz",
    "/readyz",
    "/status",
    "/mark",
    "/flight/save",
    "/nothing",
];

/// Sends this head. Returns the status and the whole response.
fn raw(stream: &mut dyn Stream, head: &str) -> (u16, String) {
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    (
        answer
            .split(' ')
            .nth(1)
            .and_then(|code| code.parse().ok())
            .expect("a status"),
        answer,
    )
}

impl Running {
    fn by_name(&self, method: &str, page: &str, host: &str) -> (u16, String) {
        let head = format!("{method} {page} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        raw(&mut TcpStream::connect(self.address).unwrap(), &head)
    }
}

#[test]
fn without_passwords_requests_for_unknown_host_names_are_refused() {
    let (handle, _recorder) =
        faultline_recorder::recorder::Recorder::new(Clock::start(), Vec::new(), |_| {
            serde_json::Value::Null
        });
    let mut server = start_with(None, Some(handle));
    server.tick(1);
    for page in PAGES {
        for (method, host) in [
            ("GET", "evil.example:9912"),
            ("POST", "evil.example"),
            ("GET", "localhost.evil.example"),
        ] {
            let (status, answer) = server.by_name(method, page, host);
            assert_eq!(status, 403, "{page}");
            assert!(
                answer.contains("metrics.hosts") && !answer.contains("faultline_ticks_total"),
                "{answer}"
            );
        }
    }
    assert_eq!(
        server.by_name("POST", "/mark?name=a", "evil.example").0,
        403
    );
    assert_eq!(
        server
            .by_name("GET", "http://evil.example/metrics", "localhost")
            .0,
        403,
        "in the target"
    );
    let several = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    assert_eq!(
        raw(&mut TcpStream::connect(server.address).unwrap(), several).0 / 100,
        4
    );
}

#[test]
fn requests_for_addresses_localhost_hostname_and_configured_names_are_accepted() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let allowed_hosts = vec!["node1.example.org".to_owned()];
    let newest_tick = Latest::default();
    let server = Server::build(
        &Metrics {
            allowed_hosts,
            ..config(None)
        },
        Vec::new(),
        state(Clock::start(), &newest_tick),
    )
    .unwrap();
    let address = server.local_addr().unwrap();
    let mut workers = WorkerGroup::new("web", runtime.handle());
    workers.task("web", |stop| server.run(stop));
    let status = |head: &str| raw(&mut TcpStream::connect(address).unwrap(), head).0;
    for host in [
        "127.0.0.1:9912",
        "[::1]:9912",
        "10.0.0.5",
        "localhost:1",
        "node1:9912",
        "node1.example.org:80",
    ] {
        assert_eq!(
            status(&format!(
                "GET /healthz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
            )),
            200,
            "{host}"
        );
    }
    assert_eq!(
        status("GET /healthz HTTP/1.1\r\nHost: node2\r\nConnection: close\r\n\r\n"),
        403
    );
    assert_eq!(
        status("GET /healthz HTTP/1.0\r\n\r\n"),
        200,
        "no browser leaves it out"
    );
    assert!(runtime.block_on(workers.end(DEADLINE)).is_empty());
}

#[test]
fn with_a_password_any_host_name_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("web.yml");
    let hash = bcrypt::hash("open sesame", 4).unwrap();
    std::fs::write(&path, format!("basic_auth_users:\n  alice: {hash}\n")).unwrap();
    let mut server = start(Some(&path));
    server.tick(1);
    assert_eq!(server.by_name("GET", "/metrics", "validator1:9912").0, 401);
    let good = "GET /metrics HTTP/1.1\r\nHost: validator1:9912\r\nConnection: close\r\nAuthorization: Basic YWxpY2U6b3BlbiBzZXNhbWU=\r\n\r\n";
    assert_eq!(
        raw(&mut TcpStream::connect(server.address).unwrap(), good).0,
        200
    );
    let foreign = good
        .replacen("GET /metrics", "POST /mark?name=a", 1)
        .replace("\r\n\r\n", "\r\nOrigin: http://evil.example\r\n\r\n");
    assert_eq!(
        raw(&mut TcpStream::connect(server.address).unwrap(), &foreign).0,
        403,
        "a password that a browser knows"
    );
}

#[test]
fn a_unix_socket_accepts_any_host_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("metrics.sock");
    let socket = BoundSocket::inherited_unix(UnixListener::bind(&path).unwrap()).unwrap();
    let server = Server::build(
        &config(None),
        vec![socket],
        state(Clock::start(), &Latest::default()),
    )
    .unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let mut workers = WorkerGroup::new("test", runtime.handle());
    workers.task("web", |stop| server.run(stop));
    let mut stream = UnixStream::connect(&path).unwrap();
    let head = "GET /healthz HTTP/1.1\r\nHost: faultlined.sock\r\nConnection: close\r\n\r\n";
    assert_eq!(raw(&mut stream, head).0, 200);
    assert!(runtime.block_on(workers.end(DEADLINE)).is_empty());
}

#[test]
fn a_cross_site_post_is_refused_without_effect() {
    let (handle, _recorder) =
        faultline_recorder::recorder::Recorder::new(Clock::start(), Vec::new(), |_| {
            serde_json::Value::Null
        });
    let server = start_with(None, Some(handle));
    for path in ["/mark?name=a", "/flight/save"] {
        let post =
            |headers: &str| server.ask("POST", path, &format!("Content-Length: 0\r\n{headers}"));
        for foreign in ["http://evil.example", "http://localhost:1", "null"] {
            let refused = post(&format!("Origin: {foreign}\r\n"));
            assert_eq!(
                (refused.status, refused.text()),
                (403, "A page of another site may not send this request.\n"),
                "{foreign}"
            );
        }
        assert_eq!(post("Sec-Fetch-Site: same-site\r\n").status, 403);
        assert_ne!(
            post("Origin: http://localhost\r\nSec-Fetch-Site: same-origin\r\n").status,
            403
        );
        assert_ne!(post("").status, 403, "no browser");
    }
}
