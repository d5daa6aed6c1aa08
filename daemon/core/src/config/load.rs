mod datapoints;

use super::values::{address, label, user_id};
use super::{
    Admin, Config, Credentials, Flight, Forward, Labels, Log, MIN_INTERVAL, Metrics, Phase, Probe,
    Rpc, Target, TargetSelector, Threads, Validator,
};
use faultline_agave::PublicKey;
use faultline_agave::config::MetricsConfig;
use faultline_agave::rpc::PROBES;
use faultline_kernel::HostRoot;
use faultline_settings::{ConfigError, Table, distinct, flag, text, time, whole};
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::de::DeValue;

/// Returns every error, or a single one if the file cannot be read. Replaces invalid values by
/// their defaults.
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
    top.table("target", |t| target(t, &mut c.target));
    top.table("sampling", |t| {
        t.set(
            "interval",
            &mut c.sampling.interval,
            duration_at_least(MIN_INTERVAL),
        )
    });
    top.table("threads", |t| threads(t, &mut c.threads));
    top.table("metrics", |t| metrics(t, &mut c.metrics));
    top.table("labels", |t| labels(t, &mut c.labels));
    top.table("log", |t| c.log = log(t));
    // [log] disables the listener: two inputs would count every datapoint twice. A file that
    // enables both is an error.
    c.ingest.enabled = c.log.is_none();
    top.table("ingest", |t| ingest(t, &mut c));
    top.table("forward", |t| c.forward = forward(t, &mut c.secret_files));
    top.table("rpc", |t| rpc(t, &mut c.rpc));
    top.table("probe", |t| probe(t, &mut c.probe));
    top.table("validator", |t| validator(t, &mut c.validator));
    top.table("admin", |t| admin(t, &mut c.admin));
    top.table("host", |t| {
        t.set("enabled", &mut c.host.enabled, flag);
        t.set(
            "interval",
            &mut c.host.interval,
            duration_at_least(Duration::from_secs(1)),
        );
    });
    top.table("phase", |t| phase(t, &mut c.phase));
    top.table("datapoints", |t| datapoints::read(t, &mut c));
    top.table("record", |t| record(t, &mut c));
    top.table("flight", |t| flight(t, &mut c.flight));
    top.table("paths", |t| paths(t, &mut c.paths));
    let errors = top.errors();
    top.finish();
    if c.probe.enabled && !c.rpc.enabled {
        errors.push(None, "probe: it uses the address of [rpc], and rpc.enabled is false: set rpc.enabled = true, or probe.enabled = false");
    }
    c.settle();
    if c.forward.is_some() && !c.ingest.enabled {
        errors.push(None, "forward: only pushes are forwarded, and [ingest] is disabled (the default with [log]): remove [forward], or use [ingest] instead of [log]");
    }
    c
}

fn threads(t: &mut Table<'_>, c: &mut Threads) {
    t.set("enabled", &mut c.enabled, flag);
    t.set("interval", &mut c.interval, duration_at_least(MIN_INTERVAL));
    t.set(
        "switches_interval",
        &mut c.switches_interval,
        duration_at_least(MIN_INTERVAL),
    );
}

fn labels(t: &mut Table<'_>, c: &mut Labels) {
    c.cluster = t.take("cluster", text);
    c.experiment = t.take("experiment", text);
    c.arm = t.take("arm", text);
    c.run = t.take("run", text);
}

fn rpc(t: &mut Table<'_>, c: &mut Rpc) {
    t.set("enabled", &mut c.enabled, flag);
    c.url = t.take("url", |v| rpc_url(&text(v)?));
    t.set("interval", &mut c.interval, duration_at_least(MIN_INTERVAL));
    t.set(
        "timeout",
        &mut c.timeout,
        duration_at_least(Duration::from_millis(10)),
    );
}

fn admin(t: &mut Table<'_>, c: &mut Admin) {
    t.set("enabled", &mut c.enabled, flag);
    t.set(
        "timeout",
        &mut c.timeout,
        duration_at_least(Duration::from_millis(10)),
    );
}

fn paths(t: &mut Table<'_>, c: &mut HostRoot) {
    t.set("procfs", &mut c.procfs, path);
    t.set("sysfs", &mut c.sysfs, path);
    t.set("cgroup", &mut c.cgroup, path);
}

