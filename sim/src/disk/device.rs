//! When a disk operation takes effect, when its completion arrives, and whether it fails.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use seedlog_core::storage::{
    Completion, FaultKind, FileId, FileOp, FilePath, OpId, OpResult, StorageFault, StorageOp,
};

use super::{Disk, InodeId, Loss, Survival, SyncScope};
use crate::{
    plan::{Glob, OpKind},
    random::Stream,
    time::SimTime,
};

/// How long operations take, in nanoseconds.
#[derive(Clone, Debug)]
pub struct Latency {
    /// Everything but syncs.
    pub op: (u64, u64),
    /// Syncs.
    pub sync: (u64, u64),
    /// How many operations in a thousand are slow …
    pub slow_permille: u32,
    /// … and how much longer they take, at most.
    pub slow_nanos: u64,
    /// How many completions in a thousand arrive later than the effect.
    pub late_permille: u32,
    /// After a failed sync the cache falls back to what the disk holds, instead of keeping what was not written.
    pub reverts: bool,
}

impl Default for Latency {
    fn default() -> Self {
        Self {
            op: (2_000, 40_000),
            sync: (300_000, 4_000_000),
            slow_permille: 5,
            slow_nanos: 20_000_000,
            late_permille: 150,
            reverts: false,
        }
    }
}

/// A fault that waits in the device for the operations it concerns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskFault {
    /// The next syncs of matching files fail, and what they should have written is gone.
    FailSync {
        /// Which files.
        file: Glob,
        /// How many times.
        times: u32,
    },
    /// The next writes to matching files fail.
    FailWrite {
        /// Which files.
        file: Glob,
        /// How many times.
        times: u32,
        /// No space, or an error of the device.
        kind: FaultKind,
        /// Some first bytes are written before the error.
        short: bool,
    },
    /// The next reads of matching files fail.
    FailRead {
        /// Which files.
        file: Glob,
        /// How many times.
        times: u32,
    },
    /// The next write to a matching file is acknowledged and goes nowhere.
    LoseWrite {
        /// Which files.
        file: Glob,
    },
    /// Syncs succeed without doing anything.
    Lie {
        /// Until when.
        until: SimTime,
    },
    /// Operations, or only syncs, take effect no earlier than `until`.
    Stall {
        /// Until when.
        until: SimTime,
        /// Whether only syncs stall.
        syncs_only: bool,
    },
}

/// How many operations each kind of disk fault hit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskTally {
    /// Syncs failed.
    pub failed_syncs: u64,
    /// Writes failed.
    pub failed_writes: u64,
    /// Times that the disk was full and a write found it so.
    pub full: u64,
    /// Reads failed.
    pub failed_reads: u64,
    /// Writes acknowledged and lost.
    pub lost_writes: u64,
    /// Syncs that lied about unsynced bytes.
    pub lies: u64,
    /// Stalls that made an operation wait.
    pub stalls: u64,
    /// Writes torn by a crash.
    pub torn: u64,
}

/// An operation between submission and completion.
#[derive(Clone, Debug)]
pub struct InFlight {
    id: OpId,
    op: FileOp,
    scope: Option<SyncScope>,
    effect: Option<u64>,
    inode: Option<InodeId>,
    result: Option<Result<OpResult, StorageFault>>,
    done_at: SimTime,
}

/// What became of an operation that the device was told to go on with.
#[derive(Clone, Debug)]
pub enum DeviceEvent {
    /// It is complete.
    Complete(Completion),
    /// It took effect; its completion arrives later.
    Later(SimTime),
    /// The process or machine died in between.
    Gone,
}

#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    effect: SimTime,
    done: SimTime,
}

/// A disk with its queue of operations.
#[derive(Clone, Debug)]
pub struct Device {
    /// The disk itself.
    pub disk: Disk,
    latency: Latency,
    stream: Stream,
    in_flight: BTreeMap<u64, InFlight>,
    next_ticket: u64,
    lanes: BTreeMap<FileId, Lane>,
    names: BTreeMap<FileId, FilePath>,
    armed: VecDeque<Armed>,
    /// A write found the disk full since its room was limited.
    found_full: bool,
    tally: DiskTally,
}

