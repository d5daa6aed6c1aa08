//! Simulates a slower link.
//!
//! Each byte arrives after half of the added round-trip time, and after the bytes in front of it
//! have passed at the link's rate. Loss and TCP slow start are not simulated.

use super::Stream;
use faultline_common::clock;
use faultline_text::parse_time;
use std::{
    collections::VecDeque,
    fmt, io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep},
};

/// Per direction.
const MAX_BYTES_IN_FLIGHT: usize = 4 << 20;
/// Timers fire up to this late, so the last part of a wait is polled.
pub const TIMER_PRECISION: Duration = Duration::from_millis(2);
/// The payload of a TCP segment.
const PIECE_BYTES: usize = 1448;

#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LinkShape {
    pub added_rtt: Duration,
    /// In each direction.
    pub bits_per_second: Option<f64>,
}

impl LinkShape {
    /// `30ms` or `30ms@20Mbit`.
    pub fn parse(text: &str) -> Option<Self> {
        let (added_rtt, bits_per_second) = match text.split_once('@') {
            None => (text, None),
            Some((added_rtt, rate)) => {
                let megabits: f64 = rate.trim().strip_suffix("Mbit")?.trim().parse().ok()?;
                let is_valid = (0.01..=1e5).contains(&megabits);
                (added_rtt, Some(is_valid.then_some(megabits * 1e6)?))
            }
        };
        let added_rtt = parse_time(added_rtt).ok()?;
        (added_rtt <= Duration::from_secs(60)).then_some(Self {
            added_rtt,
            bits_per_second,
        })
    }

    pub fn has_no_effect(&self) -> bool {
        self.added_rtt.is_zero() && self.bits_per_second.is_none()
    }
}

impl fmt::Display for LinkShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "+{} ms", self.added_rtt.as_nanos() as f64 / 1e6)?;
        self.bits_per_second
            .map_or(Ok(()), |rate| write!(f, " {} Mbit/s", rate / 1e6))
    }
}

struct Direction {
    shape: LinkShape,
    /// Arrival time and bytes of each piece.
    pieces: VecDeque<(Duration, Vec<u8>)>,
    buffered: usize,
    link_free_at: Duration,
    timer: Pin<Box<Sleep>>,
}

impl Direction {
    fn new(shape: LinkShape) -> Self {
        Self {
            shape,
            pieces: VecDeque::new(),
            buffered: 0,
            link_free_at: Duration::ZERO,
            timer: Box::pin(sleep(Duration::ZERO)),
        }
    }

    fn enqueue(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(PIECE_BYTES) {
            let seconds = self
                .shape
                .bits_per_second
                .map_or(0.0, |rate| piece.len() as f64 * 8.0 / rate);
            self.link_free_at =
                self.link_free_at.max(clock::uptime()) + Duration::from_secs_f64(seconds);
            let arrival = self.link_free_at + self.shape.added_rtt / 2;
            self.pieces.push_back((arrival, piece.to_vec()));
        }
        self.buffered += bytes.len();
    }

    fn poll_arrived(&mut self, cx: &mut Context<'_>) -> Poll<&mut Vec<u8>> {
        while let Some((arrival, _)) = self.pieces.front() {
            let left = arrival.saturating_sub(clock::uptime());
            if left.is_zero() {
                break;
            }
            if left <= TIMER_PRECISION {
                // Measurements are finer than the runtime's timers.
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            self.timer
                .as_mut()
                .reset(Instant::now() + left - TIMER_PRECISION);
            ready!(self.timer.as_mut().poll(cx));
        }
        self.pieces
            .front_mut()
            .map_or(Poll::Pending, |(_, piece)| Poll::Ready(piece))
    }

    fn consume(&mut self, bytes: usize) {
        self.buffered -= bytes;
        if let Some((_, piece)) = self.pieces.front_mut() {
            piece.drain(..bytes);
            if piece.is_empty() {
                self.pieces.pop_front();
            }
        }
    }
}

pub struct ShapedStream {
    stream: Box<dyn Stream>,
    from_node: Direction,
    to_node: Direction,
    /// The next read after all arrived bytes fails with this error, or finds the end.
    end: Option<io::Result<()>>,
}

impl ShapedStream {
    pub fn new(stream: Box<dyn Stream>, shape: LinkShape) -> Self {
        Self {
            stream,
            from_node: Direction::new(shape),
            to_node: Direction::new(shape),
            end: None,
        }
    }

    fn read_ahead_from_node(&mut self, cx: &mut Context<'_>) {
        let mut space = [0; 16 << 10];
        while self.end.is_none() && self.from_node.buffered < MAX_BYTES_IN_FLIGHT {
            let mut buffer = ReadBuf::new(&mut space);
            match Pin::new(&mut self.stream).poll_read(cx, &mut buffer) {
                Poll::Pending => break,
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {
                    self.from_node.enqueue(buffer.filled());
                }
                Poll::Ready(end) => self.end = Some(end),
            }
        }
    }

