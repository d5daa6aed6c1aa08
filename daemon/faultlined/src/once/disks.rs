//! Checks the space of the validator's file systems with the calls of the source `resources`.

use super::{
    pollers::{new_worker_group, wait_and_end},
    process::{ProcessInspection, rights_remedy},
    report::Check,
};
use faultline_core::{clock::Clock, config::Config, publish::Latest};
use faultline_kernel::filesystem::Space;
use faultline_metrics::ProblemKind;
use faultline_sources::resources::{self, FileSystemUsage, UnavailableFolder};
use faultline_status::MIN_FREE_SHARE;
use faultline_text::{bytes, clean, percent};
use itertools::Itertools;
use serde_json::json;
use std::{sync::Arc, time::Duration};

/// More than the 2 s that the source itself waits.
const CHECK_TIMEOUT: Duration = Duration::from_secs(4);

pub async fn check(config: &Config, inspection: &ProcessInspection, clock: Clock) -> Vec<Check> {
    let off = |why: &str| vec![Check::off(why)];
    if !config.host.enabled {
        return off("not checked: disabled (host.enabled)");
    }
    let Some(target) = inspection
        .target
        .clone()
        .filter(|target| target.validator.is_some())
    else {
        return off("not checked: only a validator's folders are known");
    };
    let result = Latest::default();
    let root = config.paths.clone();
    let published = result.clone();
    let mut workers = new_worker_group();
    // A dead file server blocks calls forever, so they run on other threads than `once`.
    let started = workers.task_thread("disk", resources::MAX_BLOCKING_CALLS, move |_| async move {
        published.set(Some(Arc::new(
            resources::inspect(&root, &target, clock).await,
        )));
    });
    if let Err(error) = started {
        return vec![Check::attention(
            error,
            "no thread can be started: look at the limits of this user",
        )];
    }
    match wait_and_end(workers, CHECK_TIMEOUT, || result.get())
        .await
        .as_deref()
    {
        Some(Ok((usages, unavailable))) if usages.is_empty() && unavailable.is_empty() => {
            off("the validator names no folder")
        }
        Some(Ok((usages, unavailable))) => {
            let known = usages
                .iter()
                .filter_map(|usage| Some(file_system_check(usage, usage.file_system.space?)));
            known
                .chain(
                    unavailable
                        .iter()
                        .map(|unavailable| unavailable_check(unavailable, inspection.process_uid)),
                )
                .collect()
        }
        Some(Err(error)) => off(&format!("not known: {error}")),
        None => vec![Check::attention("no answer within 4 s", SEE_MOUNTS)],
    }
}

const SEE_MOUNTS: &str = "see whether all disks and file servers answer: findmnt, dmesg";

fn file_system_check(usage: &FileSystemUsage, space: Space) -> Check {
    let mount = &usage.file_system.mount;
    let mounted_at = clean(&mount.mount_point.to_string_lossy());
    if space.is_unlimited() {
        let fs_type = clean(&mount.fs_type);
        return Check::off(format!("{mounted_at}: {fs_type} has no size: not judged"));
    }
    let inodes = space.inodes.filter(|(total, _)| *total > 0);
    let of_inodes = inodes
        .map(|(total, free)| format!(" and {} of its inodes", share(free, total)))
        .unwrap_or_default();
    let Space { avail, size, .. } = space;
    let free_text = format!(
        "{} of {} ({}){of_inodes} are free",
        bytes(avail),
        bytes(size),
        share(avail, size)
    );
    let attention = |what: &str, remedy: &str| {
        Check::attention(format!("{mounted_at} {what}: {free_text}"), remedy)
    };
    let check = if usage.file_system.is_process_mount && mount.is_read_only() {
        attention(
            "is read-only",
            "after disk errors, the kernel allows no writes; see runbook AgaveFilesystemReadOnly",
        )
    } else if is_scarce(avail, size) {
        attention(
            "is nearly full",
            "remove files: a validator that cannot write ends; see runbook AgaveDiskNearlyFull",
        )
    } else if inodes.is_some_and(|(total, free)| is_scarce(free, total)) {
        attention(
            "is nearly out of inodes",
            "remove files: none can be added; see runbook AgaveDiskInodesLow",
        )
    } else {
        Check::ok(format!("{mounted_at}: {free_text}"))
    };
    check
        .with_detail("holds", Some(usage.purposes.iter().join(", ")))
        .with_detail(
            "mount",
            Some(json!({"mount_point": mounted_at, "file_system": clean(&mount.fs_type)})),
        )
        .with_detail("bytes", Some(json!({"size": size, "free": avail})))
        .with_detail(
            "inodes",
            inodes.map(|(total, free)| json!({"all": total, "free": free})),
        )
}

fn is_scarce(free: u64, total: u64) -> bool {
    (free as f64) < MIN_FREE_SHARE * total as f64
}

fn share(part: u64, total: u64) -> String {
    percent(part as f64 / total as f64)
}

