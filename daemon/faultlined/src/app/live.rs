//! Reloads the configuration on SIGHUP. A change that would lose a count or a connection needs a
//! restart. The log then names its section.

use super::{Reload, evidence};
use faultline_core::{
    config::{Config, ConfigError},
    hub::Latest,
};
use faultline_datapoints::validator::intake::Intake;
use faultline_http::sinks::prometheus::ConstantLabels;
use faultline_metrics::Text;
use faultline_status::AnswerConfig;
use std::sync::Arc;

pub struct LiveConfig {
    config: Latest<Config>,
    reload: Option<Reload>,
    intake: Intake,
    answer_config: Latest<AnswerConfig>,
}

impl LiveConfig {
    pub fn new(config: Config, reload: Option<Reload>, intake: Intake) -> Self {
        let (live, answer_config) = (Latest::default(), Latest::default());
        answer_config.set(Some(read_answer_config(&config)));
        live.set(Some(Arc::new(config)));
        LiveConfig {
            config: live,
            reload,
            intake,
            answer_config,
        }
    }

    pub fn config(&self) -> Latest<Config> {
        self.config.clone()
    }

    pub(super) fn answer_config(&self) -> Latest<AnswerConfig> {
        self.answer_config.clone()
    }

    /// Keeps the current configuration if the file has errors.
    pub fn reload(&self) {
        let Some(reload) = &self.reload else {
            tracing::info!("reload ignored: the daemon was started without --config");
            return;
        };
        match reload() {
            Ok(loaded) => self.replace(loaded),
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

    fn replace(&self, loaded: Config) {
        let current = self.config.get().unwrap_or_default();
        let (next, need_restart) = merge(&current, loaded);
        self.intake.reconfigure(&next.datapoints);
        self.answer_config.set(Some(read_answer_config(&next)));
        self.config.set(Some(Arc::new(next)));
        if need_restart.is_empty() {
            tracing::info!("configuration reloaded");
        } else {
            tracing::warn!(
                sections = need_restart.join(", "),
                "configuration reloaded; these sections need a restart"
            );
        }
    }
}

fn read_answer_config(config: &Config) -> Arc<AnswerConfig> {
    let answer_config = evidence::answer_config(config);
    if let Some(problem) = &answer_config.evidence_problem {
        tracing::warn!(problem, "status.evidence is not used");
    }
    Arc::new(answer_config)
}

/// Returns `current` with the reloadable parts of `loaded`, and the changed sections that need a
/// restart.
fn merge(current: &Config, loaded: Config) -> (Config, Vec<&'static str>) {
    let mut next = current.clone();
    next.labels = loaded.labels;
    next.phase = loaded.phase;
    next.status = loaded.status;
    next.datapoints = loaded.datapoints;
    next.target.identity = loaded.target.identity;
    next.target.program_cache_entries = loaded.target.program_cache_entries;
    // A recording keeps the labels that it started with.
    let recorded = (current.record.file.is_some() || current.flight.on().is_some())
        && current.labels != next.labels;
    let changes = [
        ("labels of the recording", recorded),
        ("sampling", current.sampling != loaded.sampling),
        ("threads", current.threads != loaded.threads),
        ("metrics", current.metrics != loaded.metrics),
        ("ingest", current.ingest != loaded.ingest),
        ("log", current.log != loaded.log),
        ("forward", current.forward != loaded.forward),
        ("rpc", current.rpc != loaded.rpc),
        ("probe", current.probe != loaded.probe),
        ("validator", current.validator != loaded.validator),
        ("admin", current.admin != loaded.admin),
        ("host", current.host != loaded.host),
        ("record", current.record != loaded.record),
        ("flight", current.flight != loaded.flight),
        ("paths", current.paths != loaded.paths),
        ("target", current.target.find != loaded.target.find),
    ];
    (
        next,
        changes
            .into_iter()
            .filter(|(_, changed)| *changed)
            .map(|(name, _)| name)
            .collect(),
    )
}

pub fn constant_labels(config: &Config) -> ConstantLabels {
    if !config.metrics.constant_labels_everywhere {
        return Vec::new();
    }
    config
        .labels
        .pairs()
        .map(|(name, value)| (name, Text::from(value.to_owned())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultline_core::config::parse;

    #[test]
    fn reload_applies_changeable_keys_and_names_the_others() {
        let current = parse("[labels]\narm = \"A\"\n").unwrap();
        let loaded =
            parse("[labels]\narm = \"B\"\n[phase]\nat_tip_slots = 8\n[metrics]\nlisten = \"127.0.0.1:1\"\n").unwrap();
        let (next, need_restart) = merge(&current, loaded);
        assert_eq!(
            (next.labels.arm.as_deref(), next.phase.at_tip_slots),
            (Some("B"), 8)
        );
        assert_eq!(next.metrics, current.metrics);
        assert_eq!(need_restart, ["metrics"]);
    }

    #[test]
    fn reload_keeps_recording_settings_and_labels_until_restart() {
        let current = parse("[flight]\nfolder = \"/of_the_flight\"\n").unwrap();
        let loaded = parse("[labels]\narm = \"B\"\n[flight]\nfolder = \"/other\"\n").unwrap();
        let (next, need_restart) = merge(&current, loaded);
        assert_eq!(
            (next.flight, need_restart),
            (current.flight, vec!["labels of the recording", "flight"])
        );
    }

    #[test]
    fn an_invalid_configuration_changes_nothing() {
        let reload: Reload = Box::new(|| parse("[labels]\narm = 3\n"));
        let live = LiveConfig::new(
            Config::default(),
            Some(reload),
            Intake::new(&Config::default().datapoints),
        );
        live.reload();
        assert_eq!(live.config().get().as_deref(), Some(&Config::default()));
    }
}
