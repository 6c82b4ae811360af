//! One connection of a client: a task that reads and a task that writes.

use std::io;

use bytes::{BufMut, Bytes, BytesMut};
use seedlog_core::{
    client::{Address, ClientInput},
    ids::ConnectionId,
    protocol::{FRAME_PREFIX_BYTES, frame_len},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::mpsc,
    task::JoinHandle,
};

/// What a connection reports.
#[derive(Debug)]
pub(super) enum News {
    Input(ClientInput),
    CannotConnect {
        connection: ConnectionId,
        to: Address,
        error: io::Error,
    },
}

/// A connection; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Connection {
    /// Not bounded here: the machine bounds what is in flight.
    frames: Option<mpsc::UnboundedSender<Bytes>>,
    task: JoinHandle<()>,
}

impl Connection {
    /// Starts to connect; what becomes of it is reported.
    pub(super) fn open(
        connection: ConnectionId,
        to: Address,
        reporter: mpsc::Sender<News>,
        frame_bytes_max: usize,
    ) -> Self {
        let (frames, to_write) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            let last = run(connection, &to, to_write, &reporter, frame_bytes_max).await;
            let news = last.unwrap_or_else(|error| News::CannotConnect {
                connection,
                to,
                error,
            });
            // Nobody listens any more when the driver is gone.
            let _ = reporter.send(news).await;
        });
        Self {
            frames: Some(frames),
            task,
        }
    }

    /// Sends a frame behind all others.
    pub(super) fn send(&self, frame: Bytes) {
        // The writer is gone only if the connection is, and that is reported.
        if let Some(frames) = &self.frames {
            let _ = frames.send(frame);
        }
    }

    /// Ends the connection after everything that was sent has been given to the socket.
    pub(super) async fn finish(mut self) {
        self.frames = None;
        // It is aborted by nobody else and does not panic.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Fails if there was no connection, else returns how it ended.
async fn run(
    connection: ConnectionId,
    to: &Address,
    frames: mpsc::UnboundedReceiver<Bytes>,
    reporter: &mpsc::Sender<News>,
    frame_bytes_max: usize,
) -> io::Result<News> {
    let stream = TcpStream::connect((&*to.host, to.port)).await?;
    stream.set_nodelay(true)?;
    let (reader, writer) = stream.into_split();
    let connected = News::Input(ClientInput::Connected { connection });
    if reporter.send(connected).await.is_ok() {
        tokio::select! {
            () = read(connection, reader, reporter, frame_bytes_max) => {}
            () = write(writer, frames) => {}
        }
    }
    Ok(News::Input(ClientInput::Disconnected { connection }))
}

async fn write(mut writer: OwnedWriteHalf, mut frames: mpsc::UnboundedReceiver<Bytes>) {
    while let Some(frame) = frames.recv().await {
        if writer.write_all(&frame).await.is_err() {
            return;
        }
    }
}

async fn read(
    connection: ConnectionId,
    mut reader: OwnedReadHalf,
    reporter: &mpsc::Sender<News>,
    frame_bytes_max: usize,
) {
    while let Some(bytes) = read_frame(&mut reader, frame_bytes_max).await {
        let news = News::Input(ClientInput::Frame { connection, bytes });
        if reporter.send(news).await.is_err() {
            return;
        }
    }
}

/// Reads a frame; `None` when the stream ends or holds no frame.
async fn read_frame(reader: &mut OwnedReadHalf, frame_bytes_max: usize) -> Option<Bytes> {
    let mut prefix = [0; FRAME_PREFIX_BYTES];
    reader.read_exact(&mut prefix).await.ok()?;
    let len = frame_len(prefix, frame_bytes_max).ok()?;
    // Memory grows with what arrives, not with what a peer announces.
    let mut frame = BytesMut::with_capacity(len.min(GROWTH));
    while frame.len() < len {
        let left = len - frame.len();
        if frame.capacity() == frame.len() {
            frame.reserve(left.min(frame.len().max(GROWTH)));
        }
        let read = reader.read_buf(&mut (&mut frame).limit(left)).await.ok()?;
        if read == 0 {
            return None;
        }
    }
    Some(frame.freeze())
}

const GROWTH: usize = 1 << 20;
