use super::*;
use crate::{discovery::Finder, tick::Ticker};
use faultline_core::{
    clock::{Clock, DueTick},
    config::Config,
    publish::Latest,
};
use faultline_kernel::{HostRoot, ProcessId};
use faultline_metrics::{
    Stamp, Tick,
    metrics::{process::UP, validator::HEAP},
};
use faultline_testkit::host::FakeHost;
use std::{sync::Arc, time::Duration};

/// The validator pushes its heap, and then the tick samples all sources.
fn tick_after_push(
    ticker: &mut Ticker,
    intake: &Intake,
    second: u64,
    pid: Option<u32>,
) -> Arc<Tick> {
    let now = Stamp {
        uptime: Duration::from_secs(second),
        unix: Duration::from_secs(1_700_000_000 + second),
    };
    let mut push = intake.begin_trusted(now);
    let identity = crate::tests::key("A");
    push.add_line(
        format!("jemalloc_stats,host_id={identity} allocated_bytes=5i {second}").as_bytes(),
    );
    intake.commit(push, now);
    let target = pid.map(|pid| {
        let start_ticks = 70;
        crate::tests::target(ProcessId { pid, start_ticks }, None)
    });
    ticker.tick_at(now, DueTick::START, target.as_ref())
}

#[test]
fn gauges_of_datapoints_end_with_their_process_in_the_same_tick() {
    let (host, mut config) = (FakeHost::empty().unwrap(), Config::default());
    config.target.identity = Some(crate::tests::key("A"));
    let (root, clock) = (HostRoot::below(host.root()), Clock::start());
    let finder = Finder::build(&config.target, root.clone(), clock);
    let context = BuildContext {
        config: &config,
        clock,
        root: &root,
        target_handle: &finder.target_handle,
    };
    let (mut registry, intake) = (Registry::default(), Intake::new(&config.datapoints));
    let latest = Latest::default();
    latest.set(Some(Arc::new(config.clone())));
    crate::register(&mut registry, &context, &intake, None, None, latest);
    let constants = crate::tests::host_constants();
    let mut ticker = Ticker::new(&context, constants, registry.samplers, Vec::new());
    let mut seen = Vec::new();
    for (second, pid) in [Some(7), Some(7), Some(8), Some(8), None, None, Some(9)]
        .into_iter()
        .enumerate()
    {
        let tick = tick_after_push(&mut ticker, &intake, second as u64, pid);
        let heap = tick.value_of(&HEAP, &["allocated"]);
        seen.push((tick.value_of(&UP, &[]), heap));
    }
    let (up, down, heap) = (Some(1.0), Some(0.0), Some(5.0));
    let expected = [
        (up, None),
        (up, heap),
        (up, None),
        (up, heap),
        (down, None),
        (down, None),
        (up, None),
    ];
    assert_eq!(seen, expected);
}
