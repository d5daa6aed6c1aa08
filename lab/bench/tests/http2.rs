//! `bench run` and `bench transport` over HTTP/2, against servers that offer it and servers that do not.

#![allow(
    clippy::expect_used,
    reason = "a test that cannot prepare its scene fails"
)]

use clap::Parser;
use faultline_bench::args::BenchArgs;
use http_body_util::{BodyExt as _, Full};
use hyper::{
    Request, Response, Version,
    body::{Bytes, Incoming},
    rt::Executor,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use std::{
    convert::Infallible,
    fs,
    net::SocketAddr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpListener,
    task::{LocalSet, spawn_local},
};
use tokio_rustls::TlsAcceptor;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: BenchArgs,
}

/// The output of `faultline bench` and its exit code.
fn bench(words: &[&str]) -> anyhow::Result<(String, u8)> {
    let cli = Cli::try_parse_from(["bench"].iter().chain(words)).expect("good words");
    faultline_bench::run(&cli.args)
}

/// Number of requests that a server received, by version of HTTP.
#[derive(Default)]
struct Seen {
    one: AtomicU64,
    two: AtomicU64,
}

struct Server {
    address: SocketAddr,
    seen: Arc<Seen>,
}

#[derive(Clone, Copy)]
struct Here;

impl<F: Future + 'static> Executor<F> for Here {
    fn execute(&self, task: F) {
        spawn_local(async move { drop(task.await) });
    }
}

/// Answers `eth_chainId` with an id that no development chain has. The result of any other method is its parameters.
async fn answer(
    request: Request<Incoming>,
    seen: Arc<Seen>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let of = if request.version() == Version::HTTP_2 {
        &seen.two
    } else {
        &seen.one
    };
    of.fetch_add(1, Ordering::SeqCst);
    let body = request
        .into_body()
        .collect()
        .await
        .expect("a whole request")
        .to_bytes();
    let requested: serde_json::Value = serde_json::from_slice(&body).expect("JSON");
    let result = if requested["method"] == "eth_chainId" {
        "0x1".into()
    } else {
        requested["params"].clone()
    };
    let output =
        serde_json::json!({"jsonrpc": "2.0", "id": requested["id"], "result": result}).to_string();
    Ok(Response::new(Full::new(Bytes::from(output))))
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin + 'static, two: bool, seen: Arc<Seen>) {
    let (stream, service) = (
        TokioIo::new(stream),
        service_fn(move |request| answer(request, seen.clone())),
    );
    // Errors at the end of a connection do not matter.
    if two {
        let _ = http2::Builder::new(Here)
            .serve_connection(stream, service)
            .await;
    } else {
        let _ = http1::Builder::new()
            .serve_connection(stream, service)
            .await;
    }
}

/// A certificate for loopback and its key, in PEM.
fn certificate() -> (String, String) {
    let key = rcgen::KeyPair::generate().expect("a key");
    let made = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()])
        .expect("parameters")
        .self_signed(&key);
    (made.expect("a certificate").pem(), key.serialize_pem())
}

fn tls((certificate, key): &(String, String), protocols: &[&str]) -> TlsAcceptor {
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes()).expect("PEM")];
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("PEM");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("TLS");
    let mut config = builder
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("a certificate of this key");
    config.alpn_protocols = protocols
        .iter()
        .map(|name| name.as_bytes().to_vec())
        .collect();
    TlsAcceptor::from(Arc::new(config))
}

