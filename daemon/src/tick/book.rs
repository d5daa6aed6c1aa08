//! Keeps the accounts of the sources: up or not, how long they take, what they could not read.

use crate::clock::Due;
use faultline_catalog::metrics::daemon as d;
use faultline_catalog::{Batch, Histogram, LATENESS_BOUNDS, Problem, Reading, Source, Stamp, Status, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// One source's account.
#[derive(Debug, Default)]
struct Account {
    up: bool,
    took: Duration,
    last_success: Option<Stamp>,
    counts: BTreeMap<Status, u64>,
    current: Vec<Problem>,
}

/// All accounts, and those of the tick itself.
#[derive(Debug)]
pub struct Book {
    accounts: BTreeMap<Source, Account>,
    ticks: u64,
    missed: u64,
    lateness: Histogram,
}

impl Default for Book {
    fn default() -> Self {
        Book { accounts: BTreeMap::new(), ticks: 0, missed: 0, lateness: Histogram::new(&LATENESS_BOUNDS) }
    }
}

impl Book {
    /// A tick began.
    pub fn tick(&mut self, due: Due) {
        self.ticks += 1;
        self.missed += due.missed;
        self.lateness.observe(due.lateness.as_secs_f64());
    }

    /// A source looked. What is absent or forbidden is a state and counts when it begins; what vanished or was not
    /// understood is an event and counts each time, unless the source only tells again what it told before (`repeated`).
    /// A state that begins or ends is logged.
    pub fn looked(&mut self, batch: &Batch, repeated: bool) {
        let account = self.accounts.entry(batch.source).or_default();
        if account.up != batch.up {
            tracing::info!(source = batch.source.name(), up = batch.up, "source changed");
        }
        (account.up, account.took) = (batch.up, batch.took);
        if batch.up {
            account.last_success = Some(batch.at);
        }
        for problem in &batch.problems {
            let new = !account.current.contains(problem);
            if new {
                note(batch.source, problem);
            }
            let event = !repeated && matches!(problem.status, Status::Gone | Status::Broken);
            if new || event {
                *account.counts.entry(problem.status).or_default() += 1;
            }
        }
        if account.current != batch.problems {
            account.current.clone_from(&batch.problems);
        }
    }

    /// The accounts as a batch of the daemon's own.
    pub fn batch(&self, at: Stamp) -> Batch {
        let mut readings = Vec::with_capacity(self.accounts.len() * 8);
        for (source, account) in &self.accounts {
            let name = || source.name().into();
            readings.push(Reading::flag(&d::SOURCE_UP, [name()], account.up));
            readings.push(Reading::real(&d::SOURCE_DURATION, [name()], account.took.as_secs_f64()));
            if let Some(at) = account.last_success {
                readings.push(Reading::real(&d::SOURCE_LAST_SUCCESS, [name()], at.unix_seconds()));
            }
            for status in Status::ALL {
                let count = account.counts.get(&status).copied().unwrap_or(0);
                readings.push(Reading::counter(&d::SOURCE_PROBLEMS, [name(), status.name().into()], count));
            }
        }
        readings.push(Reading::counter(&d::TICKS, [], self.ticks));
        readings.push(Reading::counter(&d::MISSED_TICKS, [], self.missed));
        readings.push(Reading::new(&d::LATENESS, [], Value::Histogram(Arc::new(self.lateness.clone()))));
        Batch { readings, up: true, ..Batch::empty(Source::Daemon, at) }
    }
}

/// What is not offered is normal on some machines; what is refused or broken wants an operator.
fn note(source: Source, problem: &Problem) {
    let (source, what) = (source.name(), problem.what.as_str());
    match problem.status {
        Status::Absent | Status::Gone => tracing::debug!(source, what, "not there"),
        Status::Forbidden => tracing::warn!(source, what, "may not be read"),
        Status::Broken => tracing::warn!(source, what, "broken"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(problems: &[(Status, &str)]) -> Batch {
        let problems = problems.iter().map(|(status, what)| Problem::new(*status, what)).collect();
        Batch { problems, up: true, ..Batch::empty(Source::Cgroup, Stamp::default()) }
    }

    fn count(book: &Book, status: Status) -> u64 {
        book.accounts[&Source::Cgroup].counts.get(&status).copied().unwrap_or(0)
    }

    #[test]
    fn a_state_counts_when_it_begins_and_an_event_each_time() {
        let mut book = Book::default();
        for _ in 0..3 {
            book.looked(&batch(&[(Status::Absent, "memory.high"), (Status::Broken, "memory.stat")]), false);
        }
        assert_eq!((count(&book, Status::Absent), count(&book, Status::Broken)), (1, 3));
        book.looked(&batch(&[]), false);
        book.looked(&batch(&[(Status::Absent, "memory.high")]), false);
        assert_eq!(count(&book, Status::Absent), 2);
    }

    #[test]
    fn what_is_only_told_again_is_no_new_event() {
        let mut book = Book::default();
        for repeated in [false, true, true] {
            book.looked(&batch(&[(Status::Broken, "no answer")]), repeated);
        }
        assert_eq!(count(&book, Status::Broken), 1);
    }
}
