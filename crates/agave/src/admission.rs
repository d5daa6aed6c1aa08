//! The validator admission ticket of Alpenglow. The amounts are `vat_to_burn_per_epoch` of
//! `slot_params.rs` (solana-runtime 4.4.0): 4 SOL for each second of a slot.

/// Nominal slot time in seconds, and price of an epoch in lamports.
const TICKETS: [(f64, u64); 5] = [
    (0.4, 1_600_000_000),
    (0.35, 1_400_000_000),
    (0.3, 1_200_000_000),
    (0.25, 1_000_000_000),
    (0.2, 800_000_000),
];
/// Accepted range of measured slot times, relative to the nominal slot time.
const MIN_SLOT_TIME_RATIO: f64 = 0.98;
const MAX_SLOT_TIME_RATIO: f64 = 1.24;
/// Minimum accepted slot time in seconds. Nominal slots of 0.2 s took as little as 0.166 s on
/// devnet, and no shorter slots are planned.
const MIN_SLOT_SECONDS: f64 = 0.16;

/// Rent for the 3,762 bytes of a vote account.
pub const VOTE_ACCOUNT_RENT_LAMPORTS: u64 = 27_074_400;

/// Price of one epoch in lamports, by the nominal slot time that fits `slot_seconds`. `None` if no
/// public cluster has such a slot time.
pub fn ticket_lamports(slot_seconds: f64) -> Option<u64> {
    let nominal = { TICKETS }
        .into_iter()
        .find(|(time, _)| MIN_SLOT_TIME_RATIO * time <= slot_seconds)
        .or(TICKETS.last().copied())
        .filter(|_| slot_seconds >= MIN_SLOT_SECONDS);
    let (_, ticket) = nominal.filter(|(time, _)| slot_seconds <= MAX_SLOT_TIME_RATIO * time)?;
    Some(ticket)
}

/// Lamports that a vote account lacks for the next ticket. Unpaid rewards raise the requirement,
/// but only the validator itself reports them.
pub fn shortfall_lamports(balance: u64, slot_seconds: f64) -> Option<u64> {
    Some((VOTE_ACCOUNT_RENT_LAMPORTS + ticket_lamports(slot_seconds)?).saturating_sub(balance))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ticket_is_that_of_the_longest_nominal_slot_time_that_fits() {
        for (measured, sol) in [
            (0.4, Some(1.6)),
            (0.41, Some(1.6)),
            (0.351, Some(1.4)),
            (0.31, Some(1.2)),
            (0.26, Some(1.0)),
            (0.23, Some(0.8)),
            (0.21, Some(0.8)),
            (0.2, Some(0.8)),
            // Seen on testnet and on devnet, whose slots should take 0.2 s.
            (0.19, Some(0.8)),
            (0.166, Some(0.8)),
            (0.15, None),
            (0.1, None),
            (1.0, None),
            (f64::NAN, None),
        ] {
            let ticket = ticket_lamports(measured).map(|lamports| lamports as f64 / 1e9);
            assert_eq!(ticket, sol, "{measured}");
        }
    }

    #[test]
    fn the_shortfall_is_rent_plus_ticket_minus_balance() {
        assert_eq!(shortfall_lamports(27_074_400, 0.2), Some(800_000_000));
        assert_eq!(shortfall_lamports(827_074_400, 0.2), Some(0));
        assert_eq!(shortfall_lamports(u64::MAX, 0.4), Some(0));
        assert_eq!(shortfall_lamports(0, 0.05), None);
    }
}
