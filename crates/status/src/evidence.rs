//! The file of `status.evidence`: what the lab has measured or predicted.

use crate::answer::{AnswerInputs, CachePrediction};
use faultline_text::short;
use serde::{Deserialize, Serialize};

/// It changes when a field changes its meaning. Readers ignore unknown fields.
const FORMAT: u32 = 1;

const MAX_EVIDENCE_BYTES: u64 = 64 << 10;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    version: u32,
    pub ram: Option<RamEvidence>,
    pub program_cache: Option<CacheEvidence>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RamEvidence {
    /// RAM that was enough: the upper end of the interval.
    pub proven_bytes: u64,
    /// Bounds of the 90 % interval of the least RAM that is enough.
    pub interval_bytes: [u64; 2],
    /// The validator's version.
    pub release: Option<String>,
    /// The day, such as `2026-01-31`.
    pub measured: String,
}

/// Predictions from one recorded run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CacheEvidence {
    pub sizes: Vec<PredictedSize>,
    /// The smallest size such that no larger one of `sizes` saves 1 % of the replay time.
    pub enough_entries: Option<u64>,
    pub release: Option<String>,
    pub measured: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PredictedSize {
    pub entries: u64,
    /// Program cache time of a slot, summed over threads.
    pub seconds_per_slot: f64,
}

impl Default for Evidence {
    fn default() -> Self {
        Self {
            version: FORMAT,
            ram: None,
            program_cache: None,
        }
    }
}

impl Evidence {
    /// # Errors
    /// A sentence for the operator.
    pub fn parse(json: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Format {
            version: u32,
        }
        if json.len() as u64 > MAX_EVIDENCE_BYTES {
            return Err(format!("it is larger than {MAX_EVIDENCE_BYTES} bytes"));
        }
        let broken = |error: serde_json::Error| format!("it is broken: {error}");
        let Format { version } = serde_json::from_slice(json).map_err(broken)?;
        if version > FORMAT {
            return Err(format!(
                "its format {version} is of a newer release; this release reads up to {FORMAT}: use the newer one"
            ));
        }
        serde_json::from_slice(json).map_err(broken)
    }

    fn add_evidence(&self, inputs: AnswerInputs, running_version: Option<&str>) -> AnswerInputs {
        let measured_on = |release: &Option<String>, day: &str| {
            let release = release.as_deref();
            let is_running = release.is_some() && release == running_version;
            (!is_running).then(|| format!("{}, {day}", release.unwrap_or("an unknown release")))
        };
        let ram = self.ram.as_ref();
        let cache = self.program_cache.as_ref();
        let prediction = cache.and_then(|cache| {
            Some(CachePrediction {
                measured_on: measured_on(&cache.release, &cache.measured),
                ..cache.prediction(inputs.cache_capacity?, inputs.cache_seconds_per_slot)?
            })
        });
        let prediction_problem = cache.zip(inputs.cache_capacity).map(|(_, entries)| {
            format!(
                "the evidence has no prediction for {} entries",
                short(entries)
            )
        });
        AnswerInputs {
            proven_bytes: ram.map(|ram| ram.proven_bytes as f64),
            proven_on: ram.and_then(|ram| measured_on(&ram.release, &ram.measured)),
            prediction_problem: prediction_problem.filter(|_| prediction.is_none()),
            prediction,
            ..inputs
        }
    }
}

impl CacheEvidence {
    /// What `enough_entries`, else the largest size, would save in place of `capacity`; nothing if
    /// it is smaller. Times differ between hosts and loads, so the predicted share applies to
    /// `actual_seconds`, this validator's cache time per slot. `None` without a prediction for one
    /// of the two sizes.
    fn prediction(&self, capacity: f64, actual_seconds: Option<f64>) -> Option<CachePrediction> {
        let predicted = |entries: f64| {
            let mut sizes = self.sizes.iter();
            sizes.find(|size| size.entries as f64 == entries)
        };
        let predicted_seconds = predicted(capacity)?.seconds_per_slot;
        let largest = self.sizes.iter().map(|size| size.entries).max();
        let enough_entries = self.enough_entries.or(largest)? as f64;
        let best = predicted(enough_entries.max(capacity))?;
        Some(CachePrediction {
            entries: best.entries as f64,
            saved_seconds: match actual_seconds {
                Some(actual) if predicted_seconds > 0.0 => {
                    actual * (1.0 - best.seconds_per_slot / predicted_seconds)
                }
                _ => predicted_seconds - best.seconds_per_slot,
            },
            measured_on: None,
        })
    }
}

