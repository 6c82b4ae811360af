//! How far each log of a directory is synced, in one file beside the checkpoints.
//!
//! A recovery must tell a torn tail, which may be cut, from damage to synced records, which must never be. The recovery-point
//! checkpoint is written once a minute, too seldom for records that were acknowledged. So each group commit is followed by a write
//! of the new ends into `synced-marks`: to the page cache, with nobody waiting for it, and made durable by a sync of its own a
//! moment later. No answer ever waits for either.
//!
//! | what ended | how far the marks lag behind what was synced |
//! | --- | --- |
//! | the process | a write that was still on its way: about one group commit |
//! | the machine | what was synced in the last [`SYNC_DELAY_MS`], and while the last sync of the marks ran |
//!
//! A mark is never ahead: before a log is truncated, its mark is lowered, and that does take a sync before anything is cut. One that cannot be written, or whose line is damaged, lags further: the recovery point takes its place.
//!
//! The file is text. Each line is 64 bytes, so that none lies across two sectors and a torn write leaves a line old or new:
//! topic id, partition, offset, and the CRC-32C of all before it. What is not such a line says nothing.

mod line;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
};

use bytes::Bytes;

use self::line::{LINE_BYTES, LogId, decode, encode};
use super::files::SYNCED_MARKS;
use crate::{
    ids::{Offset, Uuid},
    storage::{
        Completion, FaultKind, FileId, FileOp, FilePath, Generation, OpId, Owner, StorageFault,
        StorageQueue, SyncTarget, WriteData,
    },
    time::Instant,
};

/// How long a written mark may wait for its sync, which covers all that were written meanwhile.
const SYNC_DELAY_MS: u64 = 100;
/// How long a full disk is left alone.
const RETRY_DELAY_MS: u64 = 1_000;

/// More lines would make a file that the next start refuses to read.
const LINES_MAX: usize = 500_000;
/// Lines between two dirty ones that are written along rather than skipped.
const GAP_LINES_MAX: usize = 64;

/// The marks and their file.
#[derive(Debug)]
pub struct SyncedMarks {
    owner: Owner,
    path: FilePath,
    file: Handle,
    lines: Vec<Option<(LogId, Offset)>>,
    places: BTreeMap<LogId, usize>,
    free: BTreeSet<usize>,
    /// Lines that the file does not have yet.
    dirty: BTreeSet<usize>,
    /// Writes under way, and the lines that each carries.
    writing: Vec<(OpId, usize, usize)>,
    retry_at: Option<Instant>,
    sync_at: Option<Instant>,
    syncing: Option<OpId>,
    /// Whether the folder's entry of the file may not be durable.
    is_new: bool,
    /// Marks that are being lowered, by line.
    lowering: BTreeMap<usize, Lowering>,
    lowered: Vec<LogId>,
}

/// How far a lower mark is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lowering {
    Wanted,
    Writing,
    Written,
    Syncing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handle {
    Closed,
    Opening(FileId, OpId),
    Open(FileId),
}

impl SyncedMarks {
    /// Knows no marks yet.
    #[must_use]
    pub fn new(owner: Owner, root: &FilePath) -> Self {
        Self {
            owner,
            path: root.join(SYNCED_MARKS),
            file: Handle::Closed,
            lines: Vec::new(),
            places: BTreeMap::new(),
            free: BTreeSet::new(),
            dirty: BTreeSet::new(),
            writing: Vec::new(),
            retry_at: None,
            sync_at: None,
            syncing: None,
            is_new: true,
            lowering: BTreeMap::new(),
            lowered: Vec::new(),
        }
    }

    /// Takes what an earlier incarnation left in the file.
    pub fn load(&mut self, content: &[u8]) {
        for chunk in content.chunks(LINE_BYTES).take(LINES_MAX) {
            let at = self.lines.len();
            self.lines.push(None);
            let Some((log, offset)) = decode(chunk) else {
                self.free.insert(at);
                continue;
            };
            if let Some(first) = self.places.get(&log) {
                // Nothing writes two lines of one log. The lower one promises less.
                if let Some((_, known)) = &mut self.lines[*first] {
                    *known = offset.min(*known);
                }
                self.free.insert(at);
                continue;
            }
            self.lines[at] = Some((log, offset));
            self.places.insert(log, at);
        }
    }

