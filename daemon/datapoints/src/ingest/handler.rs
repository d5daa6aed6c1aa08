//! Answers the requests of the listener. Splits bodies into lines, and copies them for the
//! upstream.

use super::{
    HEALTH_RESPONSE, LineSink, PeerUser, PushSink, Shared,
    counters::ResultCode,
    request::{ContentCoding, Query, Route, content_coding, is_from_browser, route},
};
use crate::forward::{Precision, PushCopy};
use faultline_agave::{BadLine, line::LineSplitter};
use faultline_core::socket::Peer;
use flate2::write::MultiGzDecoder;
use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response, StatusCode,
    body::{Body, Bytes, Incoming},
    header::EXPECT,
};
use std::{
    io::{self, Write},
    time::Duration,
};

/// Maximum bytes of a rejected body to read and discard. A sender reads the response only after it
/// has written its body.
const MAX_DISCARD_BYTES: usize = 32 * 1024 * 1024;
/// Maximum time to discard a rejected body. Then the connection closes.
const DISCARD_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes parsed before other tasks run. They take about 100 microseconds.
const YIELD_BYTES: usize = 64 * 1024;
const TYPICAL_PUSH_BYTES: u64 = 2 * 1024 * 1024;
/// Memory charged for a push: one incomplete line of maximum length. `push_memory` has enough for
/// all connections, so slow plain pushes block no other push.
const PUSH_BYTES: u32 = 64 * 1024;
/// Memory charged for a gzip decoder, from the share of decoders.
const DECODER_BYTES: u32 = 128 * 1024;

type PushResponse = Response<Full<Bytes>>;

/// Handles the body, then returns the response and whether a push was accepted.
pub async fn respond<I: PushSink>(
    shared: &Shared<I>,
    request: Request<Incoming>,
    peer: Peer,
    user: PeerUser,
) -> (PushResponse, bool) {
    let rejection = match route(request.method(), request.uri().path()) {
        Route::Ping => return (response(StatusCode::NO_CONTENT, ""), false),
        Route::Health => return (response(StatusCode::OK, HEALTH_RESPONSE), false),
        Route::Unknown => ResultCode::UnknownPath,
        Route::WrongMethod => ResultCode::NotPost,
        Route::Push => match check_head(shared, &request, user) {
            Err(code) => code,
            Ok((coding, precision)) => {
                let code = receive_push(shared, request.into_body(), user, coding, precision).await;
                return (response_for(code), code == ResultCode::Accepted);
            }
        },
    };
    shared.counters.count_request(rejection);
    if rejection == ResultCode::Unauthorized {
        let now = shared.clock.now().uptime;
        shared.counters.auth_failures.record_failure(peer, now);
    }
    // A sender that waits for `100 Continue` writes no body.
    if !request.headers().contains_key(EXPECT) {
        discard_body(request.into_body()).await;
    }
    (response_for(rejection), false)
}

fn check_head<I: PushSink>(
    shared: &Shared<I>,
    request: &Request<Incoming>,
    user: PeerUser,
) -> Result<(ContentCoding, Precision), ResultCode> {
    if is_from_browser(request.headers()) {
        return Err(ResultCode::FromBrowser);
    }
    let query = Query(request.uri().query().unwrap_or_default());
    if !shared.intake.admits(user, shared.clock.now()) {
        return Err(ResultCode::WrongUser);
    }
    if let Some(required) = &shared.config.credentials
        && !query.matches_credentials(required)
    {
        return Err(ResultCode::Unauthorized);
    }
    let precision = query.precision().ok_or(ResultCode::Bad)?;
    let coding = content_coding(request.headers()).ok_or(ResultCode::UnknownCoding)?;
    // For gzip this is the compressed size. The decoded size is checked while it is read.
    if request.body().size_hint().lower() > shared.limits.body_bytes {
        return Err(ResultCode::TooLarge);
    }
    Ok((coding, precision))
}

async fn receive_push<I: PushSink>(
    shared: &Shared<I>,
    mut body: Incoming,
    user: PeerUser,
    coding: ContentCoding,
    precision: Precision,
) -> ResultCode {
    let mut reader = BodyReader::new(shared, user, coding, precision);
    let read = async {
        let push_memory = &shared.push_memory;
        let decoder = match coding {
            ContentCoding::Gzip => push_memory.decoders.acquire(DECODER_BYTES).await,
            ContentCoding::Plain => None,
        };
        let permit = push_memory.pushes.acquire(PUSH_BYTES).await;
        let code = reader.read(&mut body).await;
        drop((permit, decoder));
        code
    };
    let code = tokio::time::timeout(shared.limits.body_timeout, read)
        .await
        .unwrap_or(ResultCode::TimedOut);
    reader.finish(code);
    if matches!(code, ResultCode::Bad | ResultCode::TooLarge) {
        discard_body(body).await;
    }
    code
}

