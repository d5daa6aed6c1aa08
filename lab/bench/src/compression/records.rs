use crate::{
    args::{CompressionArgs, RecordKind},
    endpoint::Endpoint,
    run::wait_for_end_signal,
};
use anyhow::{Context, Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use faultline_client::rpc::{RetryPolicy, Rpc, RpcError};
use faultline_common::{
    args::UsageError,
    clock,
    files::{AtPath, TempFile},
    progress::Progress,
    signals::Signals,
};
use faultline_text::counted;
use itertools::Itertools;
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use std::{
    collections::BTreeSet,
    fs,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    time::Duration,
};

/// About a minute of waiting in total.
const RETRIES: RetryPolicy = RetryPolicy {
    max_tries: 8,
    first_wait: Duration::from_millis(500),
    answer_timeout: Duration::from_secs(30),
};
const SLOTS_PER_REQUEST: usize = 500;
/// JSON-RPC codes for a missing block or a skipped slot, in the ledger or archive.
const MISSING_BLOCK_CODES: [i64; 4] = [-32001, -32004, -32007, -32009];
const POLL_INTERVAL: Duration = Duration::from_millis(100);
const ACCOUNTS_PER_REQUEST: usize = 100;
const MAX_BYTES: usize = 1 << 30;

#[derive(Debug, Default)]
pub struct Records {
    /// Ordered by age (blocks, oldest first), by address (accounts), or as given (files).
    pub all: Vec<Vec<u8>>,
    /// Paths of files, or the kind of the records and the node's URL without secrets.
    pub source: String,
    /// `None` if the records are from files.
    pub kind_name: Option<&'static str>,
    pub notes: Vec<String>,
    /// Why reading ended early, with the punctuation before it: ` by SIGINT`, `: ERROR`.
    pub early_end_suffix: Option<String>,
    pub save_error: Option<String>,
    /// Left out of `all`.
    pub empty_count: u64,
}

pub fn read(args: &CompressionArgs) -> Result<Records> {
    let (mut records, signals) = match &args.url {
        None => {
            let max_count = args.records.map_or(usize::MAX, |count| count as usize);
            (read_files(&args.files, max_count)?, None)
        }
        Some(url) => {
            let (records, signals) = read_from_node(url, args)?;
            (records, Some(signals))
        }
    };
    let count = records.all.len();
    records.all.retain(|record| !record.is_empty());
    records.empty_count = (count - records.all.len()) as u64;
    if let Some(path) = &args.save
        && !records.all.is_empty()
        && let Err(error) = save(path, &records.all)
    {
        records.save_error = Some(format!("the records are not saved: {error:#}"));
    }
    if let Some(signals) = signals {
        // The records are saved, so a signal may end the process.
        signals.restore_defaults().context("signals")?;
    }
    Ok(records)
}

pub fn dry_run(args: &CompressionArgs) -> Result<String> {
    let Some(url) = &args.url else {
        return Ok(format!(
            "no request; records from {}\n",
            path_list(&args.files)
        ));
    };
    let node = Endpoint::parse(url).map_err(UsageError)?.redacted_url();
    let block = |options| json!({"method": "getBlock", "params": ["SLOT", options]}).to_string();
    let accounts = |addresses| {
        let params = json!([addresses, request_options(RecordKind::Accounts)]);
        json!({"method": "getMultipleAccounts", "params": params}).to_string()
    };
    let request = match args.kind {
        RecordKind::Accounts if args.accounts.is_empty() => {
            block(address_options()) + "\n" + &accounts(json!(["ADDRESS"]))
        }
        RecordKind::Accounts => accounts(json!(
            args.accounts
                .iter()
                .sorted()
                .dedup()
                .take(ACCOUNTS_PER_REQUEST)
                .collect_vec()
        )),
        kind => block(request_options(kind)),
    };
    Ok(format!(
        "{node}: one at a time, {} apart, until there are {} records\n{request}\n",
        faultline_text::duration(args.pace),
        wanted_count(args)
    ))
}

/// Writes a line of base64 for each record, as `--files` reads it.
pub fn save(path: &Path, records: &[Vec<u8>]) -> Result<()> {
    let write = || {
        let temp_file = TempFile::create(path)?;
        let mut out = BufWriter::new(temp_file.file());
        for record in records {
            writeln!(out, "{}", STANDARD.encode(record))?;
        }
        out.flush()?;
        drop(out);
        ensure!(path.symlink_metadata().is_err(), "exists already");
        Ok(temp_file.finish(path)?)
    };
    write().with_context(|| format!("--save {}", path.display()))
}

fn wanted_count(args: &CompressionArgs) -> usize {
    let (_, default_count) = args.kind.name_and_default_count();
    args.records.map_or(default_count, |count| count as usize)
}

fn path_list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display()).join(", ")
}

