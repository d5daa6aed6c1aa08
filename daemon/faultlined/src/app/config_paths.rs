//! Checks paths and addresses of the configuration before the daemon starts.

use faultline_core::{
    config::{Config, Log, TargetSelector},
    supervisor::{FS_CALL_TIMEOUT, FsCalls},
};
use faultline_recorder::flight::check_writable;
use std::{
    fs::{self, Metadata},
    io::{self, ErrorKind},
    net::{IpAddr, SocketAddr},
    os::unix::fs::PermissionsExt,
    path::Path,
};

pub fn port_conflict(config: &Config) -> Option<String> {
    let metrics = config.metrics.listen;
    let ingest = config.ingest.listen;
    (config.ingest.enabled && collide(metrics, ingest)).then(|| {
        format!(
            "metrics.listen {metrics} and ingest.listen {ingest} are the same port: give each a port of its own, as in \
             127.0.0.1:9912 and 127.0.0.1:9913"
        )
    })
}

/// Port 0 never collides. A listener at an unspecified address uses the port on every address, and
/// at `[::]` also on IPv4.
pub fn collide(first: SocketAddr, second: SocketAddr) -> bool {
    let covers = |wide: IpAddr, narrow: IpAddr| {
        wide.is_unspecified() && (wide.is_ipv6() || narrow.is_ipv4())
    };
    let a = first.ip().to_canonical();
    let b = second.ip().to_canonical();
    first.port() == second.port() && first.port() != 0 && (a == b || covers(a, b) || covers(b, a))
}

pub fn path_errors(config: &Config) -> Vec<String> {
    let log = validator_log(config)
        .filter(|file| metadata(file).is_ok_and(|metadata| metadata.is_dir()))
        .map(|file| {
            format!(
                "log.file: {} is a folder; name the file in it",
                faultline_text::path(file)
            )
        });
    let ledger = ledger(config)
        .filter(|ledger| metadata(ledger).is_ok_and(|metadata| !metadata.is_dir()))
        .map(|ledger| {
            format!(
                "target.ledger: {} is not a folder; name the folder of the ledger",
                faultline_text::path(ledger)
            )
        });
    log.into_iter().chain(ledger).collect()
}

/// Warns about valid paths that are probably wrong: relative, missing or unreadable ones.
pub fn path_warnings(config: &Config) -> Vec<String> {
    let paths = configured_paths(config);
    let relative = paths.iter().filter(|(_, path, _)| path.is_relative()).map(|(key, path, _)| {
        let key = key.map(|key| format!("{key}: ")).unwrap_or_default();
        format!(
            "{key}{} is a relative path: the daemon looks for it in its working directory, which is / under systemd; \
             write the whole path",
            faultline_text::path(path)
        )
    });
    let inaccessible = paths.iter().filter_map(|(key, path, effect)| {
        let (key, effect) = key.zip(effect.filter(|_| path.is_absolute()))?;
        let shown = faultline_text::path(path);
        let error = metadata(path).err()?;
        match error.kind() {
            ErrorKind::TimedOut => Some(format!("{key}: {shown}: {error}")),
            ErrorKind::NotFound => Some(format!("{key}: {shown} does not exist: {effect}")),
            ErrorKind::PermissionDenied => Some(format!(
                "{key}: {shown} is not accessible to this user; run check-config as the daemon's user"
            )),
            _ => Some(format!(
                "{key}: {shown} cannot be used: check each folder above it"
            )),
        }
    });
    let unreadable = validator_log(config)
        .filter(|file| {
            file.is_absolute() && metadata(file).is_ok_and(|metadata| metadata.is_file())
        })
        .and_then(|file| {
            let path = file.to_owned();
            let open = move || fs::File::open(path).err();
            let error = FsCalls::new("config-path")
                .call(FS_CALL_TIMEOUT, open)
                .ok()??;
            Some(format!(
                "log.file: {} cannot be read by this user: {error}; run check-config as the daemon's user",
                faultline_text::path(file)
            ))
        });
    // A folder that has the recorder's marker is no error: the recorder retries.
    let unwritable = (config.flight.folder.as_deref())
        .filter(|folder| metadata(folder).is_ok_and(|metadata| metadata.is_dir()))
        .and_then(|folder| check_writable(folder).err())
        .map(|what| format!("flight.folder: {what}"));
    relative
        .chain(inaccessible)
        .chain(unreadable)
        .chain(unwritable)
        .collect()
}

/// Returns [`ErrorKind::TimedOut`] if the call panicked, did not return in time or could not start.
fn metadata(path: &Path) -> io::Result<Metadata> {
    let path = path.to_owned();
    FsCalls::new("config-path")
        .call(FS_CALL_TIMEOUT, move || fs::metadata(path))
        .unwrap_or_else(|error| Err(io::Error::new(ErrorKind::TimedOut, error)))
}

fn validator_log(config: &Config) -> Option<&Path> {
    match &config.log {
        Some(Log::File(file)) => Some(file),
        _ => None,
    }
}

