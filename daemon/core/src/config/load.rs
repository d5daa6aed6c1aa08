use super::{
    Admin, Config, Credentials, Flight, Forward, Labels, Log, MIN_INTERVAL, Metrics, Phase, Probe,
    Rpc, Target, TargetSelector, Threads, Votes, datapoints,
    values::{address, checked_label, user_id},
};
use faultline_agave::{PublicKey, config::SolanaMetricsConfig, rpc::PROBE_METHODS};
use faultline_kernel::HostRoot;
use faultline_settings::{
    ConfigError, Table, choice, distinct, flag, text, time, whole_number, whole_number_within,
};
use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    time::Duration,
};
use toml::de::DeValue;

/// Limit for the configuration, and for each file of secrets or certificates that it names. A bundle
/// of certificate authorities has some hundred KiB.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Returns every error, or a single one if the file cannot be read. Replaces invalid values by
/// their defaults. Without a file, this is the default. `selector` replaces that of the file.
pub fn load(path: Option<&Path>, selector: Option<TargetSelector>) -> (Config, Vec<ConfigError>) {
    match path.map(read).transpose() {
        Ok(text) => parse_all(&text.unwrap_or_default(), selector),
        Err(what) => (Config::default(), vec![ConfigError::new(what)]),
    }
}

/// # Errors
/// Returns every error; for invalid TOML, only the parser's error.
pub fn parse(text: &str) -> Result<Config, Vec<ConfigError>> {
    let (config, errors) = parse_all(text, None);
    if errors.is_empty() {
        Ok(config)
    } else {
        Err(errors)
    }
}

fn parse_all(text: &str, selector: Option<TargetSelector>) -> (Config, Vec<ConfigError>) {
    let (config, errors) =
        faultline_settings::read(text, None, true, |top| read_sections(top, selector));
    (config.unwrap_or_default(), errors)
}

fn read_sections(mut top: Table<'_>, selector: Option<TargetSelector>) -> Config {
    let mut config = Config::default();
    top.table("target", |table| target(table, &mut config.target));
    top.table("sampling", |table| {
        interval(table, &mut config.sampling.interval, MIN_INTERVAL)
    });
    top.table("threads", |table| threads(table, &mut config.threads));
    top.table("metrics", |table| metrics(table, &mut config.metrics));
    top.table("labels", |table| labels(table, &mut config.labels));
    top.table("log", |table| config.log = log(table));
    // [log] disables [ingest]: two inputs would count every datapoint twice. A file that enables
    // both is an error.
    config.ingest.enabled = config.log.is_none();
    top.table("ingest", |table| ingest(table, &mut config));
    top.table("forward", |table| {
        config.forward = forward(table, &mut config.secret_files)
    });
    top.table("rpc", |table| rpc(table, &mut config.rpc));
    top.table("probe", |table| probe(table, &mut config.probe));
    top.table("validator", |table| votes(table, &mut config.validator));
    top.table("admin", |table| admin(table, &mut config.admin));
    top.table("host", |table| {
        table.read_into("enabled", &mut config.host.enabled, flag);
        interval(table, &mut config.host.interval, Duration::from_secs(1));
    });
    top.table("phase", |table| phase(table, &mut config.phase));
    top.table("datapoints", |table| datapoints::read(table, &mut config));
    top.table("record", |table| record(table, &mut config));
    top.table("flight", |table| flight(table, &mut config.flight));
    top.table("status", |table| {
        config.status.evidence = table.read("evidence", path)
    });
    top.table("paths", |table| paths(table, &mut config.paths));
    let errors = top.errors();
    top.finish();
    if config.probe.enabled && !config.rpc.enabled {
        errors.push(
            None,
            "probe: it uses the address of [rpc], and rpc.enabled is false: set rpc.enabled = true, or probe.enabled = false",
        );
    }
    config.target.selector = selector.unwrap_or(config.target.selector);
    config.disable_sources_by_selector();
    if config.forward.is_some() && !config.ingest.enabled {
        errors.push(
            None,
            "forward: only pushes are forwarded, and [ingest] is disabled (the default with [log]): remove [forward], or use [ingest] instead of [log]",
        );
    }
    config
}

