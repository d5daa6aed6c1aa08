mod datapoints;

use super::values::{address, label, user_id};
use super::{Config, Credentials, Find, Forward, Log, MIN_INTERVAL};
use faultline_agave::PublicKey;
use faultline_agave::config::MetricsConfig;
use faultline_agave::rpc::PROBES;
use faultline_settings::{ConfigError, Table, distinct, flag, text, time, whole};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Returns every error; only one if the file cannot be read. Invalid values have their defaults.
pub fn load(path: &Path) -> (Config, Vec<ConfigError>) {
    match read(path) {
        Ok(text) => parse_all(&text),
        Err(what) => (Config::default(), vec![ConfigError::new(what)]),
    }
}

/// # Errors
/// Every error found. For invalid TOML, only the parser's.
pub fn parse(text: &str) -> Result<Config, Vec<ConfigError>> {
    let (config, mistakes) = parse_all(text);
    if mistakes.is_empty() {
        Ok(config)
    } else {
        Err(mistakes)
    }
}

fn parse_all(text: &str) -> (Config, Vec<ConfigError>) {
    let (config, mistakes) = faultline_settings::read(text, None, sections);
    (config.unwrap_or_default(), mistakes)
}

fn sections(mut top: Table<'_>) -> Config {
    let mut c = Config::default();
    top.table("target", |t| target(t, &mut c));
    top.table("sampling", |t| {
        t.set("interval", &mut c.sampling.interval, |v| {
            at_least(time(v)?, MIN_INTERVAL)
        })
    });
    top.table("threads", |t| threads(t, &mut c));
    top.table("metrics", |t| metrics(t, &mut c));
    top.table("labels", |t| labels(t, &mut c));
    top.table("log", |t| c.log = log(t));
    // One input, not two: a log disables the listener unless the file enables both, which is an
    // error.
    c.ingest.enabled = c.log.is_none();
    top.table("ingest", |t| ingest(t, &mut c));
    top.table("forward", |t| c.forward = forward(t, &mut c.secret_files));
    top.table("rpc", |t| rpc(t, &mut c));
    top.table("probe", |t| probe(t, &mut c));
    top.table("validator", |t| validator(t, &mut c));
    top.table("admin", |t| admin(t, &mut c));
    top.table("host", |t| {
        t.set("enabled", &mut c.host.enabled, flag);
        t.set("interval", &mut c.host.interval, |v| {
            at_least(time(v)?, Duration::from_secs(1))
        });
    });
    top.table("phase", |t| phase(t, &mut c));
    top.table("datapoints", |t| datapoints::read(t, &mut c));
    top.table("record", |t| record(t, &mut c));
    top.table("flight", |t| flight(t, &mut c));
    top.table("paths", |t| paths(t, &mut c));
    let errors = top.errors();
    top.finish();
    if c.probe.enabled && !c.rpc.enabled {
        errors.push(None, "probe: it asks where [rpc] asks, and rpc.enabled is false: set rpc.enabled = true, or probe.enabled = false");
    }
    c.settle();
    if c.forward.is_some() && !c.ingest.enabled {
        errors.push(None, "forward: only pushes are forwarded, and [ingest] is disabled (the default with [log]): remove [forward], or use [ingest] instead of [log]");
    }
    c
}

fn threads(t: &mut Table<'_>, c: &mut Config) {
    t.set("enabled", &mut c.threads.enabled, flag);
    t.set("interval", &mut c.threads.interval, |v| {
        at_least(time(v)?, MIN_INTERVAL)
    });
    t.set("switches_interval", &mut c.threads.switches_interval, |v| {
        at_least(time(v)?, MIN_INTERVAL)
    });
}

fn labels(t: &mut Table<'_>, c: &mut Config) {
    c.labels.cluster = t.take("cluster", text);
    c.labels.experiment = t.take("experiment", text);
    c.labels.arm = t.take("arm", text);
    c.labels.run = t.take("run", text);
}

fn rpc(t: &mut Table<'_>, c: &mut Config) {
    t.set("enabled", &mut c.rpc.enabled, flag);
    c.rpc.url = t.take("url", |v| rpc_url(&text(v)?));
    t.set("interval", &mut c.rpc.interval, |v| {
        at_least(time(v)?, MIN_INTERVAL)
    });
    t.set("timeout", &mut c.rpc.timeout, |v| {
        at_least(time(v)?, Duration::from_millis(10))
    });
}

