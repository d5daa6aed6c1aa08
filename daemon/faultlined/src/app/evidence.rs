//! The evidence file of the configuration. What is wrong with it is a line of the answers, and no reason not to start.

use faultline_core::{
    config::Config,
    supervisor::{PATH_CALL_TIMEOUT, PathThread},
};
use faultline_status::{AnswerConfig, Evidence, MAX_EVIDENCE_BYTES};
use std::{fs::File, io::Read, path::Path};

pub fn answer_config(config: &Config) -> AnswerConfig {
    let read = config.status.evidence.as_deref().map(read).transpose();
    let problem = read.as_ref().err().cloned();
    AnswerConfig {
        evidence: read.ok().flatten().unwrap_or_default(),
        evidence_problem: problem,
        has_custom_capacity: config.target.program_cache_entries.is_some(),
    }
}

/// The file system may not answer, and a pipe never ends.
fn read(path: &Path) -> Result<Evidence, String> {
    let shown = faultline_text::path(path);
    let path = path.to_owned();
    let text = PathThread::new("evidence").call(PATH_CALL_TIMEOUT, move || {
        if !std::fs::metadata(&path)?.is_file() {
            return Err(std::io::Error::other("it is no file"));
        }
        let mut text = Vec::new();
        let file = File::open(path)?;
        file.take(MAX_EVIDENCE_BYTES + 1).read_to_end(&mut text)?;
        Ok(text)
    });
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

    fn of(text: &str) -> AnswerConfig {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("evidence.json");
        std::fs::write(&path, text).unwrap();
        let config = format!("[status]\nevidence = \"{}\"\n", path.display());
        answer_config(&parse(&config).unwrap())
    }

    #[test]
    fn a_broken_or_missing_file_is_a_problem_and_no_end() {
        let good = r#"{"version":1,"ram":{"proven_bytes":7,"interval_bytes":[5,7],"release":null,"measured":"2026-11-27"}}"#;
        let read = of(good);
        assert_eq!(read.evidence.ram.map(|ram| ram.proven_bytes), Some(7));
        assert_eq!(read.evidence_problem, None);
        for (text, why) in [
            ("{", "it is broken"),
            (r#"{"version":9}"#, "its format is 9"),
        ] {
            let problem = of(text).evidence_problem.unwrap();
            assert!(
                problem.contains("evidence.json: ") && problem.contains(why),
                "{problem}"
            );
        }
        let missing = answer_config(&parse("[status]\nevidence = \"/nowhere/e.json\"\n").unwrap());
        let problem = missing.evidence_problem.unwrap();
        assert!(
            problem.starts_with("/nowhere/e.json cannot be read: "),
            "{problem}"
        );
        let folder = answer_config(&parse("[status]\nevidence = \"/\"\n").unwrap());
        assert_eq!(
            folder.evidence_problem.as_deref(),
            Some("/ cannot be read: it is no file")
        );
    }

    #[test]
    fn a_configured_capacity_is_one_that_can_be_changed() {
        let config = parse("[target]\nprogram_cache_entries = 1024\n").unwrap();
        assert!(answer_config(&config).has_custom_capacity);
        assert!(!answer_config(&Config::default()).has_custom_capacity);
    }
}
