//! Requests and their order, fixed before the first request.

#[cfg(test)]
pub mod tests;

pub use crate::stream::ConnectionConfig;
use crate::{
    answer::Expected,
    protocol::Protocol,
    values::{self, Placeholder},
};
use hyper::body::Bytes;
use std::time::Duration;

/// Placeholder of a number that each round draws from [`Case::random_range`].
pub const RANDOM_HEIGHT: &str = "{random}";

/// The hexadecimal form of [`RANDOM_HEIGHT`].
pub const RANDOM_HEX_HEIGHT: &str = "{hex}";

/// All results are in memory.
pub const MAX_REQUESTS: u64 = 10_000_000;

/// A request as one arm sends it. Arms are what is compared, such as nodes or encodings.
#[derive(Debug, Clone)]
pub struct Case {
    pub arm_index: usize,
    /// In [`Plan::request_labels`].
    pub request_index: usize,
    /// In [`Plan::connections`]. Cases with the same index share open connections.
    pub connection_index: usize,
    /// Method and parameters, as in JSON. Placeholders are [`RANDOM_HEIGHT`] and
    /// [`RANDOM_HEX_HEIGHT`] with a `random_range`, else `{name}` for each of
    /// [`Plan::placeholders`]. For `bench transport`, a text for the settings.
    pub call: String,
    /// Both ends included.
    pub random_range: Option<(u64, u64)>,
    pub expected: Expected,
}

#[derive(Debug, Clone)]
pub struct Plan {
    /// Names; the first is the reference.
    pub arms: Vec<String>,
    pub connections: Vec<ConnectionConfig>,
    /// Results name a request by its label: an account, a method, or a text such as `single read`.
    pub request_labels: Vec<String>,
    pub cases: Vec<Case>,
    /// By request. With weights, a round has one request, drawn by weight; else it has all.
    pub weights: Vec<u32>,
    pub placeholders: Vec<Placeholder>,
    /// Measured passes over all cases.
    pub rounds: u32,
    /// Passes before the measured ones.
    pub warm_up: u32,
    pub workers: usize,
    /// Requests a second, sent without waiting for answers; `None` in a closed loop.
    pub rate: Option<f64>,
    /// Decides the order, the requests drawn by weight, and the values drawn for placeholders.
    pub seed: u64,
    pub timeout: Duration,
    pub max_answer_bytes: usize,
    /// How many of an arm's requests may fail.
    pub max_failure_percent: Option<f64>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            arms: Vec::new(),
            connections: Vec::new(),
            request_labels: Vec::new(),
            cases: Vec::new(),
            weights: Vec::new(),
            placeholders: Vec::new(),
            rounds: 1000,
            warm_up: 20,
            workers: 1,
            rate: None,
            seed: 1,
            timeout: Duration::from_secs(10),
            max_answer_bytes: 64 << 20,
            max_failure_percent: None,
        }
    }
}

impl Plan {
    /// Adds a case for every arm, over the connection of the same index. `call` is as in [`Case`].
    pub fn add_request(
        &mut self,
        label: String,
        call: String,
        random_range: Option<(u64, u64)>,
        expected: Expected,
    ) {
        let case = |arm_index| Case {
            arm_index,
            request_index: self.request_labels.len(),
            connection_index: arm_index,
            call: call.clone(),
            random_range,
            expected,
        };
        self.cases.extend((0..self.arms.len()).map(case));
        self.request_labels.push(label);
    }

    pub fn arm_name(&self, case: &Case) -> &str {
        &self.arms[case.arm_index]
    }

    pub fn request_label(&self, case: &Case) -> &str {
        &self.request_labels[case.request_index]
    }

    pub fn connection(&self, case: &Case) -> &ConnectionConfig {
        &self.connections[case.connection_index]
    }

    pub fn round_of(&self, number: u64) -> u64 {
        number / (self.requests_per_round() as u64).max(1)
    }

    fn requests_per_round(&self) -> usize {
        if self.weights.is_empty() {
            self.cases.len()
        } else {
            self.arms.len()
        }
    }

    pub fn request_count(&self) -> u64 {
        (u64::from(self.rounds) + u64::from(self.warm_up)) * self.requests_per_round() as u64
    }

    pub fn remove_arm(&mut self, arm_index: usize) {
        self.arms.remove(arm_index);
        self.cases.retain(|case| case.arm_index != arm_index);
        self.cases
            .iter_mut()
            .filter(|case| case.arm_index > arm_index)
            .for_each(|case| case.arm_index -= 1);
    }

