//! What a recording that is being written says of this moment.

use super::Recording;
use super::types::TickRow;
use crate::error::Error;
use crate::file::{self, ReturnedValues};

/// Slots that are read at once at most.
const MOST: u32 = 4096;

/// The newest of what tells whether a validator keeps up. What was not recorded is absent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Live {
    /// The newest tick, which the next three are of.
    pub tick: Option<TickRow>,
    /// The process that was followed last.
    pub pid: Option<u32>,
    /// Slots behind the tip.
    pub slots_behind: Option<u64>,
    /// The newest slot that the validator has heard of.
    pub tip: Option<u64>,
    /// Each slot's replay that became known since: when it was over, in ns since 1970 on the validator's clock, and how long it
    /// took in microseconds.
    pub replays: Vec<(i64, f64)>,
    /// What to begin behind next time.
    pub last_point: i64,
}

impl Recording {
    /// The newest, with the slots behind the point `after`: 0 the first time, then [`Live::last_point`].
    pub fn live(&self, after: i64) -> Result<Live, Error> {
        let mut live = Live {
            tick: self.ticks_where("ORDER BY id DESC LIMIT 1")?.pop(),
            pid: self
                .number("SELECT pid FROM process ORDER BY id DESC LIMIT 1")?
                .and_then(|pid| u32::try_from(pid).ok()),
            last_point: after,
            ..Live::default()
        };
        if let Some(tick) = live.tick.as_ref().filter(|_| self.has("validator_sample")) {
            let of_tick = |name: &str| -> Result<Option<u64>, Error> {
                let column = file::list(&self.present, "validator_sample", std::iter::once(name));
                let value = self.number(&format!(
                    "SELECT {column} FROM validator_sample WHERE tick = {}",
                    tick.id
                ))?;
                Ok(value.and_then(|value| u64::try_from(value).ok()))
            };
            (live.slots_behind, live.tip) = (of_tick("slots_behind")?, of_tick("slot_shred")?);
        }
        let points = format!(
            "SELECT rowid, unix_ns, replay_total_elapsed_us FROM replay_slot_point WHERE rowid > {after} ORDER BY rowid LIMIT {MOST}"
        );
        let rows = |row: &rusqlite::Row<'_>| {
            Ok((
                row.get::<_, i64>(0)?,
                row.get::<_, i64>(1)?,
                row.get::<_, Option<f64>>(2)?,
            ))
        };
        let points = if self.has("replay_slot_point") {
            self.collect(ReturnedValues::Numbers, &points, rows)?
        } else {
            Vec::new()
        };
        live.last_point = points.last().map_or(after, |(last, ..)| *last);
        live.replays = points
            .into_iter()
            .filter_map(|(_, unix_ns, us)| Some((unix_ns, us?)))
            .collect();
        Ok(live)
    }
}
