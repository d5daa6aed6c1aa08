//! Faults in a recorded day. Each has the changes of series, and the alerts that must fire.

use Change::{Absent, Adds, Is, Line, Once, Share};

/// How a fault changes a series.
#[derive(Debug, Clone, Copy)]
pub enum Change {
    /// The series has this value.
    Is(f64),
    /// The series begins with the first value and grows by the second one each hour.
    Line(f64, f64),
    /// Like `Line`, in shares of the file system's size.
    Share(f64, f64),
    /// The counter grows by this much more each second. The sum remains after the fault.
    Adds(f64),
    /// The counter grows by this much at the begin of the fault.
    Once(f64),
    /// The series is absent.
    Absent,
}

impl Change {
    /// The changed value, `since` seconds after the begin of a fault that lasts `lasts` seconds.
    pub fn change(self, value: f64, since: f64, lasts: f64, size: f64) -> Option<f64> {
        let hours = since / 3_600.0;
        match self {
            Adds(rate) => Some(value + rate * since.min(lasts)),
            Once(more) => Some(value + more),
            _ if since >= lasts => Some(value),
            Is(other) => Some(other),
            Line(first, more) => Some(first + more * hours),
            Share(first, more) => Some((first + more * hours) * size),
            Absent => None,
        }
    }
}

/// One fault.
#[derive(Debug)]
pub struct Fault {
    /// Name of the fault. The node with the fault has this name.
    pub what: &'static str,
    /// Hour of the day in which the fault begins.
    pub at: f64,
    /// Length of the fault in hours.
    pub hours: f64,
    /// Hours for which the alerts may still fire after the fault, because of their windows.
    pub after: f64,
    /// Name and severity of the alerts that must fire.
    pub alerts: &'static [(&'static str, &'static str)],
    /// Name of a series, a part of its labels, and the change.
    pub changes: &'static [(&'static str, &'static str, Change)],
}

impl Fault {
    pub fn seconds(&self) -> f64 {
        self.hours * 3_600.0
    }

    /// True if the fault is present this many milliseconds after its begin.
    pub fn lasts(&self, since: i64) -> bool {
        (0.0..self.seconds()).contains(&(since as f64 / 1e3))
    }

    /// The change of this series.
    pub fn of(&self, name: &str, labels: &str) -> Option<Change> {
        let found = self
            .changes
            .iter()
            .find(|(of, part, _)| *of == name && labels.contains(part));
        found.map(|(_, _, change)| *change)
    }

    /// The same fault without an end.
    pub fn without_an_end(&self) -> Self {
        Self {
            hours: f64::INFINITY,
            ..*self
        }
    }
}

