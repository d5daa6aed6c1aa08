//! Two hundred hosts push for ten minutes. Meanwhile central servers are killed, agents are
//! restarted and a link is cut.

use crate::{
    Agent, Fleet, SITES, TIMEOUT,
    link::Link,
    now,
    pages::Pages,
    samples::{Samples, number},
    site, stop,
};
use faultline_testkit::{
    Result,
    alertmanager::{Alertmanager, Notification},
    daemon::Daemon,
    eventually::eventually_ok,
    process::Running,
};
use std::{
    collections::BTreeMap,
    ops::RangeInclusive,
    thread::sleep,
    time::{Duration, Instant},
};

/// Hosts that have both a daemon and an agent.
const REAL_HOSTS: usize = 20;
/// Hosts whose pages are replayed. One agent scrapes several of them. A shorter run has fewer.
const REPLAYED_HOSTS: f64 = 180.0;
/// Length of the full run. `FAULTLINE_FLEET_SECONDS` sets a shorter one.
const FULL_SECONDS: f64 = 600.0;
/// This host ends and does not return. It is of another site than the one whose link is cut.
const ENDED_HOST: usize = 3;
const CUT_SITE: &str = SITES[1];
const CENTRES: [&str; 2] = ["VictoriaMetrics", "Prometheus"];
/// The agent's time of a scrape may differ from the real one by a tenth of the interval.
const SCRAPE_TOLERANCE: i64 = 3_500;
/// Milliseconds of samples that VictoriaMetrics may lose at a SIGKILL.
const LOST_BY_KILL: i64 = 10_000;

struct FleetRun {
    fleet: Fleet,
    daemons: Vec<Option<Daemon>>,
    pages: Pages,
    links: [Link; 2],
    agents: Vec<(Agent, Option<Running>)>,
    centres: [Option<Running>; 2],
    begun: Instant,
    /// The agents' own counts of scrapes, by real host.
    counted: BTreeMap<usize, f64>,
    /// When agents were stopped. A scrape at that moment may have a response that no agent read.
    stopped: Vec<RangeInclusive<i64>>,
}

impl FleetRun {
    fn start(fleet: Fleet) -> Result<Self> {
        let daemons = (0..REAL_HOSTS).map(|number| fleet.start_daemon(number));
        let daemons = daemons.collect::<Result<Vec<_>>>()?;
        let pages = Pages::start(daemons[0].metrics().to_owned());
        let centres = [fleet.address(1), fleet.address(3)];
        let links = centres.clone().map(Link::start);
        let through = || links.each_ref().map(|link| link.address.to_string());
        let to = |site: &str| {
            if site == CUT_SITE {
                through()
            } else {
                centres.clone()
            }
        };
        let mut agents: Vec<Agent> = daemons
            .iter()
            .enumerate()
            .map(|(number, daemon)| Agent {
                site: site(number),
                host: Some(number),
                targets: vec![(number, daemon.metrics().to_owned(), "/metrics".to_owned())],
                interval: Duration::from_secs(5),
                centres: to(site(number)),
            })
            .collect();
        agents.extend(pages.agents(REAL_HOSTS..fleet.hosts, fleet.scaled(30.0), to));
        Ok(Self {
            daemons: daemons.into_iter().map(Some).collect(),
            pages,
            links,
            agents: agents.into_iter().map(|agent| (agent, None)).collect(),
            centres: [Some(fleet.start_victoria()), Some(fleet.start_prometheus())],
            begun: Instant::now(),
            counted: BTreeMap::new(),
            stopped: Vec::new(),
            fleet,
        })
    }

    /// Waits until this second of the full run.
    fn until(&self, second: f64) {
        let passed = self.begun.elapsed();
        sleep(self.fleet.scaled(second).saturating_sub(passed));
        println!("{second:>4}: {}", now());
    }

    fn start_agents(&mut self) {
        for (number, (agent, running)) in self.agents.iter_mut().enumerate() {
            let ended = number == ENDED_HOST && self.daemons[ENDED_HOST].is_none();
            if running.is_none() && !ended {
                *running = Some(self.fleet.start_agent(number, agent));
            }
        }
    }

    /// Adds the number of scrapes of daemons and of themselves that the running agents have made.
    fn count_scrapes(&mut self, site: Option<&str>) {
        for (number, (agent, running)) in self.agents.iter().enumerate() {
            let of_site = site.is_none_or(|site| site == agent.site);
            if agent.host.is_some() && running.is_some() && of_site {
                let name = "vm_promscrape_scrapes_total{status_code=\"200\"}";
                let scrapes = self.fleet.agent_number(number, name).expect("a count");
                *self.counted.entry(number).or_default() += scrapes;
            }
        }
    }

