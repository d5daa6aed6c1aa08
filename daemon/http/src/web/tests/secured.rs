//! TLS, passwords, and addresses that other machines can reach.

use super::*;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use std::path::PathBuf;

mod renewed;
mod unsupported_keys;

/// A folder with certificates and a web config file.
struct Folder {
    folder: tempfile::TempDir,
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl Folder {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let folder = Self {
            folder: tempfile::tempdir().unwrap(),
            authority,
        };
        folder.write("ca.pem", &folder.authority.pem());
        folder.issue("server");
        folder
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Writes NAME.pem and NAME.key, signed by the authority.
    fn issue(&self, name: &str) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["localhost".to_owned()])
            .unwrap()
            .signed_by(&key, &self.authority)
            .unwrap();
        self.write(&format!("{name}.pem"), &certificate.pem());
        self.write(&format!("{name}.key"), &key.serialize_pem());
        (
            certificate.der().clone(),
            PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap(),
        )
    }

    fn web_config(&self, more: &str) -> PathBuf {
        let tls = "tls_server_config:\n  cert_file: server.pem\n  key_file: server.key\n";
        self.write("web.yml", &format!("{tls}{more}"))
    }

    /// Connects over TLS, with a client certificate if one is given.
    fn connect(
        &self,
        address: SocketAddr,
        own: Option<(CertificateDer<'static>, PrivateKeyDer<'static>)>,
    ) -> StreamOwned<ClientConnection, TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(self.authority.der().clone()).unwrap();
        let builder =
            ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(roots);
        let config = match own {
            Some((certificate, key)) => builder
                .with_client_auth_cert(vec![certificate], key)
                .unwrap(),
            None => builder.with_no_client_auth(),
        };
        let connection =
            ClientConnection::new(Arc::new(config), ServerName::try_from("localhost").unwrap())
                .unwrap();
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        StreamOwned::new(connection, stream)
    }
}

/// The certificate that the server presents.
fn shown(mut stream: StreamOwned<ClientConnection, TcpStream>) -> CertificateDer<'static> {
    assert_eq!(ask(&mut stream, "GET", "/healthz", "").status, 200);
    stream.conn.peer_certificates().unwrap()[0].clone()
}

#[test]
fn metrics_are_served_over_tls() {
    let folder = Folder::new();
    let mut server = start(Some(&folder.web_config("")));
    server.tick(1);
    let answer = ask(
        &mut folder.connect(server.address, None),
        "GET",
        "/metrics",
        "",
    );
    assert_eq!(answer.status, 200);
    assert!(answer.text().contains("faultline_ticks_total 1"));
}

/// A ClientHello with these versions of the record and of the hello, and with ciphers of TLS 1.0 to
/// 1.2. TLS 1.3 would be in an extension that is missing here.
fn hello(version: [u8; 2]) -> Vec<u8> {
    let random = [7; 32];
    let mut hello = [
        &version[..],
        &random,
        &[0],
        &[0, 4, 0xc0, 0x2b, 0xc0, 0x23],
        &[1, 0],
    ]
    .concat();
    // Curves (P-256), point formats and signatures (ECDSA with SHA-256). Without them, the server
    // refuses TLS 1.2, too.
    let extensions = [
        &[0, 10, 0, 4, 0, 2, 0, 23][..],
        &[0, 11, 0, 2, 1, 0],
        &[0, 13, 0, 4, 0, 2, 4, 3],
        &[0, 23, 0, 0],
    ]
    .concat();
    hello.extend([0, u8::try_from(extensions.len()).unwrap()]);
    hello.extend(extensions);
    let length = u8::try_from(hello.len()).unwrap();
    [&[22, 3, 1, 0, length + 4, 1, 0, 0, length][..], &hello].concat()
}

#[test]
fn versions_of_tls_before_1_2_are_refused() {
    let folder = Folder::new();
    let server = start(Some(&folder.web_config("")));
    let first_record = |version: [u8; 2]| {
        let mut stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream.write_all(&hello(version)).unwrap();
        let mut record = [0; 7];
        stream.read_exact(&mut record).unwrap();
        record
    };
    // A handshake record. The refused versions get a fatal alert: protocol_version.
    assert_eq!(first_record([3, 3])[0], 22, "1.2 is spoken with");
    for old in [[3, 1], [3, 2]] {
        let record = first_record(old);
        assert_eq!((record[0], record[5], record[6]), (21, 2, 70), "{old:?}");
    }
}

