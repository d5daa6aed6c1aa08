//! The fullest file system, the busiest disk, UDP and open files, in one line.

use super::words::{bytes, count};
use faultline_catalog::metrics::{process as p, resources as m};
use faultline_catalog::{Metric, Tick};
use faultline_text::{escaped, time};
use std::fmt::{self, Write};
use std::time::Duration;

/// Free share of a file system below which the badge is red, as in AgaveDiskNearlyFull.
const NEARLY_FULL: f64 = 0.05;
/// Seconds until a file system is full, below which the badge warns, as in AgaveDiskFullAhead.
const FULL_SOON: f64 = 4.0 * 3600.0;
/// Share of the open files limit, as in AgaveOpenFilesNearLimit.
const NEAR_LIMIT: f64 = 0.9;

pub(super) fn write(tick: &Tick, out: &mut String) -> fmt::Result {
    let tightest = tightest(tick);
    let files = tick
        .number_of(&p::OPEN_FDS, &[])
        .zip(tick.number_of(&p::MAX_FDS, &[]));
    let read_only = all(tick, &m::FILESYSTEM_READ_ONLY).find(|(_, value)| *value == 1.0);
    let silent =
        silent(tick).map(|mount_point| format!("{} does not answer", escaped(mount_point)));
    let parts: Vec<String> = [
        silent.clone(),
        tightest.as_ref().map(Tightest::words),
        largest(tick, &m::DISK_UTILISATION)
            .map(|(disk, share)| format!("{} {} % busy", escaped(disk), count(share * 100.0))),
        tick.number_of(&m::UDP_DROPS, &[])
            .map(|drops| format!("{} UDP datagrams dropped", count(drops))),
        files.map(|(open, most)| format!("{} of {} files open", count(open), count(most))),
    ]
    .into_iter()
    .flatten()
    .collect();
    if tightest.is_none() && silent.is_none() && !all(tick, &m::UDP_SOCKETS).any(|_| true) {
        return Ok(());
    }
    let soon = all(tick, &m::FILESYSTEM_UNTIL_FULL).any(|(_, seconds)| seconds < FULL_SOON);
    let full = tightest
        .as_ref()
        .is_some_and(|tightest| tightest.share < NEARLY_FULL);
    let badge = match read_only {
        Some(_) => "<span class=\"badge bad\">read-only</span>",
        None if silent.is_some() => "<span class=\"badge bad\">does not answer</span>",
        None if full => "<span class=\"badge bad\">nearly full</span>",
        None if files.is_some_and(|(open, most)| open / most > NEAR_LIMIT) => {
            "<span class=\"badge bad\">open files</span>"
        }
        None if soon => "<span class=\"badge busy\">full within hours</span>",
        None if tightest.is_some() => "<span class=\"badge good\">has room</span>",
        None => "<span class=\"badge\">no file system known</span>",
    };
    write!(
        out,
        "<section>\n<h2>Does it run out?</h2>\n<div class=\"card title\">{badge}"
    )?;
    for part in parts {
        write!(out, "<span class=\"nowrap\">{part}</span> ")?;
    }
    out.push_str("</div>\n</section>\n");
    Ok(())
}

struct Tightest<'a> {
    mountpoint: &'a str,
    avail: f64,
    share: f64,
    /// Seconds until the first file system is full, and which.
    full: Option<(&'a str, f64)>,
}

impl Tightest<'_> {
    fn words(&self) -> String {
        let (mount_point, share) = (escaped(self.mountpoint), count(self.share * 100.0));
        let left = format!("{mount_point} has {} ({share} %) left", bytes(self.avail));
        match self.full {
            Some((first, seconds)) if first == self.mountpoint => {
                format!("{left}, full in {}", within(seconds))
            }
            Some((first, seconds)) => {
                format!("{left}; {} full in {}", escaped(first), within(seconds))
            }
            None => left,
        }
    }
}

/// In days, the unit for planning.
fn within(seconds: f64) -> String {
    match seconds {
        days if days >= 172_800.0 => format!("{} days", (days / 86_400.0).floor()),
        short => time(Duration::from_secs(short as u64)),
    }
}

fn tightest(tick: &Tick) -> Option<Tightest<'_>> {
    let sizes: Vec<(&str, f64)> = all(tick, &m::FILESYSTEM_SIZE).collect();
    let shares = all(tick, &m::FILESYSTEM_AVAIL).filter_map(|(mountpoint, avail)| {
        let (_, size) = sizes
            .iter()
            .find(|(other, size)| *other == mountpoint && *size > 0.0)?;
        Some((mountpoint, avail, avail / size))
    });
    let (mountpoint, avail, share) = shares.min_by(|(.., a), (.., b)| a.total_cmp(b))?;
    let full = all(tick, &m::FILESYSTEM_UNTIL_FULL).min_by(|(_, a), (_, b)| a.total_cmp(b));
    Some(Tightest {
        mountpoint,
        avail,
        share,
        full,
    })
}

