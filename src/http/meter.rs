//! Counts the bytes that the peer of a connection has received, to distinguish a slow peer from one that is stuck.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Number of bytes that the peer of a connection has received so far. Each request carries the counter of its
/// connection as an extension.
#[derive(Clone, Debug, Default)]
pub struct BytesTaken(Arc<AtomicU64>);

impl BytesTaken {
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Stream that counts the bytes written to it.
pub struct Metered<T> {
    io: T,
    taken: BytesTaken,
}

impl<T> Metered<T> {
    pub fn new(io: T) -> Self {
        Self {
            io,
            taken: BytesTaken::default(),
        }
    }

    pub fn taken(&self) -> BytesTaken {
        self.taken.clone()
    }

    pub fn get_ref(&self) -> &T {
        &self.io
    }

    fn count(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(n)) = &written {
            self.taken.0.fetch_add(*n as u64, Ordering::Relaxed);
        }
        written
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Metered<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Metered<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write(cx, buf);
        self.count(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.io).poll_write_vectored(cx, bufs);
        self.count(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn only_bytes_acknowledged_by_the_peer_count_as_taken() {
        let (io, mut peer) = tokio::io::duplex(4);
        let mut metered = Metered::new(io);
        let taken = metered.taken();
        let mut write = Box::pin(metered.write_all(b"abcdefgh"));
        assert!(futures::poll!(write.as_mut()).is_pending());
        assert_eq!(taken.get(), 4);
        let mut read = [0; 4];
        peer.read_exact(&mut read).await.unwrap();
        write.await.unwrap();
        assert_eq!(taken.get(), 8);
    }
}
