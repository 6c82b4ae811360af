//! Writes that wait for the end of the turn, so that those which follow each other in a file are one call.
//!
//! Batches that arrive together land in the page cache together: four of 16 KiB cost a third less than one by one.

use std::{
    fs::File,
    io::{self, IoSlice},
};

use rustix::io::Errno;
use seedlog_core::storage::{Completion, FileId, OpId, OpResult, WriteData};

use super::fault::fault;

/// Writes to one file, each of which begins where the one before it ends.
#[derive(Debug, Default)]
pub(super) struct PendingWrites {
    file: Option<FileId>,
    at: u64,
    /// Bytes of all, those already written among them.
    len: usize,
    /// How many bytes were written [early](Self::perform_early).
    early: usize,
    writes: Vec<(OpId, WriteData)>,
    /// The ends of early writes.
    ended: Vec<Completion>,
}

impl PendingWrites {
    /// Returns the file that is written to, if there is anything to write or to tell.
    pub(super) const fn file(&self) -> Option<FileId> {
        self.file
    }

    /// Returns whether a write can join those that wait.
    pub(super) fn continues(&self, file: FileId, at: u64, data: &WriteData) -> bool {
        let end = self.at.checked_add(to_u64(self.len));
        self.file == Some(file) && end == Some(at) && self.has_room(data.len())
    }

    /// Returns whether so many bytes more can join.
    pub(super) const fn has_room(&self, bytes: usize) -> bool {
        self.writes.len() < WRITES_MAX && self.len.saturating_add(bytes) <= WAITING_BYTES_MAX
    }

    /// Lets a write wait; it must continue those that wait already, or be the first.
    pub(super) fn push(&mut self, id: OpId, file: FileId, at: u64, data: WriteData) {
        if self.file.is_none() {
            self.file = Some(file);
            self.at = at;
        }
        self.len += data.len();
        self.writes.push((id, data));
    }

    /// Performs what waits, without telling its end yet: so that what joins later ends together with it.
    pub(super) fn perform_early(&mut self, file: io::Result<&File>) {
        let mut ended = std::mem::take(&mut self.ended);
        self.write(file, &mut ended);
        self.ended = ended;
        self.early = self.len;
    }

    /// Performs what waits and appends the completions. After a failure, what was written in whole has succeeded all the same.
    pub(super) fn perform(&mut self, file: io::Result<&File>, completed: &mut Vec<Completion>) {
        completed.append(&mut self.ended);
        self.write(file, completed);
        self.file = None;
        self.len = 0;
        self.early = 0;
    }

    fn write(&mut self, file: io::Result<&File>, completed: &mut Vec<Completion>) {
        let mut slices = Vec::with_capacity(self.writes.len() * 2);
        for (_, data) in &self.writes {
            slices.push(IoSlice::new(data.head.as_slice()));
            slices.push(IoSlice::new(&data.body));
        }
        let at = self.at.saturating_add(to_u64(self.early));
        let (written, result) = match file {
            Ok(file) => write_all(file, at, &mut slices),
            Err(error) => (0, Err(error)),
        };
        let failed = result.err().map(|error| fault(&error));
        let mut end = 0;
        for (id, data) in self.writes.drain(..) {
            end += data.len();
            let result = match failed {
                Some(fault) if end > written => Err(fault),
                _ => Ok(OpResult::Done),
            };
            completed.push(Completion { id, result });
        }
    }
}

/// Writes all slices, with one call where the system takes them whole; returns how many bytes were written in any case.
pub(super) fn write_all(
    file: &File,
    at: u64,
    mut slices: &mut [IoSlice<'_>],
) -> (usize, io::Result<()>) {
    let mut written = 0;
    // Drops empty slices at the front, so that none is left when all is written.
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        let position = at.saturating_add(to_u64(written));
        match rustix::io::pwritev(file, slices, position) {
            Ok(0) => return (written, Err(io::ErrorKind::WriteZero.into())),
            Ok(count) => {
                written += count;
                IoSlice::advance_slices(&mut slices, count);
            }
            Err(Errno::INTR) => {}
            Err(errno) => return (written, Err(errno.into())),
        }
    }
    (written, Ok(()))
}

fn to_u64(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

/// More bytes than this are not kept waiting: they are worth a call of their own.
pub(super) const WAITING_BYTES_MAX: usize = 256 * 1024;

/// How many writes are one call at most.
const WRITES_MAX: usize = 32;
