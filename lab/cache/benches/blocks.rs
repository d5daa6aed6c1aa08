//! What it costs to read a block of the size of mainnet's from a node on the same machine, in CPU: received and nothing else,
//! searched for its accounts, parsed, and parsed as `cache fetch` does. 0.1 % of a core is 0.4 ms for each of 2.5 blocks a
//! second ([decision 24](../../../docs/decisions/0024-no-prediction-in-the-daemon.md)).
//!
//! Usage: `cargo bench -p faultline-cache --bench blocks`. With `-- FILE` a node's answer to `getBlock` with the details
//! "accounts" is measured instead. The one that is made has no token balances, which real ones have: it is rather too small.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a benchmark stops at what it did not expect"
)]

use memchr::memmem;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, de::IgnoredAny};
use serde_json::Value;
use std::{
    collections::HashMap,
    fmt::Write as _,
    hash::{BuildHasherDefault, Hasher},
    hint::black_box,
    io::{Read, Write as _},
    net::{TcpListener, TcpStream},
};

/// Transactions that are no votes, and the accounts of each.
const TRANSACTIONS: u64 = 1_500;
const ACCOUNTS: u64 = 25;
const VOTES: u64 = 1_000;
/// Accounts that a block draws from.
const POOL: usize = 30_000;
const ROUNDS: usize = 41;
/// Milliseconds that 0.1 % of a core has for a block.
const BUDGET: f64 = 0.4;

/// Which read-only accounts are programs.
type Known = HashMap<String, bool, BuildHasherDefault<Tail>>;

fn main() {
    let given = std::env::args()
        .skip(1)
        .find(|argument| !argument.starts_with('-'));
    let body = given.map_or_else(made, |path| {
        std::fs::read(path).expect("a file with a block")
    });
    let mut known = Known::default();
    keys(&body, |key| {
        known.insert(String::from_utf8_lossy(key).into_owned(), key[0] & 1 == 0);
    });
    let count = memmem::find_iter(&body, b"\"pubkey\":").count();
    println!(
        "a block of {:.2} MiB with {count} accounts; {} to look up",
        body.len() as f64 / 1048576.0,
        known.len()
    );
    let received = received(&body);
    println!(
        "received over loopback, not looked at: {received:.2} ms ({:.1} x budget)",
        received / BUDGET
    );
    let and = |what: &str, parse: f64| {
        let both = received + parse;
        println!(
            "{what}: {parse:.2} ms, {both:.2} with receiving ({:.1} x budget)",
            both / BUDGET
        );
    };
    and(
        "searched for accounts alone, each looked up",
        median(|| searched(&body, &known)),
    );
    and(
        "parsed without values of its own, each looked up",
        median(|| borrowed(&body, &known)),
    );
    and(
        "parsed with values of its own, as fetch does",
        median(|| owned(&body)),
    );
}

/// Milliseconds of CPU of this thread.
fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

fn median(mut run: impl FnMut() -> usize) -> f64 {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = cpu();
            black_box(run());
            cpu() - start
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

/// Of the receiving thread only.
fn received(body: &[u8]) -> f64 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = [0];
            while stream.read_exact(&mut asked).is_ok() {
                stream.write_all(body).unwrap();
            }
        });
        let mut stream = TcpStream::connect(address).unwrap();
        let mut buffer = vec![0; 256 * 1024];
        median(|| {
            stream.write_all(&[1]).unwrap();
            let mut left = body.len();
            while left > 0 {
                left -= stream.read(&mut buffer).unwrap();
            }
            left
        })
    })
}

/// The text of each read-only account that does not sign: in which transaction and with what outcome is not asked.
fn keys<'a>(body: &'a [u8], mut each: impl FnMut(&'a [u8])) {
    const BEFORE: &[u8] = b"\"pubkey\":\"";
    for at in memmem::find_iter(body, BEFORE) {
        let from = &body[at + BEFORE.len()..];
        let Some(end) = from.iter().take(45).position(|byte| *byte == b'"') else {
            continue;
        };
        let Some(rest) = from[end..].strip_prefix(b"\",\"signer\":false,\"source\":\"") else {
            continue;
        };
        let rest = rest
            .strip_prefix(b"transaction")
            .or_else(|| rest.strip_prefix(b"lookupTable"));
        if rest.is_some_and(|rest| rest.starts_with(b"\",\"writable\":false")) {
            each(&from[..end]);
        }
    }
}

