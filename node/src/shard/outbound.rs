//! From frames to a socket: answers that wait for room, in order, and ranges of files among them.

use std::{
    collections::VecDeque,
    io::{self, IoSlice},
    sync::Arc,
};

use bytes::{Buf, Bytes};
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use seedlog_core::storage::{FileId, FileRange, Frame, Part, StorageFault};
use tokio::{io::Interest, net::TcpStream};

use crate::files::{Files, OpenRange, fault, fill_cached};

/// What was promised to a connection and not yet sent.
#[derive(Debug, Default)]
pub(super) struct Outbound {
    pieces: VecDeque<Piece>,
    bytes: usize,
    /// A worker brings the first range into the page cache.
    warming: bool,
    /// The first range is cached up to here, as far as a worker saw.
    warm_up_to: u64,
}

#[derive(Debug)]
enum Piece {
    Bytes(Bytes),
    Range(OpenRange),
}

/// How far a flush came.
#[derive(Debug)]
pub(super) enum Flushed {
    /// Nothing waits any more.
    All,
    /// The socket takes no more, or a worker fetches what comes next.
    Blocked,
    /// There is more that could be sent; it is the turn of others.
    Share,
    /// A range must be brought into the page cache first.
    Cold {
        /// The file.
        source: Arc<std::fs::File>,
        /// Position of the first byte.
        at: u64,
        /// How many bytes.
        len: usize,
    },
    /// The peer is gone.
    Gone(io::Error),
    /// Bytes of a file that were promised cannot be read.
    Unreadable(FileId, StorageFault),
}