fn admin(t: &mut Table<'_>, c: &mut Config) {
    t.set("enabled", &mut c.admin.enabled, flag);
    t.set("timeout", &mut c.admin.timeout, |v| {
        at_least(time(v)?, Duration::from_millis(10))
    });
}

fn paths(t: &mut Table<'_>, c: &mut Config) {
    t.set("procfs", &mut c.paths.procfs, |v| {
        text(v).map(PathBuf::from)
    });
    t.set("sysfs", &mut c.paths.sysfs, |v| text(v).map(PathBuf::from));
    t.set("cgroup", &mut c.paths.cgroup, |v| {
        text(v).map(PathBuf::from)
    });
}

fn probe(t: &mut Table<'_>, c: &mut Config) {
    t.set("enabled", &mut c.probe.enabled, flag);
    t.set("method", &mut c.probe.method, |v| {
        let method = text(v)?;
        let known = PROBES.into_iter().find(|known| *known == method);
        known.ok_or_else(|| format!("{method:?} is not asked; there are {}", PROBES.join(", ")))
    });
    t.set("interval", &mut c.probe.interval, |v| {
        at_least(time(v)?, Duration::from_secs(1))
    });
    t.set("timeout", &mut c.probe.timeout, |v| {
        at_least(time(v)?, Duration::from_millis(10))
    });
}

fn validator(t: &mut Table<'_>, c: &mut Config) {
    t.set("enabled", &mut c.validator.enabled, flag);
    c.validator.vote_account = t.take("vote_account", |v| public_key(text(v)?));
    t.set("activating_stake", &mut c.validator.activating_stake, flag);
    t.set("interval", &mut c.validator.interval, |v| {
        at_least(time(v)?, Duration::from_secs(1))
    });
    t.set("timeout", &mut c.validator.timeout, |v| {
        at_least(time(v)?, Duration::from_millis(10))
    });
}

fn public_key(text: String) -> Result<PublicKey, String> {
    text.parse().map_err(|_| {
        format!(
            "{text:?} is not a public key: 32 bytes in base58 are wanted, as `solana-keygen pubkey` prints them"
        )
    })
}

fn target(t: &mut Table<'_>, c: &mut Config) {
    let keys = ["pid", "ledger", "unit", "process_name"];
    let given: Vec<&str> = keys.into_iter().filter(|key| t.has(key)).collect();
    if given.len() > 1 {
        t.refuse(format!("{} are given; keep one", given.join(" and ")));
    }
    let pid = t.take("pid", |v| {
        u32::try_from(whole(v)?)
            .ok()
            .filter(|pid| *pid > 0)
            .ok_or_else(|| "a process id from 1 on is wanted".to_owned())
    });
    let ledger = t.take("ledger", text);
    let unit = t.take("unit", text);
    let name = t.take("process_name", text);
    c.target.find = pid
        .map(Find::Pid)
        .or(ledger.map(|l| Find::Ledger(l.into())))
        .or(unit.map(Find::Unit))
        .or(name.map(Find::ProcessName))
        .unwrap_or_default();
    c.target.identity = t.take("identity", |v| public_key(text(v)?));
    c.target.program_cache_entries = t.take("program_cache_entries", whole);
}

fn metrics(t: &mut Table<'_>, c: &mut Config) {
    t.set("listen", &mut c.metrics.listen, address);
    c.metrics.web_config = t.take("web_config", |v| text(v).map(PathBuf::from));
    t.set(
        "constant_labels_everywhere",
        &mut c.metrics.constant_labels_everywhere,
        flag,
    );
    t.set("native_histograms", &mut c.metrics.native_histograms, flag);
    t.set("hosts", &mut c.metrics.hosts, |v| {
        distinct(v, |v| host_name(text(v)?))
    });
}