fn threads(table: &mut Table<'_>, config: &mut Threads) {
    table.read_into("enabled", &mut config.enabled, flag);
    interval(table, &mut config.interval, MIN_INTERVAL);
    table.read_into(
        "switches_interval",
        &mut config.switches_interval,
        duration_at_least(MIN_INTERVAL),
    );
}

fn labels(table: &mut Table<'_>, config: &mut Labels) {
    config.cluster = table.read("cluster", text);
    config.experiment = table.read("experiment", text);
    config.arm = table.read("arm", text);
    config.run = table.read("run", text);
}

fn rpc(table: &mut Table<'_>, config: &mut Rpc) {
    table.read_into("enabled", &mut config.enabled, flag);
    config.url = table.read("url", |v| rpc_url(&text(v)?));
    interval(table, &mut config.interval, MIN_INTERVAL);
    timeout(table, &mut config.timeout);
}

fn admin(table: &mut Table<'_>, config: &mut Admin) {
    table.read_into("enabled", &mut config.enabled, flag);
    timeout(table, &mut config.timeout);
}

fn interval(table: &mut Table<'_>, config: &mut Duration, min: Duration) {
    table.read_into("interval", config, duration_at_least(min));
}

fn timeout(table: &mut Table<'_>, config: &mut Duration) {
    let min_timeout = Duration::from_millis(10);
    table.read_into("timeout", config, duration_at_least(min_timeout));
}

fn paths(table: &mut Table<'_>, config: &mut HostRoot) {
    table.read_into("procfs", &mut config.procfs, path);
    table.read_into("sysfs", &mut config.sysfs, path);
    table.read_into("cgroup", &mut config.cgroup, path);
}

fn probe(table: &mut Table<'_>, config: &mut Probe) {
    table.read_into("enabled", &mut config.enabled, flag);
    table.read_into("method", &mut config.method, |v| {
        choice(v, &PROBE_METHODS.map(|method| (method, method)))
    });
    interval(table, &mut config.interval, Duration::from_secs(1));
    timeout(table, &mut config.timeout);
}

fn votes(table: &mut Table<'_>, config: &mut Votes) {
    table.read_into("enabled", &mut config.enabled, flag);
    config.vote_account = table.read("vote_account", public_key);
    table.read_into("activating_stake", &mut config.scans_stakes, flag);
    interval(table, &mut config.interval, Duration::from_secs(1));
    timeout(table, &mut config.timeout);
}

fn public_key(value: &DeValue<'_>) -> Result<PublicKey, String> {
    let text = text(value)?;
    text.parse().map_err(|_| {
        format!(
            "{text:?} is not a public key: 32 bytes in base58 are wanted, as `solana-keygen pubkey` prints them"
        )
    })
}

fn target(table: &mut Table<'_>, config: &mut Target) {
    let keys = ["pid", "ledger", "unit", "process_name"];
    let given_keys: Vec<&str> = keys.into_iter().filter(|key| table.has(key)).collect();
    if given_keys.len() > 1 {
        table.report(format!("{} are given; keep one", given_keys.join(" and ")));
    }
    let pid = table.read("pid", |v| {
        let pid = u32::try_from(whole_number(v)?).ok().filter(|pid| *pid > 0);
        pid.ok_or_else(|| "a process id from 1 on is wanted".to_owned())
    });
    let selectors = [
        pid.map(TargetSelector::Pid),
        table.read("ledger", path).map(TargetSelector::Ledger),
        table.read("unit", text).map(TargetSelector::Unit),
        table
            .read("process_name", text)
            .map(TargetSelector::ProcessName),
    ];
    config.selector = selectors.into_iter().flatten().next().unwrap_or_default();
    config.identity = table.read("identity", public_key);
    config.program_cache_entries = table.read("program_cache_entries", |v| {
        whole_number_within(v, 1..=u64::from(u32::MAX))
    });
}

fn metrics(table: &mut Table<'_>, config: &mut Metrics) {
    table.read_into("listen", &mut config.listen, address);
    config.web_config = table.read("web_config", path);
    table.read_into(
        "constant_labels_everywhere",
        &mut config.constant_labels_everywhere,
        flag,
    );
    table.read_into("native_histograms", &mut config.native_histograms, flag);
    table.read_into("hosts", &mut config.allowed_hosts, |v| {
        distinct(v, |v| host_name(text(v)?))
    });
}

