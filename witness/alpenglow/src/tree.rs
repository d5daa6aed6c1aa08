//! The files, and which code of the release wrote each.

use std::fs;
use std::io;
use std::path::Path;

use agave_votor_messages::migration::GENESIS_CERTIFICATE_ACCOUNT;
use serde_json::{Value, json};

use crate::answers;
use crate::cluster::{self, ACTIVATION_SLOT, EPOCH, GENESIS_SLOT, MIGRATION_SLOT, Phase};
use crate::journal;
use crate::points;
use crate::release::admin::{AdminRpcValidatorAdmissionTicketStatus, VATHealthError};
use crate::release::origin;

/// Of the vote account: rent and one ticket at 200 ms.
const REQUIRED: u64 = 827_074_400;
const VERSION: &str = "4.5.0-alpha.4";

struct Tree {
    files: Vec<(String, String)>,
    index: Vec<Value>,
}

impl Tree {
    fn add(&mut self, phase: &str, file: &str, content: String, written_by: &[String]) {
        let path = format!("{phase}/{file}");
        self.index
            .push(json!({"file": path, "phase": phase, "written_by": written_by}));
        self.files.push((path, content));
    }
}

fn of(package: &str, what: &str) -> String {
    format!("{package} {VERSION} {what}")
}

fn rpc_type(name: &str) -> String {
    of("solana-rpc-client-types", name)
}

pub fn write(folder: &Path) -> io::Result<()> {
    let mut tree = Tree {
        files: Vec::new(),
        index: Vec::new(),
    };
    for phase in Phase::ALL {
        add_answers(&mut tree, phase);
        // Later epochs push as the first whole one does.
        if phase != Phase::Later {
            add_pushed(&mut tree, phase);
        }
    }
    add_events(&mut tree);
    add_variants(&mut tree);
    add_admission(&mut tree);
    let index = json!({
        "release": VERSION,
        "cluster": cluster(),
        "phases": Phase::ALL.map(phase),
        "files": tree.index,
    });
    let index = serde_json::to_string_pretty(&index).expect("the index is JSON") + "\n";
    tree.files.push(("index.json".to_owned(), index));
    for (file, content) in &tree.files {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().expect("a file is in a folder"))?;
        fs::write(path, content)?;
    }
    Ok(())
}

fn cluster() -> Value {
    json!({
        "genesis_hash": cluster::hash("genesis").to_string(),
        "migration_epoch": EPOCH,
        "activation_slot": ACTIVATION_SLOT,
        "migration_slot": MIGRATION_SLOT,
        "genesis_slot": GENESIS_SLOT,
        "genesis_certificate_account": GENESIS_CERTIFICATE_ACCOUNT.to_string(),
        "alpenglow_gate": agave_feature_set::alpenglow::id().to_string(),
        "slot_seconds": 0.2,
        "validators": cluster::VALIDATORS.map(|of| json!({
            "name": of.identity,
            "identity": cluster::key(of.identity).to_string(),
            "vote_account": cluster::key(of.vote_account).to_string(),
        })),
    })
}

fn phase(phase: Phase) -> Value {
    json!({
        "name": phase.name(),
        "protocol": phase.protocol(),
        "epoch": phase.epoch(),
        "processed": phase.processed(),
        "confirmed": phase.confirmed(),
        "finalized": phase.finalized(),
    })
}

fn add_answers(tree: &mut Tree, phase: Phase) {
    let name = phase.name();
    let votes = answers::success(&answers::vote_accounts(phase));
    let by = [rpc_type("RpcVoteAccountStatus"), origin("rewards")];
    tree.add(name, "getVoteAccounts.json", votes, &by);
    let mut add = |file: &str, content: String, by: String| tree.add(name, file, content, &[by]);
    let certificate = of("agave-votor-messages", "WireBlockCertMessage");
    let number = "a number in jsonrpc-core 18's Success".to_owned();
    let slots = [
        ("processed", phase.processed()),
        ("confirmed", phase.confirmed()),
        ("finalized", phase.finalized()),
    ];
    for (commitment, slot) in slots {
        add(
            &format!("getSlot-{commitment}.json"),
            answers::success(&slot),
            number.clone(),
        );
    }
    add(
        "getAgGenesisCert.json",
        answers::success(&answers::genesis_certificate(phase)),
        certificate,
    );
    add(
        "getHealth.json",
        answers::health(phase),
        of("solana-rpc-client-api", "RpcCustomError"),
    );
    add(
        "getEpochInfo.json",
        answers::success(&answers::epoch_info(phase)),
        "solana-epoch-info 3 EpochInfo".to_owned(),
    );
    add(
        "getBlockProduction.json",
        answers::success(&answers::block_production(phase)),
        rpc_type("RpcBlockProduction"),
    );
    add(
        "getVersion.json",
        answers::success(&answers::version()),
        rpc_type("RpcVersionInfo"),
    );
    add(
        "getIdentity.json",
        answers::success(&answers::identity("own")),
        rpc_type("RpcIdentity"),
    );
    add(
        "getGenesisHash.json",
        answers::success(&cluster::hash("genesis").to_string()),
        "solana-hash 4 Hash".to_owned(),
    );
    // Votes cost fees under Tower only: the identity needs less afterwards, the vote account more.
    let [identity, vote] = if phase.is_alpenglow() {
        [50_000_000, 4_110_000_000]
    } else {
        [12_345_000_000, 27_074_400]
    };
    add(
        "getBalance-identity.json",
        answers::success(&answers::balance(phase, identity)),
        rpc_type("Response"),
    );
    add(
        "getBalance-vote-account.json",
        answers::success(&answers::balance(phase, vote)),
        rpc_type("Response"),
    );
}