fn probe(t: &mut Table<'_>, c: &mut Probe) {
    t.set("enabled", &mut c.enabled, flag);
    t.set("method", &mut c.method, |v| {
        let method = text(v)?;
        let known = PROBES.into_iter().find(|known| *known == method);
        known.ok_or_else(|| format!("{method:?} is not asked; there are {}", PROBES.join(", ")))
    });
    t.set(
        "interval",
        &mut c.interval,
        duration_at_least(Duration::from_secs(1)),
    );
    t.set(
        "timeout",
        &mut c.timeout,
        duration_at_least(Duration::from_millis(10)),
    );
}

fn validator(t: &mut Table<'_>, c: &mut Validator) {
    t.set("enabled", &mut c.enabled, flag);
    c.vote_account = t.take("vote_account", public_key);
    t.set("activating_stake", &mut c.activating_stake, flag);
    t.set(
        "interval",
        &mut c.interval,
        duration_at_least(Duration::from_secs(1)),
    );
    t.set(
        "timeout",
        &mut c.timeout,
        duration_at_least(Duration::from_millis(10)),
    );
}

fn public_key(value: &DeValue<'_>) -> Result<PublicKey, String> {
    let text = text(value)?;
    text.parse().map_err(|_| {
        format!(
            "{text:?} is not a public key: 32 bytes in base58 are wanted, as `solana-keygen pubkey` prints them"
        )
    })
}

fn target(t: &mut Table<'_>, c: &mut Target) {
    let keys = ["pid", "ledger", "unit", "process_name"];
    let given: Vec<&str> = keys.into_iter().filter(|key| t.has(key)).collect();
    if given.len() > 1 {
        t.refuse(format!("{} are given; keep one", given.join(" and ")));
    }
    let pid = t.take("pid", |v| {
        let pid = u32::try_from(whole(v)?).ok().filter(|pid| *pid > 0);
        pid.ok_or_else(|| "a process id from 1 on is wanted".to_owned())
    });
    let found = [
        pid.map(TargetSelector::Pid),
        t.take("ledger", path).map(TargetSelector::Ledger),
        t.take("unit", text).map(TargetSelector::Unit),
        t.take("process_name", text)
            .map(TargetSelector::ProcessName),
    ];
    c.find = found.into_iter().flatten().next().unwrap_or_default();
    c.identity = t.take("identity", public_key);
    c.program_cache_entries = t.take("program_cache_entries", whole);
}

fn metrics(t: &mut Table<'_>, c: &mut Metrics) {
    t.set("listen", &mut c.listen, address);
    c.web_config = t.take("web_config", path);
    t.set(
        "constant_labels_everywhere",
        &mut c.constant_labels_everywhere,
        flag,
    );
    t.set("native_histograms", &mut c.native_histograms, flag);
    t.set("hosts", &mut c.hosts, |v| {
        distinct(v, |v| host_name(text(v)?))
    });
}