    /// Restarts the agents of one site, or all agents.
    fn restart_agents(&mut self, site: Option<&str>) {
        self.count_scrapes(site);
        let of_site = |agent: &Agent| site.is_none_or(|site| site == agent.site);
        let running = self.agents.iter_mut().filter(|(agent, _)| of_site(agent));
        let running: Vec<Running> = running.filter_map(|(_, running)| running.take()).collect();
        let from = now() - 1_000;
        stop(running);
        self.stopped.push(from..=now());
        self.start_agents();
    }

    fn start_centres(&mut self) {
        self.centres = [
            Some(self.fleet.start_victoria()),
            Some(self.fleet.start_prometheus()),
        ];
    }

    fn end_host(&mut self) -> i64 {
        let at = now();
        self.daemons[ENDED_HOST] = None;
        self.agents[ENDED_HOST].1 = None;
        at
    }

    fn addresses(&self) -> [String; 2] {
        [self.fleet.address(2), self.fleet.address(3)]
    }

    /// Waits until both central servers have a sample of every host that is newer than `moment`. An
    /// agent sends its samples in order.
    fn wait_for_newer(&self, moment: i64, hosts: usize) {
        let newer = "count(max by (host) (timestamp(up{job='faultline'})) >";
        for centre in self.addresses() {
            let expression = format!("{newer} {})", moment as f64 / 1000.0);
            eventually_ok(TIMEOUT, "newer samples arrive", || {
                match number(&centre, &expression) {
                    Ok(count) if count >= hosts as f64 => Ok(()),
                    other => {
                        sleep(Duration::from_secs(1));
                        Err(other)
                    }
                }
            });
        }
    }

    /// Runs the events. Returns the times of the SIGKILL and of the host's end.
    fn play(&mut self) -> Result<[i64; 2]> {
        let ended = self.end_host();
        self.until(60.0);
        stop(self.centres.iter_mut().filter_map(Option::take).collect());
        self.until(80.0);
        self.restart_agents(None);
        self.until(100.0);
        self.start_centres();
        self.until(180.0);
        self.links.iter().for_each(Link::cut);
        self.until(240.0);
        let killed = now();
        for centre in &mut self.centres {
            if let Some(mut running) = centre.take() {
                running.kill()?;
            }
        }
        self.until(280.0);
        self.start_centres();
        self.until(380.0);
        self.restart_agents(Some(CUT_SITE));
        self.until(480.0);
        self.links.iter().for_each(Link::restore);
        self.until(600.0);
        Ok([killed, ended])
    }
}

/// Notifications by receiver and alert.
type NotificationCounts = BTreeMap<(String, String), usize>;

#[derive(Default, Debug)]
struct Totals {
    series: usize,
    scrapes: usize,
    samples: usize,
    /// By central server.
    stored: [usize; 2],
    repeated: [usize; 2],
    lost: [Vec<i64>; 2],
    /// Times of the page server's responses without a scrape at a central server.
    untaken: Vec<i64>,
    /// Number of samples in the other responses.
    answered: usize,
    /// Scrapes of daemons and of agents on the real hosts, as the agents counted them.
    by_agents: f64,
    replayed: usize,
}

impl Totals {
    fn print(&self, killed: i64) {
        println!(
            "{} series; {} scrapes of {} samples; of replayed hosts {} of {} by the page \
             server's count, and {} not taken; of real ones {} by the agents' count",
            self.series,
            self.scrapes,
            self.samples,
            self.replayed,
            self.answered,
            self.untaken.len(),
            self.by_agents,
        );
        for (centre, name) in CENTRES.iter().enumerate() {
            println!(
                "{name}: {} stored, {} twice, {} lost, up to {:?} ms before the kill -9",
                self.stored[centre],
                self.repeated[centre],
                self.lost[centre].len(),
                self.lost[centre].iter().min().map(|at| killed - at),
            );
        }
    }
}

