//! Checks the daemon's listen addresses from outside, and whether the validator pushes to them.
//! Does not bind the ports as a test: a daemon that starts meanwhile could not bind them.

use super::{process::ProcessInspection, report::Check};
use crate::{METRICS_CONFIG, app::config_paths::collide};
use faultline_agave::{
    config::{SolanaMetricsConfig, SolanaMetricsConfigError},
    identify::Program,
};
use faultline_core::config::Config;
use faultline_datapoints::ingest;
use faultline_sources::rpc::connect_address;
use faultline_status::{Answer, Figure, Status};
use http_body_util::{BodyExt, Empty};
use hyper::{StatusCode, Uri, body::Bytes};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};
use std::{
    io::ErrorKind,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    time::Duration,
};
use tokio::net::TcpStream;

const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// The first bytes of a response identify the server.
const PROBE_BYTES: usize = 4096;
/// More than a status has, which is about 30 KiB.
const STATUS_BYTES: usize = 1 << 20;

#[derive(Clone, Copy, PartialEq)]
enum PortState {
    Closed,
    Faultlined,
    /// Another program, or one that does not identify itself.
    Other,
    /// No response in time, or an address that this machine does not have.
    Silent,
}

/// Requests `path`; `is_faultlined` recognizes a faultlined by its response.
async fn probe_port(
    address: SocketAddr,
    path: &str,
    is_faultlined: fn(StatusCode, &[u8]) -> bool,
) -> PortState {
    let probe = async {
        match fetch(address, path, PROBE_BYTES).await {
            Ok((status, beginning)) if is_faultlined(status, &beginning) => PortState::Faultlined,
            Ok(_) => PortState::Other,
            Err(state) => state,
        }
    };
    tokio::time::timeout(PROBE_TIMEOUT, probe)
        .await
        .unwrap_or(PortState::Silent)
}

/// Returns the status code and the body. Stops once it has `min_bytes` of the body.
async fn fetch(
    address: SocketAddr,
    path: &str,
    min_bytes: usize,
) -> Result<(StatusCode, Vec<u8>), PortState> {
    let address = connect_address(address);
    let uri = format!("http://{address}{path}")
        .parse()
        .map_err(|_| PortState::Other)?;
    TcpStream::connect(address)
        .await
        .map_err(|error| match error.kind() {
            ErrorKind::ConnectionRefused => PortState::Closed,
            _ => PortState::Silent,
        })?;
    let response = Client::builder(TokioExecutor::new())
        .build_http::<Empty<Bytes>>()
        .get(uri)
        .await
        .map_err(|_| PortState::Other)?;
    let status = response.status();
    let mut body = response.into_body();
    let mut beginning = Vec::new();
    while beginning.len() < min_bytes
        && let Some(Ok(frame)) = body.frame().await
    {
        beginning.extend_from_slice(frame.data_ref().map_or(&[], |data| data));
    }
    Ok((status, beginning))
}

/// `None` if no daemon answers, if it needs a password, if its values are old, or if it follows a
/// process with another start time.
pub async fn daemon_answers(config: &Config, start: Option<f64>) -> Option<Vec<Answer>> {
    let answer = fetch(config.metrics.listen, "/status", STATUS_BYTES);
    let (_, json) = tokio::time::timeout(PROBE_TIMEOUT, answer)
        .await
        .ok()?
        .ok()?;
    let status: Status = serde_json::from_slice(&json).ok()?;
    let starts = start.zip(status.figure(Figure::ProcessStart));
    let is_same = starts.is_some_and(is_same_start);
    let mut answers = status.answers;
    if status.is_demo {
        for answer in &mut answers {
            answer
                .text
                .insert_str(0, "of the demo's simulated validator: ");
        }
    }
    Some(answers).filter(|answers| status.stale.is_none() && is_same && !answers.is_empty())
}

/// In seconds. The boot time in them changes by 1 with a small step of the clock, but not for a
/// running daemon.
fn is_same_start((start, followed): (f64, f64)) -> bool {
    matches!(((start - followed).abs() * 100.0).round() as u64, 0 | 100)
}