    /// Returns how far a log is known to be synced, 0 when nothing is known.
    #[must_use]
    pub fn get(&self, topic_id: Uuid, partition: i32) -> Offset {
        self.places
            .get(&(topic_id, partition))
            .and_then(|at| self.lines[*at])
            .map_or(0, |(_, offset)| offset)
    }

    /// Forgets the logs of topics that are gone; their lines are used again.
    pub fn retain(&mut self, mut is_there: impl FnMut(Uuid) -> bool) {
        let Self {
            places,
            lines,
            free,
            dirty,
            lowering,
            ..
        } = self;
        places.retain(|(topic_id, _), at| {
            let keep = is_there(*topic_id);
            if !keep {
                lines[*at] = None;
                free.insert(*at);
                dirty.remove(at);
                lowering.remove(at);
            }
            keep
        });
    }

    /// Notes that every record of a log below `synced` is durable.
    pub fn advance(&mut self, topic_id: Uuid, partition: i32, synced: Offset) {
        let log = (topic_id, partition);
        if synced <= self.get(topic_id, partition) {
            return;
        }
        let Some(at) = self.place(log) else { return };
        // Until a lower mark is durable the old one may come back, and so may the truncation's records.
        if self.lowering.contains_key(&at) {
            return;
        }
        self.lines[at] = Some((log, synced));
        self.dirty.insert(at);
    }

    /// Lowers a mark to `end` before the log is truncated; [`Self::take_lowered`] says when that is durable.
    pub fn lower(&mut self, topic_id: Uuid, partition: i32, end: Offset) {
        let log = (topic_id, partition);
        let place = self.places.get(&log).copied();
        let line = place.and_then(|at| Some((at, self.lines[at]?.1)));
        match line {
            Some((at, mark)) if mark > end => {
                self.lines[at] = Some((log, end));
                self.dirty.insert(at);
                self.lowering.insert(at, Lowering::Wanted);
                self.lowered.retain(|known| *known != log);
            }
            Some((at, _)) if self.lowering.contains_key(&at) => {}
            // The file never said more.
            Some(_) | None => self.lowered.push(log),
        }
    }

    /// Takes the logs, by topic id and partition, whose lower marks are durable.
    pub fn take_lowered(&mut self) -> Vec<(Uuid, i32)> {
        std::mem::take(&mut self.lowered)
    }

    fn step_lowering(
        &mut self,
        lines: RangeInclusive<usize>,
        from: Lowering,
        to: Lowering,
    ) -> bool {
        let steps = self.lowering.range_mut(lines);
        let mut any = false;
        for (_, step) in steps.filter(|(_, step)| **step == from) {
            *step = to;
            any = true;
        }
        any
    }

    fn lowering_synced(&mut self) {
        let Self {
            lowering,
            lowered,
            lines,
            ..
        } = self;
        lowering.retain(|at, step| {
            let is_done = *step == Lowering::Syncing;
            if is_done {
                lowered.extend(lines[*at].map(|(log, _)| log));
            }
            !is_done
        });
    }

    fn place(&mut self, log: LogId) -> Option<usize> {
        if let Some(at) = self.places.get(&log) {
            return Some(*at);
        }
        let at = match self.free.pop_first() {
            Some(at) => at,
            None if self.lines.len() < LINES_MAX => {
                self.lines.push(None);
                self.lines.len() - 1
            }
            None => return None,
        };
        self.places.insert(log, at);
        Some(at)
    }

