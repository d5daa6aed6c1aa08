//! TCP connections by host name: Happy Eyeballs (RFC 8305) over the addresses of the system's
//! resolver.
//!
//! The connectors of hyper-util and ureq try the addresses of one family in turn, and report a
//! single error without its address.

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use itertools::Itertools as _;
use std::{
    fmt,
    io::{self, ErrorKind},
    net::SocketAddr,
    time::Duration,
};
use tokio::{
    net::{TcpStream, lookup_host},
    time::{Instant, timeout, timeout_at},
};

/// Delay between the starts of two attempts (RFC 8305, section 5). A failed attempt ends it early.
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);
const MAX_ADDRESSES: usize = 16;

#[derive(Debug)]
pub enum ConnectError {
    Lookup { host: String, error: io::Error },
    Attempts(Vec<(SocketAddr, io::Error)>),
}

impl ConnectError {
    pub fn is_refused(&self) -> bool {
        match self {
            Self::Lookup { .. } => false,
            Self::Attempts(attempts) => attempts
                .iter()
                .all(|(_, error)| error.kind() == ErrorKind::ConnectionRefused),
        }
    }
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lookup { host, error } => {
                write!(f, "no address for {host} ({})", reason(error))
            }
            Self::Attempts(attempts) => {
                let attempts = attempts.iter().format_with(", ", |(address, error), f| {
                    f(&format_args!("{address} ({})", reason(error)))
                });
                write!(f, "no connection to {attempts}")
            }
        }
    }
}

impl std::error::Error for ConnectError {}

fn reason(error: &io::Error) -> String {
    if error.kind() == ErrorKind::TimedOut {
        return "no answer in time".to_owned();
    }
    let text = error.to_string();
    let text = text.split(" (os error").next().unwrap_or_default();
    let text = text.rsplit("address information: ").next().unwrap_or(text);
    text.to_lowercase()
}

/// Connects within `connect_timeout`. An IPv6 address may have brackets. [`ConnectError`] names
/// every tried address.
pub async fn connect(
    host: &str,
    port: u16,
    connect_timeout: Duration,
) -> Result<TcpStream, ConnectError> {
    let deadline = Instant::now() + connect_timeout;
    let name = host.trim_start_matches('[').trim_end_matches(']');
    let lookup_failed = |error| ConnectError::Lookup {
        host: name.to_owned(),
        error,
    };
    let addresses: Vec<SocketAddr> = match timeout_at(deadline, lookup_host((name, port))).await {
        Ok(found) => found.map_err(lookup_failed)?.collect(),
        Err(_) => return Err(lookup_failed(ErrorKind::TimedOut.into())),
    };
    if addresses.is_empty() {
        return Err(lookup_failed(ErrorKind::NotFound.into()));
    }
    connect_until(&addresses, deadline).await
}