    /// Ready when nothing is on its way to the node.
    fn poll_deliver_to_node(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.to_node.pieces.is_empty() {
            let piece = ready!(self.to_node.poll_arrived(cx));
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, piece))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.to_node.consume(written);
        }
        Pin::new(&mut self.stream).poll_flush(cx)
    }
}

impl AsyncRead for ShapedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // After an error of writing, there may be bytes to read.
        let _ = self.poll_deliver_to_node(cx);
        self.read_ahead_from_node(cx);
        if self.from_node.pieces.is_empty()
            && let Some(end) = self.end.take()
        {
            return Poll::Ready(end);
        }
        let piece = ready!(self.from_node.poll_arrived(cx));
        let bytes = piece.len().min(buffer.remaining());
        buffer.put_slice(piece.get(..bytes).unwrap_or_default());
        self.from_node.consume(bytes);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for ShapedStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.to_node.buffered >= MAX_BYTES_IN_FLIGHT {
            ready!(self.poll_deliver_to_node(cx))?;
        }
        self.to_node.enqueue(bytes);
        let _ = self.poll_deliver_to_node(cx)?;
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_deliver_to_node(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_deliver_to_node(cx))?;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _, duplex},
        runtime::Builder,
    };

    /// How long 100,000 bytes take there and back.
    fn took(shape: LinkShape) -> Duration {
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (near, mut far) = duplex(1 << 20);
            let mut near = ShapedStream::new(Box::new(near), shape);
            let begun = clock::uptime();
            let sent: Vec<u8> = (0..100_000_u32).map(|index| (index % 251) as u8).collect();
            near.write_all(&sent).await.unwrap();
            near.flush().await.unwrap();
            let mut there = vec![0; sent.len()];
            far.read_exact(&mut there).await.unwrap();
            far.write_all(&there).await.unwrap();
            let mut back = vec![0; sent.len()];
            near.read_exact(&mut back).await.unwrap();
            let took = clock::uptime() - begun;
            assert!(back == sent, "no byte is lost or out of place");
            drop(far);
            assert_eq!(near.read(&mut back).await.unwrap(), 0);
            took
        })
    }

    #[test]
    fn network_link_specifications_round_trip() {
        let read = |text| {
            LinkShape::parse(text).map(|shape| {
                (
                    shape.added_rtt.as_millis(),
                    shape.bits_per_second,
                    shape.to_string(),
                )
            })
        };
        assert_eq!(read("30ms"), Some((30, None, "+30 ms".to_owned())));
        assert_eq!(read("1001ms"), Some((1001, None, "+1001 ms".to_owned())));
        assert_eq!(
            read("0ms@0.5Mbit"),
            Some((0, Some(5e5), "+0 ms 0.5 Mbit/s".to_owned()))
        );
        for bad in [
            "",
            "30",
            "30ms@",
            "30ms@20",
            "2m",
            "1ms@0Mbit",
            "1ms@NaNMbit",
            "@1Mbit",
        ] {
            assert_eq!(LinkShape::parse(bad), None, "{bad}");
        }
    }

    /// Sends 5 bytes and resets the connection.
    struct ResettingNode(bool);

    impl AsyncRead for ResettingNode {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            if std::mem::replace(&mut self.0, true) {
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
            buffer.put_slice(b"bytes");
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for ResettingNode {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &[u8],
        ) -> Poll<io::Result<usize>> {
            Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn bytes_before_a_reset_arrive() {
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let shape = LinkShape::parse("20ms").unwrap();
            for is_write_pending in [false, true] {
                let mut near = ShapedStream::new(Box::new(ResettingNode(false)), shape);
                if is_write_pending {
                    near.write_all(b"request").await.unwrap();
                }
                let mut read = [0; 5];
                near.read_exact(&mut read).await.unwrap();
                assert_eq!(&read, b"bytes");
                let end = near.read(&mut read).await.map_err(|error| error.kind());
                assert_eq!(end, Err(io::ErrorKind::ConnectionReset));
            }
        });
    }

    #[test]
    fn a_shaped_link_adds_delay_and_limits_the_rate() {
        let ms = Duration::from_millis;
        let within = |took: Duration, from: u64| {
            assert!(took >= ms(from) && took < ms(from + 3000), "{took:?}")
        };
        within(
            took(LinkShape {
                added_rtt: ms(60),
                bits_per_second: None,
            }),
            60,
        );
        // 800,000 bits at 4 Mbit/s are 200 ms in each direction.
        within(
            took(LinkShape {
                added_rtt: ms(30),
                bits_per_second: Some(4e6),
            }),
            430,
        );
        within(took(LinkShape::default()), 0);
    }
}
