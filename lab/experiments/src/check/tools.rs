use super::Findings;
use super::facts::HostFacts;
use crate::plan::{PageCache, Plan};

const FINCORE: &str = "fincore";
const SETPRIV: &str = "setpriv";
/// All of util-linux.
pub const TOOLS: [&str; 2] = [FINCORE, SETPRIV];

pub(super) fn check(plan: &Plan, facts: &HostFacts, found: &mut Findings) {
    if plan.page_cache != PageCache::Leave && !facts.tools.contains(FINCORE) {
        found.warn(
            "fincore is not in PATH: a cold start cannot be verified, and every run will be marked unproven",
            "install util-linux (Debian: util-linux-extra)",
        );
    }
    let systemd = facts
        .launcher
        .as_ref()
        .is_ok_and(|launcher| launcher.name == "systemd");
    if facts.other_user && !systemd && !facts.tools.contains(SETPRIV) {
        found.refuse(
            "workload.user is another user, and setpriv is not in PATH, which becomes him",
            "install util-linux",
        );
    }
    let most = facts
        .launcher
        .as_ref()
        .ok()
        .and_then(|launcher| launcher.can.open_files);
    if let (Some(wanted), Some(most)) = (plan.workload.open_files, most)
        && wanted > most
    {
        found.refuse(
            format!("workload.open_files is {wanted}, and at most {most} can be given here"),
            "raise the hard limit of the user who runs this (`ulimit -Hn`, LimitNOFILE=), or fs.nr_open, or ask for fewer",
        );
    }
}