/// Connects to one of a host's addresses within `connect_timeout`, on a thread without a runtime.
pub fn connect_resolved_blocking(
    addresses: &[SocketAddr],
    connect_timeout: Duration,
) -> Result<std::net::TcpStream, ConnectError> {
    // An error of the local machine concerns no address. It is reported with the first.
    let local_error = |error: io::Error| {
        let first = addresses.first().map(|address| (*address, error));
        ConnectError::Attempts(first.into_iter().collect())
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()
        .map_err(local_error)?;
    let connected = async { connect_until(addresses, Instant::now() + connect_timeout).await };
    let stream = runtime.block_on(connected)?;
    let stream = stream.into_std().map_err(local_error)?;
    stream.set_nonblocking(false).map_err(local_error)?;
    Ok(stream)
}

async fn connect_until(
    addresses: &[SocketAddr],
    deadline: Instant,
) -> Result<TcpStream, ConnectError> {
    let mut untried = alternate_families(addresses).into_iter();
    let mut attempts = FuturesUnordered::new();
    let mut failed = Vec::new();
    loop {
        attempts.extend(untried.next().map(|address| attempt(address, deadline)));
        let ended = if untried.len() > 0 {
            timeout(ATTEMPT_DELAY, attempts.next()).await
        } else {
            Ok(attempts.next().await)
        };
        match ended {
            Ok(Some((_, Ok(stream)))) => return Ok(stream),
            Ok(Some((address, Err(error)))) => failed.push((address, error)),
            Ok(None) => return Err(ConnectError::Attempts(failed)),
            Err(_) => {}
        }
    }
}

async fn attempt(address: SocketAddr, deadline: Instant) -> (SocketAddr, io::Result<TcpStream>) {
    let connected = match timeout_at(deadline, TcpStream::connect(address)).await {
        Ok(connected) => connected,
        Err(_) => Err(ErrorKind::TimedOut.into()),
    };
    let connected = connected.and_then(|stream| stream.set_nodelay(true).map(|()| stream));
    (address, connected)
}

/// In the resolver's order, but the families alternate (RFC 8305, section 4).
fn alternate_families(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let first_is_ipv6 = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (first, second): (Vec<_>, Vec<_>) = { addresses.iter().copied() }
        .unique()
        .partition(|address| address.is_ipv6() == first_is_ipv6);
    let order = first.into_iter().interleave(second);
    order.take(MAX_ADDRESSES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::TcpListener;
    use tokio::net::TcpSocket;

    /// Far longer than an attempt to a listener takes, and the whole of what one dead address could
    /// use up.
    const LIMIT: Duration = Duration::from_secs(5);

    fn runtime() -> tokio::runtime::Runtime {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap()
    }

    /// An address whose host drops what is sent: Linux does so with SYNs to a listener whose queue
    /// is full.
    struct DeadAddress {
        address: SocketAddr,
        _listener: tokio::net::TcpListener,
        _queued: Vec<TcpStream>,
    }

    impl DeadAddress {
        async fn new(host: &str) -> Self {
            let host: SocketAddr = host.parse().unwrap();
            let socket = match host.is_ipv6() {
                true => TcpSocket::new_v6().unwrap(),
                false => TcpSocket::new_v4().unwrap(),
            };
            socket.bind(host).unwrap();
            let listener = socket.listen(1).unwrap();
            let address = listener.local_addr().unwrap();
            let mut queued = Vec::new();
            while let Ok(connected) =
                timeout(Duration::from_millis(500), TcpStream::connect(address)).await
            {
                queued.push(connected.unwrap());
            }
            Self {
                address,
                _listener: listener,
                _queued: queued,
            }
        }
    }

    #[test]
    fn a_port_open_only_on_ipv4_is_reached_after_ipv6_fails() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ipv4 = listener.local_addr().unwrap();
        let ipv6 = SocketAddr::new("::1".parse().unwrap(), ipv4.port());
        let stream = connect_resolved_blocking(&[ipv6, ipv4], LIMIT).unwrap();
        assert_eq!(stream.peer_addr().unwrap(), ipv4);
        let named = runtime()
            .block_on(connect("localhost", ipv4.port(), LIMIT))
            .unwrap();
        assert_eq!(named.peer_addr().unwrap(), ipv4);
    }

    #[test]
    fn dead_addresses_do_not_use_up_the_connect_timeout() {
        runtime().block_on(async {
            let dead = DeadAddress::new("[::1]:0").await;
            let dead_too = DeadAddress::new("127.0.0.1:0").await;
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let open = listener.local_addr().unwrap();
            let addresses = [dead.address, dead_too.address, open];
            let stream = connect_until(&addresses, Instant::now() + LIMIT)
                .await
                .unwrap();
            assert_eq!(stream.peer_addr().unwrap(), open);
        });
    }

    #[test]
    fn a_connect_error_names_each_address_and_its_cause() {
        runtime().block_on(async {
            let dead = DeadAddress::new("[::1]:0").await;
            let closed = TcpListener::bind("127.0.0.1:0")
                .unwrap()
                .local_addr()
                .unwrap();
            let failed = connect_until(
                &[dead.address, closed],
                Instant::now() + Duration::from_millis(600),
            )
            .await;
            let error = failed.unwrap_err();
            assert!(!error.is_refused());
            assert_eq!(
                error.to_string(),
                format!(
                    "no connection to {closed} (connection refused), {} (no answer in time)",
                    dead.address
                )
            );
            let error = connect("127.0.0.1", closed.port(), LIMIT)
                .await
                .unwrap_err();
            assert!(error.is_refused(), "{error}");
            let error = connect("name.invalid", 1, LIMIT)
                .await
                .unwrap_err()
                .to_string();
            assert!(
                error.starts_with("no address for name.invalid ("),
                "{error}"
            );
            assert!(
                !error.contains("os error") && !error.contains("failed to"),
                "{error}"
            );
        });
    }

    #[test]
    fn a_missing_address_family_costs_no_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let open = listener.local_addr().unwrap();
        // No interface has this scope.
        let foreign: SocketAddr = format!("[fe80::1%4000000000]:{}", open.port())
            .parse()
            .unwrap();
        let stream = connect_resolved_blocking(&[foreign, open], LIMIT).unwrap();
        assert_eq!(stream.peer_addr().unwrap(), open);
    }

    proptest! {
        #[test]
        fn every_address_is_tried_once_and_families_alternate(
            hosts in prop::collection::vec((any::<bool>(), 0_u8..6), 0..12)
        ) {
            let addresses: Vec<SocketAddr> = hosts
                .iter()
                .map(|(is_ipv6, host)| match is_ipv6 {
                    true => format!("[2001:db8::{host}]:80").parse().unwrap(),
                    false => format!("192.0.2.{host}:80").parse().unwrap(),
                })
                .collect();
            let order = alternate_families(&addresses);
            let mut unique = addresses.clone();
            unique.sort();
            unique.dedup();
            let mut sorted = order.clone();
            sorted.sort();
            prop_assert_eq!(sorted, unique);
            prop_assert_eq!(order.first(), addresses.first());
            let ipv6 = order.iter().filter(|address| address.is_ipv6()).count();
            let switches = order.windows(2).filter(|two| two[0].is_ipv6() != two[1].is_ipv6());
            let fewer = ipv6.min(order.len() - ipv6);
            prop_assert!(switches.count() >= fewer, "{:?}", order);
        }
    }
}
