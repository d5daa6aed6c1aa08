//! A constant rate of transactions over many programs: with more programs, the program cache evicts more.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::STANDARD as BASE64};
use serde_json::{Value, json};

use crate::{
    Error, Result,
    rpc::Rpc,
    transaction::{Keypair, PAYERS, memo_transaction, payers, program_address},
};

/// Transactions in one JSON-RPC request.
const BATCH: u32 = 20;
/// How popular programs are: the call rate of the k-th program is proportional to `k^-0.6`.
const ZIPF_EXPONENT: f64 = 0.6;
/// A blockhash is valid for 150 slots, about a minute.
const BLOCKHASH_AGE: Duration = Duration::from_secs(5);
/// Makes each transaction of this process unique, also between two loads on one cluster.
static COUNTER: AtomicU64 = AtomicU64::new(0);

/// Transactions of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calls {
    /// Transactions per second.
    pub rate: u32,
    /// Number of called programs, from the first one on.
    pub programs: u32,
    /// Number of accounts that pay in turn; the cluster must have funded them.
    pub payers: u32,
    /// Equal seeds call the same programs in the same order.
    pub seed: u64,
    /// The load ends after this many transactions.
    pub max_transactions: u64,
}

impl Default for Calls {
    fn default() -> Self {
        Self {
            rate: 300,
            programs: 640,
            payers: PAYERS,
            seed: 1,
            max_transactions: u64::MAX,
        }
    }
}

/// A running load. Ends when dropped.
#[derive(Debug)]
pub struct Load {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    sent: AtomicU64,
    failed: AtomicU64,
}

impl Load {
    /// Starts sending `rate` transactions per second to the RPC service of a leader with `programs` memo programs.
    ///
    /// # Errors
    /// As [`Load::with_calls`].
    pub fn start(rpc: SocketAddr, rate: u32, programs: u32) -> Result<Self> {
        Self::with_calls(
            rpc,
            Calls {
                rate,
                programs,
                ..Calls::default()
            },
        )
    }

    /// Starts sending these transactions to the RPC service of a leader.
    ///
    /// Batches have a fixed schedule. If the leader is slower, the load catches up by one batch at most.
    ///
    /// # Errors
    /// [`Error::Missing`] if rate, programs or payers are zero; other errors if the leader returns no blockhash.
    pub fn with_calls(rpc: SocketAddr, calls: Calls) -> Result<Self> {
        if calls.rate == 0 || calls.programs == 0 || calls.payers == 0 {
            return Err(Error::Missing(
                "a load needs a rate, programs and payers above zero".to_owned(),
            ));
        }
        let shared = Arc::new(Shared::default());
        let sender = Sender::new(Rpc::new(rpc), &calls)?;
        let interval = Duration::from_secs(1) * BATCH / calls.rate;
        let thread_shared = Arc::clone(&shared);
        let thread = std::thread::spawn(move || sender.run(&thread_shared, interval));
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Number of transactions for which the leader returned a signature. They may still not land.
    pub fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::Relaxed)
    }

    /// Number of transactions that the leader refused or did not receive.
    pub fn failed(&self) -> u64 {
        self.shared.failed.load(Ordering::Relaxed)
    }

    /// Whether [`Calls::max_transactions`] were sent.
    pub fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Stops after the current batch; returns [`Load::sent`].
    pub fn stop(mut self) -> u64 {
        self.end();
        self.sent()
    }

    fn end(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            eprintln!("the load's thread panicked");
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.end();
    }
}

struct Sender {
    rpc: Rpc,
    payers: Vec<Keypair>,
    popularity: Popularity,
    remaining: u64,
    blockhash: [u8; 32],
    blockhash_at: Instant,
}

impl Sender {
    fn new(rpc: Rpc, calls: &Calls) -> Result<Self> {
        let blockhash = rpc.latest_blockhash()?;
        let popularity = Popularity::seeded(calls.programs, calls.seed);
        let payers = payers(calls.payers);
        Ok(Self {
            rpc,
            payers,
            popularity,
            remaining: calls.max_transactions,
            blockhash,
            blockhash_at: Instant::now(),
        })
    }

    fn run(mut self, shared: &Shared, interval: Duration) {
        let mut due = Instant::now();
        while self.remaining > 0 && !shared.stop.load(Ordering::Relaxed) {
            let batch = u64::from(BATCH).min(self.remaining);
            self.remaining -= batch;
            let accepted = self.send_batch(batch).unwrap_or(0) as u64;
            shared.sent.fetch_add(accepted, Ordering::Relaxed);
            shared
                .failed
                .fetch_add(batch.saturating_sub(accepted), Ordering::Relaxed);
            due = (due + interval).max(Instant::now().checked_sub(interval).unwrap_or(due));
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
        }
    }