fn add_pushed(tree: &mut Tree, phase: Phase) {
    let mut points = points::of_phase(phase);
    points.sort_by_key(|point| point.timestamp);
    let mut by: Vec<String> = points::BANK.map(origin).into();
    by.extend(points::POOL.map(origin));
    if phase == Phase::Tower {
        by.push(origin("optimistic_slot"));
    }
    if phase.is_alpenglow() {
        by.extend(points::VOTOR.map(origin));
    }
    let lines = points::lines(&points, &cluster::key("own"));
    tree.add(phase.name(), "pushed.lp", lines, &by);
}

fn add_events(tree: &mut Tree) {
    let [own, spare] = ["own", "spare"].map(cluster::key);
    points::migration_started();
    let started = points::lines(&points::take(), &own);
    let by = [origin("migration-started")];
    tree.add("events", "migration-started.lp", started, &by);
    let switch = points::lines(&points::of_the_switch(), &own);
    let mut by: Vec<String> = points::BANK.map(origin).into();
    by.push(origin("migration-complete"));
    tree.add("events", "migration-complete.lp", switch, &by);
    let identity = points::of_set_identity(own, spare);
    let mut by: Vec<String> = points::BANK.map(origin).into();
    by.push(origin("validator-set_identity"));
    tree.add("events", "set-identity.lp", identity, &by);
    let mut by = vec![of("agave-votor-messages", "MigrationStatus")];
    by.extend(["purging", "event_loop", "vat_failing", "vat_passing"].map(origin));
    by.extend(["migration-started", "migration-complete"].map(origin));
    tree.add("events", "migration.log", journal::of_the_migration(), &by);
    let by = [of("agave-votor-messages", "MigrationStatus")];
    tree.add("events", "restart.log", journal::of_a_restart(), &by);
}

fn add_variants(tree: &mut Tree) {
    let health = [of("solana-rpc-client-api", "RpcCustomError")];
    tree.add(
        "variants",
        "getHealth-ok.json",
        answers::success(&"ok"),
        &health,
    );
    tree.add(
        "variants",
        "getHealth-behind.json",
        answers::unhealthy(Some(841)),
        &health,
    );
    tree.add(
        "variants",
        "getHealth-unknown.json",
        answers::unhealthy(None),
        &health,
    );
    let twin = answers::success(&answers::identity("twin"));
    tree.add(
        "variants",
        "getIdentity-two-vote-accounts.json",
        twin,
        &[rpc_type("RpcIdentity")],
    );
    let two = answers::success(&answers::two_current_vote_accounts(Phase::NextEpoch));
    let by = [rpc_type("RpcVoteAccountStatus")];
    tree.add("variants", "getVoteAccounts-two-current.json", two, &by);
    let known = answers::success(&cluster::MAINNET_BETA);
    tree.add(
        "variants",
        "getGenesisHash-mainnet-beta.json",
        known,
        &["a string".to_owned()],
    );
    let minimal = answers::failure(jsonrpc_core::Error::method_not_found());
    let by = ["jsonrpc-core 18 Error".to_owned()];
    tree.add(
        "variants",
        "getAgGenesisCert-minimal-api.json",
        minimal,
        &by,
    );
}

fn add_admission(tree: &mut Tree) {
    let reasons = [
        ("admitted", true, None),
        (
            "without-funds",
            true,
            Some(VATHealthError::InsufficientFundsInVoteAccount(
                700_000_000,
                REQUIRED,
            )),
        ),
        ("without-bls-key", true, Some(VATHealthError::NoBLSPubkey)),
        (
            "without-vote-account",
            false,
            Some(VATHealthError::VoteAccountNotFound),
        ),
        ("not-in-this-epoch", false, None),
    ];
    let by = [origin("admin"), "jsonrpc-core 18 Success".to_owned()];
    for (name, admitted, next_epoch_vat_failure_reason) in reasons {
        let status = AdminRpcValidatorAdmissionTicketStatus {
            vote_account: cluster::key("own-vote"),
            voting_enabled: true,
            current_epoch: Phase::NextEpoch.epoch(),
            in_current_epoch_vat: admitted,
            current_epoch_vote_account_stake: if admitted {
                40_000_000 * cluster::LAMPORTS_PER_SOL
            } else {
                0
            },
            current_epoch_vote_accounts: cluster::VALIDATORS.len(),
            next_epoch_vat_failure_reason,
        };
        let file = format!("validatorAdmissionTicketStatus-{name}.json");
        tree.add("admin", &file, answers::success(&status), &by);
    }
}