async fn probe_ingest(address: SocketAddr) -> PortState {
    probe_port(address, "/health", |status, body| {
        status.is_success() && body == ingest::HEALTH_RESPONSE.as_bytes()
    })
    .await
}

pub async fn check_ingest(config: &Config) -> Check {
    if !config.ingest.enabled {
        return Check::off("pushes are disabled: ingest.enabled is false (the default with [log])");
    }
    judge_port(
        "ingest.listen",
        config.ingest.listen,
        probe_ingest(config.ingest.listen).await,
    )
}

pub async fn check_metrics(config: &Config) -> Check {
    let listen = config.metrics.listen;
    let state = probe_port(listen, "/", |_, body| {
        body.windows(9).any(|word| word == b"faultline")
    })
    .await;
    if state == PortState::Other && config.metrics.web_config.is_some() {
        return Check::off(format!(
            "a program listens at {listen}; with TLS or a password, its name is not checked"
        ));
    }
    judge_port("metrics.listen", listen, state)
}

fn judge_port(key: &str, listen: SocketAddr, state: PortState) -> Check {
    let remedy = format!(
        "see which program it is (ss -ltnp), and stop it or set {key} to a free port or the address of the socket unit"
    );
    match state {
        _ if listen.port() == 0 => Check::ok("the system chooses a free port (port 0)"),
        PortState::Closed => {
            Check::ok(format!("{listen} is free; no faultlined listens there now"))
        }
        PortState::Faultlined => Check::ok(format!("a faultlined listens at {listen}")),
        PortState::Other => Check::attention(
            format!("the program that listens at {listen} does not answer like a faultlined"),
            remedy,
        ),
        PortState::Silent => Check::attention(
            format!("{listen} gives no answer within 1 s"),
            format!(
                "see systemctl status 'faultlined*'; if this machine does not have the address, correct {key}; else {remedy}"
            ),
        ),
    }
}

pub async fn check_push(config: &Config, inspection: &ProcessInspection) -> Check {
    if !config.ingest.enabled {
        return Check::off(match config.log {
            Some(_) => "datapoints come from the log ([log])",
            None => "pushes are disabled (ingest.enabled)",
        });
    }
    let validator = inspection
        .target
        .as_ref()
        .and_then(|target| target.validator.as_ref());
    let Some(validator) = validator else {
        return Check::off("not checked: no validator is followed");
    };
    let Some(Ok(environment)) = &inspection.environment else {
        return Check::off("not known: the validator's environment cannot be read");
    };
    let remedy = push_remedy(config);
    match environment
        .variables
        .get(METRICS_CONFIG)
        .and_then(Option::as_deref)
        .map(SolanaMetricsConfig::parse)
    {
        None | Some(Err(SolanaMetricsConfigError::Empty))
            if validator.program == Program::Fdctl =>
        {
            Check::off("not known: Frankendancer reads it from its configuration file")
        }
        None | Some(Err(SolanaMetricsConfigError::Empty)) => Check::attention(
            format!("the validator pushes nothing: it has no {METRICS_CONFIG}"),
            remedy,
        ),
        Some(Err(error)) => Check::attention(format!("{METRICS_CONFIG} is wrong: {error}"), remedy),
        Some(Ok(metrics_config)) => judge_push(config, &metrics_config, remedy).await,
    }
}

