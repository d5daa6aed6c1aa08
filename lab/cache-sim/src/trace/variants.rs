//! Traces made from another trace: random halves, and traces with an attack.

use super::{Program, Slot, Trace, TraceChange, TransactionCall};
use crate::Result;
use fastrand::Rng;

impl Trace {
    /// Slots in a group: the cube root of their number. Lengths of this order minimize the error of a
    /// variance (Hall, Horowitz and Jing 1995).
    fn group_length(&self) -> usize {
        (self.slots.len() as f64).cbrt().ceil().max(1.0) as usize
    }

    pub fn group_count(&self) -> usize {
        self.slots.len().div_ceil(self.group_length())
    }

    /// A random half of the groups of neighboring slots, in order. A group contains whole bursts.
    /// The slots of the half get the numbers of the trace's last slots, because missing numbers
    /// would age programs. No group is drawn twice, because its programs would still be cached the
    /// second time.
    pub fn half(&self, seed: u64) -> Result<Self> {
        let slots = self.slots.len();
        let group_length = self.group_length();
        let mut groups = Vec::from_iter(0..self.group_count());
        Rng::with_seed(seed).shuffle(&mut groups);
        groups.truncate(groups.len().div_ceil(2));
        groups.sort_unstable();
        let chosen: Vec<usize> = groups
            .iter()
            .flat_map(|group| group * group_length..((group + 1) * group_length).min(slots))
            .collect();
        let mut half = self.without_slots();
        let last_slots = self.slots.iter().skip(slots - chosen.len());
        for ((slot_index, slot), source) in (0..).zip(last_slots).zip(chosen) {
            let Slot {
                transactions, kind, ..
            } = self.slots[source];
            half.add_slot(
                Slot {
                    transactions,
                    kind,
                    ..*slot
                },
                self.transactions_of(source),
            )?;
            let begin = self
                .changes
                .partition_point(|change| (change.slot_index as usize) < source);
            for change in self.changes[begin..]
                .iter()
                .take_while(|change| change.slot_index as usize == source)
            {
                half.add_change(TraceChange {
                    slot_index,
                    ..*change
                })?;
            }
        }
        Ok(half)
    }
}

/// Adds `per_slot` transactions to every slot, evenly spread. Each calls a new program of median
/// size: the worst case for a cache that admits everything. Fails beyond 2^31 programs.
pub fn with_attack(trace: &Trace, per_slot: usize) -> Result<Trace> {
    let mut attacked = trace.without_slots();
    let attacker = Program {
        address: None,
        loader: None,
        bytes: median_bytes(trace),
        has_code: true,
    };
    let mut changes = trace.changes().iter().peekable();
    for (index, slot) in trace.slots().iter().enumerate() {
        let calls = trace.transactions_of(index);
        let mut all = Vec::with_capacity(calls.len() + per_slot);
        let attacks_before = |index: usize| {
            (index * per_slot)
                .div_ceil(calls.len().max(1))
                .min(per_slot)
        };
        for index in 0..=calls.len() {
            let attacks = if index == calls.len() {
                per_slot
            } else {
                attacks_before(index)
            };
            while all.len() < index + attacks {
                let program = attacked.add_program(attacker)?;
                all.extend(TransactionCall::new(attacked.add_set(&[program])?, false));
            }
            all.extend(calls.get(index));
        }
        attacked.add_slot(
            Slot {
                transactions: slot.transactions + per_slot as u64,
                ..*slot
            },
            &all,
        )?;
        while let Some(change) = changes.next_if(|change| change.slot_index as usize == index) {
            let old = change.position as usize;
            // The change stays directly after the call that made it.
            let position = if old == 0 {
                0
            } else {
                old + attacks_before(old - 1)
            };
            attacked.add_change(TraceChange {
                position: position as u32,
                ..*change
            })?;
        }
    }
    Ok(attacked)
}

/// `None` if the trace has no sizes.
fn median_bytes(trace: &Trace) -> Option<u64> {
    let mut sizes: Vec<u64> = trace
        .programs()
        .iter()
        .filter_map(|program| program.bytes)
        .collect();
    sizes.sort_unstable();
    sizes.get(sizes.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Meta, Program, SlotKind, Source, TransactionCall};

    #[test]
    fn a_trace_half_keeps_adjacent_slots_and_renumbers_programs() {
        let mut trace = Trace::new(Meta {
            source: Source::Plain,
            cluster: String::new(),
            version: String::new(),
        });
        let program = Program {
            address: None,
            loader: None,
            bytes: None,
            has_code: true,
        };
        for at in 0..125 {
            let program = trace.add_program(program).unwrap();
            let set = trace.add_set(&[program]).unwrap();
            let slot = Slot {
                slot: 2 * at + 7,
                parent: 2 * at + 6,
                transactions: 1,
                kind: SlotKind::Replayed,
            };
            let call = TransactionCall::new(set, false).unwrap();
            trace.add_slot(slot, &[call]).unwrap();
        }
        let half = trace.half(1).unwrap();
        assert_eq!(half.slots(), &trace.slots()[60..]);
        let called: Vec<u32> = (0..65)
            .map(|at| half.programs_of_set(half.transactions_of(at)[0].set_number())[0])
            .collect();
        assert!(
            called
                .chunks(5)
                .all(|five| five[0] % 5 == 0 && five.windows(2).all(|two| two[0] + 1 == two[1]))
        );
        assert!(
            called.is_sorted() && called.windows(2).any(|two| two[0] + 1 < two[1]),
            "{called:?}"
        );
        // The half has the numbers of the last 65 slots. The first 60 slots of the trace are the
        // validator's own.
        let mut kinds = trace.clone();
        kinds
            .slots
            .iter_mut()
            .take(60)
            .for_each(|slot| slot.kind = SlotKind::Own);
        let own = kinds.half(1).unwrap();
        assert!(
            (0..65).all(|at| (own.slots()[at].kind == SlotKind::Own) == (called[at] < 60)),
            "{own:?}"
        );
        assert_eq!(half, trace.half(1).unwrap());
        assert_ne!(half, trace.half(2).unwrap());
        assert_eq!(
            Trace::new(trace.meta().clone())
                .half(1)
                .unwrap()
                .slots()
                .len(),
            0
        );
    }
}