/// Counts every host's samples until `end`, at both central servers and at their origin.
fn count(run: &FleetRun, end: i64, ended: i64) -> Totals {
    let mut totals = Totals::default();
    let addresses = run.addresses();
    let answers = run.pages.answers();
    for host in 0..run.fleet.hosts {
        // Samples that the host had not sent at its end are lost.
        let to = if host == ENDED_HOST {
            ended - 5_000
        } else {
            end
        };
        let [victoria, prometheus] = addresses
            .each_ref()
            .map(|centre| Samples::read(centre, host, (0, to)));
        totals.series += prometheus.series.len();
        totals.scrapes += prometheus.scrapes.len();
        totals.samples += prometheus.scrapes.values().sum::<usize>();
        totals.lost[0].extend(victoria.missing(&prometheus));
        totals.lost[1].extend(prometheus.missing(&victoria));
        for (centre, samples) in [&victoria, &prometheus].into_iter().enumerate() {
            totals.stored[centre] += samples.of_pages();
            totals.repeated[centre] += samples.repeated;
        }
        let until = end - SCRAPE_TOLERANCE;
        for answer in answers
            .iter()
            .filter(|it| it.host == host && it.at <= until)
        {
            let near = answer.at - SCRAPE_TOLERANCE..=answer.at + SCRAPE_TOLERANCE;
            let taken = prometheus.scrapes.range(near);
            match taken.last() {
                Some((_, samples)) if *samples == answer.samples => {
                    totals.answered += answer.samples;
                    totals.replayed += 1;
                }
                _ => totals.untaken.push(answer.at),
            }
        }
        if let Some(counted) = run.counted.get(&host).filter(|_| host != ENDED_HOST) {
            let expression = format!("count_over_time(up{{host='host-{host:03}'}}[2h])");
            let [victoria, prometheus] = addresses
                .each_ref()
                .map(|centre| number(centre, &format!("sum({expression})")).expect("a count"));
            totals.by_agents += counted;
            assert!(
                prometheus >= *counted,
                "{host}: {prometheus} {victoria} {counted}"
            );
        }
    }
    totals
}

/// For each central server: the notifications, and how many alerts of the fleet fired.
fn fired(run: &FleetRun) -> Vec<(NotificationCounts, f64)> {
    let of_centre = |(manager, address): (&Alertmanager, &String)| {
        eventually_ok(TIMEOUT, "the site is back", || {
            let notifications = manager.notifications();
            let back = |it: &Notification| it.resolved && it.alert == "FleetSiteSilent";
            if notifications.iter().any(back) {
                Ok(())
            } else {
                Err(notifications)
            }
        });
        let mut fired = NotificationCounts::new();
        for it in manager.notifications() {
            if !it.resolved {
                *fired.entry((it.receiver, it.alert)).or_default() += 1;
            }
        }
        let firing = "ALERTS{alertname=~'Fleet.*',alertstate='firing'}[2h]";
        let firing = number(address, &format!("count(count_over_time({firing}))"));
        (fired, firing.expect("a count"))
    };
    let managers = run.fleet.alertmanagers.iter();
    managers.zip(&run.addresses()).map(of_centre).collect()
}

#[test]
#[ignore = "takes 12 minutes; part of .ci/run --long"]
fn outages_of_centres_agents_and_a_link_lose_no_sample() -> Result<()> {
    let seconds = std::env::var("FAULTLINE_FLEET_SECONDS");
    let scale = seconds.map_or(1.0, |text| {
        text.parse::<f64>().expect("seconds") / FULL_SECONDS
    });
    let Some(fleet) = Fleet::new(scale, REAL_HOSTS + (REPLAYED_HOSTS * scale) as usize)? else {
        return Ok(());
    };
    let mut run = FleetRun::start(fleet)?;
    let first = now();
    run.start_agents();
    let vmalert = run.fleet.start_vmalert();
    run.wait_for_newer(first, run.fleet.hosts);
    run.begun = Instant::now();
    let [killed, ended] = run.play()?;
    run.count_scrapes(None);
    let end = now();
    run.wait_for_newer(end, run.fleet.hosts - 1);
    // VictoriaMetrics shows samples a second after it received them.
    sleep(Duration::from_secs(5));
    let fired = fired(&run);
    drop((vmalert, std::mem::take(&mut run.agents)));
    let totals = count(&run, end, ended);
    totals.print(killed);
    let while_stopped = |at: &i64| run.stopped.iter().any(|stop| stop.contains(at));
    assert!(
        totals.untaken.iter().all(while_stopped),
        "{:?} {:?}",
        totals.untaken,
        run.stopped
    );
    assert_eq!(totals.stored[1], totals.samples);
    assert!(totals.lost[1].is_empty(), "{:?}", totals.lost[1]);
    let window = killed - LOST_BY_KILL..=killed;
    let too_old = totals.lost[0].iter().find(|at| !window.contains(at));
    assert_eq!(too_old, None, "VictoriaMetrics");
    for (centre, (mut notifications, firing)) in CENTRES.iter().zip(fired) {
        println!("{centre}: {notifications:?}");
        notifications.retain(|(receiver, _), _| receiver == "page");
        let once = |alert: &str| (("page".to_owned(), alert.to_owned()), 1);
        let expected = ["FleetHostSilent", "FleetSiteSilent"].map(once);
        assert_eq!(
            (notifications, firing),
            (BTreeMap::from(expected), 2.0),
            "{centre}"
        );
    }
    Ok(())
}