async fn judge_push(
    config: &Config,
    metrics_config: &SolanaMetricsConfig,
    remedy: String,
) -> Check {
    let listen = config.ingest.listen;
    let destination = push_destination(&metrics_config.host, listen);
    let is_faultlined = match destination {
        PushDestination::Elsewhere(Some(address)) if address.ip().is_loopback() => {
            probe_ingest(address).await == PortState::Faultlined
        }
        _ => false,
    };
    let accepted = config
        .ingest
        .credentials
        .as_ref()
        .is_none_or(|required| ingest::has_credentials(metrics_config, required));
    let host = public_address(&metrics_config.host);
    match destination {
        PushDestination::Here if config.ingest.credentials.is_none() => Check::ok(format!(
            "the validator pushes to {host}; its db, u and p are not compared, since [ingest] has none"
        )),
        PushDestination::Here if accepted => Check::ok(format!(
            "the validator pushes to {host}, with the credentials of [ingest]"
        )),
        PushDestination::Here => Check::attention(
            format!(
                "the validator's pushes to {host} are refused (401): db, u or p differs from [ingest]"
            ),
            remedy,
        ),
        PushDestination::Elsewhere(_)
            if is_faultlined && listen == Config::default().ingest.listen =>
        {
            Check::off(format!(
                "the validator pushes to {host}, where a faultlined listens. If that is the daemon of this configuration, set ingest.listen to the address of its socket unit; otherwise let the validator push to {listen}"
            ))
        }
        PushDestination::Elsewhere(_) if is_faultlined => Check::attention(
            format!("the validator pushes to {host}, where a faultlined listens, not to {listen}"),
            format!("check with --config FILE of that faultlined; else {remedy}"),
        ),
        PushDestination::Elsewhere(_) => Check::attention(
            format!("the validator pushes to {host}, not to {listen}"),
            remedy + "; [forward] can send the same pushes on to the present server",
        ),
        PushDestination::Unknown => Check::off(format!(
            "the validator pushes to {host}; whether that is {listen} is not known"
        )),
    }
}

