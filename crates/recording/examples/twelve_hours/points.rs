//! The points that the synthetic validator pushes for each slot.

use super::{PROGRAMS, SyntheticRun};
use faultline_metrics::Stamp;
use faultline_recording::{
    CostTrackerPoint, Point, ProgramCachePoint, ReplaySlotPoint, SetRootPoint,
};
use std::time::Duration;

impl SyntheticRun {
    /// Adds the four points of each slot: five slots every two seconds.
    pub fn add_slots(&mut self, now: Stamp) {
        let slot_count = if self.second.is_multiple_of(2) { 3 } else { 2 };
        for i in 0..slot_count {
            let received = now.unix;
            let late = Duration::from_millis(100 + 400 * i).as_nanos() as i64
                + (self.random.unit() * 5e7) as i64;
            let time_unix_ns = received.as_nanos() as i64 - 1_000_000_000 + late;
            let slot = self.slot;
            self.slot += 1;
            self.add_slot_points(slot, time_unix_ns, received);
        }
    }

    fn add_slot_points(&mut self, slot: u64, time_unix_ns: i64, received: Duration) {
        let random = &mut self.random;
        let missing = ((PROGRAMS - self.arm.cache) / PROGRAMS).max(0.0);
        let misses = random.count(0.02 + 9.0 * missing);
        let evictions = random.count(0.002 + 6.0 * missing);
        let transactions = random.count(1480.0);
        self.unpushed.push(Point::ProgramCache(ProgramCachePoint {
            time_unix_ns,
            received,
            slot: Some(slot - 1),
            hits: Some(random.count(3600.0)),
            misses: Some(misses),
            evictions: Some(evictions),
            reloads: Some(evictions.min(misses)),
            insertions: Some(random.count(0.05)),
            lost_insertions: Some(0),
            replacements: Some(0),
            one_hit_wonders: Some(random.count(0.1 * missing)),
            prunes_stale: None,
            prunes_orphan: Some(random.count(0.01)),
            prunes_environment: Some(0),
            empty_entries: Some(0),
            water_level: Some(if evictions > 0 {
                (self.arm.cache * 0.9) as u64 + evictions
            } else {
                0
            }),
        }));
        let replay = self.replay_point(slot, misses, transactions);
        self.unpushed.push(Point::ReplaySlot(ReplaySlotPoint {
            time_unix_ns: time_unix_ns + 1_000_000,
            received,
            ..replay
        }));
        let random = &mut self.random;
        self.unpushed.push(Point::SetRoot(SetRootPoint {
            time_unix_ns: time_unix_ns + 2_000_000,
            received,
            slot: Some(slot - 32),
            tx_count: Some(transactions),
            elapsed_ms: Some(random.count(4.0)),
            total_banks: Some(random.count(33.0)),
            dropped_banks: Some(1),
        }));
        self.unpushed.push(Point::CostTracker(CostTrackerPoint {
            time_unix_ns: time_unix_ns + 3_000_000,
            received,
            bank_slot: Some(slot),
            transaction_count: Some(transactions),
            block_cost: Some(random.count(31_000_000.0)),
            vote_cost: Some(random.count(2_300_000.0)),
            is_leader: Some(false),
        }));
    }

    fn replay_point(&mut self, slot: u64, misses: u64, transactions: u64) -> ReplaySlotPoint {
        let conditions = self.conditions();
        let random = &mut self.random;
        let slowdown = conditions.memory_scarcity.max(1.0) * conditions.load.max(0.3);
        let load_us = Some(random.count(61_000.0 * slowdown));
        let execute_us = Some(random.count(180_000.0));
        let program_cache_us = Some(random.count(3200.0 + 1900.0 * misses as f64));
        ReplaySlotPoint {
            slot: Some(slot),
            total_transactions: Some(transactions),
            total_entries: Some(random.count(330.0)),
            total_shreds: Some(random.count(900.0)),
            replay_total_elapsed_us: Some(
                random.count(260_000.0 + 40_000.0 * slowdown + 300.0 * misses as f64),
            ),
            bank_complete_us: Some(random.count(900.0)),
            confirmation_without_replay_us: Some(random.count(20_000.0)),
            task_submission_us: Some(random.count(3000.0)),
            confirmation_us: None,
            program_cache_us,
            filter_executable_us: Some(random.count(900.0)),
            load_us,
            execute_us,
            store_us: Some(random.count(21_000.0)),
            register_syscalls_us: Some(random.count(2.0 * misses as f64)),
            load_elf_us: Some(random.count(90.0 * misses as f64)),
            verify_code_us: Some(random.count(150.0 * misses as f64)),
            jit_compile_us: Some(random.count(1500.0 * misses as f64)),
            ..ReplaySlotPoint::default()
        }
    }
}
