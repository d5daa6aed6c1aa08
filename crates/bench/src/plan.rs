//! What is asked, how often and in which order: decided before the first request.

use crate::answer::Expected;
use crate::protocol::Protocol;
pub(crate) use crate::stream::LinkKind;
use crate::values::{self, Value};
use hyper::body::Bytes;
use std::borrow::Cow;
use std::time::Duration;

/// Where a request has a number that is drawn anew in each round.
pub(crate) const RANDOM: &str = "{random}";

/// The same as a hexadecimal number.
pub(crate) const HEX: &str = "{hex}";

/// Requests that one run has at most: each is kept.
pub(crate) const MOST_REQUESTS: u64 = 10_000_000;

/// One setting that is compared with others.
#[derive(Debug, Clone)]
pub(crate) struct Arm {
    /// Its name, for people.
    pub(crate) name: String,
}

/// What requests are about: an account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subject {
    /// Its name, for people.
    pub(crate) name: String,
}

/// One request, to be sent once a round.
#[derive(Debug, Clone)]
pub(crate) struct Cell {
    /// A place in [`Plan::arms`].
    pub(crate) arm: usize,
    /// A place in [`Plan::subjects`].
    pub(crate) subject: usize,
    /// Where it goes: a place in [`Plan::links`]. Those with the same place share connections.
    pub(crate) link: usize,
    /// Method and parameters, as they are written in the request; [`RANDOM`] and [`HEX`] in it become a number.
    pub(crate) method: String,
    /// From where to where these numbers are, both included; the same for all arms in a round.
    pub(crate) numbers: Option<(u64, u64)>,
    /// Of the answer.
    pub(crate) expected: Expected,
}

impl Cell {
    /// The request with that id, in that round of the whole run.
    pub(crate) fn body(&self, id: u64, (seed, round): (u64, u64)) -> Bytes {
        let method = match self.numbers {
            None => Cow::Borrowed(&self.method),
            Some((from, to)) => {
                let number = self.random(seed, round).u64(from..=to.max(from));
                let written = self.method.replace(RANDOM, &number.to_string());
                Cow::Owned(written.replace(HEX, &format!("{number:#x}")))
            }
        };
        Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":{id},{method}}}"#))
    }

    /// Rounds and subjects have numbers of their own; arms have the same.
    fn random(&self, seed: u64, round: u64) -> fastrand::Rng {
        let offset = (round << 16) ^ self.subject as u64;
        fastrand::Rng::with_seed(seed ^ offset.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}

/// Everything that one run asks.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// The first is the reference.
    pub(crate) arms: Vec<Arm>,
    pub(crate) links: Vec<LinkKind>,
    pub(crate) subjects: Vec<Subject>,
    /// Every one is asked once in each round, in an order of its own.
    pub(crate) cells: Vec<Cell>,
    /// Of each subject, if each round has only one of them, which is drawn: how often it is, in relation to the others. Every arm
    /// is asked about every subject then. Empty if each round has all subjects.
    pub(crate) weights: Vec<u32>,
    /// What is drawn for each request, by its name in the requests.
    pub(crate) values: Vec<Value>,
    /// Rounds that count.
    pub(crate) rounds: u32,
    /// Rounds before them.
    pub(crate) warm_up: u32,
    /// Requests at the same time.
    pub(crate) workers: usize,
    /// Requests a second that are sent whether or not others were answered; `None` in a closed loop.
    pub(crate) rate: Option<f64>,
    /// Of the order.
    pub(crate) seed: u64,
    /// For one request.
    pub(crate) timeout: Duration,
    /// Bytes of one answer.
    pub(crate) limit: usize,
    /// Percent of an arm's requests that may fail, if that was given.
    pub(crate) max_failures: Option<f64>,
}

impl Plan {
    /// The round of a request, from 0 over the whole run.
    pub(crate) fn round_of(&self, number: u64) -> u64 {
        number / (self.in_a_round() as u64).max(1)
    }

    /// Requests of one round.
    fn in_a_round(&self) -> usize {
        if self.weights.is_empty() {
            self.cells.len()
        } else {
            self.arms.len()
        }
    }

    /// Requests of the whole run.
    pub(crate) fn requests(&self) -> u64 {
        (u64::from(self.rounds) + u64::from(self.warm_up)) * self.in_a_round() as u64
    }

    /// Leaves out an arm; the others keep their order.
    pub(crate) fn leave_out(&mut self, arm: usize) {
        self.arms.remove(arm);
        self.cells.retain(|cell| cell.arm != arm);
        self.cells
            .iter_mut()
            .filter(|cell| cell.arm > arm)
            .for_each(|cell| cell.arm -= 1);
    }

    /// What stands for the node that a link leads to: the place of the first link to the same address.
    pub(crate) fn node(&self, link: usize) -> usize {
        let Some(to) = self.links.get(link).map(|link| &link.endpoint) else {
            return link;
        };
        self.links
            .iter()
            .position(|link| link.endpoint == *to)
            .unwrap_or(link)
    }

    /// The request with that id.
    pub(crate) fn body(&self, cell: &Cell, id: u64) -> Bytes {
        self.body_in(cell, id, self.round_of(id))
    }

    /// The same with another id, in that round of the whole run.
    pub(crate) fn body_in(&self, cell: &Cell, id: u64, round: u64) -> Bytes {
        if self.values.is_empty() {
            return cell.body(id, (self.seed, round));
        }
        let seed = cell.random(self.seed, round).u64(..);
        let method = values::filled(&cell.method, &self.values, |offset, value| {
            value.drawn(seed, offset)
        });
        Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":{id},{method}}}"#))
    }