    /// Writes what changed, unless a write is under way: then what changes meanwhile gathers for the next.
    pub fn write(&mut self, storage: &mut StorageQueue) {
        if self.dirty.is_empty() || !self.writing.is_empty() || self.retry_at.is_some() {
            return;
        }
        let file = match self.file {
            Handle::Open(file) => file,
            Handle::Opening(..) => return,
            Handle::Closed => return self.open(storage),
        };
        for (first, last) in runs(&std::mem::take(&mut self.dirty)) {
            self.step_lowering(first..=last, Lowering::Wanted, Lowering::Writing);
            let content: Vec<u8> = self.lines[first..=last].iter().flat_map(encode).collect();
            let write = FileOp::Write {
                file,
                at: u64::try_from(first * LINE_BYTES).unwrap_or(u64::MAX),
                data: WriteData::from_body(Bytes::from(content)),
            };
            self.writing
                .push((storage.submit(self.owner, write), first, last));
        }
    }

    fn open(&mut self, storage: &mut StorageQueue) {
        let file = storage.new_file();
        let open = FileOp::Open {
            file,
            path: self.path.clone(),
            create: true,
        };
        self.file = Handle::Opening(file, storage.submit(self.owner, open));
    }

    /// Returns whether a completion belongs here.
    #[must_use]
    pub fn awaits(&self, id: OpId) -> bool {
        self.syncing == Some(id)
            || matches!(self.file, Handle::Opening(_, op) if op == id)
            || self.writing.iter().any(|(op, ..)| *op == id)
    }

    /// Takes a completion.
    ///
    /// # Errors
    /// The log directory must be given up: a sync failed, or the device does.
    pub fn on_completion(
        &mut self,
        now: Instant,
        completion: Completion,
    ) -> Result<(), StorageFault> {
        let fault = completion.result.err();
        if self.syncing == Some(completion.id) {
            self.syncing = None;
            if let Some(fault) = fault {
                return Err(fault);
            }
            self.is_new = false;
            self.lowering_synced();
            return Ok(());
        }
        if let Handle::Opening(file, op) = self.file
            && op == completion.id
        {
            self.file = match fault {
                None => Handle::Open(file),
                Some(_) => Handle::Closed,
            };
        } else if let Some(at) = self
            .writing
            .iter()
            .position(|(op, ..)| *op == completion.id)
        {
            let (_, first, last) = self.writing.swap_remove(at);
            if fault.is_some() {
                self.dirty.extend(first..=last);
                self.step_lowering(first..=last, Lowering::Writing, Lowering::Wanted);
            } else if self.step_lowering(first..=last, Lowering::Writing, Lowering::Written) {
                // Somebody waits.
                self.sync_at = Some(now);
            } else if self.sync_at.is_none() {
                self.sync_at = Some(now.plus_millis(SYNC_DELAY_MS));
            }
        }
        match fault {
            Some(fault) if fault.kind == FaultKind::NoSpace => {
                self.retry_at = Some(now.plus_millis(RETRY_DELAY_MS));
                Ok(())
            }
            Some(fault) => Err(fault),
            None => Ok(()),
        }
    }

    /// Returns when there is something to do that nothing else brings.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let sync_at = self.sync_at.filter(|_| self.syncing.is_none());
        sync_at.into_iter().chain(self.retry_at).min()
    }

    /// Makes written marks durable if that is due.
    pub fn on_timeout(&mut self, storage: &mut StorageQueue, now: Instant) {
        self.retry_at = self.retry_at.filter(|at| *at > now);
        let is_due = self.sync_at.is_some_and(|at| at <= now) && self.syncing.is_none();
        let (true, Handle::Open(file)) = (is_due, self.file) else {
            return;
        };
        let dirs = if self.is_new {
            vec![self.path.parent()]
        } else {
            Vec::new()
        };
        let target = SyncTarget {
            file,
            generation: Generation::default(),
        };
        let files = vec![target];
        self.sync_at = None;
        self.step_lowering(0..=usize::MAX, Lowering::Written, Lowering::Syncing);
        self.syncing = Some(storage.submit(self.owner, FileOp::Sync { files, dirs }));
    }

    /// Returns the file.
    #[must_use]
    pub const fn path(&self) -> &FilePath {
        &self.path
    }
}

/// Gathers lines that stand close together, as first and last.
fn runs(lines: &BTreeSet<usize>) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for at in lines {
        match runs.last_mut() {
            Some((_, last)) if at - *last <= GAP_LINES_MAX => *last = *at,
            _ => runs.push((*at, *at)),
        }
    }
    runs
}
