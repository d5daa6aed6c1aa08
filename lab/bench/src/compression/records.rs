//! Reads records to compress from a node or files.

use crate::{
    args::{CompressionArgs, RecordKind},
    endpoint::Endpoint,
    run::end_requested,
};
use anyhow::{Context as _, Result, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use faultline_client::rpc::{RetryPolicy, Rpc, RpcError};
use faultline_common::{
    args::UsageError,
    clock,
    files::{AtPath, TempFile},
    progress::Progress,
    signals::Signals,
};
use faultline_text::counted;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use std::{
    collections::BTreeSet,
    fs,
    io::{BufWriter, Write as _},
    path::{Path, PathBuf},
    time::Duration,
};

/// About a minute of waiting in total.
const RETRIES: RetryPolicy = RetryPolicy {
    most: 8,
    first_wait: Duration::from_millis(500),
    patience: Duration::from_secs(30),
};
const SLOTS_PER_REQUEST: usize = 500;
/// JSON-RPC codes for a missing block or a skipped slot, in the ledger or archive.
const MISSING_BLOCK_CODES: [i64; 4] = [-32001, -32004, -32007, -32009];
const POLL_INTERVAL: Duration = Duration::from_millis(100);
const ACCOUNTS_PER_REQUEST: usize = 100;
const MAX_BYTES: usize = 1 << 30;

#[derive(Debug, Default, PartialEq)]
pub struct Records {
    /// Oldest first.
    pub all: Vec<Vec<u8>>,
    /// Without URL secrets.
    pub source: String,
    pub kind: Option<&'static str>,
    pub notes: Vec<String>,
    /// Why reading ended early, as a suffix: ` by SIGINT`, `: ERROR`.
    pub ended_by: Option<String>,
    pub save_error: Option<String>,
}

pub fn records(args: &CompressionArgs) -> Result<Records> {
    let (mut records, signals) = match &args.url {
        None => {
            let most = args.records.map_or(usize::MAX, |most| most as usize);
            (from_files(&args.files, most)?, None)
        }
        Some(url) => {
            let mut node = NodeReader::new(url, args)?;
            (node.records()?, Some(node.signals))
        }
    };
    records.all.retain(|record| !record.is_empty());
    if let Some(path) = args.save.as_ref().filter(|_| !records.all.is_empty()) {
        let message_of = |error| format!("the records are not kept: {error:#}");
        records.save_error = save(path, &records.all).err().map(message_of);
    }
    if let Some(signals) = signals {
        // No read data can be lost from now on, so Ctrl-C may end the process.
        signals.restore_defaults().context("signals")?;
    }
    Ok(records)
}

pub fn dry_run(args: &CompressionArgs) -> String {
    let Some(url) = &args.url else {
        return format!("no request; records from {}\n", shown(&args.files));
    };
    let node = Endpoint::parse(url).map_or_else(|wrong| wrong, |node| node.shown());
    let method = match args.kind {
        RecordKind::Accounts if !args.accounts.is_empty() => {
            json!({"method": "getMultipleAccounts", "params": [args.accounts, request_options(RecordKind::Accounts)]})
        }
        kind => json!({"method": "getBlock", "params": ["SLOT", request_options(kind)]}),
    };
    let pace = faultline_text::time(args.pace);
    format!(
        "{node}: one at a time, {pace} apart, until there are {} records\n{method}\n",
        most(args)
    )
}

/// In the format of `--files`.
pub fn save(path: &Path, records: &[Vec<u8>]) -> Result<()> {
    let named = || format!("--save {}", path.display());
    let temp_file = TempFile::create(path).with_context(named)?;
    let mut out = BufWriter::new(temp_file.file());
    for record in records {
        writeln!(out, "{}", STANDARD.encode(record)).with_context(named)?;
    }
    out.flush().with_context(named)?;
    drop(out);
    ensure!(
        path.symlink_metadata().is_err(),
        "{}: exists already",
        named()
    );
    temp_file.finish(path).with_context(named)
}

fn most(args: &CompressionArgs) -> usize {
    args.records
        .map_or(args.kind.name_and_default_count().1, |most| most as usize)
}

fn shown(files: &[PathBuf]) -> String {
    let shown: Vec<String> = files
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    shown.join(", ")
}

fn from_files(paths: &[PathBuf], most: usize) -> Result<Records> {
    let mut all = Vec::new();
    for path in paths {
        let named = || path.display().to_string();
        let left = most.saturating_sub(all.len());
        if path.is_dir() {
            let mut files = Vec::new();
            for entry in fs::read_dir(path).with_context(named)? {
                files.push(entry.with_context(named)?.path());
            }
            files.retain(|file| file.is_file());
            files.sort();
            for file in files.iter().take(left) {
                all.push(fs::read(file).at(file)?);
            }
        } else if path.extension().is_some_and(|extension| extension == "b64") {
            let text = fs::read_to_string(path).with_context(named)?;
            for (line, number) in text.lines().zip(1..).take(left) {
                let record = STANDARD.decode(line.trim());
                all.push(
                    record.with_context(|| format!("{}: line {number} is no base64", named()))?,
                );
            }
        } else {
            all.push(fs::read(path).with_context(named)?);
        }
        ensure_fits(bytes(&all))?;
    }
    Ok(Records {
        all,
        source: shown(paths),
        ..Records::default()
    })
}

fn bytes(records: &[Vec<u8>]) -> usize {
    records.iter().map(Vec::len).sum()
}

fn ensure_fits(bytes: usize) -> Result<()> {
    ensure!(
        bytes <= MAX_BYTES,
        "more than 1 GiB of records: take fewer with --records"
    );
    Ok(())
}

fn request_options(kind: RecordKind) -> Value {
    match kind {
        RecordKind::Accounts => json!({"encoding": "base64", "commitment": "finalized"}),
        RecordKind::Transactions | RecordKind::Blocks => json!({
            "encoding": "base64", "transactionDetails": "full", "maxSupportedTransactionVersion": 0,
            "rewards": false, "commitment": "finalized",
        }),
    }
}

#[derive(Deserialize)]
struct Block<T> {
    transactions: Vec<Transaction<T>>,
}

#[derive(Deserialize)]
struct Transaction<T> {
    transaction: T,
}

/// Data and its encoding.
type Encoded = (String, String);

#[derive(Deserialize)]
struct AccountKeys {
    #[serde(rename = "accountKeys")]
    keys: Vec<Key>,
}

#[derive(Deserialize)]
struct Key {
    pubkey: String,
}

#[derive(Deserialize)]
struct Accounts {
    value: Vec<Option<Account>>,
}

#[derive(Deserialize)]
struct Account {
    data: Encoded,
}

struct NodeReader<'a> {
    rpc: Rpc,
    args: &'a CompressionArgs,
    shown: String,
    /// Records that are wanted.
    most: usize,
    /// Bytes of blocks read.
    bytes: usize,
    records: Records,
    progress: Progress,
    signals: Signals,
    ended_by: Option<&'static str>,
}

