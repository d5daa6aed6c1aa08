//! File systems, disks, UDP and open files.

use crate::part::{Part, Tone};
use crate::readings::Readings;
use faultline_metrics::metrics::{process as p, resources as m};
use faultline_text::{bytes_f64, percent, seconds, short};

/// A share of a file system that is left. AgaveDiskNearlyFull uses the same threshold.
pub const NEARLY_FULL: f64 = 0.05;

/// Seconds until a file system is full. AgaveDiskFullAhead uses the same threshold.
const FULL_SOON: f64 = 4.0 * 3600.0;

/// A share of the open files that it may have. AgaveOpenFilesNearLimit uses the same threshold.
const NEAR_LIMIT: f64 = 0.9;

/// Empty for a node of which nothing of it is known.
pub(crate) fn capacity(readings: Readings<'_>) -> Vec<Part> {
    let tightest = Tightest::of(readings);
    let files = readings
        .number(&p::OPEN_FDS, &[])
        .zip(readings.number(&p::MAX_FDS, &[]));
    let silent = silent(readings).map(|mount| format!("{mount} does not answer"));
    let busiest = readings
        .by_label(&m::DISK_UTILISATION)
        .max_by(|(_, a), (_, b)| a.total_cmp(b));
    let drops = readings.number(&m::UDP_DROPS, &[]);
    let soon = readings
        .by_label(&m::FILESYSTEM_UNTIL_FULL)
        .any(|(_, seconds)| seconds < FULL_SOON);
    let is_full = tightest
        .as_ref()
        .is_some_and(|tightest| tightest.share < NEARLY_FULL);
    let has_sockets = readings.all(&m::UDP_SOCKETS).next().is_some();
    let (state, tone) = match readings.active(&m::FILESYSTEM_READ_ONLY) {
        Some(_) => ("read-only", Tone::Bad),
        None if is_full => ("nearly full", Tone::Bad),
        None if files.is_some_and(|(open, most)| open / most > NEAR_LIMIT) => {
            ("open files near the limit", Tone::Bad)
        }
        None if soon => ("full within hours", Tone::Warn),
        None if silent.is_some() => ("", Tone::Plain),
        None if tightest.is_some() => ("ok", Tone::Good),
        None if has_sockets => ("no file system known", Tone::Plain),
        None => ("", Tone::Plain),
    };
    let details: Vec<Part> = [
        tightest.as_ref().map(Tightest::words),
        busiest.map(|(disk, share)| format!("{disk} {} busy", percent(share))),
        drops.map(|drops| format!("{} UDP datagrams dropped", short(drops))),
        files.map(|(open, most)| format!("{} of {} files open", short(open), short(most))),
    ]
    .into_iter()
    .flatten()
    .map(Part::plain)
    .collect();
    let silent = silent.map(|text| Part::new(text, Tone::Bad));
    let state = (!state.is_empty()).then(|| Part::new(state, tone));
    state.into_iter().chain(silent).chain(details).collect()
}

/// The file system with the smallest share left.
struct Tightest<'a> {
    mount: &'a str,
    avail: f64,
    share: f64,
    /// The file system that is full first, and seconds until then.
    full: Option<(&'a str, f64)>,
}

impl<'a> Tightest<'a> {
    fn of(readings: Readings<'a>) -> Option<Self> {
        let shares = readings
            .by_label(&m::FILESYSTEM_AVAIL)
            .filter_map(|(mount, avail)| {
                let mut sizes = readings.by_label(&m::FILESYSTEM_SIZE);
                let (_, size) = sizes.find(|(other, size)| *other == mount && *size > 0.0)?;
                Some((mount, avail, avail / size))
            });
        let (mount, avail, share) = shares.min_by(|(.., a), (.., b)| a.total_cmp(b))?;
        let full = readings
            .by_label(&m::FILESYSTEM_UNTIL_FULL)
            .min_by(|(_, a), (_, b)| a.total_cmp(b));
        Some(Tightest {
            mount,
            avail,
            share,
            full,
        })
    }

    fn words(&self) -> String {
        let (avail, share) = (bytes_f64(self.avail), percent(self.share));
        let left = format!("{} has {avail} ({share}) left", self.mount);
        match self.full {
            Some((first, time)) if first == self.mount => {
                format!("{left}, full in {}", seconds(time))
            }
            Some((first, time)) => format!("{left}; {first} full in {}", seconds(time)),
            None => left,
        }
    }
}

/// A file system that answered once, and whose last answer is too old.
fn silent<'a>(readings: Readings<'a>) -> Option<&'a str> {
    let is_known = |mount: &str| {
        readings
            .by_label(&m::FILESYSTEM_SIZE)
            .any(|(known, _)| known == mount)
    };
    let mut ages = readings.by_label(&m::FILESYSTEM_AGE);
    ages.find(|(mount, _)| !is_known(mount))
        .map(|(mount, _)| mount)
}