fn ledger(config: &Config) -> Option<&Path> {
    match &config.target.selector {
        TargetSelector::Ledger(ledger) => Some(ledger),
        _ => None,
    }
}

/// Key, path, and the effect of a missing path. A secret file has no key, because several keys can
/// name it. The effect is `None` if another check reports a missing path.
fn configured_paths(config: &Config) -> Vec<(Option<&'static str>, &Path, Option<&'static str>)> {
    let metrics_effect = Some("the metrics that are read from it are absent");
    let ledger_effect =
        Some("the daemon finds no validator by its ledger until this folder exists");
    let with_keys = [
        (
            "log.file",
            validator_log(config),
            Some("the daemon waits for it"),
        ),
        ("target.ledger", ledger(config), ledger_effect),
        (
            "metrics.web_config",
            config.metrics.web_config.as_deref(),
            None,
        ),
        ("record.file", config.record.file.as_deref(), None),
        ("flight.folder", config.flight.folder.as_deref(), None),
        ("status.evidence", config.status.evidence.as_deref(), None),
        (
            "paths.procfs",
            Some(&*config.paths.procfs),
            Some("the daemon cannot start without it"),
        ),
        ("paths.sysfs", Some(&*config.paths.sysfs), metrics_effect),
        ("paths.cgroup", Some(&*config.paths.cgroup), metrics_effect),
    ];
    let without_keys = config
        .secret_files
        .iter()
        .map(|file| (None, file.as_path(), None));
    with_keys
        .into_iter()
        .filter_map(|(key, path, effect)| Some((Some(key), path?, effect)))
        .chain(without_keys)
        .collect()
}

/// `web_secrets` are the file of `metrics.web_config` and the TLS key that it names.
pub fn secret_warnings<'p>(
    config: &'p Config,
    web_secrets: impl Iterator<Item = &'p Path>,
) -> Vec<String> {
    config
        .secret_files
        .iter()
        .map(|file| file.as_path())
        .chain(web_secrets)
        .filter(|file| is_world_accessible(file))
        .map(secret_warning)
        .collect()
}

fn secret_warning(file: &Path) -> String {
    let file = file.display();
    format!(
        "{file} holds a secret, and every user of this machine may read or change it: chmod o-rwx {file}"
    )
}

/// True if the modes of the file and of all folders above it let every user read or write it.
fn is_world_accessible(file: &Path) -> bool {
    let Ok(file) = file.canonicalize() else {
        return false;
    };
    let mode = |path: &Path| fs::metadata(path).map_or(0, |metadata| metadata.permissions().mode());
    mode(&file) & 0o006 != 0
        && file
            .ancestors()
            .skip(1)
            .all(|folder| mode(folder) & 0o001 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_port_on_overlapping_addresses_is_a_conflict() {
        let conflict = |a: &str, b: &str| collide(a.parse().unwrap(), b.parse().unwrap());
        assert!(conflict("127.0.0.1:9912", "127.0.0.1:9912"));
        assert!(
            conflict("0.0.0.0:9912", "127.0.0.1:9912") && conflict("127.0.0.1:9912", "[::]:9912")
        );
        assert!(
            !conflict("127.0.0.1:9912", "127.0.0.1:9913")
                && !conflict("127.0.0.1:9912", "127.0.0.2:9912")
        );
        assert!(!conflict("127.0.0.1:0", "127.0.0.1:0") && !conflict("0.0.0.0:1", "[::1]:1"));
    }

    #[test]
    fn missing_or_relative_paths_are_reported_with_their_keys() {
        let folder = tempfile::tempdir().unwrap();
        let mut config = Config {
            log: Some(Log::File("agave.log".into())),
            ..Config::default()
        };
        config.target.selector = TargetSelector::Ledger(folder.path().join("none"));
        config.secret_files = vec!["password".into()];
        let found = path_warnings(&config);
        assert_eq!(found.len(), 3, "{found:?}");
        for (warning, words) in found.iter().zip([
            "log.file: agave.log is a relative",
            "password is a relative",
            "target.ledger: ",
        ]) {
            assert!(warning.starts_with(words), "{warning}");
        }
        assert_eq!(path_errors(&config), Vec::<String>::new());
        config.log = Some(Log::File(folder.path().into()));
        assert!(path_errors(&config)[0].starts_with("log.file: "));
    }

    use std::fs::{Permissions, set_permissions, write};

    #[test]
    fn secret_files_accessible_to_others_are_reported_unless_their_folder_protects() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        write(&file, "x").unwrap();
        let warning_count = |folder_mode: u32, file_mode: u32| {
            set_permissions(folder.path(), Permissions::from_mode(folder_mode)).unwrap();
            set_permissions(&file, Permissions::from_mode(file_mode)).unwrap();
            let config = Config {
                secret_files: vec![file.clone()],
                ..Config::default()
            };
            secret_warnings(&config, std::iter::empty()).len()
        };
        assert_eq!(
            (
                warning_count(0o755, 0o640),
                warning_count(0o755, 0o644),
                warning_count(0o755, 0o602)
            ),
            (0, 1, 1)
        );
        assert_eq!(warning_count(0o750, 0o666), 0);
    }
}
