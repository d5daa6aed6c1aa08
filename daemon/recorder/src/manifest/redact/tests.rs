use super::*;
use proptest::prelude::*;

fn shown(words: &[&str]) -> String {
    arguments(words).join(" ")
}

#[test]
fn usual_validator_arguments_are_not_redacted() {
    let usual = [
        "/usr/bin/agave-validator",
        "--identity",
        "/etc/solana/identity.json",
        "--vote-account",
        "/etc/solana/vote.json",
        "--authorized-voter",
        "/etc/solana/keys/voter-keypair.json",
        "--ledger",
        "/mnt/ledger",
        "--accounts=/mnt/accounts",
        "--known-validator",
        "7Np41oeYqPefeNQEHSv1UDhYrehxin3NStELsSKCT4K2",
        "--expected-genesis-hash",
        "5eykt4UsFv8P8NJdTREpY1vzqKqZKvdpKuc147dw2N9d",
        "--entrypoint",
        "entrypoint.mainnet-beta.solana.com:8001",
        "--rpc-port",
        "8899",
        "--dynamic-port-range",
        "8000-8020",
        "--account-index-exclude-key",
        "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA",
        "--geyser-plugin-config",
        "/etc/solana/geyser.json",
        "--no-port-check",
        "--block-engine-url",
        "https://frankfurt.mainnet.block-engine.jito.wtf",
        "--log",
        "-",
        "--no-voting",
        "--keyfile",
        "/etc/solana/id.json",
        "--stake-authority=/etc/solana/stake.json",
        "--pubkeys",
        "7Np41oeYqPefeNQEHSv1UDhYrehxin3NStELsSKCT4K2",
    ];
    assert_eq!(arguments(&usual), usual);
    for kernel in [
        "root=/dev/md0 iommu.passthrough=1 usbcore.authorized_default=0 isolcpus=2,3",
        "spec_store_bypass_disable=prctl sunrpc.auth_hashtable_size=16 isolcpus=2-5 quiet",
    ] {
        assert_eq!(line(kernel), kernel);
    }
}

#[test]
fn values_of_secret_options_are_redacted_in_every_form() {
    assert_eq!(
        shown(&[
            "x",
            "--rpc-api-key",
            "abc",
            "--token=abc",
            "--db-password",
            "-abc"
        ]),
        "x --rpc-api-key *** --token=*** --db-password ***"
    );
    assert_eq!(
        shown(&["--auth", "--full-rpc-api"]),
        "--auth --full-rpc-api",
        "an option without a value takes no other's"
    );
    assert_eq!(
        shown(&["env", "DB_PASSWORD=a=b", "INFLUX_TOKEN=x", "HOME=/root"]),
        "env DB_PASSWORD=*** INFLUX_TOKEN=*** HOME=/root"
    );
    assert_eq!(
        shown(&["--password-file", "/etc/p", "--tls-key-path=/etc/k"]),
        "--password-file /etc/p --tls-key-path=/etc/k"
    );
    assert_eq!(shown(&["{\"x-token\":\"abc\"}"]), "{\"x-token\":***");
}

#[test]
fn addresses_keep_their_host_and_redact_secret_parts() {
    for (given, expected) in [
        ("https://me:pw@host:1/x", "https://***@host:1/x"),
        ("--url=http://pw@host", "--url=http://***@host"),
        (
            "https://rpc.example.com/?api-key=abc&x=1#f",
            "https://rpc.example.com/?api-key=***&x=***",
        ),
        (
            "https://x.example.com/v2/AbCdEf0123456789xyz/",
            "https://x.example.com/v2/***/",
        ),
        ("wss://x.example.com?abc", "wss://x.example.com?***"),
        ("postgres://u:p@h/a-database", "postgres://***@h/a-database"),
        ("https://a@b:pw@host", "https://***@host"),
        ("http://127.0.0.1:8899", "http://127.0.0.1:8899"),
        ("me:pw@host:1/x", "***"),
        ("--db=me:pw@host", "--db=***"),
        ("https://a,https://me:pw@b/x", "https://a,https://***/x"),
    ] {
        assert_eq!(shown(&[given]), expected);
    }
}

#[test]
fn only_user_and_password_of_the_metrics_variable_are_redacted() {
    let given =
        "SOLANA_METRICS_CONFIG=host=https://u:x@metrics.solana.com:8086,db=tds,u=me,p=geheim";
    let expected =
        "SOLANA_METRICS_CONFIG=host=https://***@metrics.solana.com:8086,db=tds,u=***,p=***";
    assert_eq!(
        shown(&["env", given, "agave-validator"]),
        format!("env {expected} agave-validator")
    );
    assert_eq!(
        line("host=http://h,db=d,u=me,p=geheim"),
        "host=http://h,db=d,u=***,p=***"
    );
    assert_eq!(
        line("SOLANA_METRICS_CONFIG=db=d,p=geheim,u=me,host=http://h:1"),
        "SOLANA_METRICS_CONFIG=db=d,p=***,u=***,host=http://h:1"
    );
    assert_eq!(shown(&["--password=x,host=h"]), "--password=***");
}

