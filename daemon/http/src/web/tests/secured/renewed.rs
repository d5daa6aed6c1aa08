//! Certificates that change while the server runs. Their modification times and lengths do not
//! change.

use super::*;
use std::{
    fs::{self, File},
    os::unix::fs::symlink,
    time::SystemTime,
};

/// Length of the PEM files.
const LENGTH: usize = 2_048;

/// Writes NAME/tls.crt and NAME/tls.key. All names have the same modification time and length.
fn issue_old(folder: &Folder, name: &str) -> CertificateDer<'static> {
    fs::create_dir_all(folder.folder.path().join(name)).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["localhost".to_owned()])
        .unwrap()
        .signed_by(&key, &folder.authority)
        .unwrap();
    write_old(folder, &format!("{name}/tls.crt"), &certificate.pem());
    write_old(folder, &format!("{name}/tls.key"), &key.serialize_pem());
    certificate.der().clone()
}

fn write_old(folder: &Folder, name: &str, text: &str) {
    let path = folder.write(name, &format!("{text:\n<LENGTH$}"));
    let file = File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1))
        .unwrap();
}

/// The web config file, with the certificate in the folder `data`.
fn web_config(folder: &Folder) -> PathBuf {
    folder.write(
        "web.yml",
        "tls_server_config: { cert_file: data/tls.crt, key_file: data/tls.key }\n",
    )
}

fn copy_old(folder: &Folder, from: &str, to: &str) {
    let text = fs::read_to_string(folder.folder.path().join(from)).unwrap();
    write_old(folder, to, &text);
}

#[test]
fn switching_a_link_loads_the_new_certificate() {
    let folder = Folder::new();
    let path = |name: &str| folder.folder.path().join(name);
    let (first, second) = (issue_old(&folder, "a"), issue_old(&folder, "b"));
    symlink("a", path("data")).unwrap();
    let server = start(Some(&web_config(&folder)));
    assert_eq!(shown(folder.connect(server.address, None)), first);
    symlink("b", path("next")).unwrap();
    fs::rename(path("next"), path("data")).unwrap();
    assert_eq!(shown(folder.connect(server.address, None)), second);
}

#[test]
fn switching_a_link_behind_links_loads_the_new_certificate() {
    let folder = Folder::new();
    let path = |name: &str| folder.folder.path().join(name);
    let (first, second) = (issue_old(&folder, "a"), issue_old(&folder, "b"));
    // As Kubernetes mounts a secret.
    symlink("a", path("..data")).unwrap();
    fs::create_dir(path("data")).unwrap();
    for name in ["tls.crt", "tls.key"] {
        symlink(format!("../..data/{name}"), path("data").join(name)).unwrap();
    }
    let server = start(Some(&web_config(&folder)));
    assert_eq!(shown(folder.connect(server.address, None)), first);
    symlink("b", path("next")).unwrap();
    fs::rename(path("next"), path("..data")).unwrap();
    assert_eq!(shown(folder.connect(server.address, None)), second);
}

#[test]
fn a_half_replaced_certificate_pair_keeps_the_old_pair() {
    for order in [["tls.crt", "tls.key"], ["tls.key", "tls.crt"]] {
        let folder = Folder::new();
        let (first, second) = (issue_old(&folder, "data"), issue_old(&folder, "new"));
        let server = start(Some(&web_config(&folder)));
        assert_eq!(shown(folder.connect(server.address, None)), first);
        let put = |name| copy_old(&folder, &format!("new/{name}"), &format!("data/{name}"));
        put(order[0]);
        for _ in 0..2 {
            assert_eq!(
                shown(folder.connect(server.address, None)),
                first,
                "{order:?}"
            );
        }
        put(order[1]);
        assert_eq!(
            shown(folder.connect(server.address, None)),
            second,
            "{order:?}"
        );
    }
}

#[test]
fn a_renewed_client_ca_invalidates_the_old_one() {
    let (folder, other) = (Folder::new(), Folder::new());
    let [own, of_other] = [&folder, &other].map(|folder| folder.issue("client"));
    write_old(&folder, "clients.pem", &folder.authority.pem());
    let web_config = folder.web_config(
        "  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: clients.pem\n",
    );
    let server = start(Some(&web_config));
    let is_served = |(certificate, key): &(CertificateDer<'static>, PrivateKeyDer<'static>)| {
        let own = Some((certificate.clone(), key.clone_key()));
        let mut stream = folder.connect(server.address, own);
        let request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let mut answer = Vec::new();
        let sent = stream.write_all(request);
        sent.and_then(|()| stream.read_to_end(&mut answer)).is_ok() && !answer.is_empty()
    };
    assert!(is_served(&own) && !is_served(&of_other));
    write_old(&folder, "clients.pem", &other.authority.pem());
    assert!(!is_served(&own) && is_served(&of_other));
}

#[test]
fn a_restored_certificate_pair_is_served_again() {
    let folder = Folder::new();
    let path = |name: &str| folder.folder.path().join(name);
    let (first, second) = (issue_old(&folder, "a"), issue_old(&folder, "b"));
    symlink("a", path("data")).unwrap();
    let server = start(Some(&web_config(&folder)));
    for (target, wanted) in [
        ("b", &second),
        ("none", &second),
        ("a", &first),
        ("b", &second),
    ] {
        symlink(target, path("next")).unwrap();
        fs::rename(path("next"), path("data")).unwrap();
        assert_eq!(
            shown(folder.connect(server.address, None)),
            *wanted,
            "{target}"
        );
    }
}