fn log(t: &mut Table<'_>) -> Option<Log> {
    let given = (t.has("file"), t.has("journal"));
    let file = t.take("file", text);
    let journal = t.take("journal", text);
    match given {
        (true, true) => t.refuse("file and journal are both given; keep one"),
        (false, false) => t.refuse("give file or journal"),
        (true, false) | (false, true) => {
            return file
                .map(|file| Log::File(file.into()))
                .or(journal.map(Log::Journal));
        }
    }
    None
}

fn ingest(t: &mut Table<'_>, c: &mut Config) {
    let is_set = t.has("listen") || t.has("db");
    t.set("enabled", &mut c.ingest.enabled, flag);
    t.set("listen", &mut c.ingest.listen, address);
    if c.log.is_some() && (c.ingest.enabled || (is_set && !t.has("enabled"))) {
        t.refuse("datapoints would be counted twice: keep either [ingest] or [log]");
    }
    let missing = t.missing(&["db", "user", "password_file"]);
    let (db, user) = (t.take("db", text), t.take("user", text));
    let password = t.take("password_file", |v| secret(v, &mut c.secret_files));
    c.ingest.credentials = match (db, user, password) {
        (Some(db), Some(user), Some(password)) => Some(Credentials { db, user, password }),
        _ => None,
    };
    if matches!(missing.len(), 1 | 2) {
        let missing = missing.join(" and ");
        t.refuse(format!(
            "db, user and password_file go together: add {missing}, or give none of them"
        ));
    }
    t.set("allow_users", &mut c.ingest.allow_users, |v| {
        distinct(v, user_id)
    });
    if t.has("allow_users") && missing.len() < 3 {
        t.refuse(
            "allow_users is for pushes without a password: remove it, or db, user and password_file",
        );
    }
    t.set("beyond_loopback", &mut c.ingest.beyond_loopback, flag);
    if c.ingest.beyond_loopback && missing.len() == 3 {
        t.refuse("beyond_loopback lets other machines push: db, user and password_file are needed with it");
    }
}

fn forward(t: &mut Table<'_>, files: &mut Vec<PathBuf>) -> Option<Forward> {
    let queue_bytes = t.take("queue_bytes", |v| match whole(v)? {
        n if n <= 24_000_000 => Ok(n),
        n => Err(format!("{n} is more than the maximum of 24000000")),
    });
    let give_up_after = t.take("give_up_after", time);
    let whole_config = t.take("metrics_config_file", |v| {
        MetricsConfig::parse(&secret(v, files)?).map_err(|error| error.to_string())
    });
    let (url, db) = (t.take("url", |v| http_url(text(v)?)), t.take("db", text));
    let (user, password) = (
        t.take("user", text),
        t.take("password_file", |v| secret(v, files)),
    );
    let (url, credentials) = match (whole_config, url, db, user, password) {
        (Some(config), None, None, None, None) => (
            config.host,
            Credentials {
                db: config.db,
                user: config.username,
                password: config.password,
            },
        ),
        (None, Some(url), Some(db), Some(user), Some(password)) => {
            (url, Credentials { db, user, password })
        }
        _ => {
            let missing = t.missing(&["url", "db", "user", "password_file"]);
            match (t.has("metrics_config_file"), missing.len()) {
                // Errors of the values are reported already.
                (false, 0) | (true, 4) => {}
                (true, _) => {
                    t.refuse("metrics_config_file holds url, db, user and password: keep either it or these keys");
                }
                (false, _) => {
                    let missing = missing.join(", ");
                    t.refuse(format!("give metrics_config_file, or add {missing}"));
                }
            }
            return None;
        }
    };
    Some(Forward {
        url,
        credentials,
        queue_bytes: queue_bytes.unwrap_or(16_000_000),
        give_up_after: give_up_after.unwrap_or(Duration::from_secs(300)),
    })
}

fn phase(t: &mut Table<'_>, c: &mut Config) {
    let before = t.errors().len();
    t.set("at_tip_slots", &mut c.phase.at_tip_slots, whole);
    t.set("at_tip_for", &mut c.phase.at_tip_for, time);
    t.set("behind_slots", &mut c.phase.behind_slots, whole);
    t.set("behind_for", &mut c.phase.behind_for, time);
    if t.errors().len() == before && c.phase.behind_slots < c.phase.at_tip_slots {
        t.refuse("behind_slots is less than at_tip_slots: both phases would apply");
    }
}