/// Faults about resources of a node, about lost income, and about an old version.
pub const MAIN: &[Fault] = &[
    Fault {
        what: "skips_leader_slots",
        at: 0.5,
        hours: 1.0,
        after: 3.1,
        alerts: &[("AgaveSkippedSlots", "ticket")],
        changes: &[
            ("agave_leader_slots", "state=\"skipped\"", Adds(0.1)),
            ("agave_cluster_leader_slots", "state=\"skipped\"", Adds(0.1)),
        ],
    },
    Fault {
        what: "drops_datagrams",
        at: 2.0,
        hours: 0.25,
        after: 0.1,
        alerts: &[("AgaveUdpDrops", "ticket")],
        changes: &[("agave_udp_drops_total", "", Adds(200.0))],
    },
    Fault {
        what: "disk_is_slow",
        at: 2.5,
        hours: 0.5,
        after: 0.1,
        alerts: &[("AgaveDiskSlow", "ticket")],
        changes: &[
            ("agave_disk_io_time_seconds_total", "", Adds(0.9)),
            (
                "agave_disk_operation_seconds_total",
                "direction=\"write\"",
                Adds(200.0),
            ),
        ],
    },
    Fault {
        what: "votes_land_late",
        at: 3.5,
        hours: 0.25,
        after: 0.1,
        alerts: &[("AgaveVotesNotLanding", "page")],
        changes: &[("agave_vote_distance_slots", "kind=\"last_vote\"", Is(60.0))],
    },
    // Alertmanager sends no notification of the second alert while the first one fires.
    Fault {
        what: "votes_stop",
        at: 4.0,
        hours: 0.25,
        after: 0.1,
        alerts: &[
            ("AgaveDelinquent", "page"),
            ("AgaveVotesNotLanding", "page"),
        ],
        changes: &[
            (
                "agave_vote_distance_slots",
                "kind=\"last_vote\"",
                Line(140.0, 9_000.0),
            ),
            ("agave_delinquent", "", Is(1.0)),
        ],
    },
    Fault {
        what: "restarts_before_its_slot",
        at: 4.75,
        hours: 0.06,
        after: 0.02,
        alerts: &[("AgaveRestartInLeaderSlot", "page")],
        changes: &[
            ("agave_phase", "phase=\"at_tip\"", Is(0.0)),
            ("agave_phase", "phase=\"catching_up\"", Is(1.0)),
            ("agave_next_leader_slot_seconds", "", Absent),
        ],
    },
    Fault {
        what: "disk_fills_in_hours",
        at: 5.5,
        hours: 1.25,
        after: 0.1,
        alerts: &[("AgaveDiskFullAhead", "page")],
        changes: &[
            ("agave_filesystem_avail_bytes", "", Share(0.24, -0.08)),
            (
                "agave_filesystem_until_full_seconds",
                "",
                Line(10_800.0, -3_600.0),
            ),
        ],
    },
    Fault {
        what: "disk_fills_in_days",
        at: 8.0,
        hours: 3.25,
        after: 0.1,
        alerts: &[("AgaveDiskFullAhead", "ticket")],
        changes: &[
            ("agave_filesystem_avail_bytes", "", Share(0.39, -0.01)),
            (
                "agave_filesystem_until_full_seconds",
                "",
                Line(140_400.0, -3_600.0),
            ),
        ],
    },
    Fault {
        what: "disk_is_nearly_full",
        at: 12.0,
        hours: 0.25,
        after: 0.1,
        alerts: &[("AgaveDiskNearlyFull", "page")],
        changes: &[("agave_filesystem_avail_bytes", "", Share(0.03, 0.0))],
    },
    Fault {
        what: "version_is_old",
        at: 13.0,
        hours: 1.75,
        after: 0.6,
        alerts: &[("AgaveVersionBehind", "ticket")],
        changes: &[
            (
                "agave_cluster_version_stake_ratio",
                "version=\"newer\"",
                Is(0.8),
            ),
            (
                "agave_cluster_version_stake_ratio",
                "version=\"same\"",
                Is(0.2),
            ),
        ],
    },
    // The value is the real limit of the recording machine.
    Fault {
        what: "allows_few_mappings",
        at: 15.5,
        hours: 0.25,
        after: 0.1,
        alerts: &[("AgaveMaxMapCount", "ticket")],
        changes: &[("agave_host_max_maps", "", Is(65_530.0))],
    },
    Fault {
        what: "balance_falls",
        at: 16.0,
        hours: 3.0,
        // After a payment, the rate over six hours is positive again only hours later.
        after: 3.0,
        alerts: &[("AgaveBalanceLow", "ticket")],
        changes: &[(
            "agave_balance_sol",
            "account=\"identity\"",
            Line(100.0, -20.0),
        )],
    },
    // At the end of the day: the value falls from a high one, so the rate over six hours would fire
    // an alert for hours.
    Fault {
        what: "balance_is_gone",
        at: 23.6,
        hours: 0.4,
        after: 0.0,
        alerts: &[("AgaveBalanceLow", "page")],
        changes: &[("agave_balance_sol", "account=\"identity\"", Is(0.05))],
    },
];