fn read_files(paths: &[PathBuf], max_count: usize) -> Result<Records> {
    let mut all = Vec::new();
    for path in paths {
        let remaining = max_count.saturating_sub(all.len());
        if path.is_dir() {
            let mut files = Vec::new();
            for entry in fs::read_dir(path).at(path)? {
                files.push(entry.at(path)?.path());
            }
            files.retain(|file| file.is_file());
            files.sort();
            for file in files.iter().take(remaining) {
                all.push(fs::read(file).at(file)?);
            }
        } else if path.extension().is_some_and(|extension| extension == "b64") {
            let text = fs::read_to_string(path).at(path)?;
            for (line, number) in text.lines().zip(1..).take(remaining) {
                all.push(
                    STANDARD.decode(line.trim()).with_context(|| {
                        format!("{}: line {number} is no base64", path.display())
                    })?,
                );
            }
        } else if remaining > 0 {
            all.push(fs::read(path).at(path)?);
        }
        ensure_fits(&all)?;
    }
    Ok(Records {
        all,
        source: path_list(paths),
        ..Records::default()
    })
}

fn ensure_fits<'a>(records: impl IntoIterator<Item = &'a Vec<u8>>) -> Result<()> {
    let bytes: usize = records.into_iter().map(Vec::len).sum();
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

/// Options of `getBlock` if only the addresses of accounts are read from the block.
fn address_options() -> Value {
    json!({"encoding": "json", "transactionDetails": "accounts", "maxSupportedTransactionVersion": 0,
        "rewards": false, "commitment": "finalized"})
}

/// `T` depends on the requested `transactionDetails`.
#[derive(Deserialize)]
struct Block<T> {
    transactions: Vec<Transaction<T>>,
}

#[derive(Deserialize)]
struct Transaction<T> {
    transaction: T,
}

type Encoded = (String, String);

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AccountKeys {
    account_keys: Vec<AccountKey>,
}

#[derive(Deserialize)]
struct AccountKey {
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
    wanted_count: usize,
    records: Vec<Vec<u8>>,
    notes: Vec<String>,
    progress: Progress,
    signals: Signals,
    end_signal: Option<&'static str>,
}

/// Without the signal handlers, a signal is lost: they must stay until the records are saved.
fn read_from_node(url: &str, args: &CompressionArgs) -> Result<(Records, Signals)> {
    let node = Endpoint::parse(url).map_err(UsageError)?.redacted_url();
    let signals = Signals::listen().context("signals")?;
    let (kind_name, _) = args.kind.name_and_default_count();
    let wanted_count = wanted_count(args);
    let mut reader = NodeReader {
        rpc: Rpc::new(url, args.ca.as_deref(), RETRIES)?,
        args,
        wanted_count,
        records: Vec::new(),
        notes: Vec::new(),
        progress: Progress::new(wanted_count as u64, kind_name),
        signals,
        end_signal: None,
    };
    let result = match args.kind {
        RecordKind::Accounts => reader.read_accounts(),
        kind => reader.read_blocks(kind),
    };
    // Records read so far are measured.
    let early_end_suffix = match (result, reader.end_signal) {
        (Ok(()), _) => None,
        (Err(_), Some(signal)) => Some(format!(" by {signal}")),
        (Err(error), None) if reader.records.is_empty() => return Err(error),
        (Err(error), None) => Some(format!(": {error:#}")),
    };
    ensure!(
        !reader.records.is_empty() || early_end_suffix.is_some(),
        "{node} has no {kind_name} in its finalized blocks"
    );
    let records = Records {
        all: reader.records,
        source: format!("{kind_name} of {node}"),
        kind_name: Some(kind_name),
        notes: reader.notes,
        early_end_suffix,
        ..Records::default()
    };
    Ok((records, reader.signals))
}

impl NodeReader<'_> {
    fn read_blocks(&mut self, kind: RecordKind) -> Result<()> {
        let (mut blocks, mut skipped) = (0_u64, 0_u64);
        let (mut oldest, mut newest) = (0, None);
        let result = self.visit_slots(|reader, slot| {
            match existing_block(
                reader.request::<Box<RawValue>>("getBlock", &json!([slot, request_options(kind)])),
            )? {
                None => skipped += 1,
                Some(block) => {
                    blocks += 1;
                    oldest = slot;
                    newest.get_or_insert(slot);
                    let records =
                        block_records(kind, &block).with_context(|| format!("block {slot}"))?;
                    ensure_fits(reader.records.iter().chain(&records))?;
                    reader.records.extend(records.into_iter().rev());
                }
            }
            reader.report(&format!(", slot {slot}"));
            Ok(reader.records.len() < reader.wanted_count)
        });
        // So far, the newest records are first.
        self.records.truncate(self.wanted_count);
        self.records.reverse();
        if let Some(newest) = newest {
            let blocks = counted(blocks as f64, "block");
            let mut note = format!("{blocks}, slots {oldest} to {newest}");
            if skipped > 0 {
                note += &format!(
                    ", without {} whose block is missing",
                    counted(skipped as f64, "slot")
                );
            }
            self.notes.push(note);
        }
        result
    }

    fn read_accounts(&mut self) -> Result<()> {
        let mut keys: BTreeSet<String> = self.args.accounts.iter().cloned().collect();
        if keys.is_empty() {
            self.visit_slots(|reader, slot| {
                let block = reader
                    .request::<Block<AccountKeys>>("getBlock", &json!([slot, address_options()]));
                if let Some(block) = existing_block(block)? {
                    let transactions = block.transactions.into_iter();
                    let accounts =
                        transactions.flat_map(|wrapped| wrapped.transaction.account_keys);
                    keys.extend(accounts.map(|account| account.pubkey));
                }
                reader.report(&format!(", {} addresses", keys.len()));
                // Twice as many, because many accounts are empty.
                Ok(keys.len() < reader.wanted_count.saturating_mul(2))
            })?;
        }
        let keys = keys.into_iter().collect_vec();
        for chunk in keys.chunks(ACCOUNTS_PER_REQUEST) {
            let params = json!([chunk, request_options(RecordKind::Accounts)]);
            let accounts: Accounts = self
                .request("getMultipleAccounts", &params)?
                .context("getMultipleAccounts: the result is null")?;
            for account in accounts.value.into_iter().flatten() {
                let data = STANDARD.decode(account.data.0);
                self.records
                    .push(data.context("an account's data is no base64")?);
            }
            self.records.retain(|data| !data.is_empty());
            ensure_fits(&self.records)?;
            self.report("");
            if self.records.len() >= self.wanted_count {
                break;
            }
        }
        self.records.truncate(self.wanted_count);
        Ok(())
    }

    fn report(&mut self, detail: &str) {
        let count = self.records.len().min(self.wanted_count);
        self.progress.show(count as u64, detail);
    }

    /// Begins with the newest finalized slot. `visit` returns whether to continue.
    fn visit_slots(&mut self, mut visit: impl FnMut(&mut Self, u64) -> Result<bool>) -> Result<()> {
        let finalized = json!({"commitment": "finalized"});
        let newest: u64 = self
            .request("getSlot", &json!([finalized]))?
            .context("getSlot: the result is null")?;
        let first: u64 = self
            .request("getFirstAvailableBlock", &json!([]))?
            .unwrap_or(0);
        for to in (first..=newest).rev().step_by(SLOTS_PER_REQUEST) {
            let from = to.saturating_sub(SLOTS_PER_REQUEST as u64 - 1).max(first);
            let slots: Vec<u64> = self
                .request("getBlocks", &json!([from, to, finalized]))?
                .unwrap_or_default();
            for slot in slots.into_iter().rev() {
                if !visit(self, slot)? {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn request<T: serde::de::DeserializeOwned>(
        &mut self,
        method: &str,
        params: &Value,
    ) -> Result<Option<T>, RpcError> {
        let mut send_at = clock::uptime();
        let (sent, _) = self.rpc.requests_and_bytes();
        if sent > 0 {
            send_at += self.args.pace;
        }
        let mut end_signal = |wait| {
            self.end_signal = wait_for_end_signal(&mut self.signals, wait).or(self.end_signal);
            self.end_signal
        };
        loop {
            let wait = send_at.saturating_sub(clock::uptime());
            if let Some(signal) = end_signal(wait.min(POLL_INTERVAL)) {
                return Err(RpcError::Failed(signal.to_owned()));
            }
            if clock::uptime() >= send_at {
                return self
                    .rpc
                    .call_until(method, params, || end_signal(Duration::ZERO).is_some());
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

fn block_records(kind: RecordKind, block: &RawValue) -> Result<Vec<Vec<u8>>> {
    if kind == RecordKind::Blocks {
        return Ok(vec![block.get().as_bytes().to_vec()]);
    }
    let block: Block<Encoded> = serde_json::from_str(block.get())?;
    let decode =
        |transaction: Transaction<Encoded>| Ok(STANDARD.decode(transaction.transaction.0)?);
    block.transactions.into_iter().map(decode).collect()
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
            "and no temporary file remains"
        );
        assert_eq!(
            read_files(std::slice::from_ref(&path), usize::MAX)
                .unwrap()
                .all,
            records
        );
        assert_eq!(
            read_files(std::slice::from_ref(&path), 1).unwrap().all,
            records[..1]
        );
        let single = folder.path().join("single");
        fs::write(&single, b"one").unwrap();
        assert_eq!(
            read_files(&[single.clone(), single.clone()], 1)
                .unwrap()
                .all,
            [b"one"],
            "files beyond the maximum are not read"
        );
        fs::remove_file(single).unwrap();
        let many = folder.path().join("many");
        fs::create_dir(&many).unwrap();
        for (name, record) in ["c", "a", "b"].iter().zip(&records) {
            fs::write(many.join(name), record).unwrap();
        }
        assert_eq!(
            read_files(&[many], usize::MAX).unwrap().all,
            [vec![], vec![255; 300], vec![1, 2, 3]]
        );
        fs::write(&path, "AAEC\nno base64!\n").unwrap();
        let message_of = format!("{:#}", read_files(&[path], usize::MAX).unwrap_err());
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
        // Unknown method, no access, wrong parameters, no answer: other blocks would fail, too.
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
            block_records(RecordKind::Transactions, &block).unwrap(),
            [vec![0, 1, 2]]
        );
        assert_eq!(
            block_records(RecordKind::Blocks, &block).unwrap(),
            [text.as_bytes().to_vec()]
        );
    }
}
