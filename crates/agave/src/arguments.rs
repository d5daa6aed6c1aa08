use crate::identify::{Program, Validator, option_values};
use std::{
    ffi::OsStr,
    ops::RangeInclusive,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

const FOLDER_OPTIONS: [(&str, &[&str]); 5] = [
    ("accounts", &["--accounts"]),
    (
        "snapshots",
        &["--snapshots", "--full-snapshot-archive-path"],
    ),
    (
        "incremental_snapshots",
        &["--incremental-snapshot-archive-path"],
    ),
    ("accounts_index", &["--accounts-index-path"]),
    ("accounts_hash_cache", &["--accounts-hash-cache-path"]),
];

/// The range that a validator uses without `--dynamic-port-range`.
const DYNAMIC_PORTS: RangeInclusive<u16> = 8000..=9999;
const TEST_VALIDATOR_PORTS: RangeInclusive<u16> = 1024..=65534;

/// Folders and the log file of the command line, with their purposes. A path with several purposes
/// is listed several times. Without `--accounts` its default is listed. The default of
/// `--snapshots`, the ledger folder, is not.
///
/// `ledger` is the absolute path of the ledger folder; `None` stands for that of the command line.
pub fn folders<S: AsRef<OsStr>>(
    validator: &Validator,
    ledger: Option<&Path>,
    arguments: &[S],
) -> Vec<(&'static str, PathBuf)> {
    let ledger = ledger.or(validator.ledger_or_default());
    let mut folders = Vec::from_iter(ledger.map(|ledger| ("ledger", ledger.to_owned())));
    for (purpose, options) in FOLDER_OPTIONS {
        let values = option_values(arguments, options);
        let mut paths = values
            .iter()
            .flat_map(|list| list.as_bytes().split(|byte| *byte == b','))
            .filter(|path| !path.is_empty())
            .peekable();
        if let (None, "accounts", Some(ledger)) = (paths.peek(), purpose, ledger) {
            folders.push((purpose, ledger.join("accounts")));
        }
        folders.extend(paths.map(|path| (purpose, PathBuf::from(OsStr::from_bytes(path)))));
    }
    let log = { validator.log.clone() }.filter(|log| !matches!(log.to_str(), Some("" | "-")));
    folders.extend(log.map(|log| ("log", log)));
    folders
}

/// `None` for Frankendancer, whose ports are in a file.
pub fn udp_ports<S: AsRef<OsStr>>(
    validator: &Validator,
    arguments: &[S],
) -> Option<Vec<RangeInclusive<u16>>> {
    let default = match validator.program {
        Program::Fdctl => return None,
        Program::TestValidator => TEST_VALIDATOR_PORTS,
        _ => DYNAMIC_PORTS,
    };
    let first_value = |option| option_values(arguments, &[option]).into_iter().next();
    // The upper end is exclusive.
    let range = first_value("--dynamic-port-range").and_then(|range| {
        let (first, end) = range.to_str()?.split_once('-')?;
        Some(first.parse().ok()?..=end.parse::<u16>().ok()?.checked_sub(1)?)
    });
    let gossip = first_value("--gossip-port").and_then(|port| port.to_str()?.parse().ok());
    Some(
        [
            Some(range.unwrap_or(default)),
            gossip.map(|port: u16| port..=port),
        ]
        .into_iter()
        .flatten()
        .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identify::{Process, identify};

    fn validator(line: &str) -> (Validator, Vec<String>) {
        let arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
        match identify(&arguments[0], &arguments) {
            Process::Validator(validator) => (validator, arguments),
            other => panic!("{other:?}"),
        }
    }

    fn found(line: &str) -> Vec<String> {
        let (validator, arguments) = validator(line);
        let all = folders(&validator, None, &arguments);
        all.into_iter()
            .map(|(what, path)| format!("{what} {}", path.display()))
            .collect()
    }

    #[test]
    fn the_accounts_path_defaults_to_the_ledger_folder() {
        assert_eq!(
            found("agave-validator --ledger /l"),
            ["ledger /l", "accounts /l/accounts"]
        );
        assert_eq!(
            found("agave-validator --ledger /l --accounts="),
            ["ledger /l", "accounts /l/accounts"]
        );
        let line = "agave-validator -l /l --accounts /a,/b --snapshots=/s --log /var/log/v.log --log-messages-bytes-limit 5";
        assert_eq!(
            found(line),
            [
                "ledger /l",
                "accounts /a",
                "accounts /b",
                "snapshots /s",
                "log /var/log/v.log"
            ]
        );
        assert_eq!(found("agave-validator -l /l -o -").len(), 2);
    }

    #[test]
    fn the_log_option_of_the_test_validator_takes_no_value() {
        assert_eq!(
            found("solana-test-validator --log --reset --ledger /l"),
            ["ledger /l", "accounts /l/accounts"]
        );
    }

    #[test]
    fn validator_ports_are_its_range_excluding_the_end_plus_gossip() {
        let ports = |line: &str| {
            let (validator, arguments) = validator(line);
            udp_ports(&validator, &arguments)
        };
        assert_eq!(ports("agave-validator --ledger l"), Some(vec![8000..=9999]));
        let given = ports("agave-validator --dynamic-port-range 11000-11020 --gossip-port 8001");
        assert_eq!(given, Some(vec![11000..=11019, 8001..=8001]));
        assert_eq!(
            ports("agave-validator --dynamic-port-range what"),
            Some(vec![8000..=9999])
        );
        assert_eq!(ports("fdctl run-agave"), None);
    }
}