/// Faults of all other series that the recording has.
pub const FURTHER: &[Fault] = &[
    Fault {
        what: "oom_killed",
        at: 0.75,
        hours: 0.1,
        after: 0.3,
        alerts: &[("AgaveOomHappened", "page")],
        changes: &[("agave_process_ends_total", "reason=\"oom_kill\"", Once(1.0))],
    },
    Fault {
        what: "reads_pages_from_disk",
        at: 1.25,
        hours: 0.5,
        after: 0.15,
        alerts: &[("AgaveMajorFaultStorm", "ticket")],
        changes: &[(
            "agave_process_page_faults_total",
            "type=\"major\"",
            Adds(5_000.0),
        )],
    },
    Fault {
        what: "stalls_on_memory",
        at: 2.0,
        hours: 0.5,
        after: 0.15,
        alerts: &[("AgaveMemoryPressure", "ticket")],
        changes: &[(
            "agave_host_pressure_stalled_seconds_total",
            "kind=\"some\",resource=\"memory\"",
            Adds(0.3),
        )],
    },
    Fault {
        what: "swaps",
        at: 2.75,
        hours: 0.75,
        after: 0.2,
        alerts: &[("AgaveSwapInUse", "ticket")],
        changes: &[("agave_process_swap_bytes", "", Is(1e9))],
    },
    Fault {
        what: "open_files_near_limit",
        at: 4.0,
        hours: 0.25,
        after: 0.1,
        alerts: &[("AgaveOpenFilesNearLimit", "page")],
        changes: &[
            ("agave_process_open_fds", "", Is(950.0)),
            ("agave_process_max_fds", "", Is(1_000.0)),
        ],
    },
    Fault {
        what: "recompiles_programs",
        at: 4.5,
        hours: 0.75,
        after: 0.1,
        alerts: &[("AgaveCacheThrash", "ticket")],
        changes: &[("agave_program_cache_reloads_total", "", Adds(30.0))],
    },
    Fault {
        what: "has_no_inodes",
        at: 5.5,
        hours: 0.25,
        after: 0.1,
        alerts: &[("AgaveDiskInodesLow", "page")],
        changes: &[("agave_filesystem_inodes_free", "", Is(10.0))],
    },
    Fault {
        what: "disk_is_read_only",
        at: 7.25,
        hours: 0.1,
        after: 0.1,
        alerts: &[("AgaveFilesystemReadOnly", "page")],
        changes: &[("agave_filesystem_readonly", "", Is(1.0))],
    },
    Fault {
        what: "pushes_nothing",
        at: 7.75,
        hours: 0.25,
        after: 0.1,
        alerts: &[("FaultlinePushStopped", "ticket")],
        changes: &[("faultline_source_up", "source=\"datapoints\"", Is(0.0))],
    },
    Fault {
        what: "filters_its_pushes",
        at: 8.25,
        hours: 0.4,
        after: 0.1,
        alerts: &[("FaultlinePushesFiltered", "ticket")],
        changes: &[("faultline_pushes_filtered", "", Is(1.0))],
    },
    Fault {
        what: "loses_points",
        at: 9.0,
        hours: 0.1,
        after: 0.3,
        alerts: &[("FaultlinePointsLost", "info")],
        changes: &[("faultline_points_lost_total", "", Adds(1.0))],
    },
    Fault {
        what: "votes_source_fails",
        at: 9.75,
        hours: 0.5,
        after: 0.1,
        alerts: &[("FaultlineSourceDown", "ticket")],
        changes: &[("faultline_source_up", "source=\"votes\"", Is(0.0))],
    },
    Fault {
        what: "daemon_takes_too_much_cpu",
        at: 10.5,
        hours: 0.75,
        after: 0.3,
        alerts: &[("FaultlineOverBudget", "ticket")],
        changes: &[("process_cpu_seconds_total", "", Adds(0.05))],
    },
    // Of 8 GiB.
    Fault {
        what: "memory_is_nearly_gone",
        at: 11.75,
        hours: 0.25,
        after: 0.1,
        alerts: &[("AgaveOomAhead", "page")],
        changes: &[("agave_memory_level_unreclaimable_bytes", "", Is(8.3e9))],
    },
    Fault {
        what: "slot_stands_still",
        at: 12.5,
        hours: 0.1,
        after: 0.05,
        alerts: &[("AgaveStalled", "page")],
        changes: &[("agave_stalled", "", Is(1.0))],
    },
    Fault {
        what: "falls_behind",
        at: 13.25,
        hours: 0.25,
        after: 0.1,
        alerts: &[("AgaveFallingBehind", "page")],
        changes: &[
            ("agave_phase", "phase=\"at_tip\"", Is(0.0)),
            ("agave_phase", "phase=\"behind\"", Is(1.0)),
            ("agave_slots_behind", "", Is(300.0)),
        ],
    },
    Fault {
        what: "process_is_silent",
        at: 14.0,
        hours: 0.1,
        after: 0.05,
        alerts: &[("AgaveDown", "page")],
        changes: &[("agave_phase", "phase=\"at_tip\"", Is(0.0))],
    },
    Fault {
        what: "start_does_not_end",
        at: 14.5,
        hours: 0.75,
        after: 0.1,
        alerts: &[
            ("AgaveStuckInStartPhase", "page"),
            ("AgaveRestartInLeaderSlot", "page"),
        ],
        changes: &[
            ("agave_phase", "phase=\"at_tip\"", Is(0.0)),
            ("agave_phase", "phase=\"starting\"", Is(1.0)),
            ("agave_next_leader_slot_seconds", "", Absent),
        ],
    },
    Fault {
        what: "restarts_again_and_again",
        at: 15.75,
        hours: 0.1,
        after: 1.6,
        alerts: &[("AgaveRestartLoop", "page")],
        changes: &[("agave_process_restarts_total", "reason=\"exit\"", Once(4.0))],
    },
    Fault {
        what: "daemon_does_not_answer",
        at: 18.0,
        hours: 0.25,
        after: 0.1,
        alerts: &[("FaultlineDown", "page")],
        changes: &[("up", "", Is(0.0))],
    },
];

pub fn all() -> impl Iterator<Item = &'static Fault> {
    MAIN.iter().chain(FURTHER)
}