fn searched(body: &[u8], known: &Known) -> usize {
    let mut programs = 0;
    keys(body, |key| {
        let program = std::str::from_utf8(key).ok().and_then(|key| known.get(key));
        programs += usize::from(program == Some(&true));
    });
    programs
}

#[derive(Deserialize)]
struct Answer<T> {
    result: Block<T>,
}

#[derive(Deserialize)]
struct Block<T> {
    transactions: Vec<Transaction<T>>,
}

#[derive(Deserialize)]
struct Transaction<T> {
    meta: Meta,
    transaction: Accounts<T>,
}

#[derive(Deserialize)]
struct Meta {
    err: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Accounts<T> {
    account_keys: Vec<Key<T>>,
    #[serde(rename = "signatures")]
    _signatures: IgnoredAny,
}

#[derive(Deserialize)]
struct Key<T> {
    pubkey: T,
    signer: bool,
    writable: bool,
}

fn borrowed(body: &[u8], known: &Known) -> usize {
    let answer: Answer<&str> = serde_json::from_slice(body).expect("a block");
    let executed = answer
        .result
        .transactions
        .iter()
        .filter(|transaction| transaction.meta.err.is_none());
    let keys = executed.flat_map(|transaction| &transaction.transaction.account_keys);
    let read = keys.filter(|key| !key.signer && !key.writable);
    read.filter(|key| known.get(key.pubkey) == Some(&true))
        .count()
}

fn owned(body: &[u8]) -> usize {
    let answer: Answer<String> = serde_json::from_slice(body).expect("a block");
    let transactions = &answer.result.transactions;
    transactions
        .iter()
        .map(|transaction| transaction.transaction.account_keys.len())
        .sum()
}

/// Public keys are random: their end is hash enough.
#[derive(Default)]
struct Tail(u64);

impl Hasher for Tail {
    fn write(&mut self, bytes: &[u8]) {
        let last = bytes
            .len()
            .checked_sub(8)
            .and_then(|from| bytes[from..].try_into().ok());
        self.0 = last.map_or(self.0, |last| {
            u64::from_le_bytes(last).wrapping_mul(0x9E37_79B9_7F4A_7C15)
        });
    }

    fn finish(&self) -> u64 {
        self.0.rotate_left(26)
    }
}

/// A block as a node writes it.
fn made() -> Vec<u8> {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut text = |bytes: usize| {
        bs58::encode((0..bytes).map(|_| rng.u8(..)).collect::<Vec<u8>>()).into_string()
    };
    let pool: Vec<String> = (0..POOL).map(|_| text(32)).collect();
    let signatures: Vec<String> = (0..64).map(|_| text(64)).collect();
    let mut rng = fastrand::Rng::with_seed(2);
    let mut block =
        r#"{"jsonrpc":"2.0","result":{"blockHeight":7,"parentSlot":6,"transactions":["#.to_owned();
    for number in 0..TRANSACTIONS + VOTES {
        // Votes are among the others: voter, vote account, vote program.
        let is_vote = number * VOTES % (TRANSACTIONS + VOTES) < VOTES;
        let (accounts, signed) = if is_vote { (3, 2) } else { (ACCOUNTS, 1) };
        let balances: Vec<String> = (0..accounts)
            .map(|_| rng.u64(..4_000_000_000).to_string())
            .collect();
        let balances = balances.join(",");
        let keys: Vec<String> = (0..accounts)
            .map(|place| {
                // Few accounts are in many transactions.
                let key = &pool[(rng.f64().powi(3) * POOL as f64) as usize];
                let (signer, writable) = (place == 0, place < accounts / 2);
                format!(r#"{{"pubkey":"{key}","signer":{signer},"source":"transaction","writable":{writable}}}"#)
            })
            .collect();
        let separator = if number > 0 { "," } else { "" };
        let signed: Vec<String> = (0..signed)
            .map(|_| format!("{:?}", signatures[rng.usize(..64)]))
            .collect();
        let (keys, signed) = (keys.join(","), signed.join(","));
        write!(
            block,
            r#"{separator}{{"meta":{{"err":null,"fee":5000,"postBalances":[{balances}],"#
        )
        .unwrap();
        write!(
            block,
            r#""postTokenBalances":[],"preBalances":[{balances}],"preTokenBalances":[],"#
        )
        .unwrap();
        write!(block, r#""status":{{"Ok":null}}}},"transaction":{{"accountKeys":[{keys}],"signatures":[{signed}]}},"#)
            .unwrap();
        block += r#""version":"legacy"}"#;
    }
    block += "]},\"id\":1}\n";
    block.into_bytes()
}
