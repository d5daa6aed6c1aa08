//! The datapoints, in the format of the release that belongs to the consensus.

use super::chain::{Cache, Cost, SlotContents};
use faultline_mock_validator::Protocol;

/// A slot that was replayed.
#[derive(Debug, Clone, Copy)]
pub struct Replayed {
    pub slot: u64,
    pub contents: SlotContents,
    pub cache: Cache,
    pub cost: Cost,
}

/// Lines of points for the next push.
#[derive(Debug)]
pub struct PushLines {
    consensus: Protocol,
    text: String,
    count: usize,
}

impl PushLines {
    pub fn new(consensus: Protocol) -> Self {
        Self {
            consensus,
            text: String::new(),
            count: 0,
        }
    }

    fn add(&mut self, name: &str, identity: &str, fields: &str, unix_ns: u128) {
        self.text
            .push_str(&format!("{name},host_id={identity} {fields} {unix_ns}\n"));
        self.count += 1;
    }

    /// Adds the point of a complete start.
    pub fn add_start(&mut self, identity: &str, elapsed_ms: u64, unix_ns: u128) {
        let fields = format!(
            "id=\"{identity}\",version=\"{} (src:00000000; feat:3271415109, client:Agave)\",cluster_type=3i,\
             elapsed_ms={elapsed_ms}i,waited_for_supermajority=false,shred_version=1i",
            self.consensus.agave_version()
        );
        self.add("validator-new", identity, &fields, unix_ns);
    }

    /// Adds the points of a slot that was received completely.
    pub fn add_received_slot(&mut self, identity: &str, slot: u64, unix_ns: u128) {
        let shreds = format!(
            "slot={slot}i,total_time_ms=300i,last_index=38i,num_repaired=0i,num_recovered=0i"
        );
        self.add("shred_insert_is_full", identity, &shreds, unix_ns);
        if self.consensus == Protocol::Tower {
            let fields = format!("slot={slot}i");
            self.add("optimistic_slot", identity, &fields, unix_ns);
        }
    }

    /// Adds the points of a replayed slot.
    pub fn add_replayed_slot(&mut self, identity: &str, replayed: &Replayed, unix_ns: u128) {
        let Replayed {
            slot,
            contents,
            cache,
            ..
        } = *replayed;
        let SlotContents { transactions, .. } = contents;
        self.add(
            "bank_frozen",
            identity,
            &format!("slot={slot}i,hash=\"11111111111111111111111111111111\""),
            unix_ns,
        );
        self.add(
            "replay-slot-stats",
            identity,
            &replay_fields(replayed),
            unix_ns,
        );
        let fields = format!(
            "slot={slot}i,hits={}i,misses={}i,evictions={}i,reloads={}i,insertions={}i,lost_insertions=0i,\
             replace_entry=0i,one_hit_wonders=0i,prunes_orphan=0i,prunes_environment=0i,empty_entries=0i,water_level={}i",
            12 * transactions,
            cache.misses,
            cache.evictions,
            cache.reloads,
            cache.insertions,
            cache.water_level
        );
        self.add("loaded-programs-cache-stats", identity, &fields, unix_ns);
        let votes = match self.consensus {
            Protocol::Tower => "vote_cost=0i,",
            Protocol::Alpenglow => "",
        };
        let fields = format!(
            "bank_slot={slot}i,block_cost={}i,{votes}transaction_count={transactions}i,number_of_accounts=3i",
            1500 * transactions
        );
        self.add("cost_tracker_stats", identity, &fields, unix_ns);
        let root = slot.saturating_sub(self.consensus.root_depth());
        let rooted = super::chain::contents(root).transactions;
        let fields = format!(
            "elapsed_ms=0i,slot={root}i,total_banks=33i,tx_count={rooted}i,dropped_banks_len=0i"
        );
        self.add("bank-forks_set_root", identity, &fields, unix_ns);
    }

    /// Takes the lines as the body of a push. The metrics agent's own point ends it.
    pub fn take_body(&mut self, identity: &str, unix_ns: u128) -> String {
        if self.consensus == Protocol::Alpenglow {
            let fields = "ignored=0i,leader_window_replaced=0i,set_root_count=1i,timeout_set=0i";
            self.add("event_handler_stats", identity, fields, unix_ns);
        }
        let count = self.count + 1;
        let fields = format!(
            "points_written={count}i,num_points={count}i,points_lost=0i,points_buffered=0i,secs_since_last_write=0i"
        );
        self.add("metrics", identity, &fields, unix_ns);
        self.count = 0;
        std::mem::take(&mut self.text)
    }
}

fn replay_fields(replayed: &Replayed) -> String {
    let Replayed {
        slot,
        contents,
        cost,
        ..
    } = *replayed;
    let SlotContents {
        transactions,
        entries,
        shreds,
    } = contents;
    let (elf, verify) = (cost.loading * 3 / 10, cost.loading / 20);
    format!(
        "slot={slot}i,confirmation_without_replay_us=1000i,task_submission_us=200i,replay_total_elapsed={}i,\
         bank_complete_time_us=700i,total_transactions={transactions}i,total_entries={entries}i,total_shreds={shreds}i,\
         filter_executable_us=10i,program_cache_us={}i,load_us=50i,execute_us={}i,store_us=20i,\
         execute_details_create_executor_register_syscalls_us=0i,execute_details_create_executor_load_elf_us={elf}i,\
         execute_details_create_executor_verify_code_us={verify}i,execute_details_create_executor_jit_compile_us={}i",
        cost.total,
        cost.cache,
        cost.execute,
        cost.loading - elf - verify
    )
}