/// A body being read. Its drop commits the push and counts the request, exactly once.
struct BodyReader<'s, I: PushSink> {
    shared: &'s Shared<I>,
    splitter: LineSplitter,
    gunzip: Option<Gunzip>,
    copy: Option<PushCopy>,
    push: Option<I::Push>,
    /// Otherwise the lines count as bad.
    is_nanoseconds: bool,
    decoded_bytes: u64,
    bytes_since_yield: usize,
    /// `Cut` until [`BodyReader::finish`].
    code: ResultCode,
}

impl<'s, I: PushSink> BodyReader<'s, I> {
    fn new(
        shared: &'s Shared<I>,
        user: PeerUser,
        coding: ContentCoding,
        precision: Precision,
    ) -> Self {
        let is_gzip = coding == ContentCoding::Gzip;
        BodyReader {
            shared,
            splitter: LineSplitter::new(),
            gunzip: is_gzip.then(Gunzip::new),
            copy: shared
                .forward
                .as_ref()
                .map(|forward| forward.copy(precision, is_gzip)),
            push: Some(shared.intake.begin(user, shared.clock.now())),
            is_nanoseconds: precision == Precision::Nanoseconds,
            decoded_bytes: 0,
            bytes_since_yield: 0,
            code: ResultCode::Cut,
        }
    }

    async fn read(&mut self, body: &mut Incoming) -> ResultCode {
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else {
                return ResultCode::Cut;
            };
            let Some(data) = frame.data_ref() else {
                continue;
            };
            if let Some(copy) = &mut self.copy {
                copy.append(data);
            }
            let result = match self.gunzip.take() {
                None => self.read_plain(data).await,
                Some(gunzip) => self.read_gzip(data, gunzip).await,
            };
            if let Err(code) = result {
                return code;
            }
        }
        self.finish_lines().err().unwrap_or(ResultCode::Accepted)
    }

    async fn read_plain(&mut self, data: &[u8]) -> Result<(), ResultCode> {
        for piece in data.chunks(YIELD_BYTES) {
            self.parse(piece)?;
            self.yield_if_due().await;
        }
        Ok(())
    }

    async fn read_gzip(&mut self, mut data: &[u8], mut gunzip: Gunzip) -> Result<(), ResultCode> {
        while !data.is_empty() {
            data = gunzip.step(data).map_err(|_| ResultCode::Bad)?;
            let out = gunzip.take_output();
            self.parse(&out)?;
            gunzip.reuse(out);
            self.yield_if_due().await;
        }
        self.gunzip = Some(gunzip);
        Ok(())
    }

    fn finish_lines(&mut self) -> Result<(), ResultCode> {
        if let Some(mut gunzip) = self.gunzip.take() {
            let checksum_result = gunzip.finish();
            self.parse(&gunzip.take_output())?;
            checksum_result.map_err(|_| ResultCode::Bad)?;
        }
        self.splitter
            .finish(line_receiver(&mut self.push, self.is_nanoseconds));
        Ok(())
    }

    fn parse(&mut self, decoded: &[u8]) -> Result<(), ResultCode> {
        self.decoded_bytes += decoded.len() as u64;
        if self.decoded_bytes > self.shared.limits.body_bytes {
            return Err(ResultCode::TooLarge);
        }
        self.shared.counters.count_bytes(decoded.len());
        self.bytes_since_yield += decoded.len();
        self.splitter
            .feed(decoded, line_receiver(&mut self.push, self.is_nanoseconds));
        Ok(())
    }

    async fn yield_if_due(&mut self) {
        if self.bytes_since_yield >= YIELD_BYTES {
            self.bytes_since_yield = 0;
            // Large bodies yield more often, so that they delay typical pushes less.
            for _ in 0..=self.decoded_bytes / TYPICAL_PUSH_BYTES {
                tokio::task::yield_now().await;
            }
        }
    }

    fn finish(mut self, code: ResultCode) {
        self.code = code;
        if let Some(copy) = self.copy.take()
            && code == ResultCode::Accepted
        {
            copy.finish();
        }
    }
}

impl<I: PushSink> Drop for BodyReader<'_, I> {
    /// Also runs if the connection breaks off: then the future of the read is dropped.
    fn drop(&mut self) {
        let Some(mut push) = self.push.take() else {
            return;
        };
        if self.splitter.reset() > 0 {
            push.count_bad_line();
        }
        self.shared.intake.commit(push, self.shared.clock.now());
        self.shared.counters.count_request(self.code);
    }
}