fn log(table: &mut Table<'_>) -> Option<Log> {
    let file = table.read("file", path).map(Log::File);
    let journal = table.read("journal", text).map(Log::Journal);
    match (table.has("file"), table.has("journal")) {
        (true, true) => table.report("file and journal are both given; keep one"),
        (false, false) => table.report("give file or journal"),
        (true, false) | (false, true) => return file.or(journal),
    }
    None
}

fn ingest(table: &mut Table<'_>, config: &mut Config) {
    let is_set = table.has("listen") || table.has("db");
    table.read_into("enabled", &mut config.ingest.enabled, flag);
    table.read_into("listen", &mut config.ingest.listen, address);
    if config.log.is_some() && (config.ingest.enabled || (is_set && !table.has("enabled"))) {
        table.report("datapoints would be counted twice: keep either [ingest] or [log]");
    }
    let missing = table.missing(&["db", "user", "password_file"]);
    config.ingest.credentials = credentials(table, &mut config.secret_files);
    if matches!(missing.len(), 1 | 2) {
        let missing = missing.join(" and ");
        table.report(format!(
            "db, user and password_file go together: add {missing}, or give none of them"
        ));
    }
    table.read_into("allow_users", &mut config.ingest.allow_users, |v| {
        distinct(v, user_id)
    });
    if table.has("allow_users") && missing.len() < 3 {
        table.report(
            "allow_users is for pushes without a password: remove it, or db, user and password_file",
        );
    }
    table.read_into("beyond_loopback", &mut config.ingest.beyond_loopback, flag);
    if config.ingest.beyond_loopback && missing.len() == 3 {
        table.report(
            "beyond_loopback lets other machines push: db, user and password_file are needed with it",
        );
    }
}

fn credentials(table: &mut Table<'_>, files: &mut Vec<PathBuf>) -> Option<Credentials> {
    let (db, user) = (table.read("db", text), table.read("user", text));
    let password = table.read("password_file", |v| secret(v, files));
    Some(Credentials {
        db: db?,
        user: user?,
        password: password?,
    })
}