fn silent(tick: &Tick) -> Option<&str> {
    let known: Vec<&str> = all(tick, &m::FILESYSTEM_SIZE)
        .map(|(mount_point, _)| mount_point)
        .collect();
    all(tick, &m::FILESYSTEM_AGE)
        .map(|(mount_point, _)| mount_point)
        .find(|mount_point| !known.contains(mount_point))
}

fn largest<'a>(tick: &'a Tick, metric: &'static Metric) -> Option<(&'a str, f64)> {
    all(tick, metric).max_by(|(_, a), (_, b)| a.total_cmp(b))
}

fn all<'a>(tick: &'a Tick, metric: &'static Metric) -> impl Iterator<Item = (&'a str, f64)> {
    tick.readings()
        .filter(move |one| std::ptr::eq(one.metric, metric))
        .filter_map(|one| {
            let label = one.labels.first().map_or("", |label| label.as_str());
            Some((label, one.value.number()?))
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultline_catalog::{Batch, Reading, Source, Stamp, Value};
    use std::sync::Arc;

    fn page(readings: Vec<Reading>) -> String {
        let batch = Batch {
            readings,
            ..Batch::empty(Source::Resources, Stamp::default())
        };
        let tick = Tick {
            number: 1,
            at: Stamp::default(),
            batches: vec![Arc::new(batch)],
        };
        let mut out = String::new();
        write(&tick, &mut out).unwrap();
        out
    }

    fn real(metric: &'static Metric, labels: &[&'static str], value: f64) -> Reading {
        let labels = labels.iter().map(|label| (*label).into()).collect();
        Reading {
            metric,
            labels,
            tags: Box::default(),
            value: Value::Real(value),
        }
    }

    fn node(avail: f64) -> Vec<Reading> {
        let gib = f64::from(1 << 30);
        vec![
            real(&m::FILESYSTEM_SIZE, &["/", "log"], 100.0 * gib),
            real(&m::FILESYSTEM_AVAIL, &["/", "log"], 80.0 * gib),
            real(&m::FILESYSTEM_SIZE, &["/mnt/<l>", "ledger"], 1000.0 * gib),
            real(&m::FILESYSTEM_AVAIL, &["/mnt/<l>", "ledger"], avail * gib),
            real(
                &m::FILESYSTEM_UNTIL_FULL,
                &["/mnt/<l>", "ledger"],
                300_000.0,
            ),
            real(&m::DISK_UTILISATION, &["nvme0n1"], 0.12),
            real(&m::DISK_UTILISATION, &["nvme1n1"], 0.34),
            real(&m::UDP_DROPS, &[], 12.0),
            real(&p::OPEN_FDS, &[], 900.0),
            real(&p::MAX_FDS, &[], 1_000_000.0),
        ]
    }

    #[test]
    fn one_line_answers_what_is_tightest_and_when_it_is_full() {
        let html = page(node(120.0));
        for words in [
            "<span class=\"badge good\">has room</span>",
            "/mnt/&lt;l&gt; has 120 GiB (12 %) left, full in 3 days",
            "nvme1n1 34 % busy",
            "12 UDP datagrams dropped",
            "900 of 1,000,000 files open",
        ] {
            assert!(html.contains(words), "{words}: {html}");
        }
    }

    #[test]
    fn what_is_urgent_has_a_badge_and_what_is_not_known_is_not_said() {
        assert!(page(node(40.0)).contains("badge bad\">nearly full"));
        let mut broken = node(40.0);
        broken.push(real(&m::FILESYSTEM_READ_ONLY, &["/", "log"], 1.0));
        assert!(page(broken).contains("badge bad\">read-only"));
        assert_eq!(page(vec![real(&p::OPEN_FDS, &[], 9.0)]), "");
        let mut dead = node(120.0);
        dead.push(real(&m::FILESYSTEM_AGE, &["/mnt/<l>", "ledger"], 1.0));
        assert!(page(dead.clone()).contains("has room"), "it answers");
        dead.push(real(&m::FILESYSTEM_AGE, &["/dead", "snapshots"], 60.0));
        let dead = page(dead);
        assert!(
            dead.contains("badge bad\">does not answer") && dead.contains("/dead does not answer"),
            "{dead}"
        );
        let mut soon = node(120.0);
        soon.push(real(&m::FILESYSTEM_UNTIL_FULL, &["/", "log"], 14_000.0));
        assert!(page(soon).contains("badge busy\">full within hours"));
        let unknown = page(vec![real(&m::UDP_SOCKETS, &[], 12.0)]);
        assert!(
            unknown.contains("no file system known") && !unknown.contains("has room"),
            "{unknown}"
        );
    }
}
