use super::{
    Handle,
    cache::ResponseCache,
    client::{Client, Failure},
};
use crate::{
    admin::{AdminFacts, TargetLookup},
    discovery::Target,
    polling::{AbsenceLog, PollTimer},
};
use faultline_agave::{
    Error,
    admin::StartProgress,
    identify::Program,
    rpc::{Answer, RequestBatch},
};
use faultline_core::{clock::Clock, config, publish::Latest, supervisor::Stop};
use faultline_kernel::ProcessId;
use faultline_metrics::{Problem, Source};
use faultline_text::without_address;
use hyper::Uri;
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

/// One poll per interval; none while a response is pending.
pub struct Poller {
    config: config::Rpc,
    clock: Clock,
    current_target: TargetLookup,
    admin: Latest<AdminFacts>,
    pub handle: Handle,
    /// The next process gets a new client.
    client: Client,
    cache: Option<ResponseCache>,
    batch: Arc<RequestBatch>,
    absence_log: AbsenceLog,
}

impl Poller {
    /// Does not connect. `admin` provides the real listen address, and whether the start is over.
    pub fn new(
        config: &config::Rpc,
        clock: Clock,
        current_target: TargetLookup,
        admin: Latest<AdminFacts>,
    ) -> Self {
        Self {
            config: config.clone(),
            clock,
            current_target,
            admin,
            handle: Handle::default(),
            client: Client::new(),
            cache: None,
            batch: Arc::new(RequestBatch::new([])),
            absence_log: AbsenceLog::default(),
        }
    }

    pub async fn run(mut self, stop: Stop) {
        let mut timer = PollTimer::new(self.clock, self.config.interval, stop);
        while timer.next().await {
            let Some(request) = self.request() else {
                continue;
            };
            let responses = request
                .client
                .post(&request.url, &request.batch, self.config.timeout);
            // Publishes again at each due poll, so that old values expire.
            let on_due_poll = || drop(self.publish());
            let Some(responses) = timer.wait_for(responses, on_due_poll).await else {
                return;
            };
            self.receive(&request, responses);
        }
    }

    fn request(&mut self) -> Option<PollRequest> {
        let now = self.clock.now();
        let Some(target) = (self.current_target)() else {
            self.cache = None;
            self.handle.facts.set(None);
            return None;
        };
        let process = target.process;
        self.cache.take_if(|cache| cache.process != process);
        let cache = self.cache.get_or_insert_with(|| {
            self.client = Client::new();
            ResponseCache::new(process, now)
        });
        let (url, admin) = (self.config.url.as_deref(), self.admin.get());
        match endpoint_url(url, &target, admin.as_deref()) {
            Ok(url) => {
                let calls = cache.calls();
                if self.batch.calls() != calls {
                    self.batch = Arc::new(RequestBatch::new(calls));
                }
                Some(PollRequest {
                    process,
                    client: self.client.clone(),
                    url,
                    batch: Arc::clone(&self.batch),
                })
            }
            Err(problem) => {
                cache.set_problem(problem, now);
                self.publish_and_log();
                None
            }
        }
    }

    /// Ignores responses after the process was replaced, because the new process may have sent
    /// them.
    fn receive(
        &mut self,
        request: &PollRequest,
        responses: Result<Vec<Result<Answer, Error>>, Failure>,
    ) {
        let process = request.process;
        if (self.current_target)().is_none_or(|target| target.process != process) {
            return;
        }
        let Some(cache) = self.cache.as_mut().filter(|cache| cache.process == process) else {
            return;
        };
        let at = self.clock.now();
        match responses {
            Ok(answers) => {
                let count = answers.iter().find_map(|answer| match answer {
                    Ok(Answer::EpochInfo(info)) => info.transaction_count,
                    _ => None,
                });
                cache.receive(request.batch.calls(), answers, at);
                if let Some(count) = count {
                    self.handle.transactions.lock().record(process, count);
                }
            }
            Err(failure) => {
                let has_started = self.admin.get().is_some_and(|facts| {
                    facts.process == process && facts.progress == Some(StartProgress::Running)
                });
                let readiness = cache.readiness(has_started);
                cache.set_problem(failure.problem(&url_origin(&request.url), readiness), at);
            }
        }
        for problem in &mut cache.problems {
            problem.what = without_address(&problem.what, &request.url.to_string());
        }
        self.publish_and_log();
    }

    fn publish_and_log(&mut self) {
        if let Some(facts) = self.publish() {
            self.absence_log
                .log_new_absences(Source::Rpc, facts.up, &facts.problems);
        }
    }

    fn publish(&self) -> Option<Arc<super::RpcFacts>> {
        let now = self.clock.now();
        let facts = self
            .cache
            .as_ref()
            .map(|cache| Arc::new(cache.facts(now, self.config.interval)));
        self.handle.facts.set(facts.clone());
        facts
    }
}

struct PollRequest {
    process: ProcessId,
    client: Client,
    url: Uri,
    batch: Arc<RequestBatch>,
}

/// The configured URL, else the address that the validator reports, else host and port of its
/// arguments.
pub fn endpoint_url(
    url: Option<&str>,
    target: &Target,
    admin: Option<&AdminFacts>,
) -> Result<Uri, Problem> {
    if let Some(url) = url {
        return configured_url(url);
    }
    let reported = admin
        .filter(|facts| facts.process == target.process)
        .and_then(|facts| facts.rpc_address)
        .map(|address| connect_address(address).to_string());
    let by_arguments = || {
        let validator = target.validator.as_ref()?;
        // A test validator serves JSON-RPC on 8899 by default; the others serve none.
        let default = (validator.program == Program::TestValidator).then_some(8899);
        let port = validator.rpc_port.or(default)?;
        Some(authority(validator.rpc_host.as_deref(), port))
    };
    reported
        .or_else(by_arguments)
        .and_then(|authority| format!("http://{authority}/").parse().ok())
        .ok_or_else(|| Problem::absent_data("the validator runs without --rpc-port; set rpc.url"))
}

