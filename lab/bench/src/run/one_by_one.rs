//! Runs operations of several requests.

use super::{Attempted, Engine, Exchanged, Measured, Pace, Repeat, SampleSink, Shared};
use crate::failure::Failure;
use crate::plan::{Cell, Plan};
use anyhow::Context as _;
use futures_util::future::{Either, select};
use std::pin::pin;
use std::rc::Rc;
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
        let either = async {
            // `work` does not check the pace, so the first signal ends it.
            match select(pin!(work), pin!(pace.until(Duration::MAX))).await {
                Either::Left((done, _)) => done.map(Some),
                Either::Right(_) => Ok(None),
            }
        };
        let done = self.with_signals(&pace, || (), either)?;
        done.flatten().with_context(|| pace.ended_early())
    }

    pub(crate) fn one_by_one(
        &self,
        plan: &Rc<Plan>,
        sink: &SampleSink<'_>,
        mut perform: impl AsyncFnMut(&Cell) -> Result<Exchanged, Failure>,
    ) -> anyhow::Result<Measured> {
        let shared = Shared::new(plan.clone(), None);
        self.measured(&shared, "tasks", sink, async {
            while let Some((turn, at)) = shared.next().await {
                let Some(cell) = plan.cells.get(turn.cell) else {
                    break;
                };
                let send = async |_| perform(cell).await;
                let node = plan.node(cell.link);
                let attempted = shared.pace.send_with_retries(node, at, Repeat::All, send);
                let Some(attempted) = attempted.await else {
                    break;
                };
                shared.answered(&turn, Attempted { at, ..attempted }, None);
            }
            Ok(())
        })
    }
}
