//! Finds which accounts are programs, by their present owners. Each account is requested once.

use crate::{
    address::{self, Address},
    block::{Block, ProgramChange, Transaction},
};
use anyhow::{Context, Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use faultline_cache_prediction::trace_file::TraceFile;
use faultline_cache_sim::trace::{
    Call, Change, ChangeKind, Loader, Program, Slot, SlotKind, Trace,
};
use faultline_client::rpc::Rpc;
use serde::Deserialize;
use serde_json::json;
use std::collections::{HashMap, HashSet};

/// Accounts in one request: the limit of nodes.
const MAX_ACCOUNTS_PER_REQUEST: usize = 100;
/// Bytes before the code in program-data accounts, and in programs of the newest loader.
const HEADER_V3: u64 = 45;
const HEADER_V4: u64 = 48;

#[derive(Debug, Deserialize)]
struct Accounts {
    value: Vec<Option<Account>>,
}

#[derive(Debug, Deserialize)]
struct Account {
    owner: String,
    executable: bool,
    space: Option<u64>,
    /// Bytes 4 to 36, and their encoding. For an upgradeable program: the address of its code.
    data: (String, String),
}

#[derive(Debug, Default)]
pub struct Owners {
    /// Number of the program; `None` if the account is not a program.
    known: HashMap<Address, Option<u32>>,
    code: HashMap<Address, Address>,
    /// Programs that can be called, or could before they were closed.
    executable: HashSet<u32>,
    missing: HashSet<Address>,
    /// Accounts that no longer exist and whose kind is unknown.
    pub unresolved: u64,
}

impl Owners {
    pub fn of(trace: &Trace) -> Self {
        let mut owners = Owners::default();
        for (number, program) in (0..).zip(trace.programs()) {
            owners
                .known
                .extend(program.address.map(|address| (address, Some(number))));
            owners.executable.extend(program.has_code.then_some(number));
        }
        owners
    }

    pub fn resolve_programs(
        &mut self,
        rpc: &Rpc,
        blocks: &[Block],
        trace: &mut Trace,
    ) -> Result<()> {
        let requested = blocks
            .iter()
            .flat_map(|block| &block.transactions)
            .flat_map(|transaction| {
                transaction
                    .keys
                    .iter()
                    .filter(|(_, ask)| *ask)
                    .map(|(key, _)| *key)
                    .chain(transaction.changed.iter().copied())
            });
        let mut seen = HashSet::new();
        let new: Vec<Address> = requested
            .filter(|key| !self.known.contains_key(key) && seen.insert(*key))
            .collect();
        for batch in new.chunks(MAX_ACCOUNTS_PER_REQUEST) {
            let accounts = fetch_accounts(rpc, batch)?;
            let code_address: Vec<Option<Address>> = accounts
                .iter()
                .map(|account| account.as_ref().and_then(code_address))
                .collect();
            let requested: Vec<Address> = code_address.iter().flatten().copied().collect();
            let mut code = if requested.is_empty() {
                Vec::new()
            } else {
                fetch_accounts(rpc, &requested)?
            }
            .into_iter();
            for ((key, account), code_address) in batch.iter().zip(accounts).zip(code_address) {
                self.code
                    .extend(code_address.map(|code_address| (*key, code_address)));
                let code = code_address.and_then(|_| code.next()).flatten();
                self.add(*key, account, code, trace)?;
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        key: Address,
        account: Option<Account>,
        code: Option<Account>,
        trace: &mut Trace,
    ) -> Result<()> {
        if account.is_none() {
            self.missing.insert(key);
            self.unresolved += 1;
        }
        let found = account.and_then(|account| Some((address::loader(&account.owner)?, account)));
        let Some((loader, account)) = found else {
            self.known.insert(key, None);
            return Ok(());
        };
        let bytes = match loader {
            Loader::V1 | Loader::V2 => account.space,
            Loader::V3 => code
                .as_ref()
                .and_then(|code| code.space)
                .and_then(|space| space.checked_sub(HEADER_V3)),
            Loader::V4 => account.space.and_then(|space| space.checked_sub(HEADER_V4)),
        };
        let has_code =
            account.executable && (loader != Loader::V3 || bytes.is_some_and(|bytes| bytes > 0));
        let number = trace.add_program(Program {
            address: Some(key),
            loader: Some(loader),
            bytes,
            has_code,
        })?;
        self.known.insert(key, Some(number));
        self.executable.extend(account.executable.then_some(number));
        Ok(())
    }

    pub fn add_block(
        &mut self,
        block: &Block,
        kind: SlotKind,
        open_trace: &mut TraceFile,
    ) -> Result<()> {
        let mut calls = Vec::new();
        let mut changes = Vec::new();
        let trace = &mut open_trace.trace;
        let slot_index = u32::try_from(trace.slots().len())?;
        for transaction in &block.transactions {
            self.add_buffers(transaction, trace)?;
            let created = self.created(transaction);
            let program = |(key, _): &(Address, bool)| self.known.get(key).copied().flatten();
            let programs: Vec<u32> = transaction
                .keys
                .iter()
                .filter_map(program)
                .filter(|program| Some(*program) != created)
                .collect();
            if programs.is_empty() {
                continue;
            }
            calls.push(
                Call::new(
                    open_trace.sets.number(trace, &programs)?,
                    transaction.fees_only,
                )
                .context("too many different sets of programs")?,
            );
            let position = u32::try_from(calls.len())?;
            changes.extend(
                self.changed(transaction, trace)
                    .map(|(program, kind)| Change {
                        slot_index,
                        position,
                        program,
                        kind,
                    }),
            );
        }
        let transactions = block.transactions.len() as u64;
        trace.add_slot(
            Slot {
                slot: block.slot,
                parent: block.parent,
                transactions,
                kind,
            },
            &calls,
        )?;
        for change in changes {
            trace.add_change(change)?;
        }
        Ok(())
    }

    /// Adds accounts of the loader that no longer exist: buffers with deployed code, and the code
    /// of closed programs. A transaction with the loader may write them without their signature.
    fn add_buffers(&mut self, transaction: &Transaction, trace: &mut Trace) -> Result<()> {
        for key in transaction
            .changed
            .iter()
            .filter(|key| !transaction.signs(key))
        {
            if self.missing.remove(key) {
                let buffer = Program {
                    address: Some(*key),
                    loader: Some(Loader::V3),
                    bytes: None,
                    has_code: false,
                };
                self.known.insert(*key, Some(trace.add_program(buffer)?));
                self.unresolved = self.unresolved.saturating_sub(1);
            }
        }
        Ok(())
    }

    /// The account that a first deployment creates for the code. It did not exist before, so it was
    /// not looked up.
    fn created(&self, transaction: &Transaction) -> Option<u32> {
        let number = |key: &Address| self.known.get(key).copied().flatten();
        let is_program =
            |key: &Address| number(key).is_some_and(|program| self.executable.contains(&program));
        let deployed = transaction
            .changed
            .iter()
            .find(|key| transaction.signs(key) && is_program(key))?;
        number(self.code.get(deployed)?)
            .filter(|_| transaction.change == Some(ProgramChange::Deployed))
    }

    /// Programs that a transaction deployed or closed. An extended program counts as deployed.
    fn changed(
        &self,
        transaction: &Transaction,
        trace: &Trace,
    ) -> impl Iterator<Item = (u32, ChangeKind)> {
        let programs = transaction
            .changed
            .iter()
            .filter_map(|key| self.known.get(key).copied().flatten());
        let kind = |program: u32| {
            let has_code = trace
                .programs()
                .get(program as usize)
                .is_some_and(|program| program.has_code);
            let is_closed =
                transaction.change == Some(ProgramChange::ExtendedOrClosed) && !has_code;
            if is_closed {
                ChangeKind::Closed
            } else {
                ChangeKind::Deployed
            }
        };
        let changed: Vec<(u32, ChangeKind)> = programs
            .filter(|program| self.executable.contains(program))
            .map(|program| (program, kind(program)))
            .collect();
        changed.into_iter()
    }
}

fn code_address(account: &Account) -> Option<Address> {
    let is_upgradeable = account.executable && address::loader(&account.owner) == Some(Loader::V3);
    let bytes = if is_upgradeable {
        STANDARD.decode(&account.data.0).ok()?
    } else {
        return None;
    };
    bytes.try_into().ok()
}

fn fetch_accounts(rpc: &Rpc, keys: &[Address]) -> Result<Vec<Option<Account>>> {
    let names: Vec<String> = keys.iter().map(address::text).collect();
    let slice = json!({"encoding": "base64", "dataSlice": {"offset": 4, "length": 32}, "commitment": "finalized"});
    let answer: Option<Accounts> = rpc.ask("getMultipleAccounts", &json!([names, slice]))?;
    let accounts = answer
        .context("getMultipleAccounts: the result is null")?
        .value;
    let requested = keys.len();
    let answered = accounts.len();
    ensure!(
        requested == answered,
        "getMultipleAccounts: {answered} accounts in the answer, and {requested} were asked for"
    );
    Ok(accounts)
}
