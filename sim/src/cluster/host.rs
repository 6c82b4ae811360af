//! One node: its machine while it runs, and what outlives each incarnation: disk, clock and seat.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use seedlog_core::{
    broker::Input,
    ids::{ConnectionId, TopicPartition},
    time::Instant,
};

use crate::{
    clock::Clock,
    disk::{Damage, Device},
    network::LinkId,
    node::{Node, Release, Seat},
    plan::Glob,
    random::Stream,
    time::SimTime,
};

/// How a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    /// No process; the machine answers that nobody is there.
    Down,
    /// No machine: nobody answers at all.
    Off,
    /// The process recovers or registers.
    Starting,
    /// Clients are served.
    Ready,
    /// It was asked to stop.
    Stopping,
}

/// What to do when a stopping node has stopped.
#[derive(Clone, Debug)]
pub(super) struct Return {
    pub(super) down_nanos: u64,
    pub(super) damage: Option<(Damage, Glob)>,
}

/// What keeps new connections out for a while.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Door {
    until: SimTime,
    knocked: bool,
}

impl Door {
    pub(super) const fn shut_until(until: SimTime) -> Self {
        Self {
            until,
            knocked: false,
        }
    }

    /// Whether somebody finds it shut now, and is the first one.
    pub(super) fn knock(&mut self, now: SimTime) -> Option<bool> {
        (self.until > now).then(|| !std::mem::replace(&mut self.knocked, true))
    }
}

/// A node of the cluster.
pub(super) struct Host {
    pub(super) seat: Seat,
    pub(super) release: Release,
    pub(super) machine: Option<Box<dyn Node>>,
    pub(super) status: Status,
    pub(super) incarnation: u64,
    pub(super) device: Device,
    pub(super) clock: Clock,
    pub(super) stream: Stream,
    /// When the earliest timer event is scheduled.
    pub(super) armed: Option<SimTime>,
    pub(super) paused_until: Option<SimTime>,
    pub(super) backlog: VecDeque<Input>,
    /// New connections are refused.
    pub(super) refusing: Door,
    /// New connections hang.
    pub(super) hanging: Door,
    pub(super) stopping: Option<Return>,
    /// A start is scheduled.
    pub(super) returning: bool,
    /// Timeouts at one and the same instant.
    pub(super) spins: (SimTime, u32),
    /// The last thing it said before giving up.
    pub(super) last_words: Option<String>,
    /// Partitions that it said it cannot serve.
    pub(super) offline: BTreeSet<TopicPartition>,
    /// How often it started since it was last ready.
    pub(super) starts: u32,
    /// How many lies of its disk were noticed.
    pub(super) lies_seen: u64,
    /// Connections that it dialled, by its own numbers, and the largest frame that may come over each.
    pub(super) dialled: BTreeMap<ConnectionId, (LinkId, usize)>,
}

impl Host {
    pub(super) const fn is_running(&self) -> bool {
        self.machine.is_some()
    }

    pub(super) fn is_paused(&self, now: SimTime) -> bool {
        self.paused_until.is_some_and(|until| until > now)
    }

    pub(super) fn deadline(&self) -> Option<SimTime> {
        let deadline = self.machine.as_ref()?.deadline()?;
        (deadline != Instant::NEVER).then(|| self.clock.when(deadline))
    }

    pub(super) fn is_due(&self, now: SimTime) -> bool {
        let deadline = self.machine.as_ref().and_then(|machine| machine.deadline());
        deadline.is_some_and(|deadline| deadline <= self.clock.read(now).instant)
    }
}

impl std::fmt::Debug for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host")
            .field("seat", &self.seat.id)
            .field("status", &self.status)
            .field("incarnation", &self.incarnation)
            .finish_non_exhaustive()
    }
}

/// Something that happens in the cluster.
#[derive(Clone, Debug)]
pub(super) enum Happening {
    NodeTimer {
        node: usize,
    },
    ClientTimer {
        client: usize,
    },
    Arrival(crate::network::Arrival),
    Device {
        node: usize,
        ticket: u64,
    },
    Sent {
        node: usize,
        incarnation: u64,
        connection: ConnectionId,
    },
    Start {
        node: usize,
    },
    Resume {
        node: usize,
    },
    Unreachable {
        node: usize,
        incarnation: u64,
        connection: ConnectionId,
    },
    CutOver,
    Fault {
        index: usize,
    },
    RoomAgain {
        node: usize,
    },
    StopAsked {
        node: usize,
        incarnation: u64,
    },
    StopTooLong {
        node: usize,
        incarnation: u64,
    },
}
