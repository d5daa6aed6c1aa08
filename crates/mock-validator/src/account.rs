use super::SLOTS_IN_EPOCH;

pub const VOTE_ACCOUNT: &str = "DemoVoteAccount11111111111111111111111111111";
/// In SOL.
pub const STAKE: u64 = 400_000;
pub const LAMPORTS_PER_SOL: u64 = 1_000_000_000;
/// Epochs in `epochCredits` of one answer.
pub const MAX_CREDIT_ENTRIES: usize = 5;

/// For each of the last epochs: its number, credits at its end or at `slot`, credits at its
/// beginning.
pub fn credits_until(slot: u64, per_hundred_slots: u64) -> Vec<[u64; 3]> {
    let (epoch, index) = (slot / SLOTS_IN_EPOCH, slot % SLOTS_IN_EPOCH);
    let first = epoch.saturating_sub(MAX_CREDIT_ENTRIES as u64 - 1);
    let earned = |slots: u64| slots * per_hundred_slots / 100;
    let entry = |of: u64| {
        let before = of * earned(SLOTS_IN_EPOCH);
        let slots = if of == epoch { index } else { SLOTS_IN_EPOCH };
        [of, before + earned(slots), before]
    };
    (first..=epoch).map(entry).collect()
}