fn line_receiver<P: LineSink>(
    push: &mut Option<P>,
    is_nanoseconds: bool,
) -> impl FnMut(Result<&[u8], BadLine>) {
    move |line| match (push.as_mut(), line) {
        (Some(push), Ok(line)) if is_nanoseconds => push.add_line(line),
        (Some(push), _) => push.count_bad_line(),
        (None, _) => {}
    }
}

async fn discard_body(mut body: Incoming) {
    let read = async {
        let mut bytes = 0;
        while let Some(Ok(frame)) = body.frame().await {
            bytes += frame.data_ref().map_or(0, Bytes::len);
            if bytes > MAX_DISCARD_BYTES {
                return;
            }
        }
    };
    tokio::time::timeout(DISCARD_TIMEOUT, read)
        .await
        .unwrap_or_default();
}

fn response_for(code: ResultCode) -> PushResponse {
    let (status, text) = code.response();
    response(status, text)
}

fn response(status: StatusCode, text: &'static str) -> PushResponse {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    response
}

/// Accepts one or more gzip members. One step outputs at most 32 KiB, whatever the stream expands
/// to, and uses about 110 KiB.
pub struct Gunzip(MultiGzDecoder<Vec<u8>>);

impl Gunzip {
    pub fn new() -> Self {
        Self(MultiGzDecoder::new(Vec::new()))
    }

    /// Decodes a part of `input` and returns the rest; the result is in [`Gunzip::take_output`].
    pub fn step<'i>(&mut self, input: &'i [u8]) -> io::Result<&'i [u8]> {
        match self.0.write(input)? {
            0 if !input.is_empty() => Err(io::Error::from(io::ErrorKind::InvalidData)),
            used => Ok(input.get(used..).unwrap_or_default()),
        }
    }

    /// Checks the length and checksum at the end of the stream.
    pub fn finish(&mut self) -> io::Result<()> {
        self.0.try_finish()
    }

    /// Takes the decoded bytes; return the emptied buffer with [`Gunzip::reuse`].
    pub fn take_output(&mut self) -> Vec<u8> {
        std::mem::take(self.0.get_mut())
    }

    pub fn reuse(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        *self.0.get_mut() = buffer;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    /// Everything decoded, and the largest step.
    fn gunzip(bytes: &[u8], chunk: usize) -> io::Result<(Vec<u8>, usize)> {
        let mut decoder = Gunzip::new();
        let (mut all, mut largest) = (Vec::new(), 0);
        for mut rest in bytes.chunks(chunk) {
            while !rest.is_empty() {
                rest = decoder.step(rest)?;
                let out = decoder.take_output();
                largest = largest.max(out.len());
                all.extend_from_slice(&out);
                decoder.reuse(out);
            }
        }
        decoder.finish()?;
        all.extend_from_slice(&decoder.take_output());
        Ok((all, largest))
    }

    #[test]
    fn any_chunking_gives_the_same_bytes() {
        let text: Vec<u8> = (0..200_000_u32)
            .flat_map(|n| n.to_string().into_bytes())
            .collect();
        let packed = gzip(&text);
        for chunk in [1, 7, 1000, usize::MAX] {
            assert!(
                gunzip(&packed, chunk).unwrap().0 == text,
                "chunks of {chunk}"
            );
        }
    }

    #[test]
    fn concatenated_gzip_members_are_one_stream() {
        let packed = [gzip(b"one\n"), gzip(b""), gzip(b"two\n")].concat();
        assert_eq!(gunzip(&packed, 5).unwrap().0, b"one\ntwo\n");
    }

    #[test]
    fn a_gzip_bomb_is_decompressed_in_small_chunks() {
        let (all, largest) = gunzip(&gzip(&vec![0; 20_000_000]), usize::MAX).unwrap();
        assert_eq!(all.len(), 20_000_000);
        assert!(largest <= 64 * 1024, "{largest}");
    }

    #[test]
    fn a_truncated_damaged_or_non_gzip_stream_is_an_error() {
        let packed = gzip(b"some text that is long enough");
        let mut damaged = packed.clone();
        let last = damaged.len() - 8;
        damaged[last] ^= 1;
        for bad in [
            &packed[..packed.len() - 1],
            &packed[..12],
            &damaged,
            b"plain text",
            b"",
            &[&packed[..], b"tail"].concat(),
        ] {
            assert!(gunzip(bad, 9).is_err());
        }
    }
}