impl Server {
    /// With TLS, the client and `acceptor` agree on the protocol. Without TLS, the server speaks HTTP/1.1; if `two`, it also speaks
    /// HTTP/2 with clients that begin with it.
    fn start(acceptor: Option<TlsAcceptor>, two: bool) -> Self {
        let (seen, (give, take)) = (Arc::new(Seen::default()), mpsc::channel());
        let counted = seen.clone();
        let run = async move {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            give.send(listener.local_addr().expect("an address"))
                .expect("the test waits");
            loop {
                let (stream, _) = listener.accept().await.expect("a connection");
                let (acceptor, seen) = (acceptor.clone(), counted.clone());
                spawn_local(async move {
                    let Some(acceptor) = acceptor else {
                        let mut start = [0; 4];
                        let two = two && stream.peek(&mut start).await.is_ok() && &start == b"PRI ";
                        return serve(stream, two, seen).await;
                    };
                    // A client may refuse the offered protocols.
                    let Ok(stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let two = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                    serve(stream, two, seen).await;
                });
            }
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .build()
            .expect("a runtime");
        // The thread ends with the process of the test.
        thread::Builder::new()
            .spawn(move || LocalSet::new().block_on(&runtime, run))
            .expect("a thread");
        Self {
            address: take.recv().expect("an address"),
            seen,
        }
    }

    fn requests(&self) -> (u64, u64) {
        (
            self.seen.one.swap(0, Ordering::SeqCst),
            self.seen.two.swap(0, Ordering::SeqCst),
        )
    }
}

/// A plan that sends a request with 3 values over HTTP/1.1 and HTTP/2.
fn plan(folder: &Path, url: &str, certificate: &str) -> String {
    fs::write(folder.join("ca.pem"), certificate).expect("a file");
    let text = format!(
        r#"
rounds = 60
warm_up = 0
timeout = "5s"
ca = "ca.pem"
[[arm]]
name = "one"
url = "{url}"
[[arm]]
name = "two"
url = "{url}"
transport = "http2"
[[value]]
name = "slot"
from = 1
to = 3
[[request]]
method = "echo"
params = "[{{slot}}]"
"#
    );
    let file = folder.join("plan.toml");
    fs::write(&file, text).expect("a plan");
    file.display().to_string()
}

#[test]
fn a_plan_uses_http2_where_the_node_offers_it() {
    let (folder, certificate) = (tempfile::tempdir().expect("a folder"), certificate());
    let server = Server::start(Some(tls(&certificate, &["h2", "http/1.1"])), false);
    let plan = plan(
        folder.path(),
        &format!("https://{}", server.address),
        &certificate.0,
    );
    let (output, code) = bench(&["run", &plan]).expect("results");
    assert_eq!(code, 0, "{output}");
    assert!(
        output.contains("Answers of two: equal to the reference's in all 60 comparisons"),
        "{output}"
    );
    // One more request over HTTP/2 found out whether the node offers it.
    assert_eq!(server.requests(), (60, 61));
}

#[test]
fn an_http2_arm_is_skipped_for_a_node_without_http2() {
    let (folder, certificate) = (tempfile::tempdir().expect("a folder"), certificate());
    // One server offers only HTTP/1.1, one has no ALPN, and one has no TLS.
    let servers = [
        (
            Server::start(Some(tls(&certificate, &["http/1.1"])), false),
            "https",
        ),
        (Server::start(Some(tls(&certificate, &[])), false), "https"),
        (Server::start(None, false), "http"),
    ];
    for (server, scheme) in servers {
        let plan = plan(
            folder.path(),
            &format!("{scheme}://{}", server.address),
            &certificate.0,
        );
        let (output, code) = bench(&["run", &plan]).expect("results");
        assert_eq!(code, 0, "{output}");
        assert!(
            output.contains("two is left out: the node does not offer HTTP/2 ("),
            "{output}"
        );
        assert_eq!(server.requests(), (60, 0));
    }
}

#[test]
fn transports_are_compared_over_http2_without_tls_too() {
    let transports = [
        "--transports",
        "http2,http",
        "--rounds",
        "3",
        "--warm-up",
        "0",
        "--in-a-row",
        "2",
    ];
    let both = Server::start(None, true);
    let url = format!("http://{}", both.address);
    let (output, code) = bench(&[&["transport", &url][..], &transports].concat()).expect("results");
    assert!(
        code == 0 && output.contains("=== SINGLE READ ===\n\nhttp2: "),
        "{output}"
    );
    // One request finds out whether HTTP/2 is offered; then there are 3 rounds of 1 and of 2 reads.
    assert_eq!(both.requests().1, 1 + 3 * 3);
    let one = Server::start(None, false);
    let url = format!("http://{}", one.address);
    let (output, code) = bench(&[&["transport", &url][..], &transports].concat()).expect("results");
    assert!(
        code == 0 && output.contains("http2 is left out: the node does not offer HTTP/2"),
        "{output}"
    );
    assert!(
        output.contains("=== SINGLE READ ===\n\nhttp: ") && !output.contains("\nhttp2: "),
        "{output}"
    );
}
