//! File systems, disks, UDP and open files.

use crate::{StatusItem, Tone, readings::Readings};
use faultline_metrics::metrics::{process as p, resources as m};
use faultline_text::{bytes_f64, duration_f64, percent, short};

/// A file system is nearly full if less than this share is free. AgaveDiskNearlyFull uses the same
/// threshold.
pub const MIN_FREE_SHARE: f64 = 0.05;

/// A file system that fills up within this time is a warning. AgaveDiskFullAhead uses the same
/// threshold.
const FULL_SOON_SECONDS: f64 = 4.0 * 3600.0;

/// Share of the limit of open files above which a warning is shown. AgaveOpenFilesNearLimit uses
/// the same threshold.
const MAX_OPEN_FILES_SHARE: f64 = 0.9;

pub fn capacity(readings: Readings<'_>) -> Vec<StatusItem> {
    let fullest = FullestFileSystem::of(readings);
    let open_files = readings
        .number(&p::OPEN_FDS)
        .zip(readings.number(&p::MAX_FDS));
    let unresponsive = unresponsive_mount(readings).map(|mount| format!("{mount} does not answer"));
    let busiest = readings
        .by_label(&m::DISK_UTILISATION)
        .max_by(|(_, a), (_, b)| a.total_cmp(b));
    let drops = readings.number(&m::UDP_DROPS);
    let is_full_soon = readings
        .by_label(&m::FILESYSTEM_UNTIL_FULL)
        .any(|(_, seconds)| seconds < FULL_SOON_SECONDS);
    let is_full = fullest
        .as_ref()
        .is_some_and(|fullest| fullest.free_share < MIN_FREE_SHARE);
    let has_sockets = readings.series(&m::UDP_SOCKETS).next().is_some();
    let (state, tone) = match readings.active_label(&m::FILESYSTEM_READ_ONLY) {
        Some(_) => ("read-only", Tone::Bad),
        None if is_full => ("nearly full", Tone::Bad),
        None if open_files.is_some_and(|(open, limit)| open / limit > MAX_OPEN_FILES_SHARE) => {
            ("open files near the limit", Tone::Bad)
        }
        None if is_full_soon => ("full within hours", Tone::Warn),
        None if unresponsive.is_some() => ("", Tone::Plain),
        None if fullest.is_some() => ("ok", Tone::Good),
        None if has_sockets => ("no file system known", Tone::Plain),
        None => ("", Tone::Plain),
    };
    let details = [
        fullest.as_ref().map(FullestFileSystem::summary),
        busiest.map(|(disk, share)| format!("{disk} {} busy", percent(share))),
        drops.map(|drops| format!("{} UDP datagrams dropped", short(drops))),
        open_files.map(|(open, limit)| format!("{} of {} files open", short(open), short(limit))),
    ]
    .into_iter()
    .flatten()
    .map(StatusItem::plain);
    let unresponsive = unresponsive.map(|text| StatusItem::new(text, Tone::Bad));
    let state = (!state.is_empty()).then(|| StatusItem::new(state, tone));
    state
        .into_iter()
        .chain(unresponsive)
        .chain(details)
        .collect()
}

struct FullestFileSystem<'a> {
    mount: &'a str,
    avail: f64,
    free_share: f64,
    /// The file system that fills up first, which may be another, and seconds until then.
    first_to_fill: Option<(&'a str, f64)>,
}

impl<'a> FullestFileSystem<'a> {
    fn of(readings: Readings<'a>) -> Option<Self> {
        let shares = readings
            .by_label(&m::FILESYSTEM_AVAIL)
            .filter_map(|(mount, avail)| {
                let mut sizes = readings.by_label(&m::FILESYSTEM_SIZE);
                let (_, size) = sizes.find(|(other, size)| *other == mount && *size > 0.0)?;
                Some((mount, avail, avail / size))
            });
        let (mount, avail, share) = shares.min_by(|(.., a), (.., b)| a.total_cmp(b))?;
        let first_to_fill = readings
            .by_label(&m::FILESYSTEM_UNTIL_FULL)
            .min_by(|(_, a), (_, b)| a.total_cmp(b));
        Some(FullestFileSystem {
            mount,
            avail,
            free_share: share,
            first_to_fill,
        })
    }

    fn summary(&self) -> String {
        let (avail, share) = (bytes_f64(self.avail), percent(self.free_share));
        let free = format!("{} has {avail} ({share}) left", self.mount);
        match self.first_to_fill {
            Some((first, time)) if first == self.mount => {
                format!("{free}, full in {}", duration_f64(time))
            }
            Some((first, time)) => format!("{free}; {first} full in {}", duration_f64(time)),
            None => free,
        }
    }
}

/// A file system that answered once, and whose last answer is too old.
fn unresponsive_mount(readings: Readings<'_>) -> Option<&str> {
    let has_size = |mount: &str| {
        readings
            .by_label(&m::FILESYSTEM_SIZE)
            .any(|(known, _)| known == mount)
    };
    let mut ages = readings.by_label(&m::FILESYSTEM_AGE);
    ages.find(|(mount, _)| !has_size(mount))
        .map(|(mount, _)| mount)
}
