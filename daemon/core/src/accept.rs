//! Accepts the connections of a listener and serves each in its own task.

use crate::{
    clock::Clock,
    connection_limit::{Connection, Connections},
    rate_limit::RateLimit,
    socket::{BoundSocket, ListeningSockets, Stream, peer},
    supervisor::Stop,
};
use std::{sync::Arc, time::Duration};
use tokio::task::JoinSet;

/// Maximum aborted connections that have not ended yet. An aborted task ends at its next poll.
const MAX_ABORTING: usize = 64;
/// Time for requests in progress after the stop signal: a validator does not repeat its pushes.
const GRACE: Duration = Duration::from_secs(2);
/// Maximum queued connections of our own sockets that are still accepted after the stop signal.
const MAX_QUEUED_AFTER_STOP: usize = 64;
/// Pause after a failed accept. The usual cause is a lack of descriptors, which a retry does not
/// cure.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Serves until `stop`, then lets requests in progress end. Connections queued in an inherited
/// socket are left to the next process.
pub async fn run<F: Future<Output = ()> + Send + 'static>(
    sockets: Vec<BoundSocket>,
    mut connections: Connections,
    clock: Clock,
    stop: &Stop,
    serve: impl Fn(Stream, Arc<Connection>) -> F,
) {
    let listener = connections.listener;
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
            accepted = sockets.accept(), if tasks.len() < connections.max() + MAX_ABORTING => match accepted {
                Ok(stream) => {
                    let (connection, task) = start(&mut tasks, stream);
                    connections.admit(connection, task, clock.now().uptime);
                    // Lets the task read its request first. Otherwise new connections could
                    // evict it unserved.
                    tokio::task::yield_now().await;
                }
                Err(error) => {
                    if log_limit.allows(clock.now().uptime) {
                        tracing::warn!(listener, %error, "cannot accept a connection");
                    }
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                }
            },
        }
    }
    for stream in sockets.close(MAX_QUEUED_AFTER_STOP).await {
        start(&mut tasks, stream);
    }
    let all_ended = async { while tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(GRACE, all_ended).await.is_err() {
        tracing::warn!(listener, "stopped during a request");
    }
}
