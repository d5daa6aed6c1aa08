//! Thread pools by thread name. The kernel cuts names to 15 bytes, and pools append an index of two
//! or three digits. An unnamed thread inherits the name of its creator.

use std::borrow::Cow;

/// For a name that is empty, or only digits and separators.
pub const UNNAMED: &str = "unnamed";

/// The thread name without its index and the separator before it. Fit for a label: control
/// characters and bytes that are not UTF-8 become U+FFFD.
///
/// `solScHandler07` becomes `solScHandler`, `iou-wrk-1234` becomes `iou-wrk`, and `net:0` becomes
/// `net`. `solIdxFlusher10`, which the kernel cut from `solIdxFlusher100`, becomes `solIdxFlusher`.
/// `rocksdb:low` and `tokio-runtime-w` do not change.
pub fn pool_name(comm: &[u8]) -> Cow<'_, str> {
    let comm = comm.strip_suffix(b"\n").unwrap_or(comm).trim_ascii();
    let length = comm
        .iter()
        .rposition(|byte| !byte.is_ascii_digit())
        .map_or(0, |last| last + 1);
    let has_index = length < comm.len();
    let is_separator = |byte: &u8| matches!(byte, b'-' | b':' | b'_' | b'.' | b'/' | b'#' | b' ');
    let without_digits = comm.get(..length).unwrap_or_default();
    let end = without_digits
        .iter()
        .rposition(|byte| !is_separator(byte))
        .map_or(0, |last| last + 1);
    let name = if has_index || end == 0 {
        without_digits.get(..end).unwrap_or_default()
    } else {
        without_digits
    };
    match name {
        [] => Cow::Borrowed(UNNAMED),
        name => clean(String::from_utf8_lossy(name)),
    }
}

fn clean(text: Cow<'_, str>) -> Cow<'_, str> {
    if text.chars().any(char::is_control) {
        Cow::Owned(text.replace(char::is_control, "\u{fffd}"))
    } else {
        text
    }
}

pub fn purpose(pool: &str) -> Option<&'static str> {
    PURPOSES
        .iter()
        .find(|(name, _)| *name == pool)
        .map(|(_, purpose)| *purpose)
}

