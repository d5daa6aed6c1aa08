//! The resources that a central server needs for a number of validators. docs/FLEET.md has the
//! results.

use crate::{Fleet, LOGIN, TIMEOUT, pages::Pages, samples::number};
use faultline_testkit::{
    Result,
    eventually::eventually_ok,
    http::Request,
    proc::{stat_field, status_bytes},
    process::Running,
};
use std::{fs, path::Path, thread::sleep, time::Duration};

const INTERVAL: Duration = Duration::from_secs(5);
const WARM_UP: Duration = Duration::from_secs(30);
const MEASURED: Duration = Duration::from_secs(120);

/// Seconds of CPU so far. `USER_HZ` is 100 everywhere.
fn cpu(programs: &[&Running]) -> f64 {
    let ticks = |program: &&Running| {
        let field = |number| stat_field(program.pid(), number).expect("a program that runs");
        field(14) + field(15)
    };
    programs.iter().map(ticks).sum::<i64>() as f64 / 100.0
}

fn memory(programs: &[&Running]) -> u64 {
    let resident = |program: &&Running| status_bytes(program.pid(), "VmRSS").ok().flatten();
    programs.iter().filter_map(resident).sum()
}

/// Bytes of the files with `part` in their path.
fn size(folder: &Path, part: &str) -> u64 {
    let entries = fs::read_dir(folder).expect("a folder").flatten();
    let of_entry = |path: &Path| match fs::metadata(path) {
        Ok(meta) if meta.is_dir() => size(path, part),
        Ok(meta) if path.to_string_lossy().contains(part) => meta.len(),
        _ => 0,
    };
    entries.map(|entry| of_entry(&entry.path())).sum()
}

fn send(method: &str, address: &str, path: &str) -> String {
    let request = Request::new(method, path).header("Authorization", LOGIN);
    let response = request.timeout(TIMEOUT).send(address).expect("an answer");
    assert_eq!(response.status, 200, "{}", response.text());
    response.text()
}

/// Bytes of samples without their index, after all samples in memory were written and merged.
fn stored_bytes(fleet: &Fleet) -> [u64; 2] {
    let [victoria, prometheus] = [fleet.address(2), fleet.address(3)];
    send("GET", &victoria, "/internal/force_flush");
    send("GET", &victoria, "/internal/force_merge");
    eventually_ok(TIMEOUT, "the merge ends", || {
        let page = send("GET", &victoria, "/metrics");
        let merges = page
            .lines()
            .filter(|line| line.starts_with("vm_active_force_merges"));
        let merges: Vec<&str> = merges.collect();
        if merges.iter().all(|line| line.ends_with(" 0")) {
            Ok(())
        } else {
            Err(merges.concat())
        }
    });
    send("POST", &prometheus, "/api/v1/admin/tsdb/snapshot");
    [
        ("victoria/data", "/small/"),
        ("prometheus/snapshots", "/chunks/"),
    ]
    .map(|(folder, part)| size(&fleet.folder.path().join(folder), part))
}

/// Bytes of memory of each central server.
fn measure_memory(hosts: usize) -> Result<Option<[u64; 2]>> {
    let Some(fleet) = Fleet::new(1.0, hosts)? else {
        return Ok(None);
    };
    let daemon = fleet.start_daemon(0)?;
    let pages = Pages::start(daemon.metrics().to_owned());
    let centres = [fleet.start_victoria(), fleet.start_prometheus()];
    let vmalert = fleet.start_vmalert();
    let addresses = [fleet.address(1), fleet.address(3)];
    let agents = pages.agents(0..hosts, INTERVAL, |_| addresses.clone());
    let agents = agents.iter().enumerate();
    let _agents: Vec<_> = agents
        .map(|(number, agent)| fleet.start_agent(number, agent))
        .collect();
    let addresses = [fleet.address(2), fleet.address(3)];
    for centre in &addresses {
        eventually_ok(TIMEOUT, "every host arrives", || {
            match number(centre, "count(up{job='faultline'} > 0)") {
                Ok(count) if count == hosts as f64 => Ok(()),
                other => Err(other),
            }
        });
    }
    sleep(WARM_UP);
    let groups: [&[&Running]; 2] = [&[&centres[0], &vmalert], &[&centres[1]]];
    let before = groups.map(cpu);
    sleep(MEASURED);
    let after = groups.map(cpu);
    let memory_bytes = groups.map(memory);
    let bytes = stored_bytes(&fleet);
    for (centre, name) in ["VictoriaMetrics with vmalert", "Prometheus"]
        .iter()
        .enumerate()
    {
        let used = (after[centre] - before[centre]) / MEASURED.as_secs_f64();
        let ask = |expression: &str| {
            eventually_ok(TIMEOUT, "a number", || {
                number(&addresses[centre], expression)
            })
        };
        let samples = ask("sum(sum_over_time(scrape_samples_scraped[2h]))");
        println!(
            "{hosts} validators at {name}: {} series of daemons, {} with agents; {:.1} % of a CPU, \
             {} MB of memory, {:.2} bytes for each of {samples} samples",
            ask("sum(scrape_samples_scraped{job='faultline'})"),
            ask("sum(scrape_samples_scraped)"),
            used * 100.0,
            memory_bytes[centre] / 1_000_000,
            bytes[centre] as f64 / samples,
        );
    }
    Ok(Some(memory_bytes))
}

#[test]
#[ignore = "takes six minutes; measures"]
fn memory_of_a_centre_grows_no_faster_than_its_validators() -> Result<()> {
    if let (Some(ten), Some(hundred)) = (measure_memory(10)?, measure_memory(100)?) {
        for (ten, hundred) in ten.iter().zip(hundred) {
            let of_a_host = hundred.saturating_sub(*ten) / 90;
            assert!(of_a_host < 4_000_000, "{ten} {hundred}");
        }
    }
    Ok(())
}