/// Without a host, or with an unspecified address, the validator also listens on loopback.
fn authority(host: Option<&str>, port: u16) -> String {
    let host = host.unwrap_or("0.0.0.0");
    match host.parse::<IpAddr>() {
        Ok(address) => connect_address((address, port).into()).to_string(),
        Err(_) => format!("{host}:{port}"),
    }
}

fn configured_url(url: &str) -> Result<Uri, Problem> {
    let why = match url.parse::<Uri>() {
        Ok(uri) if uri.scheme_str() == Some("http") => return Ok(uri),
        Ok(uri) if uri.scheme_str() == Some("https") => {
            "rpc.url is https, which is not supported; give an http:// url"
        }
        _ => "rpc.url is not a valid http:// URL; give one like http://127.0.0.1:8899",
    };
    Err(Problem::broken(why))
}

pub fn connect_address(mut listening: SocketAddr) -> SocketAddr {
    match listening.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => listening.set_ip(Ipv4Addr::LOCALHOST.into()),
        // A dual-stack socket at [::] accepts IPv4 and IPv6. An IPv6-only socket needs ::1.
        IpAddr::V6(ip) if ip.is_unspecified() => listening.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    listening
}

/// Scheme, host and port. The other parts of a URL may contain secrets.
pub fn url_origin(url: &Uri) -> String {
    let host = url.host().unwrap_or_default();
    let port = url
        .port_u16()
        .map(|port| format!(":{port}"))
        .unwrap_or_default();
    format!("{}://{host}{port}", url.scheme_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests;
    use faultline_metrics::{ProblemKind, Stamp};

    fn process(pid: u32) -> ProcessId {
        ProcessId {
            pid,
            start_ticks: 1,
        }
    }

    fn target(rpc_port: Option<u16>) -> Target {
        tests::target(process(1), rpc_port)
    }

    fn admin_facts(pid: u32, address: &str) -> AdminFacts {
        AdminFacts {
            process: process(pid),
            polled_at: Stamp::default(),
            progress: None,
            identity: None,
            rpc_address: Some(address.parse().unwrap()),
            admission: None,
            problems: Vec::new(),
            up: true,
        }
    }

    #[test]
    fn rpc_address_precedence_is_configured_url_then_admin_socket_then_port() {
        let at = |url, port, admin: Option<&AdminFacts>| {
            endpoint_url(url, &target(port), admin).unwrap().to_string()
        };
        let admin = admin_facts(1, "192.0.2.7:7000");
        assert_eq!(
            at(Some("http://node:1/key"), Some(5), Some(&admin)),
            "http://node:1/key"
        );
        assert_eq!(at(None, Some(5), Some(&admin)), "http://192.0.2.7:7000/");
        assert_eq!(
            at(None, None, Some(&admin_facts(1, "0.0.0.0:7000"))),
            "http://127.0.0.1:7000/"
        );
        assert_eq!(
            at(None, None, Some(&admin_facts(1, "[::]:7000"))),
            "http://[::1]:7000/"
        );
        assert_eq!(at(None, Some(5), None), "http://127.0.0.1:5/");
    }

    #[test]
    fn the_rpc_host_from_arguments_is_used_until_the_validator_reports_one() {
        let at = |host: &str, admin: Option<&AdminFacts>| {
            let mut target = target(Some(5));
            target.validator.as_mut().unwrap().rpc_host = Some(host.to_owned());
            endpoint_url(None, &target, admin).unwrap().to_string()
        };
        assert_eq!(at("192.0.2.9", None), "http://192.0.2.9:5/");
        assert_eq!(at("0.0.0.0", None), "http://127.0.0.1:5/");
        assert_eq!(at("::", None), "http://[::1]:5/");
        assert_eq!(at("2001:db8::7", None), "http://[2001:db8::7]:5/");
        assert_eq!(at("localhost", None), "http://localhost:5/");
        assert_eq!(
            at("192.0.2.9", Some(&admin_facts(1, "192.0.2.7:7000"))),
            "http://192.0.2.7:7000/"
        );
    }

    #[test]
    fn an_rpc_address_reported_by_another_process_is_ignored() {
        let admin = admin_facts(2, "192.0.2.7:7000");
        assert_eq!(
            endpoint_url(None, &target(Some(5)), Some(&admin)).unwrap(),
            "http://127.0.0.1:5/"
        );
    }

    #[test]
    fn without_rpc_port_and_url_a_remedy_is_reported() {
        let problem = endpoint_url(None, &target(None), None).unwrap_err();
        assert_eq!(
            problem.to_string(),
            "absent: the validator runs without --rpc-port; set rpc.url"
        );
        assert_eq!(
            endpoint_url(Some("https://node"), &target(None), None)
                .unwrap_err()
                .kind,
            ProblemKind::Broken
        );
    }

    #[test]
    fn rpc_error_messages_omit_the_key_in_the_url_path() {
        assert_eq!(
            url_origin(&Uri::from_static("http://me:pw@node:8899/secret?key=1")),
            "http://node:8899"
        );
        assert_eq!(
            url_origin(&Uri::from_static("http://[::1]/")),
            "http://[::1]"
        );
    }
}
