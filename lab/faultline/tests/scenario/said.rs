//! What the daemon said: on its page, scraped every second, and in its recording.

use crate::witness::Clock;
use faultline_recording::{PerTickTable, Recording};
use faultline_testkit::expose::{self, Page};
use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

/// Phase, distance and kept up as given at one tick. `None` if unknown.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Said {
    pub phase: Option<String>,
    pub behind: Option<u64>,
    pub kept_up: Option<bool>,
}

impl Said {
    pub fn words(&self) -> [String; 3] {
        let or_unknown = |text: Option<String>| text.unwrap_or_else(|| "?".to_owned());
        [
            or_unknown(self.phase.clone()),
            or_unknown(self.behind.map(|slots| slots.to_string())),
            or_unknown(
                self.kept_up
                    .map(|retained| if retained { "yes" } else { "no" }.to_owned()),
            ),
        ]
    }
}

/// One scrape.
#[derive(Debug, Clone)]
pub struct Scraped {
    pub asked: f64,
    pub heard: f64,
    pub said: Said,
    /// `agave_phase_seconds_total` of `at_tip`.
    pub at_tip_seconds: f64,
}

/// Scrapes every second on its own thread, which ends when this is dropped.
pub struct Scraper {
    stop: Arc<AtomicBool>,
    pages: Arc<Mutex<Vec<Scraped>>>,
    thread: Option<JoinHandle<()>>,
}

impl Scraper {
    pub fn start(address: String, clock: Clock) -> Self {
        let (stop, pages) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(Mutex::new(Vec::new())),
        );
        let (stopped, retained) = (Arc::clone(&stop), Arc::clone(&pages));
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::SeqCst) {
                let asked = clock.now();
                if let Ok(page) = expose::scrape(&address) {
                    let scraped = read(&page, asked, clock.now());
                    retained
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(scraped);
                }
                std::thread::sleep(Duration::from_secs_f64(
                    (asked + 1.0 - clock.now()).max(0.0),
                ));
            }
        });
        Self {
            stop,
            pages,
            thread: Some(thread),
        }
    }

    pub fn pages(&self) -> Vec<Scraped> {
        self.pages
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl Drop for Scraper {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

fn read(page: &Page, asked: f64, heard: f64) -> Scraped {
    let phases = page.matching("agave_phase", &[]);
    let phase = phases
        .iter()
        .find(|sample| sample.value == 1.0)
        .and_then(|sample| sample.labels.get("phase"));
    let said = Said {
        phase: phase.cloned(),
        behind: page
            .get("agave_slots_behind", &[])
            .map(|slots| slots as u64),
        kept_up: page
            .get("agave_kept_up", &[])
            .map(|retained| retained == 1.0),
    };
    let at_tip_seconds = page
        .get("agave_phase_seconds_total", &[("phase", "at_tip")])
        .unwrap_or(0.0);
    Scraped {
        asked,
        heard,
        said,
        at_tip_seconds,
    }
}

/// All ticks of a recording, with their times.
pub fn recorded(recording: &Recording, clock: Clock) -> Vec<(f64, Said)> {
    let columns = recording
        .columns(PerTickTable::Validator, &["slots_behind", "kept_up"])
        .expect("columns");
    let [behind, kept_up] = columns.values.as_slice() else {
        return Vec::new();
    };
    let levels: BTreeMap<i64, (Option<u64>, Option<bool>)> = columns
        .ticks
        .iter()
        .zip(behind.iter().zip(kept_up))
        .map(|(tick, (behind, retained))| {
            (
                *tick,
                (
                    behind.map(|slots| slots as u64),
                    retained.map(|retained| retained == 1.0),
                ),
            )
        })
        .collect();
    let ticks = recording.ticks().expect("ticks").into_iter().map(|tick| {
        let (behind, kept_up) = levels.get(&tick.id).copied().unwrap_or_default();
        let phase = tick.phase.map(|phase| phase.to_string());
        (
            clock.of_unix(tick.unix_ns),
            Said {
                phase,
                behind,
                kept_up,
            },
        )
    });
    ticks.collect()
}
