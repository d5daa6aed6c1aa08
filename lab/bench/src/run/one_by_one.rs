//! Runs operations of several requests.

use super::{
    Attempted, Engine, Exchanged, Measured, Pace, Repeat, RunState, SampleFlusher, SampleSink,
    remember_message, sample,
};
use crate::failure::Failure;
use crate::plan::{Cell as PlanCell, Order, Plan};
use crate::verify::Verdict;
use anyhow::bail;
use faultline_common::clock;
use faultline_common::progress::Progress;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio_rustls::TlsConnector;

impl Engine {
    pub(crate) fn tls(&self) -> Option<TlsConnector> {
        self.tls.clone()
    }

    /// Before any measurement; the connections are closed afterwards.
    pub(crate) fn first<T>(
        &self,
        work: impl Future<Output = anyhow::Result<T>>,
    ) -> anyhow::Result<T> {
        let pace = Pace::default();
        // It does not check the pace, so the first signal ends it.
        let ended = async {
            while pace.ended_by().is_none() {
                pace.until(Duration::MAX).await;
            }
        };
        let either = async {
            match futures_util::future::select(std::pin::pin!(work), std::pin::pin!(ended)).await {
                futures_util::future::Either::Left((done, _)) => done.map(Some),
                futures_util::future::Either::Right(_) => Ok(None),
            }
        };
        match self.with_signals(&pace, || (), either)?.flatten() {
            Some(done) => Ok(done),
            None => bail!(
                "ended by {} before anything was measured",
                pace.ended_by().unwrap_or_default()
            ),
        }
    }

    pub(crate) fn one_by_one(
        &self,
        plan: &Plan,
        sink: &SampleSink<'_>,
        mut perform: impl AsyncFnMut(&PlanCell) -> Result<Exchanged, Failure>,
    ) -> anyhow::Result<Measured> {
        let (pace, samples, done) = (Pace::default(), RefCell::new(Vec::new()), Cell::new(0));
        let (begun, length) = (Cell::new(None), Cell::new(Duration::ZERO));
        let progress = RefCell::new(Progress::new(plan.requests(), "tasks"));
        let messages = RefCell::new(BTreeMap::new());
        let state = || RunState {
            verdicts: vec![Verdict::default(); plan.arms.len()],
            refusals: pace.refusals(),
            messages: messages.borrow().clone(),
            stopped_by: pace.ended_by(),
            own_cpu: None,
            length: length.get(),
        };
        let flusher = SampleFlusher::new(sink);
        let every_tick = || {
            progress.borrow_mut().at(done.get(), "");
            flusher.flush_if_due(&samples.borrow(), state);
        };
        self.with_signals(&pace, every_tick, async {
            for turn in Order::new(plan) {
                let (Some(cell), true) =
                    (plan.cells.get(turn.cell), pace.until(Duration::ZERO).await)
                else {
                    break;
                };
                let at = clock::uptime();
                let Some(attempted) = pace
                    .send_with_retries(plan.node(cell.link), at, Repeat::All, async |_| {
                        perform(cell).await
                    })
                    .await
                else {
                    break;
                };
                done.set(done.get() + 1);
                remember_message(&mut messages.borrow_mut(), turn.cell, &attempted.answer);
                let Some(round) = turn.round else { continue };
                let first = begun.get().unwrap_or(at);
                begun.set(Some(first));
                samples.borrow_mut().push(sample(
                    &turn,
                    round,
                    first,
                    Attempted { at, ..attempted },
                ));
                length.set(clock::uptime().saturating_sub(first));
            }
            Ok(())
        })?;
        let state = state();
        flusher.flush(&samples.borrow(), &state);
        Ok(Measured {
            samples: samples.into_inner(),
            state,
        })
    }
}
