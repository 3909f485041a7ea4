//! What a connection is doing, as seen by its bytes and its requests.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::Instant;

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// It waits for a request, since then.
    Idle(Instant),
    /// A request's line and headers are coming in, since then.
    Head(Instant),
    /// A request is being served, or its answer sent.
    Busy,
}

/// The phase of one connection.
#[derive(Clone)]
pub(super) struct Clock(Arc<watch::Sender<Phase>>);

impl Clock {
    pub(super) fn start() -> Self {
        Self(Arc::new(watch::Sender::new(Phase::Idle(Instant::now()))))
    }

    pub(super) fn phases(&self) -> watch::Receiver<Phase> {
        self.0.subscribe()
    }

    /// Bytes came in.
    fn heard(&self) {
        self.0.send_if_modified(|phase| {
            let first = matches!(phase, Phase::Idle(_));
            if first {
                *phase = Phase::Head(Instant::now());
            }
            first
        });
    }

    /// A request begins.
    pub(super) fn busy(&self) -> Busy {
        self.0.send_replace(Phase::Busy);
        Busy(self.clone())
    }
}

/// A request that is being served; dropped when it is over.
pub(super) struct Busy(Clock);

impl Busy {
    /// Lasts as long as its answer's body.
    pub(super) fn until_sent(self, body: Body) -> Answer {
        Answer { body, _busy: self }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.0.send_replace(Phase::Idle(Instant::now()));
    }
}

/// The body of an answer.
pub(super) struct Answer {
    body: Body,
    _busy: Busy,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream that tells the clock when bytes come in.
pub(super) struct Metered {
    stream: TcpStream,
    clock: Clock,
}

impl Metered {
    pub(super) const fn new(stream: TcpStream, clock: Clock) -> Self {
        Self { stream, clock }
    }
}

impl AsyncRead for Metered {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before {
            self.clock.heard();
        }
        polled
    }
}

impl AsyncWrite for Metered {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }
}