#[test]
fn a_renewed_certificate_is_served_without_restart_unless_broken() {
    let folder = Folder::new();
    let server = start(Some(&folder.web_config("")));
    let first = shown(folder.connect(server.address, None));
    folder.write("server.pem", "not a certificate");
    assert_eq!(shown(folder.connect(server.address, None)), first);
    let (renewed, _) = folder.issue("server");
    assert_eq!(shown(folder.connect(server.address, None)), renewed);
    assert_ne!(renewed, first);
}

#[test]
fn a_client_without_the_required_certificate_is_refused() {
    let folder = Folder::new();
    let own = folder.issue("client");
    let web_config = folder
        .web_config("  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n");
    let server = start(Some(&web_config));
    assert_eq!(
        ask(
            &mut folder.connect(server.address, Some(own)),
            "GET",
            "/healthz",
            ""
        )
        .status,
        200
    );
    let mut client = folder.connect(server.address, None);
    let mut bytes = Vec::new();
    let written =
        client.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    assert!(
        written
            .and_then(|()| client.read_to_end(&mut bytes))
            .is_err()
    );
    assert!(bytes.is_empty());
}

#[test]
fn a_wrong_password_is_refused_on_every_page() {
    let folder = Folder::new();
    let hash = bcrypt::hash("open sesame", 4).unwrap();
    let path = folder.write("web.yml", &format!("basic_auth_users:\n  alice: {hash}\n"));
    let mut server = start(Some(&path));
    server.tick(1);
    for page in [
        "/",
        "/metrics",
        "/healthz",
        "/readyz",
        "/status",
        "/mark",
        "/flight/save",
        "/nothing",
    ] {
        // `alice:wrong` in base64.
        for headers in ["", "Authorization: Basic YWxpY2U6d3Jvbmc=\r\n"] {
            let refused = server.get(page, headers);
            assert_eq!(refused.status, 401, "{page}");
            assert_eq!(
                refused.header("www-authenticate"),
                Some("Basic realm=\"faultline\", charset=\"UTF-8\"")
            );
            assert!(!refused.text().contains("faultline_ticks_total"));
        }
    }
    let good = "Authorization: Basic YWxpY2U6b3BlbiBzZXNhbWU=\r\n";
    assert_eq!(server.get("/metrics", good).status, 200);
}

#[test]
fn password_guessing_is_throttled_and_authenticated_clients_still_pass() {
    let folder = Folder::new();
    let hash = bcrypt::hash("open sesame", 4).unwrap();
    let path = folder.write("web.yml", &format!("basic_auth_users:\n  alice: {hash}\n"));
    let mut server = start(Some(&path));
    server.tick(1);
    let good = "Authorization: Basic YWxpY2U6b3BlbiBzZXNhbWU=\r\n";
    assert_eq!(server.get("/metrics", good).status, 200);
    // Four letters of base64 are three bytes: `alice:` and three more.
    let guesses = (0..40).map(|n| {
        format!(
            "Authorization: Basic YWxpY2U6{}{}AA\r\n",
            'A',
            char::from(b'A' + n % 26)
        )
    });
    let answers: Vec<_> = guesses
        .take(26)
        .map(|guess| server.get("/metrics", &guess))
        .collect();
    let refused: Vec<_> = answers
        .iter()
        .filter(|answer| answer.status == 429)
        .collect();
    assert!(
        answers
            .iter()
            .all(|answer| [401, 429].contains(&answer.status))
    );
    assert!(
        refused.len() >= 10,
        "{} of them were checked",
        answers.len() - refused.len()
    );
    let after: u64 = refused[0].header("retry-after").unwrap().parse().unwrap();
    assert!(
        (1..=10).contains(&after) && refused[0].text().contains("Too many wrong passwords"),
        "{after}"
    );
    assert_eq!(server.get("/metrics", good).status, 200);
    assert_eq!(server.auth_failures.reading().value.number(), Some(26.0));
}

#[test]
fn configured_headers_are_on_every_answer() {
    let folder = Folder::new();
    let path = folder.write(
        "web.yml",
        "http_server_config: { headers: { X-Frame-Options: deny } }\n",
    );
    let server = start(Some(&path));
    assert_eq!(
        server.get("/nothing", "").header("x-frame-options"),
        Some("deny")
    );
}

