use crate::{
    failure::Failure,
    plan::LinkConfig,
    protocol::Protocol,
    stream::{self, CountedStream, RawAnswer, Traffic},
};
use faultline_common::clock;
use faultline_net::{retry_after, unrequested_coding};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::{
    Request, Response, Uri,
    body::{Bytes, Incoming},
    client::conn::{http1, http2},
    header::{ACCEPT_ENCODING, CONTENT_TYPE, HOST, HeaderValue},
    http::response::Parts,
    rt::Executor,
};
use hyper_util::rt::TokioIo;
use std::{
    cell::RefCell,
    future::poll_fn,
    pin::{Pin, pin},
    rc::Rc,
    task::Poll,
    time::Duration,
};
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

#[derive(Clone, Default)]
struct Tasks(Rc<RefCell<JoinSet<()>>>);

impl<F: Future + 'static> Executor<F> for Tasks {
    fn execute(&self, task: F) {
        let mut tasks = self.0.borrow_mut();
        // Finished HTTP/2 requests are removed.
        while tasks.try_join_next().is_some() {}
        tasks.spawn_local(async move { drop(task.await) });
    }
}

/// Drives the I/O; `None` after the connection was closed.
type Driver = Option<Box<http1::Connection<TokioIo<CountedStream>, Full<Bytes>>>>;

enum Version {
    Http1 {
        send: http1::SendRequest<Full<Bytes>>,
        driver: Driver,
        host: HeaderValue,
    },
    Http2 {
        send: http2::SendRequest<Full<Bytes>>,
        _tasks: Tasks,
    },
}

pub struct HttpConnection {
    version: Version,
    target: Uri,
    pub traffic: Traffic,
}

impl HttpConnection {
    /// Fails with [`Failure::Connect`] or [`Failure::NoHttp2`].
    pub async fn open(
        config: &LinkConfig,
        tls: Option<&TlsConnector>,
        time_limit: Duration,
    ) -> Result<HttpConnection, Failure> {
        let (stream, traffic) = stream::connect(config, tls, time_limit).await?;
        let (stream, endpoint) = (TokioIo::new(stream), &config.endpoint);
        let (version, target) = if config.protocol == Protocol::Http2 {
            let tasks = Tasks::default();
            let (send, connection) = http2::handshake(tasks.clone(), stream)
                .await
                .map_err(|_| Failure::NoHttp2)?;
            tasks.execute(connection);
            let version = Version::Http2 {
                send,
                _tasks: tasks,
            };
            (version, endpoint.full_url())
        } else {
            let (send, connection) = http1::handshake(stream)
                .await
                .map_err(|_| Failure::Closed)?;
            let version = Version::Http1 {
                send,
                driver: Some(Box::new(connection)),
                host: HeaderValue::from_str(&endpoint.authority).map_err(|_| Failure::Malformed)?,
            };
            (version, endpoint.path.clone())
        };
        Ok(HttpConnection {
            version,
            target: target.parse().map_err(|_| Failure::Malformed)?,
            traffic,
        })
    }

    /// False if the node has closed the connection.
    pub async fn is_usable(&mut self) -> bool {
        match &mut self.version {
            Version::Http1 { send, driver, .. } => drive(driver, send.ready()).await.is_ok(),
            Version::Http2 { send, .. } => send.ready().await.is_ok(),
        }
    }

    /// At most `limit` bytes. After an error the connection is unusable.
    pub async fn ask(&mut self, body: Bytes, limit: usize) -> Result<RawAnswer, Failure> {
        self.traffic.reset();
        let mut request = Request::post(self.target.clone())
            .header(CONTENT_TYPE, "application/json")
            // The encoding itself is measured, so compression is off.
            .header(ACCEPT_ENCODING, "identity")
            .body(Full::new(body))
            .map_err(|_| Failure::Malformed)?;
        let (head, body) = match &mut self.version {
            Version::Http1 { send, driver, host } => {
                request.headers_mut().insert(HOST, host.clone());
                let exchange = async {
                    // Nothing has driven the connection since the last answer.
                    send.ready().await.map_err(|error| failure_of(&error))?;
                    read_answer(send.send_request(request), limit).await
                };
                drive(driver, exchange).await?
            }
            Version::Http2 { send, .. } => {
                let head = send.send_request(request);
                let head = async {
                    let head = head.await;
                    // Earlier bytes were frames of the connection.
                    let first_read_at = &self.traffic.plain.first_read_at;
                    first_read_at.set(Some(clock::uptime()));
                    head
                };
                read_answer(head, limit).await?
            }
        };
        let end_at = clock::uptime();
        if head.status.is_success()
            && let Some(coding) = unrequested_coding(&head.headers)
        {
            return Err(Failure::Encoded(coding));
        }
        Ok(RawAnswer {
            status: head.status,
            retry_after: retry_after(&head.headers, clock::now()),
            ..self.traffic.answer(body, end_at)
        })
    }
}

/// Runs `work` and the driver in one task: a second task would cost wake-ups.
async fn drive<T>(driver: &mut Driver, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    poll_fn(|cx| {
        // `work` and the driver may each wait for the other, so both are polled twice.
        for _ in 0..2 {
            if let Some(connection) = driver
                && Pin::new(connection).poll(cx).is_ready()
            {
                *driver = None;
            }
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(done);
            }
        }
        Poll::Pending
    })
    .await
}

async fn read_answer(
    response: impl Future<Output = hyper::Result<Response<Incoming>>>,
    limit: usize,
) -> Result<(Parts, Bytes), Failure> {
    let response = response.await.map_err(|error| failure_of(&error))?;
    let (head, body) = response.into_parts();
    let body = Limited::new(body, limit).collect().await.map_err(|error| {
        if error.is::<LengthLimitError>() {
            return Failure::TooLarge;
        }
        error
            .downcast_ref::<hyper::Error>()
            .map_or(Failure::Closed, failure_of)
    })?;
    Ok((head, body.to_bytes()))
}

fn failure_of(error: &hyper::Error) -> Failure {
    if error.is_parse() {
        Failure::Malformed
    } else {
        Failure::Closed
    }
}
