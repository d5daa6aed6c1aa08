//! Reloads the configuration on SIGHUP. Most sections need a restart; the log names each of them
//! that changed. `status.evidence` names a file of results of the lab. If the file cannot be used,
//! the log and the status say so, and the reload goes on.

use super::ConfigLoader;
use faultline_core::{
    config::{Config, ConfigError, read_file},
    publish::Latest,
    supervisor::{FS_CALL_TIMEOUT, FsCalls},
};
use faultline_datapoints::validator::intake::Intake;
use faultline_http::sinks::prometheus::ConstantLabels;
use faultline_metrics::LabelText;
use faultline_status::{Evidence, StatusConfig};
use std::{path::Path, sync::Arc};

pub struct LiveConfig {
    pub config: Latest<Config>,
    initial: Config,
    initial_web_config: Option<Vec<u8>>,
    load_config: Option<ConfigLoader>,
    intake: Intake,
    pub status_config: Latest<StatusConfig>,
}

impl LiveConfig {
    pub fn new(config: Config, load_config: Option<ConfigLoader>, intake: Intake) -> Self {
        let live = Self {
            config: Latest::default(),
            initial_web_config: read_web_config(&config),
            initial: config.clone(),
            load_config,
            intake,
            status_config: Latest::default(),
        };
        live.replace(config);
        live
    }

    /// Keeps the current configuration if the file has errors.
    pub fn reload(&self) {
        let Some(load_config) = &self.load_config else {
            tracing::info!("reload ignored: the daemon was started without --config");
            return;
        };
        match load_config() {
            Ok(loaded) => {
                let restart_sections = self.replace(loaded);
                if restart_sections.is_empty() {
                    tracing::info!("configuration reloaded");
                } else {
                    tracing::warn!(
                        sections = restart_sections.join(", "),
                        "configuration reloaded; restart the daemon to apply all changes of the listed sections"
                    );
                }
            }
            Err(config_errors) => {
                for ConfigError { line, what, .. } in &config_errors {
                    tracing::error!(
                        line,
                        what,
                        "reload failed: the configuration has an error; nothing changed"
                    );
                }
            }
        }
    }

    /// Returns the sections that wait for a restart.
    fn replace(&self, loaded: Config) -> Vec<&'static str> {
        let (next, mut restart_sections) = merge(&self.initial, loaded);
        if read_web_config(&next) != self.initial_web_config {
            restart_sections.push("file of metrics.web_config");
        }
        self.intake.reconfigure(&next.datapoints);
        self.status_config
            .set(Some(read_status_config_with_warning(&next)));
        self.config.set(Some(Arc::new(next)));
        restart_sections
    }
}

/// Without the certificates that the file names: the server reads them again without a restart.
fn read_web_config(config: &Config) -> Option<Vec<u8>> {
    read_file(config.metrics.web_config.as_ref()?).ok()
}

fn read_status_config_with_warning(config: &Config) -> Arc<StatusConfig> {
    let status_config = read_status_config(config);
    if let Some(problem) = &status_config.evidence_file_problem {
        tracing::warn!(problem, "status.evidence is not used");
    }
    Arc::new(status_config)
}

/// Returns the next configuration, and the sections that wait for a restart: they differ from those
/// of the start.
fn merge(initial: &Config, loaded: Config) -> (Config, Vec<&'static str>) {
    let mut next = initial.clone();
    next.labels = loaded.labels;
    next.phase = loaded.phase;
    next.status = loaded.status;
    next.datapoints = loaded.datapoints;
    next.target.identity = loaded.target.identity;
    next.target.program_cache_entries = loaded.target.program_cache_entries;
    let labels_changed = initial.labels != next.labels;
    let is_recording = initial.record.file.is_some() || initial.flight.enabled_folder().is_some();
    macro_rules! compared {
        ($($section:ident)*) => {
            [$((stringify!($section), initial.$section != loaded.$section)),*]
        };
    }
    // A recording, and labels of all series, keep the values that they started with.
    let changes = [
        ("labels of the recording", labels_changed && is_recording),
        (
            "labels of all series",
            labels_changed && initial.metrics.constant_labels_everywhere,
        ),
        ("target", initial.target.selector != loaded.target.selector),
    ];
    let restart_sections = changes
        .into_iter()
        .chain(compared!(
            sampling threads metrics ingest log forward rpc probe validator admin host record flight
            paths
        ))
        .filter_map(|(name, changed)| changed.then_some(name))
        .collect();
    (next, restart_sections)
}

pub fn constant_labels(config: &Config) -> ConstantLabels {
    if !config.metrics.constant_labels_everywhere {
        return Vec::new();
    }
    config
        .labels
        .pairs()
        .map(|(name, value)| (name, LabelText::from(value.to_owned())))
        .collect()
}

pub fn read_status_config(config: &Config) -> StatusConfig {
    let evidence = config
        .status
        .evidence
        .as_deref()
        .map(read_evidence)
        .transpose();
    let evidence_file_problem = evidence.as_ref().err().cloned();
    StatusConfig {
        evidence: evidence.ok().flatten().unwrap_or_default(),
        evidence_file_problem,
        has_custom_capacity: config.target.program_cache_entries.is_some(),
    }
}