    fn send_batch(&mut self, batch: u64) -> Result<usize> {
        if self.blockhash_at.elapsed() > BLOCKHASH_AGE {
            self.blockhash = self.rpc.latest_blockhash()?;
            self.blockhash_at = Instant::now();
        }
        let params: Vec<Value> = (0..batch).map(|_| self.next_params()).collect();
        self.rpc.batch("sendTransaction", params)
    }

    fn next_params(&mut self) -> Value {
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let payer = &self.payers[(number % self.payers.len() as u64) as usize];
        let program = program_address(self.popularity.next_index());
        let bytes = memo_transaction(
            payer,
            program,
            &format!("faultline {number}"),
            self.blockhash,
        );
        json!([BASE64.encode(&bytes), { "encoding": "base64", "skipPreflight": true }])
    }
}

/// Program numbers by Zipf's law in a reproducible sequence.
#[derive(Debug, Clone)]
pub struct Popularity {
    /// Sum of the weights up to and including each program.
    cumulative: Vec<f64>,
    state: u64,
}

impl Popularity {
    /// For programs `0..programs`; the first one is the most popular.
    pub fn new(programs: u32) -> Self {
        Self::seeded(programs, 1)
    }

    /// Each seed gives another sequence.
    pub fn seeded(programs: u32, seed: u64) -> Self {
        let weights = (1..=programs).map(|rank| f64::from(rank).powf(-ZIPF_EXPONENT));
        let cumulative = weights
            .scan(0.0, |sum, weight| {
                *sum += weight;
                Some(*sum)
            })
            .collect();
        Self {
            cumulative,
            state: seed,
        }
    }

    pub fn next_index(&mut self) -> u32 {
        let total = self.cumulative.last().copied().unwrap_or(0.0);
        let at = self.next_fraction() * total;
        let index = self.cumulative.partition_point(|&sum| sum <= at);
        index.min(self.cumulative.len().saturating_sub(1)) as u32
    }

    /// A number in `0.0..1.0` by SplitMix64.
    fn next_fraction(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{eventually::eventually, sink::Sink};

    #[test]
    fn the_first_program_is_called_most_and_all_are_called() {
        let mut popularity = Popularity::new(640);
        let mut calls = vec![0_u32; 640];
        for _ in 0..200_000 {
            calls[popularity.next_index() as usize] += 1;
        }
        assert!(calls.iter().all(|&calls| calls > 0));
        // With exponent 0.6 rank 1 is called 16 ^ 0.6 = 5.3 times as often as rank 16.
        let ratio = f64::from(calls[0]) / f64::from(calls[15]);
        assert!((4.5..6.2).contains(&ratio), "{ratio}");
    }

    #[test]
    fn equal_seeds_call_the_same_programs_and_different_seeds_others() {
        let calls = |seed: u64| {
            let mut popularity = Popularity::seeded(640, seed);
            (0..100)
                .map(|_| popularity.next_index())
                .collect::<Vec<_>>()
        };
        assert_eq!(calls(7), calls(7));
        assert_ne!(calls(7), calls(8));
    }

    #[test]
    fn a_load_without_a_leader_fails_at_start_with_an_error() {
        let nobody = {
            let sink = Sink::start().unwrap();
            sink.address()
        };
        assert!(matches!(
            Load::start(nobody, 300, 10),
            Err(Error::Connection { .. })
        ));
        assert!(matches!(Load::start(nobody, 0, 10), Err(Error::Missing(_))));
    }

    #[test]
    fn unaccepted_transactions_count_as_failed() {
        // The sink answers 204 without a body, which is no JSON-RPC answer.
        let sink = Sink::start().unwrap();
        let rpc = Rpc::new(sink.address());
        let sender = Sender {
            rpc,
            payers: payers(PAYERS),
            popularity: Popularity::new(3),
            remaining: u64::MAX,
            blockhash: [1; 32],
            blockhash_at: Instant::now(),
        };
        let shared = Arc::new(Shared::default());
        let thread_shared = Arc::clone(&shared);
        let thread =
            std::thread::spawn(move || sender.run(&thread_shared, Duration::from_millis(10)));
        let load = Load {
            shared,
            thread: Some(thread),
        };
        eventually(Duration::from_secs(30), "two batches have failed", || {
            (load.failed() >= 40).then_some(())
        });
        assert_eq!(load.stop(), 0);
        let request: Value = serde_json::from_slice(&sink.bodies()[0]).unwrap();
        assert_eq!(request.as_array().map(Vec::len), Some(20));
        assert_eq!(request[0]["method"], "sendTransaction");
        assert_eq!(request[0]["params"][1]["skipPreflight"], true);
        assert_ne!(
            request[0]["params"][0], request[1]["params"][0],
            "each transaction is unique"
        );
    }
}