/// A fault that waits for its operations.
#[derive(Clone, Debug)]
struct Armed {
    fault: DiskFault,
    /// An operation ran into it.
    hit: bool,
}

impl Device {
    /// Makes a device with an empty disk.
    #[must_use]
    pub fn new(log_dirs: u16, latency: Latency, stream: Stream) -> Self {
        let mut disk = Disk::new(log_dirs);
        disk.revert_on_failed_sync(latency.reverts);
        Self {
            disk,
            latency,
            stream,
            in_flight: BTreeMap::new(),
            next_ticket: 0,
            lanes: BTreeMap::new(),
            names: BTreeMap::new(),
            armed: VecDeque::new(),
            found_full: false,
            tally: DiskTally::default(),
        }
    }

    /// Takes an operation; returns its ticket and when it takes effect.
    pub fn submit(&mut self, now: SimTime, op: StorageOp) -> (u64, SimTime) {
        let StorageOp { id, op } = op;
        let is_sync = matches!(op, FileOp::Sync { .. });
        let mut effect = now.plus_nanos(self.draw_latency(is_sync));
        effect = self.stall(effect, is_sync);
        let mut done = effect;
        if self.stream.permille(self.latency.late_permille) {
            done = effect.plus_nanos(
                self.stream
                    .magnitude(1_000..=self.latency.sync.1.max(2_000)),
            );
        }
        if let Some(file) = op.file() {
            let lane = self.lanes.entry(file).or_default();
            effect = effect.max(lane.effect);
            // Completions of one file come in order, also of operations that end at the same instant.
            done = done.max(effect).max(lane.done.plus_nanos(1));
            *lane = Lane { effect, done };
        }
        if let FileOp::Open { file, path, .. } = &op {
            self.names.insert(*file, path.clone());
        }
        let scope = match &op {
            FileOp::Sync { files, dirs } => {
                let files: Vec<FileId> = files.iter().map(|target| target.file).collect();
                Some(self.disk.sync_scope(&files, dirs))
            }
            _ => None,
        };
        self.next_ticket += 1;
        self.in_flight.insert(
            self.next_ticket,
            InFlight {
                id,
                op,
                scope,
                effect: None,
                inode: None,
                result: None,
                done_at: done,
            },
        );
        (self.next_ticket, effect)
    }

    /// Goes on with an operation whose time has come.
    pub fn go_on(&mut self, now: SimTime, ticket: u64) -> DeviceEvent {
        let Some(mut flight) = self.in_flight.remove(&ticket) else {
            return DeviceEvent::Gone;
        };
        if flight.result.is_none() {
            self.take_effect(now, &mut flight);
        }
        if flight.done_at > now {
            let at = flight.done_at;
            self.in_flight.insert(ticket, flight);
            return DeviceEvent::Later(at);
        }
        self.disk
            .complete(flight.effect.unwrap_or_default(), flight.inode);
        DeviceEvent::Complete(Completion {
            id: flight.id,
            result: flight.result.unwrap_or(Err(EIO)),
        })
    }

    /// Lets only the first bytes of a write take effect, as its process dies; other operations take none.
    pub fn tear(&mut self, ticket: u64, permille: u32) {
        if let Some(flight) = self.in_flight.remove(&ticket)
            && let FileOp::Write { data, .. } = &flight.op
        {
            let keep = data.len() * (permille.min(1000) as usize) / 1000;
            self.disk.write_torn(&flight.op, keep);
            self.tally.torn += 1;
        }
    }

    /// The process died: operations in flight took effect or not, in order on each file.
    pub fn crash(&mut self, now: SimTime) {
        let mut stopped = BTreeSet::new();
        let doomed: Vec<u64> = self.in_flight.keys().copied().collect();
        for ticket in doomed {
            let Some(mut flight) = self.in_flight.remove(&ticket) else {
                continue;
            };
            if flight.result.is_some() {
                continue;
            }
            let lane = flight.op.file();
            let blocked = lane.is_some_and(|file| stopped.contains(&file));
            if !blocked && self.stream.one_in(2) {
                self.take_effect(now, &mut flight);
                continue;
            }
            if let (false, FileOp::Write { data, .. }) = (blocked, &flight.op) {
                let keep = self.stream.index(data.len() + 1);
                self.disk.write_torn(&flight.op, keep);
                self.tally.torn += u64::from(keep > 0);
            }
            stopped.extend(lane);
        }
        self.lanes.clear();
        self.names.clear();
        self.disk.crash();
    }