#[test]
fn secrets_in_a_shell_command_argument_are_redacted() {
    let script = "exec agave-validator --x-token abc  --rpc https://h/?k=abc -H 'Authorization: Bearer abc' --ledger /l";
    assert_eq!(
        shown(&["bash", "-c", script]),
        "bash -c exec agave-validator --x-token ***"
    );
    assert_eq!(
        line("curl -H 'Authorization: Bearer abc' https://h"),
        "curl -H 'Authorization: ***"
    );
    assert_eq!(line("curl https://h/?k=two words"), "curl https://h/?k=***");
}

#[test]
fn a_private_key_is_redacted_in_any_argument_position() {
    let numbers = format!("[{}]", vec!["7"; 64].join(","));
    let base58 = "5".repeat(88);
    let spaced = numbers.replace(',', ", ");
    for text in [
        spaced.clone(),
        format!("--identity={spaced}"),
        format!("sh {{\"id\": {spaced}}}"),
        format!("[[{spaced}]]"),
        spaced.replace(' ', "\n"),
    ] {
        assert_eq!(line(&text), HIDDEN, "{text}");
    }
    assert_eq!(line(&format!("x --id '{base58}'")), "x --id ***");
    let cpus = format!("isolcpus={}", vec!["7"; 64].join(","));
    assert_eq!(line(&cpus), cpus);
    assert_eq!(
        shown(&[
            "--identity",
            &numbers,
            &base58,
            &format!("--identity={base58}")
        ]),
        "--identity *** *** --identity=***"
    );
}

#[test]
fn a_separator_only_argument_is_truncated() {
    let long = ":=".repeat(50_000);
    assert_eq!(
        shown(&[&long]),
        format!("{}{HIDDEN}", ":=".repeat(MAX_PAIRS_PER_WORD / 2))
    );
    assert_eq!(
        shown(&["[2001:db8::1]:8899", "host=[::1]:8899"]),
        "[2001:db8::1]:8899 host=[::1]:8899"
    );
}

proptest! {
    #[test]
    fn no_secret_of_these_forms_is_ever_shown(secret in "[a-zA-Z0-9]{12,24}", host in "[a-z]{1,8}", name in "[a-z]{0,6}") {
        // The prefix makes the secret differ from all other parts of the form.
        let secret = format!("s3cr3t{secret}");
        let forms = [
            vec![format!("--{name}-password"), secret.clone()],
            vec![format!("--{name}-key={secret}")],
            vec![format!("https://{name}:{secret}@{host}/path")],
            vec![format!("https://{host}/{name}?api-key={secret}")],
            vec![format!("http://{host}/{secret}")],
            vec![format!("--x={name}:{secret}@{host}")],
            vec![format!("host=http://{host},db={name},u={secret},p={secret}")],
            vec!["sh".to_owned(), "-c".to_owned(), format!("x --{name}-token {secret} y")],
            vec!["--accessKey".to_owned(), secret.clone()],
            vec!["--userpass".to_owned(), secret.clone()],
            vec!["Authorization:".to_owned(), "Basic".to_owned(), secret.clone()],
            vec!["Bearer".to_owned(), secret.clone()],
            vec!["--auth".to_owned(), "Basic".to_owned(), secret.clone()],
            vec!["--api.key.value".to_owned(), secret.clone()],
        ];
        let in_one_argument = [
            format!("SOLANA_METRICS_CONFIG=db={name},u={secret},p={secret},host=http://{host}"),
            format!("SOLANA_METRICS_CONFIG=db={name},p={secret} {secret},u={secret},host={host}"),
            format!("Authorization:Bearer {secret}"),
            format!("authorization=Bearer {secret}"),
            format!("Authorization: ApiKey {secret}"),
            format!("Authorization: Negotiate {secret}"),
            format!("Authorization: AWS4-HMAC-SHA256 Credential={name}/x, Signature={secret}"),
            format!("Authorization: Digest username=\"{name}\", response=\"{secret}\""),
            format!("Cookie: a={name}; b={secret}"),
            format!("--db-password={name} {secret}"),
            format!("{{\"password\": \"{name} {secret}\"}}"),
            format!("{{\"password\" : \"{secret}\"}}"),
            format!("password = \"{secret}\""),
            format!("--{name}PrivateKey={secret}"),
            format!("--seedPhrase={secret}"),
            format!("--basicauth={name}:{secret}"),
            format!("https://{host}/v1/eyJ{name}.{secret}.{name}/x"),
            format!("https://{host}/{name};token={secret}"),
            format!("https://{name}:{name} {secret}@{host}"),
            format!("https://{name}:{secret};{name}@{host}/x"),
            format!("https://{name}:{name};{secret}@{host}/x"),
            format!("https://{host};token={secret}"),
            format!("-H 'Bearer {secret}' {host}"),
            format!("{{\"header\": \"Bearer {secret}\"}}"),
            format!("X={name},host=http://{host},u={secret},p={secret}"),
            format!("export 'A=1;host=http://{host},u={name},p={secret}'"),
            format!("--token={secret},host=http://{host},u={name},p={name}"),
            format!("auth-profile={secret}"),
            format!("https://{name}:{secret} {name}@{host}"),
        ];
        for form in forms.into_iter().chain(in_one_argument.map(|argument| vec![argument])) {
            let shown = arguments(&form);
            prop_assert_eq!(shown.len(), form.len());
            prop_assert!(!shown.join(" ").contains(&secret), "{:?}", shown);
        }
    }

    #[test]
    fn redaction_accepts_any_arguments(words in proptest::collection::vec(any::<String>(), 0..6)) {
        prop_assert_eq!(arguments(&words).len(), words.len());
    }
}
