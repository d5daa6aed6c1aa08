use super::{Recording, types::TickRow};
use crate::{error::Error, file};

/// Maximum points that one call returns.
const MAX_POINTS: u32 = 4096;

/// The newest values that show whether a validator keeps up. Values that were not recorded are
/// absent.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Live {
    /// The newest tick; source of the next three values.
    pub tick: Option<TickRow>,
    pub pid: Option<u32>,
    pub slots_behind: Option<u64>,
    /// The newest slot known to the validator.
    pub tip: Option<u64>,
    /// New replays: end in Unix ns of the validator's clock, duration in microseconds.
    pub replays: Vec<(i64, f64)>,
    /// Argument of the next call.
    pub last_point: i64,
}

impl Recording {
    /// Returns slots after the point `after`: 0 at first, then [`Live::last_point`].
    pub fn live(&self, after: i64) -> Result<Live, Error> {
        let mut live = Live {
            tick: self.last_tick()?,
            pid: self
                .number("SELECT pid FROM process ORDER BY id DESC LIMIT 1")?
                .and_then(|pid| u32::try_from(pid).ok()),
            last_point: after,
            ..Live::default()
        };
        if let Some(tick) = live.tick.as_ref().filter(|_| self.has("validator_sample")) {
            let of_tick = |name: &str| -> Result<Option<u64>, Error> {
                let column =
                    file::column_list(&self.present, "validator_sample", std::iter::once(name));
                let value = self.number(&format!(
                    "SELECT {column} FROM validator_sample WHERE tick = {}",
                    tick.id
                ))?;
                Ok(value.and_then(|value| u64::try_from(value).ok()))
            };
            (live.slots_behind, live.tip) = (of_tick("slots_behind")?, of_tick("slot_shred")?);
        }
        let points = format!(
            "SELECT rowid, unix_ns, replay_total_elapsed_us FROM replay_slot_point WHERE rowid > {after} ORDER BY rowid LIMIT {MAX_POINTS}"
        );
        let replays = self.all_of("replay_slot_point", &points, |row| {
            live.last_point = row.get(0)?;
            let duration: Option<f64> = row.get(2)?;
            Ok(duration.zip(row.get(1)?).map(|(us, unix_ns)| (unix_ns, us)))
        })?;
        live.replays = replays.into_iter().flatten().collect();
        Ok(live)
    }
}