    /// Identifies a node by the index of the first connection to it.
    pub fn node_index(&self, case: &Case) -> usize {
        let endpoint = &self.connection(case).endpoint;
        self.connections
            .iter()
            .position(|connection| connection.endpoint == *endpoint)
            .unwrap_or(case.connection_index)
    }

    pub fn body(&self, case: &Case, id: u64) -> Bytes {
        let call = self.call(case, self.round_of(id));
        Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":{id},{call}}}"#))
    }

    /// The call with the values of a round. `round` counts from the first warm-up round.
    pub fn call(&self, case: &Case, round: u64) -> String {
        // All arms get the same texts.
        let offset = (round << 16) ^ case.request_index as u64;
        let mut random =
            fastrand::Rng::with_seed(self.seed ^ offset.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        match case.random_range {
            Some((from, to)) => {
                let number = random.u64(from..=to.max(from));
                case.call
                    .replace(RANDOM_HEIGHT, &number.to_string())
                    .replace(RANDOM_HEX_HEIGHT, &format!("{number:#x}"))
            }
            None => {
                let seed = random.u64(..);
                values::fill_placeholders(&case.call, &self.placeholders, |index, placeholder| {
                    placeholder.random_text(seed, index)
                })
            }
        }
    }

    /// Text for `--dry-run`: at most as many requests as there are cases, which is one round
    /// without weights.
    pub fn first_requests(&self) -> String {
        let request = |scheduled: ScheduledRequest| {
            let case = &self.cases[scheduled.case_index];
            let connection = self.connection(case);
            let verb = match connection.protocol {
                Protocol::WebSocket => "SEND",
                _ => "POST",
            };
            let body = self.body(case, scheduled.number);
            let body = String::from_utf8_lossy(&body);
            format!("{verb} {} {body}\n", connection.endpoint.redacted_url())
        };
        Order::new(self)
            .take(self.cases.len())
            .map(request)
            .collect()
    }
}

#[derive(PartialEq)]
pub struct ScheduledRequest {
    pub number: u64,
    /// Counted from the first round after the warm-up; `None` during it.
    pub measured_round: Option<u32>,
    /// In [`Plan::cases`].
    pub case_index: usize,
}

/// Each round is shuffled anew, so that no arm is always first.
pub struct Order {
    random: fastrand::Rng,
    /// Indices of the cases of a round. With weights, `draw_request` sets them.
    round_cases: Vec<usize>,
    /// Weight and cases of each request; empty without `weights`.
    mix: Vec<(u64, Vec<usize>)>,
    next_number: u64,
    request_count: u64,
    warm_up_rounds: u64,
}

impl Order {
    pub fn new(plan: &Plan) -> Self {
        let cases_of = |request_index| {
            let cases = 0..plan.cases.len();
            cases
                .filter(|case| plan.cases[*case].request_index == request_index)
                .collect()
        };
        Self {
            random: fastrand::Rng::with_seed(plan.seed),
            round_cases: (0..plan.requests_per_round()).collect(),
            mix: (0..)
                .zip(&plan.weights)
                .map(|(index, weight)| (u64::from(*weight), cases_of(index)))
                .collect(),
            next_number: 0,
            request_count: plan.request_count(),
            warm_up_rounds: u64::from(plan.warm_up),
        }
    }

    fn draw_request(&mut self) {
        let total: u64 = self.mix.iter().map(|(weight, _)| weight).sum();
        let mut drawn = self.random.u64(0..total.max(1));
        for (weight, cases) in &self.mix {
            if drawn < *weight {
                self.round_cases.clone_from(cases);
                break;
            }
            drawn -= weight;
        }
    }
}

impl Iterator for Order {
    type Item = ScheduledRequest;

    fn next(&mut self) -> Option<ScheduledRequest> {
        if self.next_number >= self.request_count {
            return None;
        }
        let case_count = self.round_cases.len() as u64;
        let (round, offset) = (
            self.next_number / case_count,
            (self.next_number % case_count) as usize,
        );
        if offset == 0 {
            self.draw_request();
            self.random.shuffle(&mut self.round_cases);
        }
        let measured_round = round
            .checked_sub(self.warm_up_rounds)
            .and_then(|round| u32::try_from(round).ok());
        let scheduled = ScheduledRequest {
            number: self.next_number,
            measured_round,
            case_index: *self.round_cases.get(offset)?,
        };
        self.next_number += 1;
        Some(scheduled)
    }
}
