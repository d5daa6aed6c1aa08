//! Finds the accounts that are programs: a loader owns them. A command requests each account once.

use crate::{
    address::{self, Address},
    block::{Block, ProgramChange, Transaction},
};
use anyhow::{Context, Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use faultline_cache_prediction::trace_file::TraceFile;
use faultline_cache_sim::trace::{
    ChangeKind, Loader, Program, Slot, SlotKind, Trace, TraceChange, TransactionCall,
};
use faultline_client::rpc::Rpc;
use itertools::Itertools;
use serde::Deserialize;
use serde_json::json;
use std::collections::{HashMap, HashSet};

/// RPC nodes refuse requests for more accounts.
const MAX_ACCOUNTS_PER_REQUEST: usize = 100;
/// Bytes before the code in the code accounts of loader v3, and in programs of loader v4.
const HEADER_V3: u64 = 45;
const HEADER_V4: u64 = 48;

#[derive(Deserialize)]
struct Accounts {
    value: Vec<Option<Account>>,
}

#[derive(Deserialize)]
struct Account {
    owner: String,
    executable: bool,
    space: Option<u64>,
    /// Bytes 4 to 36, and their encoding. In an upgradeable program, these bytes are the address of
    /// the account with its code.
    data: (String, String),
}

#[derive(Default)]
pub struct ProgramIndex {
    /// Program numbers in the trace; `None` if the account is not a program.
    program_by_address: HashMap<Address, Option<u32>>,
    /// By address of an upgradeable program, the address of the account with its code.
    code_addresses: HashMap<Address, Address>,
    /// Programs that can be called, or could be called before they were closed.
    executable: HashSet<u32>,
    missing_accounts: HashSet<Address>,
    /// Programs of a continued trace. They are requested again: the trace lacks facts of them.
    resumed: HashSet<Address>,
    /// Accounts that no longer exist and whose kind is unknown.
    pub unresolved: u64,
}

impl ProgramIndex {
    pub fn of(trace: &Trace) -> Self {
        let mut program_index = Self::default();
        for (number, program) in (0..).zip(trace.programs()) {
            program_index
                .program_by_address
                .extend(program.address.map(|address| (address, Some(number))));
            program_index.resumed.extend(program.address);
        }
        program_index
    }

    fn program_number(&self, key: &Address) -> Option<u32> {
        self.program_by_address.get(key).copied().flatten()
    }

    pub fn resolve_programs(
        &mut self,
        rpc: &Rpc,
        blocks: &[Block],
        trace: &mut Trace,
    ) -> Result<()> {
        let possible_programs = blocks
            .iter()
            .flat_map(|block| &block.transactions)
            .flat_map(|transaction| {
                transaction
                    .non_signers
                    .iter()
                    .filter(|(_, may_be_program)| *may_be_program)
                    .map(|(key, _)| *key)
                    .chain(transaction.possibly_changed.iter().copied())
            });
        let mut seen = HashSet::new();
        let new = possible_programs
            .filter(|key| {
                let is_known = self.program_by_address.contains_key(key);
                (!is_known || self.resumed.contains(key)) && seen.insert(*key)
            })
            .collect_vec();
        for batch in new.chunks(MAX_ACCOUNTS_PER_REQUEST) {
            let accounts = fetch_accounts(rpc, batch)?;
            let code_addresses = accounts
                .iter()
                .map(|account| account.as_ref().and_then(code_address))
                .collect_vec();
            let requested_code = code_addresses.iter().flatten().copied().collect_vec();
            let mut code = if requested_code.is_empty() {
                Vec::new()
            } else {
                fetch_accounts(rpc, &requested_code)?
            }
            .into_iter();
            for ((key, account), code_address) in batch.iter().zip(accounts).zip(code_addresses) {
                self.code_addresses
                    .extend(code_address.map(|code_address| (*key, code_address)));
                let code = code_address.and_then(|_| code.next()).flatten();
                self.add_account(*key, account, code, trace)?;
            }
        }
        Ok(())
    }

    fn add_account(
        &mut self,
        key: Address,
        account: Option<Account>,
        code: Option<Account>,
        trace: &mut Trace,
    ) -> Result<()> {
        if self.resumed.remove(&key) {
            let account = account.filter(|account| account.executable);
            self.executable
                .extend(account.and(self.program_number(&key)));
            return Ok(());
        }
        if account.is_none() {
            self.missing_accounts.insert(key);
            self.unresolved += 1;
        }
        let program = account.and_then(|account| Some((address::loader(&account.owner)?, account)));
        let Some((loader, account)) = program else {
            self.program_by_address.insert(key, None);
            return Ok(());
        };
        let bytes = match loader {
            Loader::V1 | Loader::V2 => account.space,
            Loader::V3 => code.and_then(|code| code.space?.checked_sub(HEADER_V3)),
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
        self.program_by_address.insert(key, Some(number));
        self.executable.extend(account.executable.then_some(number));
        Ok(())
    }

    pub fn add_block(
        &mut self,
        block: &Block,
        kind: SlotKind,
        trace_file: &mut TraceFile,
    ) -> Result<()> {
        let mut calls = Vec::new();
        let mut changes = Vec::new();
        let trace = &mut trace_file.trace;
        let slot_index = u32::try_from(trace.slots().len())?;
        for transaction in &block.transactions {
            self.add_missing_loader_accounts(transaction, trace)?;
            let created = self.created_code_account(transaction);
            let programs = transaction
                .non_signers
                .iter()
                .filter_map(|(key, _)| self.program_number(key))
                .filter(|program| Some(*program) != created)
                .collect_vec();
            if programs.is_empty() {
                continue;
            }
            calls.push(
                TransactionCall::new(
                    trace_file.set_interner.intern(trace, &programs)?,
                    transaction.fees_only,
                )
                .context("too many different sets of programs")?,
            );
            let position = u32::try_from(calls.len())?;
            changes.extend(
                self.changed_programs(transaction, trace)
                    .map(|(program, kind)| TraceChange {
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

    /// Adds accounts of the loader that no longer exist: buffers whose code was deployed, and code
    /// accounts of closed programs. They are writable and do not sign.
    fn add_missing_loader_accounts(
        &mut self,
        transaction: &Transaction,
        trace: &mut Trace,
    ) -> Result<()> {
        for key in transaction
            .possibly_changed
            .iter()
            .filter(|key| !transaction.signs(key))
        {
            if self.missing_accounts.remove(key) {
                let program = Program {
                    address: Some(*key),
                    loader: Some(Loader::V3),
                    bytes: None,
                    has_code: false,
                };
                self.program_by_address
                    .insert(*key, Some(trace.add_program(program)?));
                self.unresolved = self.unresolved.saturating_sub(1);
            }
        }
        Ok(())
    }

    /// The account that a first deployment creates for the code. It did not exist before, so the
    /// validator did not look it up.
    fn created_code_account(&self, transaction: &Transaction) -> Option<u32> {
        let is_program = |key: &Address| {
            self.program_number(key)
                .is_some_and(|program| self.executable.contains(&program))
        };
        let deployed = transaction
            .possibly_changed
            .iter()
            .find(|key| transaction.signs(key) && is_program(key))?;
        self.program_number(self.code_addresses.get(deployed)?)
            .filter(|_| transaction.change == Some(ProgramChange::Deployed))
    }

    /// Programs that a transaction deployed or closed. An extended program counts as deployed.
    fn changed_programs(
        &self,
        transaction: &Transaction,
        trace: &Trace,
    ) -> impl Iterator<Item = (u32, ChangeKind)> {
        let programs = transaction
            .possibly_changed
            .iter()
            .filter_map(|key| self.program_number(key));
        let kind = move |program: u32| {
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
        programs
            .filter(|program| self.executable.contains(program))
            .map(move |program| (program, kind(program)))
    }
}

fn code_address(account: &Account) -> Option<Address> {
    let is_upgradeable = account.executable && address::loader(&account.owner) == Some(Loader::V3);
    let bytes = is_upgradeable.then(|| STANDARD.decode(&account.data.0))?;
    bytes.ok()?.try_into().ok()
}

fn fetch_accounts(rpc: &Rpc, keys: &[Address]) -> Result<Vec<Option<Account>>> {
    let texts = keys.iter().map(address::text).collect_vec();
    let options = json!({
        "encoding": "base64",
        "dataSlice": {"offset": 4, "length": 32},
        "commitment": "finalized"
    });
    let answer: Option<Accounts> = rpc.call("getMultipleAccounts", &json!([texts, options]))?;
    let accounts = answer
        .context("getMultipleAccounts: the result is null")?
        .value;
    let requested = keys.len();
    let answered = accounts.len();
    ensure!(
        requested == answered,
        "getMultipleAccounts: {answered} accounts in the answer, and {requested} were requested"
    );
    Ok(accounts)
}
