use super::*;
use std::fs;

/// bcrypt of "secret" with the lowest cost.
fn hash() -> String {
    bcrypt::hash("secret", 4).unwrap()
}

fn load(text: &str) -> Result<WebConfig, WebError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("web.yml");
    fs::write(&path, text).unwrap();
    WebConfig::load(&path)
}

fn refusal(text: &str) -> String {
    let message = load(text).unwrap_err().to_string();
    let (_, what) = message.split_once("web.yml").unwrap();
    what.to_owned()
}

#[test]
fn an_empty_web_config_enables_nothing() {
    for text in ["", "# nothing\n", "{}\n"] {
        let config = load(text).unwrap();
        assert!(!config.protects(), "{text:?}");
    }
}

#[test]
fn tls_file_paths_are_relative_to_the_config_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("web.yml");
    fs::write(
        &path,
        "tls_server_config: { cert_file: a.pem, key_file: /etc/k.pem }",
    )
    .unwrap();
    let tls = WebConfig::load(&path).unwrap().tls.unwrap();
    assert_eq!(tls.cert, folder.path().join("a.pem"));
    assert_eq!(tls.key, Path::new("/etc/k.pem"));
}

#[test]
fn a_complete_exporter_toolkit_web_config_is_parsed() {
    let text = format!(
        "tls_server_config:\n  cert_file: c.pem\n  key_file: k.pem\n  client_auth_type: RequireAndVerifyClientCert\n  \
         client_ca_file: ca.pem\n  min_version: TLS13\nhttp_server_config:\n  http2: true\n  headers:\n    \
         X-Frame-Options: deny\nbasic_auth_users:\n  alice: {}\n",
        hash()
    );
    let config = load(&text).unwrap();
    assert!(config.protects() && config.users.is_some());
    assert_eq!(config.headers.len(), 1);
    let tls = config.tls.unwrap();
    assert!(
        matches!(tls.client_certificates, ClientCertificates::Required(ca) if ca.ends_with("ca.pem"))
    );
    assert_eq!(tls.protocol_versions, [&rustls::version::TLS13]);
}

#[test]
fn an_unknown_key_is_reported_with_the_known_keys() {
    let what = refusal("http_server_config:\n  http2: false\ntls_serverconfig: {}\n");
    assert!(
        what.contains("tls_serverconfig") && what.contains("tls_server_config"),
        "{what}"
    );
}

#[test]
fn unsupported_web_config_keys_are_refused_by_name() {
    let tls = "tls_server_config:\n  cert_file: a\n  key_file: b\n  ";
    for key in [
        "cipher_suites: [A]",
        "curve_preferences: [A]",
        "prefer_server_cipher_suites: true",
        "client_allowed_sans: [a]",
    ] {
        let what = refusal(&format!("{tls}{key}\n"));
        assert!(
            what.contains(key.split(':').next().unwrap()) && what.contains("not supported"),
            "{what}"
        );
    }
    assert!(refusal("rate_limit: { burst: 3 }\n").contains("rate_limit"));
    assert!(refusal(&format!("{tls}min_version: TLS10\n")).contains("TLS10 is no longer safe"));
    assert!(
        refusal(&format!("{tls}client_auth_type: RequireAnyClientCert\n"))
            .contains("RequireAndVerifyClientCert")
    );
    assert!(
        refusal("http_server_config: { headers: { Content-Length: \"1\" } }\n")
            .contains("cannot be set")
    );
}

#[test]
fn an_incomplete_tls_configuration_is_an_error() {
    assert!(refusal("tls_server_config: { cert_file: a }\n").contains("both needed"));
    assert!(
        refusal("tls_server_config: { cert_file: a, key_file: b, client_ca_file: c }\n")
            .contains("no effect")
    );
    let what = refusal(
        "tls_server_config: { cert_file: a, key_file: b, client_auth_type: RequireAndVerifyClientCert }\n",
    );
    assert!(what.contains("needs client_ca_file"), "{what}");
}

#[test]
fn a_password_that_is_not_hashed_is_refused_and_not_repeated() {
    let what = refusal("basic_auth_users: { alice: hunter2 }\n");
    assert!(
        what.contains("alice") && what.contains("bcrypt") && !what.contains("hunter2"),
        "{what}"
    );
}

#[test]
fn a_user_name_with_a_colon_is_refused() {
    let what = refusal(&format!("basic_auth_users: {{ \"a:b\": {} }}\n", hash()));
    assert!(what.contains("basic_auth_users.a:b: has a colon"), "{what}");
}

/// bcrypt reads such a hash, but refuses every check against it.
#[test]
fn a_hash_that_no_password_matches_is_refused() {
    let hash = hash().replace("$04$", "$03$");
    let what = refusal(&format!("basic_auth_users: {{ alice: {hash} }}\n"));
    assert!(what.contains("is not a bcrypt hash"), "{what}");
}

#[test]
fn a_hash_of_high_cost_is_refused_because_of_the_scraper() {
    let hash = "$2y$17$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy";
    let what = refusal(&format!("basic_auth_users: {{ alice: {hash} }}\n"));
    assert!(what.contains("longer than a scraper waits"), "{what}");
}

#[test]
fn all_web_config_errors_are_reported_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("web.yml");
    let text = "tls_server_config:\n  cert_file:\n  key_file: k.pem\n  min_version: TLS10\n  cipher_suites: [A]\n  \
                client_auth_type: Maybe\nhttp_server_config:\n  http2: true\n  headers: { Content-Length: 1 }\n\
                basic_auth_users:\n  alice: hunter2\n  bob: hunter3\nrate_limits: 3\n";
    fs::write(&path, text).unwrap();
    let (config, errors) = WebConfig::read(&path);
    let messages: Vec<String> = errors.iter().map(ToString::to_string).collect();
    for wanted in [
        "tls_server_config: cert_file and key_file are both needed",
        "tls_server_config.min_version: TLS10",
        "tls_server_config.cipher_suites",
        "tls_server_config.client_auth_type: \"Maybe\"",
        "http_server_config.headers.Content-Length",
        "basic_auth_users.alice",
        "basic_auth_users.bob",
        "rate_limits: unknown key",
    ] {
        assert_eq!(
            messages.iter().filter(|one| one.contains(wanted)).count(),
            1,
            "{wanted}: {messages:#?}"
        );
    }
    assert_eq!(messages.len(), 8, "{messages:#?}");
    assert!(!config.protects() && !messages.concat().contains("hunter"));
}

#[test]
fn a_malformed_web_config_is_reported_with_its_line() {
    let texts = [
        "- a\n",
        "a\n",
        "a: [\n",
        "http_server_config: { http2: perhaps }\n",
        "basic_auth_users: { alice: [hunter2] }\n",
    ];
    for what in texts.map(refusal) {
        assert!(
            what.contains("line 1") && !what.contains("hunter2"),
            "{what}"
        );
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "a test starts programs itself")]
fn a_web_config_without_an_end_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    for (path, wanted) in [
        (Path::new("/dev/zero"), "it is larger than 4 MiB"),
        (&pipe, "it is not a regular file"),
    ] {
        let error = WebConfig::load(path).unwrap_err().to_string();
        let expected = format!(
            "metrics.web_config: {} cannot be read: {wanted}",
            path.display()
        );
        assert_eq!(error, expected);
    }
}