    /// The machine lost power.
    pub fn lose_power(&mut self, now: SimTime, survival: Survival) -> Loss {
        self.crash(now);
        self.disk.lose_power(survival, &mut self.stream)
    }

    /// Lets a fault wait for its operations.
    pub fn arm(&mut self, fault: DiskFault) {
        self.armed.push_back(Armed { fault, hit: false });
    }

    /// Limits how many more bytes the disk has room for.
    pub fn limit_room(&mut self, room: Option<u64>) {
        self.found_full = false;
        let used = self.disk.used();
        self.disk.limit(room.map(|room| used.saturating_add(room)));
    }

    /// Whether an operation under way is a sync.
    #[must_use]
    pub fn is_sync(&self, ticket: u64) -> bool {
        self.in_flight
            .get(&ticket)
            .is_some_and(|flight| flight.scope.is_some())
    }

    /// Whether the next sync may fail and take unsynced bytes out of the cache.
    #[must_use]
    pub fn may_drop_dirty(&self) -> bool {
        let fails = |armed: &Armed| matches!(armed.fault, DiskFault::FailSync { .. });
        self.latency.reverts && self.armed.iter().any(fails)
    }

    /// Ends every fault that still waits.
    pub fn heal(&mut self) {
        self.armed.clear();
        self.limit_room(None);
        self.latency.slow_permille = 0;
    }

    /// Replaces the disk by an empty one.
    pub fn wipe(&mut self, log_dirs: u16) {
        self.disk = Disk::new(log_dirs);
        self.disk.revert_on_failed_sync(self.latency.reverts);
    }

    /// Returns what faults did so far.
    #[must_use]
    pub const fn tally(&self) -> DiskTally {
        self.tally
    }

    /// Returns what an operation concerns: its kind and a path.
    #[must_use]
    pub fn describe(&self, op: &FileOp) -> (OpKind, String) {
        let named = |file: &FileId| {
            self.names
                .get(file)
                .map_or_else(String::new, |path| path.relative().to_owned())
        };
        match op {
            FileOp::List { dir } => (OpKind::List, dir.relative().to_owned()),
            FileOp::CreateDir { dir } => (OpKind::CreateDir, dir.relative().to_owned()),
            FileOp::Open { path, .. } => (OpKind::Open, path.relative().to_owned()),
            FileOp::Write { file, .. } => (OpKind::Write, named(file)),
            FileOp::Read { file, .. } => (OpKind::Read, named(file)),
            FileOp::Truncate { file, .. } => (OpKind::Truncate, named(file)),
            FileOp::Sync { files, dirs } => {
                let file = files.first().map(|target| named(&target.file));
                let dir = || dirs.first().map(|dir| dir.relative().to_owned());
                (OpKind::Sync, file.or_else(dir).unwrap_or_default())
            }
            FileOp::Rename { from, .. } => (OpKind::Rename, from.relative().to_owned()),
            FileOp::Remove { path } => (OpKind::Remove, path.relative().to_owned()),
            FileOp::RemoveDir { dir } => (OpKind::RemoveDir, dir.relative().to_owned()),
            FileOp::Close { file } => (OpKind::Close, named(file)),
        }
    }

    /// Returns a digest of all draws of this device.
    #[must_use]
    pub fn draws(&self) -> u64 {
        self.stream.digest()
    }

    fn draw_latency(&mut self, is_sync: bool) -> u64 {
        let (low, high) = if is_sync {
            self.latency.sync
        } else {
            self.latency.op
        };
        let mut nanos = self.stream.within(low..=high);
        if self.stream.permille(self.latency.slow_permille) {
            nanos += self.stream.magnitude(1..=self.latency.slow_nanos.max(1));
        }
        nanos
    }

    fn stall(&mut self, effect: SimTime, is_sync: bool) -> SimTime {
        let mut end = effect;
        for armed in &mut self.armed {
            let DiskFault::Stall { until, syncs_only } = armed.fault else {
                continue;
            };
            if until <= effect || (syncs_only && !is_sync) {
                continue;
            }
            self.tally.stalls += u64::from(!armed.hit);
            armed.hit = true;
            end = end.max(until);
        }
        end
    }

