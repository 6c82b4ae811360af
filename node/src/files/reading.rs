//! Reads for the core: at once where the page cache holds the bytes, by a worker where it does not.

use std::{
    fs::File,
    io::{self, IoSliceMut},
};

use bytes::Bytes;
use rustix::io::{Errno, ReadWriteFlags};
use seedlog_core::storage::{FileId, OpId, OpResult};

use super::{Files, workers::Job};

impl Files {
    /// Performs a read; `None` when a worker does.
    pub(super) fn read(
        &mut self,
        id: OpId,
        file: FileId,
        at: u64,
        len: u32,
    ) -> Option<io::Result<OpResult>> {
        let source = match self.table.handle(file) {
            Ok(source) => source,
            Err(error) => return Some(Err(error)),
        };
        let mut len = usize::try_from(len).unwrap_or(usize::MAX);
        // Few bytes are there, in nearly all cases; whoever finds less asks for the reason.
        let is_small = len <= SMALL_READ_BYTES_MAX;
        if is_small {
            match self.read_cached(&source, at, len) {
                Ok(None) => {}
                known => return known.transpose().map(|bytes| bytes.map(OpResult::Data)),
            }
        }
        // No more than the file holds, whatever was asked for: the buffer is made before the bytes are seen.
        let held = match source.metadata() {
            Ok(metadata) => metadata.len().saturating_sub(at),
            Err(error) => return Some(Err(error)),
        };
        let held = usize::try_from(held).unwrap_or(usize::MAX);
        let is_shorter = held < len;
        len = len.min(held);
        if len <= INLINE_READ_BYTES_MAX && (is_shorter || !is_small) {
            match self.read_cached(&source, at, len) {
                Ok(None) => {}
                known => return known.transpose().map(|bytes| bytes.map(OpResult::Data)),
            }
        }
        if let Some(entry) = self.table.entry(file) {
            entry.busy = true;
        }
        self.workers.submit([Job::Read {
            id,
            file,
            source,
            at,
            len,
        }]);
        None
    }

    /// Reads `len` bytes if the page cache holds them all.
    fn read_cached(&mut self, file: &File, at: u64, len: usize) -> io::Result<Option<Bytes>> {
        if len <= SMALL_READ_BYTES_MAX {
            let mut bytes = vec![0; len];
            return Ok(fill_cached(file, at, &mut bytes)?.then(|| Bytes::from(bytes)));
        }
        let mut buffer = self.buffers.take(len);
        buffer.resize(len, 0);
        let result = fill_cached(file, at, &mut buffer);
        let bytes = buffer.split().freeze();
        self.buffers.give(buffer, len);
        Ok(result?.then_some(bytes))
    }
}

/// Fills a buffer from the page cache; `false` if some of the bytes are not there, or the file is shorter.
pub(crate) fn fill_cached(file: &File, at: u64, bytes: &mut [u8]) -> io::Result<bool> {
    if bytes.is_empty() {
        return Ok(true);
    }
    loop {
        let slices = &mut [IoSliceMut::new(bytes)];
        return match rustix::io::preadv2(file, slices, at, ReadWriteFlags::NOWAIT) {
            Ok(count) => Ok(count == bytes.len()),
            Err(Errno::AGAIN) => Ok(false),
            Err(Errno::INTR) => continue,
            // A file system that cannot say what it has cached: small reads are worth the risk of a wait.
            Err(Errno::OPNOTSUPP | Errno::NOSYS) if bytes.len() <= BLIND_READ_BYTES_MAX => {
                let count = rustix::io::pread(file, &mut *bytes, at)?;
                Ok(count == bytes.len())
            }
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(false),
            Err(errno) => Err(errno.into()),
        };
    }
}

/// Larger reads always go to a worker, even if the page cache holds them: copying this much takes a fifth of a millisecond, for
/// which a thread may well be woken instead. What consumers ask for at a time, a mebibyte and a little more, does not need one.
const INLINE_READ_BYTES_MAX: usize = 2 * 1024 * 1024;

/// The largest read that is tried without asking how long the file is, into memory of its own.
const SMALL_READ_BYTES_MAX: usize = 16 * 1024;

/// The largest read done without knowing whether it blocks.
const BLIND_READ_BYTES_MAX: usize = 16 * 1024;
