use crate::{
    error::Error,
    trace::{Call, Program, Slot, Trace},
};

/// Adds `per_slot` transactions to every slot, evenly spread. Each calls a program of median size
/// that is never called again: the worst case for a cache that admits everything. Fails beyond 2^31
/// programs.
pub fn with_attack(trace: &Trace, per_slot: usize) -> Result<Trace, Error> {
    let mut attacked = trace.without_slots();
    let attacker = Program {
        address: None,
        loader: None,
        bytes: median_bytes(trace),
        has_code: true,
    };
    let mut changes = trace.changes().iter().peekable();
    for (index, slot) in trace.slots().iter().enumerate() {
        let calls = trace.calls_of(index);
        let mut all = Vec::with_capacity(calls.len() + per_slot);
        let before = |index: usize| {
            (index * per_slot)
                .div_ceil(calls.len().max(1))
                .min(per_slot)
        };
        for index in 0..=calls.len() {
            let until = if index == calls.len() {
                per_slot
            } else {
                before(index)
            };
            while all.len() < index + until {
                let program = attacked.add_program(attacker)?;
                let set = attacked.add_set(&[program])?;
                all.extend(Call::new(set, false));
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
            let own = change.position as usize;
            // Directly after the call that made the change.
            let position = if own == 0 { 0 } else { own + before(own - 1) };
            attacked.add_change(crate::trace::Change {
                position: position as u32,
                ..*change
            })?;
        }
    }
    Ok(attacked)
}

/// `None` if the trace has no sizes.
fn median_bytes(trace: &Trace) -> Option<u64> {
    let programs = trace.programs().iter();
    let mut sizes: Vec<u64> = programs.filter_map(|program| program.bytes).collect();
    sizes.sort_unstable();
    sizes.get(sizes.len() / 2).copied()
}