    fn take_effect(&mut self, now: SimTime, flight: &mut InFlight) {
        let fault = self.armed_fault(now, &flight.op, flight.scope.as_ref());
        let fault_free = fault.is_none();
        let result = match (fault, &flight.scope) {
            (Some(fault), _) => self.fail(&fault, flight),
            (None, Some(scope)) => {
                let everything = self.stream.one_in(2);
                self.disk.sync(scope, everything);
                Ok(OpResult::Done)
            }
            (None, None) => self.disk.apply(&flight.op),
        };
        if let Err(error) = &result
            && error.kind == FaultKind::NoSpace
            && fault_free
            && !self.found_full
        {
            self.found_full = true;
            self.tally.full += 1;
        }
        flight.effect = Some(self.disk.step());
        flight.inode = flight.op.file().and_then(|file| self.disk.inode_of(file));
        flight.result = Some(result);
    }

    /// Finds the armed fault that an operation runs into, and uses it up.
    fn armed_fault(
        &mut self,
        now: SimTime,
        op: &FileOp,
        scope: Option<&SyncScope>,
    ) -> Option<DiskFault> {
        if self.armed.is_empty() {
            return None;
        }
        let (kind, path) = self.describe(op);
        let sync_paths: Vec<String> = match op {
            FileOp::Sync { files, .. } => files
                .iter()
                .filter_map(|target| self.names.get(&target.file))
                .map(|path| path.relative().to_owned())
                .collect(),
            _ => Vec::new(),
        };
        self.armed.retain(|armed| match armed.fault {
            DiskFault::Lie { until } | DiskFault::Stall { until, .. } => until > now,
            _ => true,
        });
        let at = self.armed.iter().position(|armed| match &armed.fault {
            DiskFault::FailSync { file, .. } => {
                kind == OpKind::Sync && sync_paths.iter().any(|path| file.matches(path))
            }
            DiskFault::FailWrite { file, .. } | DiskFault::LoseWrite { file } => {
                kind == OpKind::Write && file.matches(&path)
            }
            DiskFault::FailRead { file, .. } => kind == OpKind::Read && file.matches(&path),
            DiskFault::Lie { .. } => scope.is_some(),
            DiskFault::Stall { .. } => false,
        })?;
        let hit = self.armed[at].fault.clone();
        match &mut self.armed[at].fault {
            DiskFault::FailSync { times, .. }
            | DiskFault::FailWrite { times, .. }
            | DiskFault::FailRead { times, .. }
                if *times > 1 =>
            {
                *times -= 1;
            }
            DiskFault::Lie { .. } => {}
            _ => {
                self.armed.remove(at);
            }
        }
        Some(hit)
    }

    fn fail(&mut self, fault: &DiskFault, flight: &InFlight) -> Result<OpResult, StorageFault> {
        match fault {
            DiskFault::FailSync { .. } => {
                if let Some(scope) = &flight.scope {
                    self.disk.fail_sync(scope);
                }
                self.tally.failed_syncs += 1;
                Err(EIO)
            }
            DiskFault::FailWrite { kind, short, .. } => {
                if let (true, FileOp::Write { data, .. }) = (*short, &flight.op) {
                    let keep = self.stream.index(data.len());
                    self.disk.write_torn(&flight.op, keep);
                }
                self.tally.failed_writes += 1;
                Err(StorageFault {
                    kind: *kind,
                    os_code: if *kind == FaultKind::NoSpace { 28 } else { 5 },
                })
            }
            DiskFault::FailRead { .. } => {
                self.tally.failed_reads += 1;
                Err(EIO)
            }
            DiskFault::LoseWrite { .. } => {
                self.tally.lost_writes += 1;
                Ok(OpResult::Done)
            }
            DiskFault::Lie { .. } => {
                self.tally.lies += u64::from(!self.disk.is_synced());
                Ok(OpResult::Done)
            }
            DiskFault::Stall { .. } => Ok(OpResult::Done),
        }
    }
}

const EIO: StorageFault = StorageFault {
    kind: FaultKind::Io,
    os_code: 5,
};