/// What the status takes from the daemon's configuration.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StatusConfig {
    pub evidence: Evidence,
    /// Why the configured file cannot be used.
    pub evidence_file_problem: Option<String>,
    /// Whether the configuration says that the build's cache size was changed.
    pub has_custom_capacity: bool,
}

impl StatusConfig {
    pub(crate) fn add_evidence(
        &self,
        inputs: AnswerInputs,
        running_version: Option<&str>,
    ) -> AnswerInputs {
        let can_change = self.has_custom_capacity.then_some(true);
        AnswerInputs {
            evidence_file_problem: self.evidence_file_problem.clone(),
            can_change_capacity: can_change.or(inputs.can_change_capacity),
            ..self.evidence.add_evidence(inputs, running_version)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn evidence() -> Evidence {
        let size = |entries, seconds_per_slot| PredictedSize {
            entries,
            seconds_per_slot,
        };
        Evidence {
            ram: Some(RamEvidence {
                proven_bytes: 430 * GIB,
                interval_bytes: [412 * GIB, 430 * GIB],
                release: Some("4.0.1".to_owned()),
                measured: "2026-11-27".to_owned(),
            }),
            program_cache: Some(CacheEvidence {
                sizes: vec![size(512, 0.0083), size(1024, 0.0004), size(2048, 0.0003)],
                enough_entries: Some(1024),
                release: Some("4.0.1".to_owned()),
                measured: "2026-11-27".to_owned(),
            }),
            ..Evidence::default()
        }
    }

    fn with(entries: f64, running: &str) -> AnswerInputs {
        let inputs = AnswerInputs {
            cache_capacity: Some(entries),
            ..AnswerInputs::default()
        };
        evidence().add_evidence(inputs, Some(running))
    }

    #[test]
    fn evidence_is_read_as_it_was_written() {
        let json = serde_json::to_vec(&evidence()).unwrap();
        assert_eq!(Evidence::parse(&json), Ok(evidence()));
        let part = Evidence::parse(br#"{"version":1,"of_a_newer_release":{}}"#);
        assert_eq!(part, Ok(Evidence::default()));
    }

    #[test]
    fn a_file_of_no_use_says_why() {
        for (json, why) in [
            (
                &b"{\"version\":2,\"ram\":7}"[..],
                "its format 2 is of a newer release",
            ),
            (b"{\"version\":1,\"ram\":7}", "it is broken: invalid type"),
            (b"", "it is broken: EOF"),
            (&[b' '; 70_000], "it is larger than 65536 bytes"),
        ] {
            let error = Evidence::parse(json).unwrap_err();
            assert!(error.starts_with(why), "{error}");
        }
    }

    #[test]
    fn the_prediction_is_from_the_present_size_to_the_one_that_is_enough() {
        let prediction = with(512.0, "4.0.1").prediction.unwrap();
        assert_eq!((prediction.entries, prediction.measured_on), (1024.0, None));
        assert!((prediction.saved_seconds - 0.0079).abs() < 1e-9);
        let measured = AnswerInputs {
            cache_capacity: Some(512.0),
            cache_seconds_per_slot: Some(0.001),
            ..AnswerInputs::default()
        };
        let saved =
            { evidence().add_evidence(measured, None).prediction }.map(|one| one.saved_seconds);
        assert!(
            saved.is_some_and(|saved| 0.0 < saved && saved < 0.001),
            "more than the cache takes: {saved:?}"
        );
        let enough = with(2048.0, "4.1.0").prediction.unwrap();
        assert_eq!(enough.saved_seconds, 0.0);
        assert_eq!(enough.measured_on.as_deref(), Some("4.0.1, 2026-11-27"));
        let unknown = with(700.0, "4.0.1");
        assert_eq!(unknown.prediction, None);
        let why = unknown.prediction_problem.unwrap();
        assert_eq!(why, "the evidence has no prediction for 700 entries");
    }

    #[test]
    fn evidence_of_another_release_is_named() {
        assert_eq!(
            with(512.0, "4.1.0").proven_on.as_deref(),
            Some("4.0.1, 2026-11-27")
        );
        let mut unknown = evidence();
        unknown.ram.as_mut().unwrap().release = None;
        let inputs = unknown.add_evidence(AnswerInputs::default(), Some("4.0.1"));
        assert_eq!(
            inputs.proven_on.as_deref(),
            Some("an unknown release, 2026-11-27")
        );
        let same = with(512.0, "4.0.1");
        assert_eq!(
            (same.proven_bytes, same.proven_on),
            (Some(430.0 * GIB as f64), None)
        );
    }
}
