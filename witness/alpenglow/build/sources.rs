//! What is taken from which source file.

/// What to take.
pub enum Part {
    /// The call of this macro whose text contains the second string.
    Call(&'static str, &'static str),
    /// The item that begins with this text, with its `derive` attributes.
    Item(&'static str),
    /// All but the documentation of the module.
    File,
}

pub struct Source {
    /// The name of the output file. Parts with one name are joined.
    pub name: &'static str,
    pub package: &'static str,
    pub file: &'static str,
    pub part: Part,
    /// Each first text must be there, and becomes the second.
    pub replace: &'static [(&'static str, &'static str)],
}

/// A package and a file of it.
type Location = (&'static str, &'static str);

const ACCOUNTS: Location = ("solana-accounts-db", "src/accounts_db.rs");
const ADMIN: Location = ("agave-validator", "src/admin_rpc_service.rs");
const BANK: Location = ("solana-runtime", "src/bank.rs");
const CACHE: Location = ("solana-runtime", "src/bank/metrics.rs");
const COST: Location = ("solana-core", "src/cost_update_service.rs");
const EVENTS: Location = ("agave-votor", "src/event_handler.rs");
const EVENT_STATS: Location = ("agave-votor", "src/event_handler/stats.rs");
const HANDOVER: Location = ("solana-core", "src/block_creation_loop/stats.rs");
const INFLATION: Location = (
    "solana-runtime",
    "src/block_component_processor/vote_reward/epoch_inflation_account_state.rs",
);
const OPTIMISTIC: Location = ("solana-core", "src/optimistic_confirmation_verifier.rs");
const POOL: Location = ("agave-votor", "src/consensus_pool/stats.rs");
const POOL_SERVICE: Location = ("agave-votor", "src/consensus_pool_service/stats.rs");
const PROCESSOR: Location = ("solana-ledger", "src/blockstore_processor.rs");
const SWITCHES: Location = ("solana-ledger", "src/blockstore_metrics.rs");
const REPLAY: Location = ("solana-core", "src/replay_stage.rs");
const REWARD: Location = (
    "solana-runtime",
    "src/block_component_processor/vote_reward.rs",
);

const fn take(name: &'static str, location: Location, part: Part) -> Source {
    Source {
        name,
        package: location.0,
        file: location.1,
        part,
        replace: &[],
    }
}

const fn point(name: &'static str, location: Location) -> Source {
    take(name, location, Part::Call("datapoint_info!", name))
}

const fn call(
    name: &'static str,
    location: Location,
    call: &'static str,
    text: &'static str,
) -> Source {
    take(name, location, Part::Call(call, text))
}

const fn item(name: &'static str, location: Location, begins: &'static str) -> Source {
    take(name, location, Part::Item(begins))
}

/// Statistics that read the clock and submit points.
const fn statistics(name: &'static str, location: Location) -> Source {
    let replace = &[
        ("time::{Duration, Instant}", "time::Duration"),
        (
            "solana_metrics::datapoint_info",
            "crate::{clock::Instant, datapoint_info}",
        ),
    ];
    take(name, location, Part::File).replacing(replace)
}

impl Source {
    const fn replacing(self, replace: &'static [(&'static str, &'static str)]) -> Self {
        Self { replace, ..self }
    }
}

/// The receiver of a method becomes a variable. A macro's last semicolon ends no expression.
const TIMING: &[(&str, &str)] = &[("self.", "timing."), (");\n        }", ")\n        }")];

pub const SOURCES: [Source; 25] = [
    point("bank_frozen", REPLAY),
    point("migration-started", REPLAY),
    point("migration-complete", REPLAY),
    point("optimistic_slot", OPTIMISTIC),
    point("loaded-programs-cache-stats", CACHE),
    point("validator-set_identity", ADMIN)
        .replacing(&[("solana_version::version!()", "version()")]),
    point("blockstore_switch_bank", SWITCHES).replacing(&[("self.", "metrics.")]),
    point("accounts_db_store_timings", ACCOUNTS).replacing(&[("self.", "accounts.")]),
    call("replay-slot-stats", PROCESSOR, "lazy!", "replay-slot-stats").replacing(TIMING),
    item(
        "cost_tracker_stats",
        COST,
        "pub fn report_cost_tracker_stats(",
    ),
    item("slot-metrics", HANDOVER, "pub(crate) struct SlotMetrics"),
    item("slot-metrics", HANDOVER, "impl SlotMetrics"),
    statistics("event_handler", EVENT_STATS),
    statistics("consensus_pool", POOL),
    statistics("consensus_pool_service", POOL_SERVICE),
    call(
        "purging",
        REPLAY,
        "info!",
        "Alpenglow migration: Purging shreds",
    ),
    call("event_loop", EVENTS, "info!", "Event loop starting genesis"),
    call(
        "vat_failing",
        REPLAY,
        "warn!",
        "VAT Health Check: Currently",
    ),
    call("vat_passing", REPLAY, "info!", "VAT Health Check: Passing"),
    item("rewards", REWARD, "fn calculate_reward(\n    epoch_state"),
    item("rewards", REWARD, "fn ensure_marker("),
    item(
        "rewards",
        REWARD,
        "fn increment_credits(\n    epoch_credits",
    ),
    item(
        "inflation",
        INFLATION,
        "pub(super) struct EpochInflationState ",
    ),
    item(
        "admin",
        ADMIN,
        "pub struct AdminRpcValidatorAdmissionTicketStatus",
    ),
    item("admin", BANK, "pub enum VATHealthError"),
];