fn record(t: &mut Table<'_>, c: &mut Config) {
    c.record.file = t.take("file", |v| text(v).map(PathBuf::from));
    let read = t.every("labels", |name, value| match c.labels.by_name(name) {
        Some(_) => Err("belongs into [labels]; the recording has it from there".to_owned()),
        None => label(name, &text(value)?),
    });
    c.record.labels.extend(read);
}

fn flight(t: &mut Table<'_>, c: &mut Config) {
    let (second, before) = (Duration::from_secs(1), t.errors().len());
    c.flight.enabled = t.take("enabled", flag);
    c.flight.folder = t.take("folder", |v| text(v).map(PathBuf::from));
    t.set("keep", &mut c.flight.keep, |v| {
        at_least(time(v)?, 10 * second)
    });
    t.set("after", &mut c.flight.after, time);
    t.set("pause", &mut c.flight.pause, time);
    let some = |v: &toml::de::DeValue<'_>| match whole(v)? {
        0 => {
            Err("at least 1 is wanted; enabled = false switches the flight recorder off".to_owned())
        }
        n => Ok(n),
    };
    t.set("max_saved", &mut c.flight.max_saved, some);
    t.set("max_saved_bytes", &mut c.flight.max_saved_bytes, some);
    let span = c.flight.after.saturating_add(c.flight.pause);
    if t.errors().len() == before && span >= c.flight.keep {
        t.refuse(format!(
            "after and pause, {span:?} together, are not less than keep: events would be forgotten"
        ));
    }
}

fn at_least(value: Duration, least: Duration) -> Result<Duration, String> {
    if value < least {
        Err(format!("{value:?} is shorter than {least:?}"))
    } else {
        Ok(value)
    }
}

/// A `Host:` value without port, in lower case.
fn host_name(name: String) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.len() <= 253 && name.chars().all(plain) && name.trim_matches('.').len() == name.len() {
        Ok(name.to_ascii_lowercase())
    } else {
        Err(format!(
            "{name:?} is no name of a host: write it without scheme and port, as in \"validator1.example.org\""
        ))
    }
}

/// The error does not repeat the address, which may contain a password.
fn http_url(url: String) -> Result<String, String> {
    if url.starts_with("http://") || url.starts_with("https://") {
        Ok(url.trim_end_matches('/').to_owned())
    } else {
        Err("an address that begins with http:// or https:// is wanted".to_owned())
    }
}

/// Without a trailing slash. A validator serves plain http without users.
pub(crate) fn rpc_url(url: &str) -> Result<String, String> {
    let wanted = "http://ADDRESS:PORT is wanted; a validator serves its JSON-RPC by plain http";
    let server = url
        .strip_prefix("http://")
        .map(|server| server.trim_end_matches('/'));
    let server = server.filter(|server| !server.is_empty()).ok_or(wanted)?;
    if server.contains('@') {
        return Err(
            "user and password do not belong in the address: a validator's JSON-RPC asks for none"
                .to_owned(),
        );
    }
    Ok(format!("http://{server}"))
}

/// The content of the file that the key names, without its last newline.
fn secret(value: &toml::de::DeValue<'_>, files: &mut Vec<PathBuf>) -> Result<String, String> {
    let path = PathBuf::from(text(value)?);
    let content = match read(&path) {
        // The value may be the secret itself.
        Err(_) if !is_in_a_folder(&path) => {
            let what =
                "the path of a file with the secret is wanted, such as \"/etc/faultline/password\"";
            return Err(what.to_owned());
        }
        content => content?,
    };
    files.push(path);
    match content.trim_end_matches(['\n', '\r']) {
        "" => Err("the file is empty".to_owned()),
        secret => Ok(secret.to_owned()),
    }
}

/// Base64 can begin with a slash, too.
fn is_in_a_folder(path: &Path) -> bool {
    let folder = path.parent().filter(|folder| folder.parent().is_some());
    path.is_absolute() && folder.is_some_and(Path::is_dir)
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path)
        .map_err(|error| format!("{} cannot be read: {error}", path.display()))
}

#[cfg(test)]
mod tests;