/// Has a timeout: a file system can hang.
fn read_evidence(path: &Path) -> Result<Evidence, String> {
    let shown = faultline_text::path(path);
    let path = path.to_owned();
    let text = FsCalls::new("evidence").call(FS_CALL_TIMEOUT, move || read_file(&path));
    let text = match text {
        Ok(Ok(text)) => text,
        Ok(Err(error)) => return Err(format!("{shown} cannot be read: {error}")),
        Err(error) => return Err(format!("{shown}: {error}")),
    };
    Evidence::parse(&text).map_err(|why| format!("{shown}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultline_core::config::parse;
    use std::fs;

    #[test]
    fn reload_applies_changeable_keys_and_names_the_others() {
        let current = parse("[labels]\narm = \"A\"\n").unwrap();
        let loaded =
            parse("[labels]\narm = \"B\"\n[phase]\nat_tip_slots = 8\n[metrics]\nlisten = \"127.0.0.1:1\"\n").unwrap();
        let (next, restart_sections) = merge(&current, loaded);
        assert_eq!(
            (next.labels.arm.as_deref(), next.phase.at_tip_slots),
            (Some("B"), 8)
        );
        assert_eq!(next.metrics, current.metrics);
        assert_eq!(restart_sections, ["metrics"]);
    }

    #[test]
    fn reload_keeps_recording_settings_and_labels_until_restart() {
        let current = parse("[flight]\nfolder = \"/of_the_flight\"\n").unwrap();
        let loaded = parse("[labels]\narm = \"B\"\n[flight]\nfolder = \"/other\"\n").unwrap();
        let (next, restart_sections) = merge(&current, loaded);
        assert_eq!(
            (next.flight, restart_sections),
            (current.flight, vec!["labels of the recording", "flight"])
        );
    }

    #[test]
    fn reload_names_the_labels_of_all_series_because_they_wait_for_a_restart() {
        let with_arm = |arm: &str| {
            let text =
                format!("[labels]\narm = {arm:?}\n[metrics]\nconstant_labels_everywhere = true\n");
            parse(&text).unwrap()
        };
        let (_, restart_sections) = merge(&with_arm("A"), with_arm("B"));
        assert_eq!(restart_sections, ["labels of all series"]);
        assert!(merge(&with_arm("A"), with_arm("A")).1.is_empty());
    }

    fn live(config: &Config) -> LiveConfig {
        LiveConfig::new(config.clone(), None, Intake::new(&config.datapoints))
    }

    #[test]
    fn each_reload_names_what_differs_from_the_start() {
        for (section, text) in [
            ("labels of the recording", "[flight]\nfolder = \"/f\"\n"),
            (
                "labels of all series",
                "[metrics]\nconstant_labels_everywhere = true\n",
            ),
        ] {
            let initial = parse(text).unwrap();
            let with_label = parse(&format!("{text}[labels]\ncluster = \"x\"\n")).unwrap();
            let live = live(&initial);
            for (loaded, restart_sections) in [
                (&with_label, vec![section]),
                (&with_label, vec![section]),
                (&initial, vec![]),
            ] {
                assert_eq!(live.replace(loaded.clone()), restart_sections);
            }
        }
    }

    #[test]
    fn a_changed_password_in_the_web_config_file_waits_for_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("web.yml");
        fs::write(&file, "basic_auth_users: {a: old}\n").unwrap();
        let config = parse(&format!("[metrics]\nweb_config = {file:?}\n")).unwrap();
        let live = live(&config);
        assert!(live.replace(config.clone()).is_empty());
        fs::write(&file, "basic_auth_users: {a: new}\n").unwrap();
        for _ in 0..2 {
            let restart_sections = live.replace(config.clone());
            assert_eq!(restart_sections, ["file of metrics.web_config"]);
        }
    }

    #[test]
    fn an_invalid_configuration_changes_nothing() {
        let load_config: ConfigLoader = Box::new(|| parse("[labels]\narm = 3\n"));
        let live = LiveConfig::new(
            Config::default(),
            Some(load_config),
            Intake::new(&Config::default().datapoints),
        );
        live.reload();
        assert_eq!(live.config.get().as_deref(), Some(&Config::default()));
    }

    fn with_evidence(text: &str) -> StatusConfig {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("evidence.json");
        fs::write(&path, text).unwrap();
        let config = format!("[status]\nevidence = \"{}\"\n", path.display());
        read_status_config(&parse(&config).unwrap())
    }

    #[test]
    fn a_broken_or_missing_file_is_a_problem_and_no_end() {
        let good = r#"{"version":1,"ram":{"proven_bytes":7,"interval_bytes":[5,7],"release":null,"measured":"2026-11-27"}}"#;
        let read = with_evidence(good);
        assert_eq!(read.evidence.ram.map(|ram| ram.proven_bytes), Some(7));
        assert_eq!(read.evidence_file_problem, None);
        for (text, why) in [
            ("{", "it is broken"),
            (r#"{"version":9}"#, "its format 9 is of a newer release"),
        ] {
            let problem = with_evidence(text).evidence_file_problem.unwrap();
            assert!(
                problem.contains("evidence.json: ") && problem.contains(why),
                "{problem}"
            );
        }
        let missing =
            read_status_config(&parse("[status]\nevidence = \"/nowhere/e.json\"\n").unwrap());
        let problem = missing.evidence_file_problem.unwrap();
        assert!(
            problem.starts_with("/nowhere/e.json cannot be read: "),
            "{problem}"
        );
        let folder = read_status_config(&parse("[status]\nevidence = \"/\"\n").unwrap());
        assert_eq!(
            folder.evidence_file_problem.as_deref(),
            Some("/ cannot be read: it is not a regular file")
        );
    }

    #[test]
    fn a_configured_capacity_is_one_that_can_be_changed() {
        let config = parse("[target]\nprogram_cache_entries = 1024\n").unwrap();
        assert!(read_status_config(&config).has_custom_capacity);
        assert!(!read_status_config(&Config::default()).has_custom_capacity);
    }
}
