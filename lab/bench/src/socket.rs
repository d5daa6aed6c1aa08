use crate::{
    failure::Failure,
    plan::LinkConfig,
    stream::{self, CountedStream, RawAnswer, Traffic},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use faultline_common::clock;
use faultline_net::retry_after;
use futures_util::{
    FutureExt as _, SinkExt as _, StreamExt as _, TryFutureExt as _, future::try_join,
};
use http_body_util::Full;
use hyper::{
    Request, Response, StatusCode,
    body::Bytes,
    client::conn::http1::handshake,
    header::{
        CONNECTION, HOST, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
    },
};
use hyper_util::rt::TokioIo;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use std::{future::poll_fn, time::Duration};
use tokio_rustls::TlsConnector;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error, Message, Utf8Bytes,
        error::ProtocolError,
        protocol::{Role, WebSocketConfig},
    },
};

/// Appended to the client's key (RFC 6455, 1.3).
const WEBSOCKET_GUID: &str = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Before an answer: 14 hours at one per 5 s.
const MAX_CONTROL_FRAMES: u32 = 10_000;

/// Bytes that a node may leave unread: the largest plan, and pongs.
const MAX_UNSENT: usize = 80 << 20;

pub struct Socket {
    stream: WebSocketStream<CountedStream>,
    /// Address without path and query, which may be a key.
    node: String,
    /// Control frames since the last request.
    control_frames: u32,
    pub traffic: Traffic,
}

pub struct ReceivedMessage {
    pub text: Utf8Bytes,
    pub end_at: Duration,
}

impl Socket {
    /// The upgrade is part of connecting. Messages have at most `limit` bytes.
    pub async fn open(
        config: &LinkConfig,
        tls: Option<&TlsConnector>,
        limit: usize,
        time_limit: Duration,
    ) -> Result<Socket, Failure> {
        let (stream, mut traffic) = stream::connect(config, tls, time_limit).await?;
        let begun = clock::uptime();
        let (mut send, mut connection) = handshake(TokioIo::new(stream))
            .await
            .map_err(|_| Failure::Closed)?;
        let key = STANDARD.encode(fastrand::u128(..).to_le_bytes());
        let request = Request::get(config.endpoint.path.as_str())
            .header(HOST, config.endpoint.authority.as_str())
            .header(CONNECTION, "Upgrade")
            .header(UPGRADE, "websocket")
            .header(SEC_WEBSOCKET_VERSION, "13")
            .header(SEC_WEBSOCKET_KEY, &key)
            .body(Full::new(Bytes::new()))
            .map_err(|_| Failure::Malformed)?;
        let upgrade = async {
            let answer = send.send_request(request).await;
            check_upgrade(&answer.map_err(|_| Failure::Malformed)?, &key)
        };
        let driver = poll_fn(|cx| connection.poll_without_shutdown(cx));
        try_join(upgrade, driver.map_err(|_| Failure::Closed)).await?;
        let parts = connection.into_parts();
        let limits = WebSocketConfig::default()
            .max_message_size(Some(limit))
            .max_frame_size(Some(limit))
            .max_write_buffer_size(MAX_UNSENT);
        let (stream, read) = (parts.io.into_inner(), parts.read_buf.to_vec());
        let stream =
            WebSocketStream::from_partially_read(stream, read, Role::Client, Some(limits)).await;
        traffic.opened_in[0] += clock::uptime().saturating_sub(begun);
        Ok(Socket {
            stream,
            node: config.endpoint.shown(),
            control_frames: 0,
            traffic,
        })
    }

    /// Drops unsolicited messages.
    pub fn is_usable(&mut self) -> bool {
        loop {
            match self.next().now_or_never() {
                None => return true,
                Some(Ok(_)) => {}
                Some(Err(_)) => return false,
            }
        }
    }

    pub async fn ask(&mut self, body: &Bytes) -> Result<RawAnswer, Failure> {
        let text = std::str::from_utf8(body).map_err(|_| Failure::Malformed)?;
        self.traffic.reset();
        self.send(text.to_owned()).await?;
        let message = self.next().await?;
        Ok(self.traffic.answer(message.text.into(), message.end_at))
    }

    pub async fn send(&mut self, text: String) -> Result<(), Failure> {
        self.control_frames = 0;
        let sent = self.stream.send(Message::text(text)).await;
        sent.map_err(|error| self.failure(&error))
    }

    pub async fn next(&mut self) -> Result<ReceivedMessage, Failure> {
        loop {
            match self.stream.next().await {
                Some(Ok(Message::Text(text))) => {
                    return Ok(ReceivedMessage {
                        text,
                        end_at: clock::uptime(),
                    });
                }
                // Pongs stay in memory while the node does not read.
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {
                    self.control_frames += 1;
                    if self.control_frames > MAX_CONTROL_FRAMES {
                        return Err(Failure::Flooded(self.node.clone()));
                    }
                }
                Some(Ok(Message::Binary(_))) => return Err(Failure::Malformed),
                Some(Ok(Message::Close(_))) | None => return Err(Failure::Closed),
                Some(Err(error)) => return Err(self.failure(&error)),
            }
        }
    }

    fn failure(&self, error: &Error) -> Failure {
        match error {
            Error::ConnectionClosed
            | Error::AlreadyClosed
            | Error::Io(_)
            | Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => Failure::Closed,
            Error::Capacity(_) => Failure::TooLarge,
            Error::WriteBufferFull(_) => Failure::Flooded(self.node.clone()),
            _ => Failure::Malformed,
        }
    }
}

fn check_upgrade<B>(answer: &Response<B>, key: &str) -> Result<(), Failure> {
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Err(Failure::of_status(
            answer.status(),
            retry_after(answer.headers(), clock::now()),
        ));
    }
    let expected = STANDARD.encode(digest(
        &SHA1_FOR_LEGACY_USE_ONLY,
        format!("{key}{WEBSOCKET_GUID}").as_bytes(),
    ));
    let accept = answer.headers().get(SEC_WEBSOCKET_ACCEPT);
    if accept.is_none_or(|value| value.as_bytes() != expected.as_bytes()) {
        return Err(Failure::Malformed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_websocket_accept_header_for_this_key_is_accepted() {
        // The example of RFC 6455.
        let answer = |status: u16, accept: &str| {
            Response::builder()
                .status(status)
                .header(SEC_WEBSOCKET_ACCEPT, accept)
                .body(())
                .unwrap()
        };
        let (key, right) = ("dGhlIHNhbXBsZSBub25jZQ==", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(check_upgrade(&answer(101, right), key), Ok(()));
        assert_eq!(
            check_upgrade(&answer(101, "another"), key),
            Err(Failure::Malformed)
        );
        assert_eq!(
            check_upgrade(&answer(404, right), key),
            Err(Failure::Http(404))
        );
        assert_eq!(
            check_upgrade(&answer(429, right), key),
            Err(Failure::RateLimited(None))
        );
    }
}