fn forward(table: &mut Table<'_>, files: &mut Vec<PathBuf>) -> Option<Forward> {
    let queue_bytes = table.read("queue_bytes", |v| whole_number_within(v, 0..=24_000_000));
    let give_up_after = table.read("give_up_after", time);
    let metrics_config = table.read("metrics_config_file", |v| {
        SolanaMetricsConfig::parse(&secret(v, files)?).map_err(|error| error.to_string())
    });
    let (url, credentials) = (table.read("url", http_url), credentials(table, files));
    let missing = table.missing(&["url", "db", "user", "password_file"]);
    let (url, credentials) = match (table.has("metrics_config_file"), missing.as_slice()) {
        (false, []) => (url?, credentials?),
        (true, [_, _, _, _]) => {
            let config = metrics_config?;
            (config.host.clone(), config.into())
        }
        (true, _) => {
            table.report(
                "metrics_config_file contains url, db, user and password: remove it, or remove these keys",
            );
            return None;
        }
        (false, missing) => {
            let missing = missing.join(", ");
            table.report(format!("give metrics_config_file, or add {missing}"));
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

fn phase(table: &mut Table<'_>, config: &mut Phase) {
    let errors_before = table.errors().len();
    table.read_into("at_tip_slots", &mut config.at_tip_slots, whole_number);
    table.read_into("at_tip_for", &mut config.at_tip_for, time);
    table.read_into("behind_slots", &mut config.behind_slots, whole_number);
    table.read_into("behind_for", &mut config.behind_for, time);
    if table.errors().len() == errors_before && config.behind_slots < config.at_tip_slots {
        table.report("behind_slots is less than at_tip_slots: both phases would apply");
    }
}

fn record(table: &mut Table<'_>, config: &mut Config) {
    config.record.file = table.read("file", path);
    let labels = table.read_entries("labels", |name, value| match config.labels.by_name(name) {
        Some(_) => Err("belongs in [labels], which every recording includes".to_owned()),
        None => checked_label(name, &text(value)?),
    });
    config.record.labels.extend(labels);
}

fn flight(table: &mut Table<'_>, config: &mut Flight) {
    let errors_before = table.errors().len();
    config.enabled = table.read("enabled", flag);
    config.folder = table.read("folder", path);
    table.read_into(
        "keep",
        &mut config.history,
        duration_at_least(Duration::from_secs(10)),
    );
    table.read_into("after", &mut config.after, time);
    table.read_into("pause", &mut config.pause, time);
    let at_least_one = |v: &DeValue<'_>| match whole_number(v)? {
        0 => {
            Err("at least 1 is wanted; enabled = false switches the flight recorder off".to_owned())
        }
        n => Ok(n),
    };
    table.read_into("max_saved", &mut config.max_saved, at_least_one);
    table.read_into("max_saved_bytes", &mut config.max_saved_bytes, at_least_one);
    let after_and_pause = config.after.saturating_add(config.pause);
    if table.errors().len() == errors_before && after_and_pause >= config.history {
        table.report(format!(
            "after plus pause ({after_and_pause:?}) must be less than keep, or \
             a save would miss events"
        ));
    }
}

fn path(value: &DeValue<'_>) -> Result<PathBuf, String> {
    text(value).map(PathBuf::from)
}

fn duration_at_least(min: Duration) -> impl Fn(&DeValue<'_>) -> Result<Duration, String> {
    move |value| match time(value)? {
        time if time < min => {
            let written = value.as_str().unwrap_or_default();
            Err(format!("{written} is shorter than the minimum of {min:?}"))
        }
        time => Ok(time),
    }
}

/// Checks a `Host:` value without port and returns it in lower case.
fn host_name(name: String) -> Result<String, String> {
    let is_allowed = |ch: char| ch.is_ascii_alphanumeric() || matches!(ch, '-' | '_' | '.');
    if name.len() <= 253
        && name.chars().all(is_allowed)
        && name.trim_matches('.').len() == name.len()
    {
        Ok(name.to_ascii_lowercase())
    } else {
        Err(format!(
            "{name:?} is not a host name: write it without scheme and port, as in \"validator1.example.org\""
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

/// Returns the URL without a trailing slash. A validator serves plain http, without passwords.
pub fn rpc_url(url: &str) -> Result<String, String> {
    let wanted = "http://ADDRESS:PORT is wanted; a validator serves its JSON-RPC by plain http";
    let server = url
        .strip_prefix("http://")
        .map(|server| server.trim_end_matches('/'));
    let server = server.filter(|server| !server.is_empty()).ok_or(wanted)?;
    if server.contains('@') {
        return Err(
            "user and password do not belong in the address: a validator's JSON-RPC needs neither"
                .to_owned(),
        );
    }
    Ok(format!("http://{server}"))
}

/// Reads a file without the newlines at its end, and adds the path to `files`.
fn secret(value: &DeValue<'_>, files: &mut Vec<PathBuf>) -> Result<String, String> {
    let path = path(value)?;
    let content = read(&path);
    // The value may be the secret itself instead of a path, so the error does not repeat it.
    if content.is_err() && !parent_folder_exists(&path) {
        return Err(
            "the path of a file with the secret is wanted, such as \"/etc/faultline/password\""
                .to_owned(),
        );
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
    let text = read_file(path).and_then(|bytes| String::from_utf8(bytes).map_err(io::Error::other));
    text.map_err(|error| format!("{} cannot be read: {error}", path.display()))
}

/// Fails for a file of more than [`MAX_FILE_BYTES`], and for a named pipe, whose writer may never
/// come. The pipes of `/dev/stdin`, `/dev/fd` and `/proc/self/fd` are read.
pub fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let may_be_pipe = path.starts_with("/dev") || path.starts_with("/proc");
    if !may_be_pipe && !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    let mut file = File::open(path)?.take(MAX_FILE_BYTES + 1);
    if file.read_to_end(&mut bytes)? as u64 > MAX_FILE_BYTES {
        return Err(io::Error::other("it is larger than 4 MiB"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