impl<'a> NodeReader<'a> {
    fn new(url: &str, args: &'a CompressionArgs) -> Result<NodeReader<'a>> {
        let shown = Endpoint::parse(url).map_err(UsageError)?.shown();
        let signals = Signals::listen().context("signals")?;
        let (what, _) = args.kind.name_and_default_count();
        Ok(NodeReader {
            rpc: Rpc::new(url, args.ca.as_deref(), RETRIES)?,
            args,
            most: most(args),
            bytes: 0,
            records: Records {
                source: format!("{what} of {shown}"),
                kind: Some(what),
                ..Records::default()
            },
            progress: Progress::new(most(args) as u64, what),
            signals,
            ended_by: None,
            shown,
        })
    }

    fn records(&mut self) -> Result<Records> {
        let read = match self.args.kind {
            RecordKind::Accounts => self.accounts(),
            kind => self.blocks(kind),
        };
        let mut records = std::mem::take(&mut self.records);
        // Data read so far is kept.
        records.ended_by = match (read, self.ended_by) {
            (Ok(()), _) => None,
            (Err(_), Some(signal)) => Some(format!(" by {signal}")),
            (Err(error), None) if records.all.is_empty() => return Err(error),
            (Err(error), None) => Some(format!(": {error:#}")),
        };
        ensure!(
            !records.all.is_empty() || records.ended_by.is_some(),
            "{} has no {} in its finalized blocks",
            self.shown,
            self.args.kind.name_and_default_count().0
        );
        Ok(records)
    }

    fn blocks(&mut self, kind: RecordKind) -> Result<()> {
        let (mut blocks, mut skipped) = (0_u64, 0_u64);
        let mut range = None;
        let read = self.each_slot(|node, slot| {
            match existing_block(
                node.ask::<Box<RawValue>>("getBlock", &json!([slot, request_options(kind)])),
            )? {
                None => skipped += 1,
                Some(block) => {
                    blocks += 1;
                    range = Some((slot, range.map_or(slot, |(_, newest)| newest)));
                    let mut some =
                        records_of(kind, &block).with_context(|| format!("block {slot}"))?;
                    node.bytes += bytes(&some);
                    ensure_fits(node.bytes)?;
                    some.reverse();
                    node.records.all.extend(some);
                }
            }
            node.report(&format!(", slot {slot}"));
            Ok(node.records.all.len() < node.most)
        });
        // The newest records are first so far.
        self.records.all.truncate(self.most);
        self.records.all.reverse();
        if let Some((oldest, newest)) = range {
            let skipped_note = if skipped > 0 {
                format!(", without {}", counted(skipped as f64, "other"))
            } else {
                String::new()
            };
            self.records.notes.push(format!(
                "{}, slots {oldest} to {newest}{skipped_note}",
                counted(blocks as f64, "block")
            ));
        }
        read
    }

    fn accounts(&mut self) -> Result<()> {
        let mut keys: BTreeSet<String> = self.args.accounts.iter().cloned().collect();
        if keys.is_empty() {
            let request_options = json!({"encoding": "json", "transactionDetails": "accounts", "maxSupportedTransactionVersion": 0,
                "rewards": false, "commitment": "finalized"});
            self.each_slot(|node, slot| {
                let block =
                    node.ask::<Block<AccountKeys>>("getBlock", &json!([slot, request_options]));
                if let Some(block) = existing_block(block)? {
                    let transactions = block.transactions.into_iter();
                    let of_block = transactions.flat_map(|of| of.transaction.keys);
                    keys.extend(of_block.map(|key| key.pubkey));
                }
                node.report(&format!(", {} addresses", keys.len()));
                // Twice as many, because many accounts are empty.
                Ok(keys.len() < node.most.saturating_mul(2))
            })?;
        }
        let keys: Vec<String> = keys.into_iter().collect();
        for some in keys.chunks(ACCOUNTS_PER_REQUEST) {
            let answer: Option<Accounts> = self.ask(
                "getMultipleAccounts",
                &json!([some, request_options(RecordKind::Accounts)]),
            )?;
            let answer = answer.context("getMultipleAccounts: the result is null")?;
            for account in answer.value.into_iter().flatten() {
                let data = STANDARD.decode(&account.data.0);
                self.records
                    .all
                    .push(data.context("an account's data is no base64")?);
            }
            self.records.all.retain(|data| !data.is_empty());
            ensure_fits(bytes(&self.records.all))?;
            self.report("");
            if self.records.all.len() >= self.most {
                break;
            }
        }
        self.records.all.truncate(self.most);
        Ok(())
    }

    fn report(&mut self, more: &str) {
        let found = self.records.all.len().min(self.most);
        self.progress.at(found as u64, more);
    }

    /// Newest finalized slot first; `visit` returns whether to continue.
    fn each_slot(&mut self, mut visit: impl FnMut(&mut Self, u64) -> Result<bool>) -> Result<()> {
        let finalized = json!({"commitment": "finalized"});
        let newest: u64 = self
            .ask("getSlot", &json!([finalized]))?
            .context("getSlot: the result is null")?;
        let first: u64 = self.ask("getFirstAvailableBlock", &json!([]))?.unwrap_or(0);
        for to in (first..=newest).rev().step_by(SLOTS_PER_REQUEST) {
            let from = to.saturating_sub(SLOTS_PER_REQUEST as u64 - 1).max(first);
            let slots: Option<Vec<u64>> = self.ask("getBlocks", &json!([from, to, finalized]))?;
            for slot in slots.unwrap_or_default().into_iter().rev() {
                if !visit(self, slot)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn ask<T: serde::de::DeserializeOwned>(
        &mut self,
        method: &str,
        params: &Value,
    ) -> Result<Option<T>, RpcError> {
        let mut until = clock::uptime();
        if self.rpc.spent().0 > 0 {
            until += self.args.pace;
        }
        let NodeReader {
            rpc,
            signals,
            ended_by,
            ..
        } = self;
        let mut ended = |wait: Duration| {
            *ended_by = end_requested(signals, wait).or(*ended_by);
            *ended_by
        };
        loop {
            let left = until.saturating_sub(clock::uptime());
            if let Some(signal) = ended(left.min(POLL_INTERVAL)) {
                return Err(RpcError::Failed(signal.to_owned()));
            }
            if clock::uptime() >= until {
                return rpc.ask_until(method, params, || ended(Duration::ZERO).is_some());
            }
        }
    }
}

/// `None` if the node lacks the block. Other errors would affect every block.
fn existing_block<T>(block: Result<Option<T>, RpcError>) -> Result<Option<T>, RpcError> {
    match block {
        Err(RpcError::Refused { code, .. }) if MISSING_BLOCK_CODES.contains(&code) => Ok(None),
        other => other,
    }
}

fn records_of(kind: RecordKind, block: &RawValue) -> Result<Vec<Vec<u8>>> {
    if kind == RecordKind::Blocks {
        return Ok(vec![block.get().as_bytes().to_vec()]);
    }
    let block: Block<Encoded> = serde_json::from_str(block.get())?;
    let decoded = |of: &Transaction<Encoded>| STANDARD.decode(&of.transaction.0);
    let records: Result<_, _> = block.transactions.iter().map(decoded).collect();
    Ok(records?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saved_records_and_folder_files_are_read_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let records = vec![vec![1, 2, 3], Vec::new(), vec![255; 300]];
        let path = folder.path().join("kept.b64");
        save(&path, &records).unwrap();
        assert!(save(&path, &records).is_err(), "nothing is overwritten");
        assert_eq!(
            fs::read_dir(folder.path()).unwrap().count(),
            1,
            "and nothing is left beside it"
        );
        assert_eq!(
            from_files(std::slice::from_ref(&path), usize::MAX)
                .unwrap()
                .all,
            records
        );
        assert_eq!(
            from_files(std::slice::from_ref(&path), 1).unwrap().all,
            records[..1]
        );
        let many = folder.path().join("many");
        fs::create_dir(&many).unwrap();
        for (name, record) in ["c", "a", "b"].iter().zip(&records) {
            fs::write(many.join(name), record).unwrap();
        }
        assert_eq!(
            from_files(&[many], usize::MAX).unwrap().all,
            [vec![], vec![255; 300], vec![1, 2, 3]]
        );
        fs::write(&path, "AAEC\nno base64!\n").unwrap();
        let message_of = format!("{:#}", from_files(&[path], usize::MAX).unwrap_err());
        assert!(message_of.contains("kept.b64: line 2"), "{message_of}");
    }

    #[test]
    fn only_missing_blocks_are_skipped() {
        let refused = |code| RpcError::Refused {
            code,
            message: String::new(),
        };
        for code in MISSING_BLOCK_CODES {
            assert_eq!(existing_block::<u8>(Err(refused(code))), Ok(None));
        }
        // Unknown method, no access, wrong parameters, no answer at all: nothing would come of asking for all other blocks.
        for error in [
            refused(-32601),
            refused(-32000),
            refused(-32602),
            RpcError::Failed("refused".to_owned()),
        ] {
            assert!(existing_block::<u8>(Err(error)).is_err());
        }
        assert_eq!(
            (existing_block(Ok(Some(7))), existing_block::<u8>(Ok(None))),
            (Ok(Some(7)), Ok(None))
        );
    }

    #[test]
    fn a_block_yields_transaction_records_or_one_block_record() {
        let text =
            r#"{"blockHeight":1, "transactions":[{"meta":{},"transaction":["AAEC","base64"]}]}"#;
        let block: Box<RawValue> = serde_json::from_str(text).unwrap();
        assert_eq!(
            records_of(RecordKind::Transactions, &block).unwrap(),
            [vec![0, 1, 2]]
        );
        assert_eq!(
            records_of(RecordKind::Blocks, &block).unwrap(),
            [text.as_bytes().to_vec()]
        );
    }
}