fn push_remedy(config: &Config) -> String {
    let listen = connect_address(config.ingest.listen);
    let values = match &config.ingest.credentials {
        Some(_) => "db=...,u=...,p=... as in [ingest]",
        None => {
            "db=faultline,u=any,p=any, or the address and credentials that the daemon's units set"
        }
    };
    format!("start the validator with {METRICS_CONFIG}=host=http://{listen},{values}")
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum PushDestination {
    Here,
    /// Another address, or a non-http URL.
    Elsewhere(Option<SocketAddr>),
    /// A name that is not resolved.
    Unknown,
}

/// A listener at an unspecified address gets only pushes to addresses of this machine. Only these
/// can be bound.
fn push_destination(host: &str, listen: SocketAddr) -> PushDestination {
    let uri = host.parse().ok();
    let Some(uri) = uri.filter(|uri: &Uri| uri.scheme_str() == Some("http")) else {
        return PushDestination::Elsewhere(None);
    };
    let port = uri.port_u16().unwrap_or(80);
    let name = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let ip = match name {
        "localhost" if listen.is_ipv6() => Some(Ipv6Addr::LOCALHOST.into()),
        "localhost" => Some(Ipv4Addr::LOCALHOST.into()),
        name => name.parse::<IpAddr>().ok(),
    };
    let address = ip.map(|ip| connect_address(SocketAddr::new(ip, port)));
    match address {
        None if port == listen.port() => PushDestination::Unknown,
        Some(address)
            if collide(address, listen)
                && (address == listen || UdpSocket::bind((address.ip(), 0)).is_ok()) =>
        {
            PushDestination::Here
        }
        elsewhere => PushDestination::Elsewhere(elsewhere),
    }
}

/// Omits path and user, which may be secret.
fn public_address(host: &str) -> String {
    let uri: Option<Uri> = host.parse().ok();
    let parts = uri
        .as_ref()
        .and_then(|uri| Some((uri.scheme_str()?, uri.host()?, uri.port_u16())));
    match parts {
        Some((scheme, host, Some(port))) => format!("{scheme}://{host}:{port}"),
        Some((scheme, host, None)) => format!("{scheme}://{host}"),
        None => "something that is not an address".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn destination(host: &str) -> PushDestination {
        push_destination(host, "127.0.0.1:9913".parse().unwrap())
    }

    #[test]
    fn start_times_are_the_same_if_only_the_boot_time_differs() {
        let start = 1_796_023_749.37;
        for (later, is_same) in [
            (0.0, true),
            (1.0, true),
            (-1.0, true),
            (2.0, false),
            (0.01, false),
            (-0.99, false),
        ] {
            let found = is_same_start((start, start + later));
            assert_eq!(found, is_same, "{later}");
        }
    }

    #[tokio::test]
    async fn pushes_to_another_faultlined_need_attention_only_if_the_listener_is_configured() {
        use std::io::{Read as _, Write as _};
        let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = other.local_addr().unwrap();
        let serve = move || {
            for mut stream in other.incoming().flatten() {
                // The first connection sends nothing and ends.
                if stream.read(&mut [0; 4096]).is_ok_and(|length| length > 0) {
                    let (body, length) = (ingest::HEALTH_RESPONSE, ingest::HEALTH_RESPONSE.len());
                    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
                    stream.write_all((head + body).as_bytes()).unwrap();
                }
            }
        };
        std::thread::Builder::new().spawn(serve).unwrap();
        let pushes = format!("host=http://{address},db=d,u=u,p=p");
        let pushes = SolanaMetricsConfig::parse(&pushes).unwrap();
        let mut config = Config::default();
        let check = judge_push(&config, &pushes, String::new()).await;
        let unknown = Check::off(format!(
            "the validator pushes to http://{address}, where a faultlined listens. If that is the daemon of this configuration, set ingest.listen to the address of its socket unit; otherwise let the validator push to 127.0.0.1:9913"
        ));
        assert_eq!(check, unknown);
        config.ingest.listen = "127.0.0.2:9913".parse().unwrap();
        let check = judge_push(&config, &pushes, String::new()).await;
        let attention = Check::attention(
            format!(
                "the validator pushes to http://{address}, where a faultlined listens, not to 127.0.0.2:9913"
            ),
            "check with --config FILE of that faultlined; else ",
        );
        assert_eq!(check, attention);
    }

    #[test]
    fn remedies_name_the_socket_units_that_may_set_the_addresses() {
        let config = Config::default();
        assert_eq!(
            push_remedy(&config),
            "start the validator with SOLANA_METRICS_CONFIG=host=http://127.0.0.1:9913,db=faultline,u=any,p=any, or the \
             address and credentials that the daemon's units set"
        );
        let check = judge_port("metrics.listen", config.metrics.listen, PortState::Other);
        let remedy = check.remedy.unwrap();
        assert!(
            remedy.ends_with("set metrics.listen to a free port or the address of the socket unit"),
            "{remedy}"
        );
    }

    #[test]
    fn a_push_address_matches_by_loopback_host_and_exact_port() {
        for here in [
            "http://127.0.0.1:9913",
            "http://localhost:9913",
            "http://127.0.0.1:9913/prefix",
        ] {
            assert_eq!(destination(here), PushDestination::Here, "{here}");
        }
        for elsewhere in [
            "http://127.0.0.1:8086",
            "http://127.0.0.2:9913",
            "https://127.0.0.1:9913",
            "127.0.0.1",
            "",
        ] {
            assert!(
                matches!(destination(elsewhere), PushDestination::Elsewhere(_)),
                "{elsewhere}"
            );
        }
        assert!(matches!(
            destination("http://metrics.example.org:8086"),
            PushDestination::Elsewhere(None)
        ));
        assert_eq!(
            destination("http://this-host:9913"),
            PushDestination::Unknown
        );
    }

    #[test]
    fn a_push_reaches_a_listener_only_at_its_addresses_on_this_machine() {
        for (host, listen, is_here) in [
            ("http://[::1]:9913", "[::1]:9913", true),
            ("http://192.0.2.7:9913", "192.0.2.7:9913", true),
            ("http://localhost:9913", "192.0.2.7:9913", false),
            ("http://0.0.0.0:9913", "127.0.0.1:9913", true),
            ("http://localhost:9913", "0.0.0.0:9913", true),
            ("http://127.0.0.2:9913", "0.0.0.0:9913", true),
            ("http://192.0.2.7:9913", "0.0.0.0:9913", false),
            ("http://[::1]:9913", "0.0.0.0:9913", false),
        ] {
            let destination = push_destination(host, listen.parse().unwrap());
            let found_here = destination == PushDestination::Here;
            assert_eq!(found_here, is_here, "{host} and {listen}: {destination:?}");
        }
    }

    #[test]
    fn an_address_is_printed_without_possible_secrets() {
        assert_eq!(
            public_address("http://me:pw@host:8086/secret?k=v"),
            "http://host:8086"
        );
        assert_eq!(public_address("http://[::1]:1/x"), "http://[::1]:1");
        assert_eq!(
            public_address("p=secret"),
            "something that is not an address"
        );
    }
}
