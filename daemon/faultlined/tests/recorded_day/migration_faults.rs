//! Faults in a day with a migration. Some are at an hour of the day, others in a short day around
//! the migration.

use crate::faults::{self, Change, Fault};
use Change::{Absent, Is, Line};

/// Faults of a day without a migration that depend on the consensus.
const OF_ANY_DAY: [&str; 5] = [
    // Before the migration.
    "votes_land_late",
    "votes_stop",
    // After the migration. The first one begins when alerts are not silent any more.
    "slot_stands_still",
    "falls_behind",
    "process_is_silent",
];

const OF_THIS_DAY: &[Fault] = &[
    Fault {
        what: "falls_behind_before_the_migration",
        at: 6.0,
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
        what: "validator_ends_in_the_migration",
        at: 12.02,
        hours: 0.06,
        after: 0.1,
        alerts: &[("AgaveDown", "page")],
        changes: &[
            ("agave_up", "", Is(0.0)),
            ("agave_phase", "", Absent),
            ("agave_consensus", "", Absent),
            ("agave_slots_behind", "", Absent),
        ],
    },
    Fault {
        what: "votes_are_in_no_certificate",
        at: 15.0,
        hours: 0.25,
        after: 0.1,
        alerts: &[("AgaveVotesNotLanding", "page")],
        changes: &[(
            "agave_certificate_distance_slots",
            "certificate=\"reward\"",
            Is(60.0),
        )],
    },
    Fault {
        what: "is_delinquent_with_alpenglow",
        at: 16.0,
        hours: 0.25,
        after: 0.1,
        alerts: &[
            ("AgaveDelinquent", "page"),
            ("AgaveVotesNotLanding", "page"),
        ],
        changes: &[
            (
                "agave_certificate_distance_slots",
                "certificate=\"reward\"",
                Line(140.0, 18_000.0),
            ),
            ("agave_delinquent", "", Is(1.0)),
        ],
    },
    Fault {
        what: "is_not_admitted",
        at: 18.0,
        hours: 0.5,
        after: 0.1,
        alerts: &[("AgaveNotAdmitted", "page")],
        changes: &[("agave_admitted", "in=\"epoch_after_next\"", Is(0.0))],
    },
];

/// In a day of four hours. Its migration begins after two hours.
pub const IN_THE_MIGRATION: &[Fault] = &[
    Fault {
        what: "daemon_ends_in_the_migration",
        at: 2.02,
        hours: 0.25,
        after: 0.2,
        alerts: &[("FaultlineDown", "page")],
        changes: &[("up", "", Is(0.0))],
    },
    // The cluster does not get enough votes.
    Fault {
        what: "migration_does_not_end",
        at: 2.05,
        hours: f64::INFINITY,
        after: 0.0,
        alerts: &[("AgaveMigrationStuck", "page")],
        changes: MIGRATING,
    },
    Fault {
        what: "hangs_in_the_migration",
        at: 2.05,
        hours: f64::INFINITY,
        after: 0.0,
        alerts: &[
            ("AgaveMigrationStuck", "page"),
            ("FaultlinePushStopped", "ticket"),
        ],
        changes: HANGS,
    },
];

const MIGRATING: &[(&str, &str, Change)] = &[
    ("agave_consensus", "protocol=\"migrating\"", Is(1.0)),
    ("agave_consensus", "protocol=\"alpenglow\"", Is(0.0)),
    // The balance as before the migration, because later responses have another one.
    ("agave_balance_sol", "account=\"identity\"", Is(12.0)),
];

const HANGS: &[(&str, &str, Change)] = &[
    MIGRATING[0],
    MIGRATING[1],
    MIGRATING[2],
    ("agave_phase", "phase=\"at_tip\"", Is(0.0)),
    ("agave_stalled", "", Is(1.0)),
    ("agave_delinquent", "", Is(1.0)),
    ("faultline_source_up", "source=\"datapoints\"", Is(0.0)),
];

pub fn all() -> impl Iterator<Item = &'static Fault> {
    let of_any_day = faults::all().filter(|fault| OF_ANY_DAY.contains(&fault.what));
    of_any_day.chain(OF_THIS_DAY)
}