    /// The first requests in the order in which they would be sent: those of a round; of a mix, those of so many rounds as there
    /// are requests to draw from.
    pub(crate) fn first_requests(&self) -> String {
        let sent = Order::new(self).take(self.cells.len()).filter_map(|turn| {
            let cell = self.cells.get(turn.cell)?;
            let link = self.links.get(cell.link)?;
            let over = if link.protocol == Protocol::WebSocket {
                "SEND"
            } else {
                "POST"
            };
            let body = self.body(cell, turn.number);
            Some(format!(
                "{over} {} {}\n",
                link.endpoint.shown(),
                String::from_utf8_lossy(&body)
            ))
        });
        sent.collect()
    }
}

/// One request's place in the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    /// From 0, over the whole run.
    pub(crate) number: u64,
    /// Of the rounds that count; `None` during warm-up.
    pub(crate) round: Option<u32>,
    /// A place in [`Plan::cells`].
    pub(crate) cell: usize,
}

/// The order of requests: rounds in which every cell comes once, shuffled anew each time, so that no arm is asked at a better
/// moment than another.
pub(crate) struct Order {
    random: fastrand::Rng,
    round: Vec<usize>,
    /// Of a mix: the weight of each subject, and its cells.
    mix: Vec<(u64, Vec<usize>)>,
    number: u64,
    total: u64,
    warm_up: u64,
}

impl Order {
    pub(crate) fn new(plan: &Plan) -> Order {
        let of = |subject: usize| {
            let cells = plan
                .cells
                .iter()
                .enumerate()
                .filter(|(_, cell)| cell.subject == subject);
            cells.map(|(offset, _)| offset).collect()
        };
        Order {
            random: fastrand::Rng::with_seed(plan.seed),
            round: (0..plan.in_a_round()).collect(),
            mix: plan
                .weights
                .iter()
                .enumerate()
                .map(|(subject, weight)| (u64::from(*weight), of(subject)))
                .collect(),
            number: 0,
            total: plan.requests(),
            warm_up: u64::from(plan.warm_up),
        }
    }

    /// Draws what the next round is about.
    fn draw(&mut self) {
        let all: u64 = self.mix.iter().map(|(weight, _)| weight).sum();
        let mut left = self.random.u64(0..all.max(1));
        for (weight, cells) in &self.mix {
            if left < *weight {
                self.round.clone_from(cells);
                break;
            }
            left -= weight;
        }
    }
}

impl Iterator for Order {
    type Item = Turn;

    fn next(&mut self) -> Option<Turn> {
        if self.number >= self.total {
            return None;
        }
        let cells = self.round.len() as u64;
        let (round, offset) = (self.number / cells, (self.number % cells) as usize);
        if offset == 0 {
            self.draw();
            self.random.shuffle(&mut self.round);
        }
        let round = round
            .checked_sub(self.warm_up)
            .and_then(|round| u32::try_from(round).ok());
        let turn = Turn {
            number: self.number,
            round,
            cell: *self.round.get(offset)?,
        };
        self.number += 1;
        Some(turn)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn plan(cells: usize, seed: u64) -> Plan {
        let cell = |arm| Cell {
            arm,
            subject: 0,
            link: 0,
            method: r#""method":"m","params":[]"#.into(),
            numbers: None,
            expected: Expected::Account(crate::answer::Encoding::Base64),
        };
        Plan {
            arms: Vec::new(),
            links: Vec::new(),
            subjects: Vec::new(),
            cells: (0..cells).map(cell).collect(),
            weights: Vec::new(),
            values: Vec::new(),
            rounds: 50,
            warm_up: 2,
            workers: 1,
            rate: None,
            seed,
            timeout: Duration::from_secs(1),
            limit: 1,
            max_failures: None,
        }
    }

    #[test]
    fn every_round_has_every_cell_once_in_an_order_that_only_the_seed_decides() {
        let turns: Vec<Turn> = Order::new(&plan(4, 9)).collect();
        assert_eq!(turns.len(), 52 * 4);
        for (index, round) in turns.chunks(4).enumerate() {
            let mut cells: Vec<usize> = round.iter().map(|turn| turn.cell).collect();
            cells.sort_unstable();
            assert_eq!(cells, [0, 1, 2, 3]);
            assert!(
                round
                    .iter()
                    .all(|turn| turn.round == (index as u32).checked_sub(2))
            );
        }
        assert!(
            turns
                .iter()
                .eq(Order::new(&plan(4, 9)).collect::<Vec<_>>().iter())
        );
        assert!(
            !turns
                .iter()
                .eq(Order::new(&plan(4, 8)).collect::<Vec<_>>().iter())
        );
        let first = |cell| {
            turns
                .chunks(4)
                .filter(|round| round[0].cell == cell)
                .count()
        };
        assert!(
            (0..4).all(|cell| first(cell) > 4),
            "each comes first now and then"
        );
    }

    #[test]
    fn a_request_has_its_number() {
        let body = plan(1, 0).cells[0].body(12, (1, 0));
        assert_eq!(
            &body[..],
            br#"{"jsonrpc":"2.0","id":12,"method":"m","params":[]}"#
        );
    }

    #[test]
    fn numbers_are_drawn_anew_in_each_round_and_are_the_same_for_all_arms() {
        let mut cells = plan(2, 0).cells;
        for cell in &mut cells {
            (cell.method, cell.numbers) = (format!("[{RANDOM}]"), Some((5, 9)));
        }
        let drawn = |cell: usize, round| cells[cell].body(1, (3, round));
        assert!((0..200).all(|round| drawn(0, round) == drawn(1, round)));
        let mut seen: Vec<_> = (0..200).map(|round| drawn(0, round)).collect();
        seen.sort();
        seen.dedup();
        assert_eq!(
            (seen.len(), &seen[0][..]),
            (5, &br#"{"jsonrpc":"2.0","id":1,[5]}"#[..])
        );
    }
}