/// Purposes of Agave's and its libraries' pools, by subsystem: 2.0.5 to 4.5.0-alpha.4.
pub const PURPOSES: &[(&str, &str)] = &[
    ("agave-validator", "main thread"),
    ("solana-validato", "main thread"),
    ("solana-test-val", "main thread"),
    ("solReplayStage", "replay loop: votes, forks, roots"),
    ("solReplayFork", "replay of several forks at once"),
    ("solReplayTx", "replay execution, blockstore processor"),
    ("solScHandler", "replay execution, unified scheduler (2.x)"),
    (
        "solScHandleV",
        "replay execution, unified scheduler (3.0 and later)",
    ),
    (
        "solScHandleP",
        "block production execution, unified scheduler (3.x)",
    ),
    ("solScheduler", "unified scheduler (2.x)"),
    (
        "solScheduleV",
        "unified scheduler of replay (3.0 and later)",
    ),
    ("solScCleaner", "unified scheduler clean-up"),
    (
        "solBanknStgTx",
        "block production: votes, and transactions without the central scheduler (2.x)",
    ),
    ("solBanknStgVote", "block production: votes"),
    ("solCoWorker", "block production execution"),
    ("solBnkTxSched", "block production scheduler"),
    ("solBundleStgTx", "Jito bundles"),
    ("solPohTickProd", "proof of history clock"),
    (
        "solBgAccounts",
        "account clean-up and shrinking (before 3.1)",
    ),
    (
        "solAcctsBgSvc",
        "account clean-up and shrinking (3.1 and later)",
    ),
    ("solAccounts", "account background work (2.x)"),
    (
        "solAccountsLo",
        "account background work at low priority (2.x)",
    ),
    ("solAcctsDbBg", "account background work"),
    ("solAcctsDbFg", "account foreground work"),
    ("solAcctHash", "account hashing (2.1)"),
    ("solIdxFlusher", "accounts index to and from disk"),
    ("solGenIndex", "accounts index generation at start"),
    ("solAcctReadCach", "eviction from the account read cache"),
    ("solSnapshotPkgr", "snapshot archives"),
    ("solUnpkSnpsht", "snapshot unpacking (2.x)"),
    ("solTarUnpack", "snapshot unpacking (3.0 and later)"),
    ("solRbuildSnap", "snapshot rebuilding"),
    ("solSnapDirFiles", "snapshot rebuilding (4.x)"),
    ("solBnkNewEpch", "epoch boundary"),
    ("solBnkClcRwds", "epoch rewards"),
    ("solDropBankSrvc", "dropping of banks"),
    ("solRayonGlob", "shared work pool"),
    ("solRcvrShred", "shreds from the network"),
    ("solRcvrShredRep", "repaired shreds from the network"),
    ("solTvuPktMod", "shreds from the network"),
    ("solShredVerifr", "shred signatures"),
    ("solSvrfyShred", "shred signatures"),
    ("solRetransmittr", "turbine retransmission"),
    ("solRetransmit", "turbine retransmission"),
    (
        "solWinInsert",
        "shreds into the blockstore, erasure recovery",
    ),
    ("solShredder", "shredding of own blocks"),
    ("solRepairSvc", "repair of missing shreds"),
    ("solGossip", "gossip"),
    ("solRcvrGossip", "gossip packets from the network"),
    ("solGossipListen", "gossip"),
    ("solGossipConsum", "gossip"),
    ("solGossipCons", "gossip"),
    ("solGossipWork", "gossip"),
    ("solRunGossip", "gossip (2.x)"),
    ("solGossipRun", "gossip (3.0 and later)"),
    ("solCiVoteLstnr", "votes from gossip"),
    ("solCiProcVotes", "votes from gossip"),
    ("solVotorEvLoop", "Alpenglow: own votes"),
    ("solVotorVoteSvc", "Alpenglow: sending of own votes"),
    ("solVotorPoolSvc", "Alpenglow: votes to certificates"),
    ("solVotorMetrics", "Alpenglow: vote times of each validator"),
    (
        "solVotorPeerUpd",
        "Alpenglow: list of validators to send to",
    ),
    (
        "solVotorQuicRt",
        "Alpenglow: votes and certificates over QUIC",
    ),
    ("solSigVerBLS", "Alpenglow: signatures of votes"),
    ("solBlkCreatLoop", "Alpenglow: block production loop"),
    ("solConsRew", "Alpenglow: certificates for rewards"),
    ("solQuicTpu", "transactions over QUIC"),
    ("solQuicTpuFwd", "forwarded transactions over QUIC"),
    ("solSigVerTpu", "transaction signatures"),
    ("solSigVerTpuVot", "vote signatures"),
    ("solSigVerify", "signature verification pool"),
    ("solVoteService", "own votes"),
    (
        "solAggCommitSvc",
        "stake behind each slot, for commitment levels",
    ),
    ("solBstoreClean", "blockstore clean-up"),
    ("rocksdb:low", "RocksDB compaction"),
    ("rocksdb:high", "RocksDB flushing"),
    ("solJsonRpcSvc", "JSON-RPC service"),
    ("solRpcEl", "JSON-RPC requests, simulation"),
    ("solRpcPubSub", "websocket subscriptions"),
    ("solRpcNotify", "websocket notifications"),
    ("solMetricsAgent", "datapoint pushes and log lines"),
    ("solSystemMonitr", "machine statistics"),
    ("solStatsReport", "statistics of sent packets"),
    ("solAdminRpc", "admin socket"),
    ("solAdminRpcEl", "admin socket"),
    (
        "tokio-runtime-w",
        "unnamed tokio runtimes, often of plugins",
    ),
    ("SolGeyserPlugin", "geyser plugins"),
    ("iou-wrk", "kernel io_uring workers"),
];

#[cfg(test)]
mod tests;