#[test]
fn a_non_loopback_listen_address_requires_tls_or_password() {
    let folder = Folder::new();
    let build = |web_config: Option<PathBuf>| {
        let config = Metrics {
            listen: ([0, 0, 0, 0], 0).into(),
            web_config,
            ..Metrics::default()
        };
        Server::build(
            &config,
            Vec::new(),
            state(Clock::start(), &Latest::default()),
        )
    };
    let bare = build(None).unwrap_err().to_string();
    assert!(
        bare.contains("127.0.0.1:9912") && bare.contains("metrics.web_config"),
        "{bare}"
    );
    let empty = build(Some(folder.write("empty.yml", "")))
        .unwrap_err()
        .to_string();
    assert!(
        empty.contains("tls_server_config") && empty.contains("basic_auth_users"),
        "{empty}"
    );
    assert!(build(Some(folder.web_config(""))).unwrap().tls.is_some());
}

#[test]
fn a_unix_socket_requires_the_password_but_no_tls() {
    let folder = Folder::new();
    let hash = bcrypt::hash("open sesame", 4).unwrap();
    let web_config = folder.web_config(&format!("basic_auth_users:\n  alice: {hash}\n"));
    let path = folder.folder.path().join("metrics.sock");
    let socket =
        BoundSocket::inherited_unix(std::os::unix::net::UnixListener::bind(&path).unwrap())
            .unwrap();
    let state = state(Clock::start(), &Latest::default());
    let server = Server::build(&config(Some(&web_config)), vec![socket], state).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let mut workers = WorkerGroup::new("test", runtime.handle());
    workers.task("web", |stop| server.run(stop));
    let status = |headers: &str| {
        let mut stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        ask(&mut stream, "GET", "/healthz", headers).status
    };
    assert_eq!(status(""), 401);
    assert_ne!(
        status("Authorization: Basic YWxpY2U6b3BlbiBzZXNhbWU=\r\n"),
        401
    );
    assert!(runtime.block_on(workers.end(DEADLINE)).is_empty());
}

#[test]
fn an_expired_certificate_is_reported_and_its_key_listed_as_a_secret() {
    let folder = Folder::new();
    let metrics = config(Some(&folder.web_config("")));
    let at = |year: u64| Duration::from_secs((year - 1970) * 31_557_600);
    let (messages, secrets) = web_config_warnings(&metrics, at(2030));
    assert!(messages.is_empty(), "{messages:?}");
    assert_eq!(
        secrets,
        [
            folder.folder.path().join("web.yml"),
            folder.folder.path().join("server.key")
        ]
    );
    // Certificates of rcgen are valid from 1975 to 4096.
    for (year, what) in [(1972, "not valid yet"), (4100, "has expired")] {
        let (messages, _) = web_config_warnings(&metrics, at(year));
        assert!(
            messages.len() == 1 && messages[0].contains(what) && messages[0].contains("server.pem"),
            "{messages:?}"
        );
    }
}

#[test]
fn unusable_tls_files_are_named_in_the_error() {
    let folder = Folder::new();
    let error = |path: &Path| {
        Server::build(
            &config(Some(path)),
            Vec::new(),
            state(Clock::start(), &Latest::default()),
        )
        .unwrap_err()
        .to_string()
    };
    let gone = error(&folder.folder.path().join("gone.yml"));
    assert!(gone.contains("gone.yml cannot be read"), "{gone}");
    let path = folder.web_config("");
    folder.write("server.key", "nothing");
    let empty = error(&path);
    assert!(
        empty.contains("key_file") && empty.contains("no private key in PEM form"),
        "{empty}"
    );
    folder.write("server.key", &KeyPair::generate().unwrap().serialize_pem());
    let other = error(&path);
    assert!(other.contains("cannot be used with"), "{other}");
}

#[test]
fn every_unusable_tls_file_is_reported() {
    let folder = Folder::new();
    let text = "tls_server_config:\n  cert_file: none.pem\n  key_file: ca.pem\n  client_auth_type: RequireAndVerifyClientCert\n  \
                client_ca_file: server.key\n";
    let config = Metrics {
        web_config: Some(folder.write("web.yml", text)),
        ..Metrics::default()
    };
    let messages: Vec<String> = check(&config).iter().map(ToString::to_string).collect();
    assert!(
        messages.len() == 3 && messages[0].contains("none.pem"),
        "{messages:#?}"
    );
    assert!(
        messages[1].contains("no private key") && messages[2].contains("client_ca_file"),
        "{messages:#?}"
    );
    let good = Metrics {
        web_config: Some(folder.web_config("")),
        ..Metrics::default()
    };
    assert!(check(&good).is_empty());
}
