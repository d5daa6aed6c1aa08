//! A scripted Influx server that stores the requests.

use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response,
    body::{Body, Bytes, Incoming},
    header::{CONTENT_ENCODING, RETRY_AFTER},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use std::{
    collections::VecDeque,
    convert::Infallible,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpSocket},
    task::JoinSet,
};

#[derive(Debug, Clone)]
pub struct ReceivedPush {
    pub target: String,
    pub coding: Option<String>,
    pub length: Option<u64>,
    pub body: Vec<u8>,
}

#[derive(Debug, Clone)]
pub enum Reply {
    /// This status, `Retry-After` and body.
    Answer(u16, Option<&'static str>, String),
    /// 204 after this delay.
    Late(Duration),
    /// No answer at all.
    Hang,
}

#[derive(Default)]
struct State {
    received_pushes: Mutex<Vec<ReceivedPush>>,
    replies: Mutex<VecDeque<Reply>>,
}

/// Answers 204, or the next scripted reply. Ends when dropped.
pub struct Server {
    address: SocketAddr,
    state: Arc<State>,
    _task: JoinSet<()>,
}

/// A bound address without a listener: connections are refused.
pub struct Down(TcpSocket);

impl Server {
    pub fn start() -> Self {
        Self::down().up()
    }

    pub fn down() -> Down {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        Down(socket)
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn received_pushes(&self) -> Vec<ReceivedPush> {
        self.state.received_pushes.lock().unwrap().clone()
    }

    /// Adds the reply to the next request that has none yet.
    pub fn add_reply(&self, reply: Reply) {
        self.state.replies.lock().unwrap().push_back(reply);
    }
}

impl Down {
    pub fn url(&self) -> String {
        format!("http://{}", self.0.local_addr().unwrap())
    }

    pub fn up(self) -> Server {
        let address = self.0.local_addr().unwrap();
        let listener = self.0.listen(64).unwrap();
        let state = Arc::new(State::default());
        let mut task = JoinSet::new();
        task.spawn(serve(listener, Arc::clone(&state)));
        Server {
            address,
            state,
            _task: task,
        }
    }
}

async fn serve(listener: TcpListener, state: Arc<State>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let state = Arc::clone(&state);
        connections.spawn(async move {
            let service = service_fn(move |request| answer(Arc::clone(&state), request));
            // A client may close the connection.
            http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await
                .unwrap_or_default();
        });
    }
}

async fn answer(
    state: Arc<State>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let length = body.size_hint().exact();
    let Ok(body) = body.collect().await else {
        return Ok(Response::default());
    };
    state.received_pushes.lock().unwrap().push(ReceivedPush {
        target: head.uri.to_string(),
        coding: head
            .headers
            .get(CONTENT_ENCODING)
            .map(|value| value.to_str().unwrap().to_owned()),
        length,
        body: body.to_bytes().into(),
    });
    let reply = state.replies.lock().unwrap().pop_front();
    Ok(match reply {
        None => Response::builder()
            .status(204)
            .body(Full::default())
            .unwrap(),
        Some(Reply::Late(by)) => {
            tokio::time::sleep(by).await;
            Response::builder()
                .status(204)
                .body(Full::default())
                .unwrap()
        }
        Some(Reply::Hang) => std::future::pending().await,
        Some(Reply::Answer(status, retry_after, body)) => {
            let mut response = Response::builder().status(status);
            if let Some(seconds) = retry_after {
                response = response.header(RETRY_AFTER, seconds);
            }
            response.body(Full::from(body)).unwrap()
        }
    })
}
