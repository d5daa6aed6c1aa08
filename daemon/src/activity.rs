//! A connection's stream that says when bytes come: what the deadlines of both listeners go by.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The stream, and who is told after every read that brought something.
pub(crate) struct ActivityStream<S, F> {
    stream: S,
    heard: F,
}

impl<S, F: FnMut()> ActivityStream<S, F> {
    /// The same stream.
    pub(crate) fn new(stream: S, heard: F) -> Self {
        ActivityStream { stream, heard }
    }
}

impl<S: AsyncRead + Unpin, F: FnMut() + Unpin> AsyncRead for ActivityStream<S, F> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            (self.heard)();
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin, F: Unpin> AsyncWrite for ActivityStream<S, F> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
