//! Log lines of the migration. Those of `agave-votor-messages` are written by its own state machine.

use std::cell::RefCell;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use agave_votor_messages::certificate::{CertSignature, GenesisCert};
use agave_votor_messages::migration::MigrationStatus;
use log::{Level, Log, Metadata, Record};
use solana_pubkey::Pubkey;

use crate::answers;
use crate::clock;
use crate::cluster::{self, ACTIVATION_SLOT, EPOCH, GENESIS_SLOT, MIGRATION_SLOT, Phase};
use crate::points::{self, block};
use crate::release::admin::VATHealthError;
use crate::release::part;

thread_local! {
    static LINES: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Writes lines as `env_logger` does with nanoseconds, which `agave-logger` sets.
pub struct Journal;

impl Log for Journal {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= Level::Info
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let line = format!(
                "{:<5} {}] {}",
                record.level(),
                record.target(),
                record.args()
            );
            LINES.with_borrow_mut(|lines| {
                writeln!(lines, "[{} {line}", timestamp()).expect("a String takes all");
            });
        }
    }

    fn flush(&self) {}
}

/// All times are in October 2026.
fn timestamp() -> String {
    let since = clock::since_1970();
    let first_of_october = 1_790_812_800;
    let second = since.as_secs() - first_of_october;
    let (day, second) = (second / 86_400 + 1, second % 86_400);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let nanos = since.subsec_nanos();
    format!("2026-10-{day:02}T{hour:02}:{minute:02}:{second:02}.{nanos:09}Z")
}

/// `solana-metrics` logs each point that is submitted.
fn points_are_logged(points: &[solana_metrics::datapoint::DataPoint]) {
    for point in points {
        log::info!(target: "solana_metrics::metrics", "{point}");
    }
}

struct LocalContext {
    my_pubkey: Pubkey,
}

fn replay_stage() -> &'static str {
    "solana_core::replay_stage"
}

fn vat_health(phase: Phase, failure: Option<VATHealthError>) {
    const MAX_ALPENGLOW_VOTE_ACCOUNTS: usize = 2000;
    macro_rules! info { ($($text:tt)*) => { log::info!(target: replay_stage(), $($text)*) }; }
    macro_rules! warn { ($($text:tt)*) => { log::warn!(target: replay_stage(), $($text)*) }; }
    let epoch = phase.epoch();
    match failure {
        Some(vat_failure_reason) => part!("vat_failing"),
        None => part!("vat_passing"),
    }
}

fn certificate() -> Arc<GenesisCert> {
    let certificate = answers::genesis_certificate(Phase::NextEpoch).expect("after the migration");
    Arc::new(GenesisCert {
        block: certificate.block,
        signature: CertSignature {
            signature: certificate.signature.signature,
            bitmap: certificate.signature.bitmap,
        },
    })
}

/// The whole migration, as one node logs it.
pub fn of_the_migration() -> String {
    let my_pubkey = cluster::key("own");
    let status = MigrationStatus::default();
    status.set_pubkey(my_pubkey);
    clock::set(Phase::Tower.processed(), 0);
    status.log_phase();
    vat_health(Phase::Tower, None);
    clock::set(ACTIVATION_SLOT + 32, 150_000);
    assert_eq!(
        status.record_feature_activation(ACTIVATION_SLOT),
        MIGRATION_SLOT
    );
    points::migration_started();
    points_are_logged(&points::take());
    clock::set(ACTIVATION_SLOT + 200, 0);
    vat_health(
        Phase::Migrating,
        Some(VATHealthError::InsufficientFundsInVoteAccount(
            700_000_000,
            827_074_400,
        )),
    );
    clock::set(MIGRATION_SLOT + 100, 0);
    assert!(!status.should_report_commitment_or_root(MIGRATION_SLOT));
    assert!(status.should_report_commitment_or_root(GENESIS_SLOT));
    status.set_genesis_block(block(GENESIS_SLOT));
    clock::set(MIGRATION_SLOT + 140, 0);
    status.set_genesis_certificate(certificate());
    switch(&status, my_pubkey);
    clock::set(ACTIVATION_SLOT + cluster::SLOTS_IN_EPOCH + 2, 0);
    status.alpenglow_rooted_new_epoch(EPOCH + 1);
    vat_health(Phase::NextEpoch, None);
    LINES.take()
}

fn switch(status: &MigrationStatus, my_pubkey: Pubkey) {
    macro_rules! info { ($($text:tt)*) => { log::info!(target: replay_stage(), $($text)*) }; }
    let (start_slot, end_slot) = (MIGRATION_SLOT, MIGRATION_SLOT + 141);
    part!("purging");
    thread::scope(|threads| {
        // The service whose end the switch awaits.
        threads.spawn(|| {
            while !status.shutdown_poh.load(Ordering::Acquire) {
                thread::yield_now();
            }
            status.poh_service_is_shutting_down();
        });
        status.enable_alpenglow(&AtomicBool::new(false));
    });
    points::migration_complete(block(GENESIS_SLOT));
    points_are_logged(&points::take());
    event_loop(my_pubkey);
}

fn event_loop(my_pubkey: Pubkey) {
    macro_rules! info { ($($text:tt)*) => { log::info!(target: "agave_votor::event_handler", $($text)*) }; }
    let local_context = LocalContext { my_pubkey };
    let genesis_block = block(GENESIS_SLOT);
    let root_slot = GENESIS_SLOT;
    part!("event_loop");
}

/// What a node logs that starts after the migration: the only sign in its log for an epoch.
pub fn of_a_restart() -> String {
    let epochs = solana_epoch_schedule::EpochSchedule::custom(
        cluster::SLOTS_IN_EPOCH,
        cluster::SLOTS_IN_EPOCH,
        false,
    );
    clock::set(Phase::NextEpoch.processed(), 0);
    let certificate = Arc::unwrap_or_clone(certificate());
    let epoch = Phase::NextEpoch.epoch();
    let status =
        MigrationStatus::initialize(epoch, Some(ACTIVATION_SLOT), Some(certificate), &epochs);
    status.set_pubkey(cluster::key("own"));
    status.log_phase();
    LINES.take()
}
