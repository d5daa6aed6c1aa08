//! Whether the least memory can be searched here, and what a search cannot show.

use super::Findings;
use super::facts::HostFacts;
use crate::plan::Plan;

pub(super) fn check(plan: &Plan, facts: &HostFacts, found: &mut Findings) {
    let Some(search) = &plan.search else { return };
    found.refuse(
        "[search] can be planned, but this version of faultline cannot run it yet",
        "compare arms with memory_max for now",
    );
    if let Ok(launcher) = &facts.launcher {
        if !launcher.can.memory_high && !launcher.can.memory_max {
            found.refuse(format!("{} cannot limit memory here", launcher.name), "enable the memory controller");
        }
        if !launcher.can.pressure {
            found.warn(
                format!(
                    "{} does not report how long a group waits for memory, so that cannot end a dwell early",
                    launcher.name
                ),
                "use a host with cgroup version 2 and pressure (psi=1)",
            );
        }
    }
    if facts.swap != Some(0) {
        found.refuse(
            "swap is on, or it is not known whether: with swap anonymous memory can be reclaimed, and a headroom over it means nothing",
            "switch swap off (swapoff -a)",
        );
    }
    if let Some(ram) = facts.ram.filter(|ram| search.from >= *ram) {
        let (from, ram) = (faultline_text::size(search.from), faultline_text::size(ram));
        found.refuse(
            format!("search.from is {from}, and this host has {ram}: the first limit would be none"),
            "a headroom that the page cache of the validator fills; half of it is more than enough to begin with",
        );
    }
    let shortest = search.shortest();
    if shortest > search.most {
        let (most, shortest) = (faultline_text::time(search.most), faultline_text::time(shortest));
        found.warn(
            format!("search.most is {most}, and a search takes {shortest} even if few dwells are enough"),
            "a longer most, or a shorter dwell or settle",
        );
    }
    found.remark(
        "a run starts once, so the least memory of the start is not searched: the answer names the highest unreclaimable memory \
         before the tip, and a start needs at least that",
        "confirm the answer with an arm that has it as memory_max from the beginning",
    );
    found.remark(
        "what does not happen during the search is not in its answer, such as a full snapshot, an epoch boundary or another day's load",
        "search again on another day, or with replicates = 3",
    );
}