fn log(t: &mut Table<'_>) -> Option<Log> {
    let file = t.take("file", path).map(Log::File);
    let journal = t.take("journal", text).map(Log::Journal);
    match (t.has("file"), t.has("journal")) {
        (true, true) => t.refuse("file and journal are both given; keep one"),
        (false, false) => t.refuse("give file or journal"),
        (true, false) | (false, true) => return file.or(journal),
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
    c.ingest.credentials = credentials(t, &mut c.secret_files);
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

fn credentials(t: &mut Table<'_>, files: &mut Vec<PathBuf>) -> Option<Credentials> {
    let (db, user) = (t.take("db", text), t.take("user", text));
    let password = t.take("password_file", |v| secret(v, files));
    Some(Credentials {
        db: db?,
        user: user?,
        password: password?,
    })
}

fn forward(t: &mut Table<'_>, files: &mut Vec<PathBuf>) -> Option<Forward> {
    let queue_bytes = t.take("queue_bytes", |v| match whole(v)? {
        n if n <= 24_000_000 => Ok(n),
        n => Err(format!("{n} is more than the maximum of 24000000")),
    });
    let give_up_after = t.take("give_up_after", time);
    let metrics_config = t.take("metrics_config_file", |v| {
        MetricsConfig::parse(&secret(v, files)?).map_err(|error| error.to_string())
    });
    let (url, credentials) = (t.take("url", http_url), credentials(t, files));
    let missing = t.missing(&["url", "db", "user", "password_file"]);
    let (url, credentials) = match (t.has("metrics_config_file"), missing.as_slice()) {
        (false, []) => (url?, credentials?),
        (true, [_, _, _, _]) => {
            let config = metrics_config?;
            (config.host.clone(), config.into())
        }
        (true, _) => {
            t.refuse("metrics_config_file holds url, db, user and password: keep either it or these keys");
            return None;
        }
        (false, missing) => {
            let missing = missing.join(", ");
            t.refuse(format!("give metrics_config_file, or add {missing}"));
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

fn phase(t: &mut Table<'_>, c: &mut Phase) {
    let before = t.errors().len();
    t.set("at_tip_slots", &mut c.at_tip_slots, whole);
    t.set("at_tip_for", &mut c.at_tip_for, time);
    t.set("behind_slots", &mut c.behind_slots, whole);
    t.set("behind_for", &mut c.behind_for, time);
    if t.errors().len() == before && c.behind_slots < c.at_tip_slots {
        t.refuse("behind_slots is less than at_tip_slots: both phases would apply");
    }
}

fn record(t: &mut Table<'_>, c: &mut Config) {
    c.record.file = t.take("file", path);
    let read = t.every("labels", |name, value| match c.labels.by_name(name) {
        Some(_) => Err("belongs into [labels]; the recording has it from there".to_owned()),
        None => label(name, &text(value)?),
    });
    c.record.labels.extend(read);
}

fn flight(t: &mut Table<'_>, c: &mut Flight) {
    let before = t.errors().len();
    c.enabled = t.take("enabled", flag);
    c.folder = t.take("folder", path);
    t.set(
        "keep",
        &mut c.keep,
        duration_at_least(Duration::from_secs(10)),
    );
    t.set("after", &mut c.after, time);
    t.set("pause", &mut c.pause, time);
    let at_least_one = |v: &DeValue<'_>| match whole(v)? {
        0 => {
            Err("at least 1 is wanted; enabled = false switches the flight recorder off".to_owned())
        }
        n => Ok(n),
    };
    t.set("max_saved", &mut c.max_saved, at_least_one);
    t.set("max_saved_bytes", &mut c.max_saved_bytes, at_least_one);
    let span = c.after.saturating_add(c.pause);
    if t.errors().len() == before && span >= c.keep {
        t.refuse(format!(
            "after and pause, {span:?} together, are not less than keep: events would be forgotten"
        ));
    }
}

fn path(value: &DeValue<'_>) -> Result<PathBuf, String> {
    text(value).map(PathBuf::from)
}

fn duration_at_least(least: Duration) -> impl Fn(&DeValue<'_>) -> Result<Duration, String> {
    move |value| match time(value)? {
        value if value < least => Err(format!("{value:?} is shorter than {least:?}")),
        value => Ok(value),
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
fn http_url(value: &DeValue<'_>) -> Result<String, String> {
    let url = text(value)?;
    if url.starts_with("http://") || url.starts_with("https://") {
        Ok(url.trim_end_matches('/').to_owned())
    } else {
        Err("an address that begins with http:// or https:// is wanted".to_owned())
    }
}

/// Without a trailing slash. A validator serves plain http without users.
pub fn rpc_url(url: &str) -> Result<String, String> {
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
fn secret(value: &DeValue<'_>, files: &mut Vec<PathBuf>) -> Result<String, String> {
    let path = path(value)?;
    let content = read(&path);
    // The value may be the secret itself instead of a path, so the error does not repeat it.
    if content.is_err() && !parent_folder_exists(&path) {
        let what =
            "the path of a file with the secret is wanted, such as \"/etc/faultline/password\"";
        return Err(what.to_owned());
    }
    let content = content?;
    files.push(path);
    match content.trim_end_matches(['\n', '\r']) {
        "" => Err("the file is empty".to_owned()),
        secret => Ok(secret.to_owned()),
    }
}

/// An absolute path alone is no proof of a path: Base64 can begin with a slash too.
fn parent_folder_exists(path: &Path) -> bool {
    let folder = path.parent().filter(|folder| folder.parent().is_some());
    path.is_absolute() && folder.is_some_and(Path::is_dir)
}

fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path)
        .map_err(|error| format!("{} cannot be read: {error}", path.display()))
}

#[cfg(test)]
mod tests;
