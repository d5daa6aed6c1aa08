//! Accepts the connections of a listener, serves each in a task of its own, and ends in order.

use crate::clock::Clock;
use crate::connection_limit::{Connection, Connections};
use crate::rate_limit::RateLimit;
use crate::socket::{Bound, ListeningSockets, Stream, peer};
use crate::supervisor::Stop;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Connections that are cut and have not ended yet, at most: their tasks need to be polled once more for it.
const CUT: usize = 64;
/// How long requests in progress may go on after the signal to stop: a validator does not repeat its pushes.
const GRACE: Duration = Duration::from_secs(2);
/// How many connections that wait in a socket of our own are still accepted after the signal to stop.
const LATECOMERS: usize = 64;
/// After a connection could not be accepted, mostly for lack of descriptors: trying at once would only burn the processor.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves until `stop`, then lets requests in progress end. Who waits in a socket that was handed over is left to the
/// next process.
pub async fn run<F: Future<Output = ()> + Send + 'static>(
    sockets: Vec<Bound>,
    mut connections: Connections,
    clock: Clock,
    stop: &Stop,
    serve: impl Fn(Stream, Arc<Connection>) -> F,
) {
    let listener = connections.listener();
    let mut sockets = match ListeningSockets::open(sockets) {
        Ok(sockets) => sockets,
        Err(error) => return tracing::error!(listener, %error, "the listener failed"),
    };
    let mut log_limit = RateLimit::new(1, Duration::from_secs(60));
    let mut tasks = JoinSet::new();
    let start = |tasks: &mut JoinSet<()>, stream: Stream| {
        let connection = Arc::new(Connection::new(clock, peer(&stream)));
        let task = tasks.spawn(serve(stream, Arc::clone(&connection)));
        (connection, task)
    };
    loop {
        tokio::select! {
            () = stop.wait() => break,
            Some(ended) = tasks.join_next() => if let Err(error) = ended && error.is_panic() {
                tracing::error!(listener, %error, "a connection's task failed");
            },
            accepted = sockets.accept(), if tasks.len() < connections.max() + CUT => match accepted {
                Ok(stream) => {
                    let (connection, task) = start(&mut tasks, stream);
                    connections.admit(connection, task, clock.now().uptime);
                    // Its request is read before others come: in a rush it would be cut before.
                    tokio::task::yield_now().await;
                }
                Err(error) => {
                    if log_limit.allows(clock.now().uptime) {
                        tracing::warn!(listener, %error, "cannot accept a connection");
                    }
                    tokio::time::sleep(PAUSE).await;
                }
            },
        }
    }
    for stream in sockets.close(LATECOMERS).await {
        start(&mut tasks, stream);
    }
    let all_ended = async { while tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(GRACE, all_ended).await.is_err() {
        tracing::warn!(listener, "stopped during a request");
    }
}
