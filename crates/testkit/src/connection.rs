//! A connection that can be cut after everything written so far has left.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// A socket that closes at its first flush after [`Scissors::cut`].
///
/// A body that ends in an error would not do: hyper then throws away what it holds but has not written yet, and the
/// client would see less than the script says.
#[derive(Debug)]
pub(crate) struct Connection {
    socket: TcpStream,
    scissors: Scissors,
}

/// Cuts its connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scissors(Arc<AtomicBool>);

impl Connection {
    pub(crate) fn new(socket: TcpStream) -> (Connection, Scissors) {
        let scissors = Scissors::default();
        (Connection { socket, scissors: scissors.clone() }, scissors)
    }
}

impl Scissors {
    /// Takes effect when the body that calls this waits for something that never comes, which makes hyper flush.
    pub(crate) fn cut(&self) {
        self.0.store(true, Ordering::Release);
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buf)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Hyper flushes the socket only once its own buffer is empty.
        ready!(Pin::new(&mut self.socket).poll_flush(cx))?;
        if self.scissors.0.load(Ordering::Acquire) {
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionAborted, "cut as scripted")));
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }
}
