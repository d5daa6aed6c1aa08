//! The engine against a node whose TLS connection breaks.

use super::{super::Engine, plan_of};
use crate::endpoint::Endpoint;
use rustls::{
    ServerConfig, ServerConnection, Stream,
    pki_types::{CertificateDer, PrivateKeyDer},
};
use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    sync::Arc,
    thread,
    time::Duration,
};

#[test]
fn a_broken_tls_record_within_an_answer_is_a_closed_connection() {
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()])
        .unwrap()
        .self_signed(&key)
        .unwrap();
    let ca = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(ca.path(), certificate.pem()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![CertificateDer::clone(certificate.der())], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for mut tcp in listener.incoming().flatten() {
            let mut tls = ServerConnection::new(config.clone()).unwrap();
            let mut stream = Stream::new(&mut tls, &mut tcp);
            let mut request = [0; 4_096];
            if stream.read(&mut request).is_ok_and(|read| read > 0) {
                let head = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{";
                let _ = stream.write_all(head);
                // The client reads the head first.
                thread::sleep(Duration::from_millis(200));
                // A record that no key decrypts.
                let _ = tcp.write_all(b"\x17\x03\x03\x00\x200123456789abcdef0123456789abcdef");
            }
        }
    });
    let plan = plan_of(Endpoint::parse(&url).unwrap(), 1, 1, None);
    let engine = Engine::new(&plan, Some(ca.path())).unwrap();
    let measured = engine.run(&plan, &|_, _| ()).unwrap();
    assert_eq!(
        measured.samples[0].result.clone().unwrap_err(),
        "connection closed"
    );
}
