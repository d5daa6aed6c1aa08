//! Measures the time and the memory to parse a `getVoteAccounts` response with as many accounts as
//! mainnet-beta has.
#![expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
#![expect(clippy::expect_used, reason = "a benchmark may stop")]

use std::{fmt::Write, hint::black_box, time::Instant};

use faultline_agave::rpc::{VoteAccounts, read_result};

const ACCOUNTS: u64 = 2_000;
const ROUNDS: usize = 200;

fn main() {
    let before = resident("VmRSS:");
    let body = answer();
    let held = resident("VmRSS:");
    let votes: VoteAccounts =
        read_result("getVoteAccounts", 1, body.as_bytes()).expect("an answer");
    let (read, peak) = (resident("VmRSS:"), resident("VmHWM:"));
    println!("{} accounts, {} bytes", votes.all().count(), body.len());
    println!(
        "resident: {before} KiB, {held} with the answer, {read} with what was read of it, {peak} at most"
    );
    drop(votes);
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            black_box(
                read_result::<VoteAccounts>("getVoteAccounts", 1, black_box(body.as_bytes()))
                    .is_ok(),
            );
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    let at = |share: f64| {
        times
            .get(((ROUNDS - 1) as f64 * share) as usize)
            .copied()
            .unwrap_or(f64::NAN)
    };
    println!(
        "read: min {:.2} ms, median {:.2} ms, p99 {:.2} ms",
        at(0.0),
        at(0.5),
        at(0.99)
    );
}

/// A response as a node writes it, which cuts 64 epochs of credits to five.
fn answer() -> String {
    let mut out = r#"{"jsonrpc":"2.0","result":{"current":["#.to_owned();
    for number in 0..ACCOUNTS {
        let comma = if number == 0 { "" } else { "," };
        let credits: Vec<String> = (700..705_u64)
            .map(|epoch| {
                format!(
                    "[{epoch},{},{}]",
                    4_300_000_000 + epoch * 6_900_000 + number,
                    4_300_000_000 + (epoch - 1) * 6_900_000 + number
                )
            })
            .collect();
        let key = |kind: u8| {
            let mut key = [kind; 32];
            key.iter_mut()
                .zip(number.to_le_bytes())
                .for_each(|(at, byte)| *at = byte);
            bs58::encode(key).into_string()
        };
        let (node, vote) = (key(1), key(2));
        // Writing to a String cannot fail.
        let _ = write!(
            out,
            r#"{comma}{{"activatedStake":{},"commission":5,"epochCredits":[{}],"epochVoteAccount":true,"lastVote":304500123,"nodePubkey":"{node}","rootSlot":304500092,"votePubkey":"{vote}"}}"#,
            200_000_000_000_000 + number,
            credits.join(",")
        );
    }
    out + r#"],"delinquent":[]},"id":1}"#
}

/// A line of this process's `/proc/self/status`, in KiB.
fn resident(key: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix(key))
        .unwrap_or_default();
    line.split_whitespace()
        .next()
        .and_then(|word| word.parse().ok())
        .unwrap_or_default()
}
