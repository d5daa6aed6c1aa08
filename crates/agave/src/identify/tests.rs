use super::*;
use std::{ffi::OsString, os::unix::ffi::OsStringExt};

fn of(comm: &str, line: &str) -> Process {
    identify(comm, &line.split(' ').collect::<Vec<_>>())
}

fn validator(comm: &str, line: &str) -> Validator {
    match of(comm, line) {
        Process::Validator(validator) => validator,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn validator_settings_are_parsed_in_every_option_spelling() {
    for line in [
        "agave-validator --ledger /l --identity /i.json --rpc-port 8899 --log /x.log",
        "agave-validator --ledger=/l --identity=/i.json --rpc-port=8899 --log=/x.log",
        "/opt/bin/agave-validator -l /l -i /i.json --rpc-port 8899 -o /x.log",
        "agave-validator -l/l -i/i.json --rpc-port=8899 -o/x.log run",
    ] {
        let found = validator("agave-validator", line);
        assert_eq!(found.ledger.as_deref(), Some(Path::new("/l")), "{line}");
        assert_eq!(
            found.identity.as_deref(),
            Some(Path::new("/i.json")),
            "{line}"
        );
        assert_eq!(
            (found.rpc_port, found.log.as_deref()),
            (Some(8899), Some(Path::new("/x.log"))),
            "{line}"
        );
    }
}

#[test]
fn an_option_with_a_longer_name_is_another_option() {
    let found = validator(
        "agave-validator",
        "agave-validator --ledger-x /a --rpc-port-range 1 --limit-ledger-size 50",
    );
    assert_eq!((found.ledger.as_deref(), found.rpc_port), (None, None));
    assert_eq!(found.ledger_or_default(), Some(Path::new("ledger")));
}

#[test]
fn the_json_rpc_address_is_derived_from_the_validators_arguments() {
    for (arguments, host) in [
        ("--rpc-port 8899", None),
        ("--bind-address 10.0.0.7 --rpc-port 8899", Some("10.0.0.7")),
        (
            "--bind-address 10.0.0.7 --bind-address 10.0.0.8",
            Some("10.0.0.7"),
        ),
        ("--bind-address 10.0.0.7 10.0.0.8", Some("10.0.0.7")),
        ("--private-rpc --bind-address=10.0.0.7", Some("127.0.0.1")),
        (
            "--rpc-bind-address=10.0.0.9 --private-rpc --bind-address 10.0.0.7",
            Some("10.0.0.9"),
        ),
        ("--rpc-bind-address localhost", Some("localhost")),
    ] {
        let line = format!("agave-validator --ledger /l {arguments}");
        assert_eq!(
            validator("agave-validator", &line).rpc_host.as_deref(),
            host,
            "{line}"
        );
    }
}

#[test]
fn a_vote_account_is_read_from_its_address_not_a_keypair_file() {
    let address = "7Np41oeYqPefeNQEHSv1UDhYrehxin3NStELsSKCT4K2";
    for (line, expected) in [
        (
            format!("agave-validator --vote-account {address} --ledger /l"),
            Some(address),
        ),
        (
            format!("agave-validator --vote-account={address}"),
            Some(address),
        ),
        (
            "agave-validator --vote-account /keys/vote.json".to_owned(),
            None,
        ),
        ("agave-validator --no-voting".to_owned(), None),
    ] {
        let found = validator("agave-validator", &line).vote_account;
        assert_eq!(
            found.map(|key| key.to_string()).as_deref(),
            expected,
            "{line}"
        );
    }
}

#[test]
fn the_poh_cpu_is_a_number_by_its_newer_option_and_defaults_to_the_first() {
    for (line, cpu) in [
        (
            "agave-validator --ledger /l",
            Some(PohCpu::NumberOrIndex(0)),
        ),
        (
            "agave-validator --experimental-poh-pinned-cpu-core 3 --ledger /l",
            Some(PohCpu::NumberOrIndex(3)),
        ),
        (
            "agave-validator --poh-pinned-cpu-core=10",
            Some(PohCpu::Number(10)),
        ),
        ("agave-validator --poh-pinned-cpu-core many", None),
    ] {
        assert_eq!(validator("agave-validator", line).poh_cpu, cpu, "{line}");
    }
    assert_eq!(
        validator("fdctl", "fdctl run-agave --config-fd 0").poh_cpu,
        None
    );
    assert_eq!(validator("solana-test-val", "x").poh_cpu, None);
}

#[test]
fn every_program_is_recognised_by_its_truncated_name() {
    for (comm, program, ledger) in [
        ("agave-validator\n", Program::AgaveValidator, Some("ledger")),
        ("solana-validato", Program::SolanaValidator, Some("ledger")),
        ("jito-validator", Program::JitoValidator, Some("ledger")),
        (
            "solana-test-val",
            Program::TestValidator,
            Some("test-ledger"),
        ),
    ] {
        let found = validator(comm, "x --rpc-port 1");
        assert_eq!(
            (found.program, found.ledger_or_default()),
            (program, ledger.map(Path::new)),
            "{comm}"
        );
    }
    assert_eq!(
        validator("fdctl", "fdctl run-agave --config-fd 0").ledger_or_default(),
        None
    );
}

#[test]
fn the_validator_program_with_another_subcommand_is_not_a_validator() {
    for (comm, line, name) in [
        (
            "agave-validator",
            "agave-validator --ledger /l monitor",
            "monitor",
        ),
        (
            "agave-validator",
            "agave-validator -l /l wait-for-restart-window --max-delinquent-stake 5",
            "wait-for-restart-window",
        ),
        ("agave-validator", "agave-validator exit --force", "exit"),
        (
            "agave-validator",
            "agave-validator set-identity /k.json",
            "set-identity",
        ),
        ("solana-validato", "solana-validator --version", "--version"),
        ("fdctl", "fdctl run --config x.toml", "run"),
    ] {
        assert!(
            matches!(of(comm, line), Process::Subcommand(found) if found == name),
            "{line}"
        );
    }
}

#[test]
fn a_folder_named_like_a_subcommand_is_not_a_subcommand() {
    assert_eq!(
        validator("agave-validator", "agave-validator --ledger monitor")
            .ledger
            .as_deref(),
        Some(Path::new("monitor"))
    );
}

#[test]
fn other_programs_and_zombies_are_not_validators() {
    assert_eq!(of("bash", "bash agave-validator"), Process::Other);
    assert_eq!(identify::<&str>("agave-validator", &[]), Process::Other);
    assert_eq!(of("agave-valid", "agave-validator"), Process::Other);
}

#[test]
fn the_test_validators_log_option_takes_no_value() {
    assert_eq!(
        validator("solana-test-val", "solana-test-validator --log --ledger /l").log,
        None
    );
}

#[test]
fn a_ledger_that_is_not_utf_8_is_kept_as_it_is() {
    let ledger = OsString::from_vec(b"/mnt/l\xffdger".to_vec());
    let words = ["agave-validator".into(), "--ledger".into(), ledger.clone()];
    let Process::Validator(validator) = identify("agave-validator", &words) else {
        panic!("{words:?}")
    };
    assert_eq!(validator.ledger, Some(PathBuf::from(&ledger)));
    let words = [b"agave-validator".to_vec(), b"-l/mnt/l\xff".to_vec()].map(OsString::from_vec);
    let Process::Validator(validator) = identify("agave-validator", &words) else {
        panic!("{words:?}")
    };
    let ledger = OsString::from_vec(b"/mnt/l\xff".to_vec());
    assert_eq!(validator.ledger, Some(PathBuf::from(ledger)));
}

#[test]
fn the_startup_host_id_matches_a_captured_test_validator_push() {
    let pushed = include_str!("../../tests/fixtures/leader.lp")
        .lines()
        .next()
        .unwrap();
    let name = crate::line::name_of(pushed.as_bytes()).unwrap();
    let host = crate::line::host_id_of(pushed.as_bytes(), name).unwrap();
    assert_eq!(startup_host_id("vm").as_bytes(), host);
}