impl Outbound {
    /// Appends a frame; its ranges are pinned now, at the moment of the promise.
    pub(super) fn push(
        &mut self,
        frame: Frame,
        files: &mut Files,
    ) -> Result<(), (FileId, StorageFault)> {
        match frame {
            Frame::Whole(bytes) => self.push_bytes(bytes),
            Frame::Parts(parts) => {
                for part in parts {
                    match part {
                        Part::Bytes(bytes) => self.push_bytes(bytes),
                        Part::File(range) => self.push_range(&range, files)?,
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns how many bytes wait.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Returns whether a worker fetches what is to be sent next.
    pub(super) const fn is_warming(&self) -> bool {
        self.warming
    }

    /// Returns the file whose range is to be sent next.
    pub(super) fn first_file(&self) -> Option<FileId> {
        match self.pieces.front() {
            Some(Piece::Range(range)) => Some(range.id),
            Some(Piece::Bytes(_)) | None => None,
        }
    }

    /// Notes that the range that comes next was brought into the page cache.
    pub(super) const fn on_warm(&mut self) {
        self.warming = false;
    }

    /// Sends what the socket takes, but no more than one share of the thread's time.
    pub(super) fn flush(&mut self, stream: &TcpStream) -> Flushed {
        let mut share = SHARE_BYTES;
        loop {
            if self.warming {
                return Flushed::Blocked;
            }
            self.copy_small_ranges();
            let Some(first) = self.pieces.front() else {
                return Flushed::All;
            };
            if share == 0 {
                return Flushed::Share;
            }
            let sent = match first {
                Piece::Bytes(_) => self.send_bytes(stream),
                Piece::Range(_) => match self.send_range(stream, share) {
                    Ok(sent) => sent,
                    Err(stopped) => return stopped,
                },
            };
            match sent {
                Ok(0) => return Flushed::Gone(io::ErrorKind::WriteZero.into()),
                Ok(sent) => {
                    self.bytes = self.bytes.saturating_sub(sent);
                    share = share.saturating_sub(sent);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Flushed::Blocked,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Flushed::Gone(error),
            }
        }
    }

    fn push_bytes(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.bytes = self.bytes.saturating_add(bytes.len());
            self.pieces.push_back(Piece::Bytes(bytes));
        }
    }

    fn push_range(
        &mut self,
        range: &FileRange,
        files: &mut Files,
    ) -> Result<(), (FileId, StorageFault)> {
        if range.len == 0 {
            return Ok(());
        }
        let open = files.resolve(range).map_err(|fault| (range.file, fault))?;
        self.bytes = self.bytes.saturating_add(open.left);
        self.pieces.push_back(Piece::Range(open));
        Ok(())
    }

    /// Sends the bytes at the front with one call.
    fn send_bytes(&mut self, stream: &TcpStream) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let mut count = 0;
        let mut more = false;
        for piece in &self.pieces {
            match piece {
                Piece::Bytes(bytes) if count < SLICES_MAX => {
                    slices[count] = IoSlice::new(bytes);
                    count += 1;
                }
                Piece::Bytes(_) => break,
                Piece::Range(_) => {
                    // Keeps a head from leaving as a packet of its own before the bytes that belong to it.
                    more = true;
                    break;
                }
            }
        }
        let flags = if more {
            SendFlags::NOSIGNAL | SendFlags::MORE
        } else {
            SendFlags::NOSIGNAL
        };
        let sent = stream.try_io(Interest::WRITABLE, || {
            let mut control = SendAncillaryBuffer::default();
            Ok(sendmsg(stream, &slices[..count], &mut control, flags)?)
        })?;
        self.advance(sent);
        Ok(sent)
    }

    fn advance(&mut self, mut sent: usize) {
        while let Some(Piece::Bytes(bytes)) = self.pieces.front_mut() {
            if sent < bytes.len() {
                bytes.advance(sent);
                return;
            }
            sent -= bytes.len();
            self.pieces.pop_front();
        }
    }

    /// Replaces small ranges among the next pieces by their bytes, where the page cache holds them: one call then sends them
    /// together with what surrounds them.
    fn copy_small_ranges(&mut self) {
        let mut copied = 0;
        for piece in self.pieces.iter_mut().take(SLICES_MAX) {
            let Piece::Range(range) = piece else {
                continue;
            };
            if range.left > COPIED_BYTES_MAX || copied > CHUNK_BYTES || !range.is_intact() {
                return;
            }
            let mut bytes = vec![0; range.left];
            copied += bytes.len();
            match fill_cached(&range.source, range.at, &mut bytes) {
                Ok(true) => *piece = Piece::Bytes(Bytes::from(bytes)),
                // Whatever is wrong is seen again, and acted on, when the range is next to be sent.
                Ok(false) | Err(_) => return,
            }
        }
    }

    /// Sends bytes of the range at the front without copying them, from the page cache to the socket, piece by piece, so that one connection neither
    /// waits for a disk nor takes all the time.
    ///
    /// Sent bytes stay pages of the file until the peer has read them. A truncation takes whole pages out of the file and leaves
    /// them as they were sent, but clears the rest of the page in which it cuts: a peer may find zeros there, in a batch that the
    /// core has given up, and sees that by the batch's checksum.
    fn send_range(
        &mut self,
        stream: &TcpStream,
        share: usize,
    ) -> Result<io::Result<usize>, Flushed> {
        let Some(Piece::Range(range)) = self.pieces.front_mut() else {
            return Ok(Ok(0));
        };
        if !range.is_intact() {
            let fault = fault(&io::ErrorKind::UnexpectedEof.into());
            return Err(Flushed::Unreadable(range.id, fault));
        }
        let unreadable =
            |range: &OpenRange, error: &io::Error| Flushed::Unreadable(range.id, fault(error));
        let chunk = range.left.min(CHUNK_BYTES);
        let chunk_end = range
            .at
            .saturating_add(u64::try_from(chunk).unwrap_or(u64::MAX));
        let is_warm = chunk_end <= self.warm_up_to;
        let is_large = range.left > COPIED_BYTES_MAX;
        if is_large
            && (is_warm || is_cached(range, chunk).map_err(|error| unreadable(range, &error))?)
        {
            let mut at = range.at;
            let sent = stream.try_io(Interest::WRITABLE, || {
                let count = chunk.min(share);
                Ok(rustix::fs::sendfile(
                    stream,
                    &range.source,
                    Some(&mut at),
                    count,
                )?)
            });
            return match sent {
                Ok(0) => Err(unreadable(range, &io::ErrorKind::UnexpectedEof.into())),
                Ok(sent) => {
                    range.advance(sent);
                    if range.left == 0 {
                        self.pieces.pop_front();
                        self.warm_up_to = 0;
                    }
                    Ok(Ok(sent))
                }
                Err(error) if is_of_file(&error) => Err(unreadable(range, &error)),
                Err(error) => Ok(Err(error)),
            };
        }
        if is_warm {
            // A worker has just read these bytes; that they are not cached now means that the file has become shorter, or that
            // memory is very short. Reading them here is the way on in both cases.
            return self.send_uncached();
        }
        self.warming = true;
        self.warm_up_to = chunk_end;
        Err(Flushed::Cold {
            source: Arc::clone(&range.source),
            at: range.at,
            len: chunk,
        })
    }

    fn send_uncached(&mut self) -> Result<io::Result<usize>, Flushed> {
        let Some(Piece::Range(range)) = self.pieces.front() else {
            return Ok(Ok(0));
        };
        let mut bytes = vec![0; range.left];
        match std::os::unix::fs::FileExt::read_exact_at(&*range.source, &mut bytes, range.at) {
            Ok(()) => {
                self.pieces[0] = Piece::Bytes(Bytes::from(bytes));
                Ok(Err(io::ErrorKind::Interrupted.into()))
            }
            Err(error) => Err(Flushed::Unreadable(range.id, fault(&error))),
        }
    }
}

/// Probes whether the page cache seems to hold the next bytes of a range: one byte in each stretch that the system would read
/// ahead together.
fn is_cached(range: &OpenRange, len: usize) -> io::Result<bool> {
    let last = len.saturating_sub(1);
    let mut offset = 0;
    loop {
        let at = range
            .at
            .saturating_add(u64::try_from(offset).unwrap_or(u64::MAX));
        if !fill_cached(&range.source, at, &mut [0])? {
            return Ok(false);
        }
        if offset == last {
            return Ok(true);
        }
        offset = (offset + PROBE_BYTES).min(last);
    }
}

/// Tells an error of the file from one of the socket.
fn is_of_file(error: &io::Error) -> bool {
    use rustix::io::Errno;
    matches!(
        error.raw_os_error().map(Errno::from_raw_os_error),
        Some(Errno::IO | Errno::OVERFLOW | Errno::INVAL | Errno::NOMEM | Errno::BADF)
    )
}

/// How much one flush sends before others get their turn.
const SHARE_BYTES: usize = 1024 * 1024;

/// How much of a range is looked for in the page cache, and sent, at a time.
const CHUNK_BYTES: usize = 256 * 1024;

/// A smaller rest of a range is copied: one call then sends it together with its neighbours.
const COPIED_BYTES_MAX: usize = 32 * 1024;

/// The system reads ahead at least this much around a missing page.
const PROBE_BYTES: usize = 64 * 1024;

/// How many pieces one call sends.
const SLICES_MAX: usize = 64;
