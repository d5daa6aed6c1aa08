use super::{root, target_lookup};
use faultline_core::clock::Clock;
use faultline_core::config::Config;
use faultline_core::supervisor::Stop;
use faultline_datapoints::tail::LogTail;
use faultline_datapoints::validator::intake::Intake;
use faultline_recorder::manifest;
use faultline_sources::conclusions::Inputs;
use faultline_sources::discovery::Following;
use faultline_sources::{admin, resources, rpc, votes};
use futures_util::future::OptionFuture;

pub(super) struct Pollers {
    rpc: Option<rpc::Poller>,
    probe: Option<rpc::Probe>,
    votes: Option<votes::Poller>,
    admin: Option<admin::Poller>,
    pub(super) resources: Option<resources::Poller>,
}

impl Pollers {
    pub(super) fn new(config: &Config, clock: Clock, following: &Following) -> Pollers {
        let admin = config
            .admin
            .enabled
            .then(|| admin::Poller::new(&config.admin, clock, target_lookup(following)));
        let admin_facts = admin.as_ref().map(admin::Poller::facts).unwrap_or_default();
        let rpc = config.rpc.enabled.then(|| {
            rpc::Poller::new(
                &config.rpc,
                clock,
                target_lookup(following),
                admin_facts.clone(),
            )
        });
        let endpoint = || {
            rpc.as_ref().map(|rpc| {
                rpc::Endpoint::new(
                    &config.rpc,
                    target_lookup(following),
                    admin_facts.clone(),
                    rpc.handle(),
                )
            })
        };
        let probe = endpoint().filter(|_| config.probe.enabled);
        let probe = probe.map(|endpoint| rpc::Probe::new(&config.probe, clock, endpoint));
        let votes = endpoint().filter(|_| config.validator.enabled);
        let votes = votes.map(|endpoint| votes::Poller::new(&config.validator, clock, endpoint));
        let resources = config.host.enabled;
        let resources = resources
            .then(|| resources::Poller::new(&config.host, clock, root(config), following.clone()));
        Pollers {
            rpc,
            probe,
            votes,
            admin,
            resources,
        }
    }

    pub(super) fn inputs(&self, intake: Intake, log: Option<&LogTail>) -> Inputs {
        let facts = self.facts();
        Inputs {
            intake,
            rpc: facts.rpc,
            votes: self
                .votes
                .as_ref()
                .map(votes::Poller::handle)
                .unwrap_or_default(),
            admin: facts.admin,
            resources: self
                .resources
                .as_ref()
                .map(resources::Poller::handle)
                .unwrap_or_default(),
            log: log.map(LogTail::status),
        }
    }

    pub(super) fn facts(&self) -> manifest::ProcessFacts {
        manifest::ProcessFacts {
            rpc: self
                .rpc
                .as_ref()
                .map(rpc::Poller::handle)
                .unwrap_or_default(),
            admin: self
                .admin
                .as_ref()
                .map(admin::Poller::facts)
                .unwrap_or_default(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rpc.is_none() && self.admin.is_none()
    }

    /// All polls are due at the same moments, so that one thread wakes for all. Boxed: moving them
    /// over the stack would keep 100 kB of it.
    pub(super) async fn run(self, stop: Stop) {
        let rpc = OptionFuture::from(self.rpc.map(|rpc| Box::pin(rpc.run(stop.clone()))));
        let probe = OptionFuture::from(self.probe.map(|probe| Box::pin(probe.run(stop.clone()))));
        let votes = OptionFuture::from(self.votes.map(|votes| Box::pin(votes.run(stop.clone()))));
        let admin = OptionFuture::from(self.admin.map(|admin| Box::pin(admin.run(stop))));
        tokio::join!(rpc, probe, votes, admin);
    }
}