fn unavailable_check(unavailable: &UnavailableFolder, process_uid: Option<u32>) -> Check {
    let finding = format!(
        "{} {}: {}",
        unavailable.folder.purpose,
        faultline_text::path(&unavailable.folder.path),
        unavailable.reason
    );
    match (unavailable.kind, unavailable.remedy) {
        (ProblemKind::Absent, Some(remedy)) => Check::off(format!("{finding}; {remedy}")),
        (ProblemKind::Forbidden, _) => Check::attention(finding, rights_remedy(process_uid)),
        (_, remedy) => Check::attention(finding, remedy.unwrap_or(SEE_MOUNTS)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::once::report::CheckState;
    use faultline_kernel::{filesystem::FileSystem, parse::mountinfo};
    use faultline_metrics::Stamp;
    use faultline_sources::resources::Folder;

    const GIB: u64 = 1 << 30;

    fn check_of_mount(options: &str, is_process_mount: bool, space: Space) -> Check {
        let line = format!("1 0 259:1 / /mnt/ledger {options} - ext4 /dev/nvme0n1p1 rw\n");
        let mount = mountinfo::parse(line.as_bytes()).unwrap().remove(0);
        let system = FileSystem {
            mount,
            is_process_mount,
            space: Some(space),
        };
        let usage = FileSystemUsage {
            file_system: system,
            purposes: ["ledger", "snapshots"].into(),
            sampled_at: Stamp::default(),
        };
        file_system_check(&usage, space)
    }

    #[test]
    fn a_nearly_exhausted_resource_warns_with_its_alerts_runbook() {
        let space = |avail, free| Space {
            size: 100 * GIB,
            avail: avail * GIB,
            inodes: Some((1_000, free)),
        };
        let check = check_of_mount("rw", true, space(28, 990));
        assert_eq!(
            check.finding,
            "/mnt/ledger: 28.0 GiB of 100.0 GiB (28 %) and 99 % of its inodes are free"
        );
        assert_eq!(
            (check.state, check.details[0].1.as_str()),
            (CheckState::Ok, Some("ledger, snapshots"))
        );
        let remedy = |check: Check| check.remedy.unwrap_or_default();
        for (check, runbook) in [
            (
                check_of_mount("rw", true, space(4, 990)),
                "AgaveDiskNearlyFull",
            ),
            (
                check_of_mount("rw", true, space(28, 49)),
                "AgaveDiskInodesLow",
            ),
            (
                check_of_mount("ro", true, space(4, 49)),
                "AgaveFilesystemReadOnly",
            ),
        ] {
            assert_eq!(check.state, CheckState::Attention, "{check:?}");
            assert!(remedy(check).ends_with(runbook));
        }
        assert_eq!(
            check_of_mount("rw", true, space(5, 50)).state,
            CheckState::Ok,
            "as the alerts: below a twentieth"
        );
        assert_eq!(
            check_of_mount("ro", false, space(28, 990)).state,
            CheckState::Ok,
            "of the daemon's own mount nothing follows"
        );
        let none = Space {
            size: 0,
            avail: 0,
            inodes: None,
        };
        let check = check_of_mount("rw", true, none);
        assert_eq!(
            (check.state, check.finding.as_str()),
            (CheckState::Off, "/mnt/ledger: ext4 has no size: not judged")
        );
    }

    #[test]
    fn disk_thresholds_equal_the_alert_thresholds() {
        let rules = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../grafana/prometheus/rules/faultline.alerts.yml"
        );
        let rules = std::fs::read_to_string(rules).unwrap();
        for (alert, metric) in [
            ("AgaveDiskNearlyFull", "size_bytes"),
            ("AgaveDiskInodesLow", "inodes"),
        ] {
            let rule = rules.split(&format!("alert: {alert}\n")).nth(1).unwrap();
            let size = format!("(agave_filesystem_{metric})");
            let after_size = rule.split(&size).nth(1).unwrap();
            let threshold = after_size.split(") < ").nth(1).unwrap();
            assert_eq!(
                threshold.split_whitespace().next(),
                Some(MIN_FREE_SHARE.to_string().as_str()),
                "{alert}"
            );
        }
    }

    #[test]
    fn unresolved_file_systems_are_reported_and_hanging_ones_warn() {
        let unavailable = |kind, remedy| {
            let folder = Folder {
                purpose: "ledger",
                path: "/mnt/ledger".into(),
            };
            unavailable_check(
                &UnavailableFolder {
                    folder,
                    kind,
                    reason: "why",
                    remedy,
                },
                Some(7),
            )
        };
        let absent = unavailable(ProblemKind::Absent, Some("mount it"));
        assert_eq!(
            (absent.state, absent.finding.as_str()),
            (CheckState::Off, "ledger /mnt/ledger: why; mount it")
        );
        let forbidden = unavailable(ProblemKind::Forbidden, Some("let it search"));
        assert!(
            forbidden.state == CheckState::Attention
                && forbidden.remedy.unwrap().contains("user 7")
        );
        assert_eq!(
            unavailable(ProblemKind::Broken, None).remedy.as_deref(),
            Some(SEE_MOUNTS)
        );
    }
}
