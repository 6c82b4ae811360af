//! The nodes' side: starting, feeding and stopping machines, and doing what they want done.

use std::net::{Ipv4Addr, SocketAddr};

use bytes::{Bytes, BytesMut};
use seedlog_core::{
    broker::{Identity, Input, Output},
    event::Event,
    ids::{ConnectionId, Uuid},
    storage::{FileId, Frame, Part, StorageFault, StorageOp},
};

use super::{
    Cluster, Happening, Status,
    naming::{decisive_of, fold_input, fold_op, name_of},
    waiting::Strike,
};
use crate::{
    checker::{NodeChange, Seen},
    disk::DeviceEvent,
    ghost,
    guard::guard,
    network::{Arrival, End, LinkId, Outcome, Parcel, Side, Stamp},
    plan::{Decisive, Moment},
    time::SimTime,
    trace::What,
};

impl Cluster {
    /// Starts a new incarnation.
    pub(super) fn start(&mut self, node: usize) {
        let now = self.engine.now();
        let host = &mut self.hosts[node];
        host.returning = false;
        if host.is_running() {
            return;
        }
        host.incarnation += 1;
        host.starts += 1;
        host.clock.restart(now, host.stream.magnitude(1..=1 << 50));
        let identity = Identity {
            incarnation: Uuid::from_random(host.stream.fill()),
            seed: host.stream.fill(),
        };
        let local = host.clock.read(now);
        let (release, seat) = (host.release.clone(), host.seat.clone());
        host.status = Status::Starting;
        host.last_words = None;
        host.offline.clear();
        self.tally.starts += 1;
        self.node_changed(node, NodeChange::Started);
        match guard(|| release.start(&seat, identity, local)) {
            Ok(machine) => {
                self.hosts[node].machine = Some(machine);
                self.drain(node);
            }
            Err(message) => self.panicked(node, &message),
        }
    }

    /// Feeds an input, or keeps it while the node is paused.
    pub(super) fn feed(&mut self, node: usize, input: Input) {
        let now = self.engine.now();
        let host = &mut self.hosts[node];
        if host.is_paused(now) {
            host.backlog.push_back(input);
            return;
        }
        let Some(machine) = host.machine.as_mut() else {
            return;
        };
        let local = host.clock.read(now);
        self.tally.inputs += 1;
        fold_input(&mut self.engine, node, &input);
        match guard(|| machine.handle(local, input)) {
            Ok(()) => self.drain(node),
            Err(message) => self.panicked(node, &message),
        }
    }

    pub(super) fn node_timer(&mut self, node: usize) {
        let now = self.engine.now();
        let host = &mut self.hosts[node];
        if host.armed != Some(now) {
            return;
        }
        host.armed = None;
        if host.is_paused(now) {
            return;
        }
        if !host.is_due(now) {
            self.arm(node);
            return;
        }
        if host.spins.0 == now {
            host.spins.1 += 1;
            if host.spins.1 > SPINS_MAX {
                self.panicked(
                    node,
                    "the deadline does not move though time-outs are handled",
                );
                return;
            }
        } else {
            host.spins = (now, 0);
        }
        self.feed(node, Input::Timeout);
    }

    pub(super) fn device(&mut self, node: usize, ticket: u64) {
        let now = self.engine.now();
        let mut strike = self.plan.take_strike(node, ticket);
        if let Some(refused) = strike.take_if(|strike| !self.will_fire(strike.index)) {
            // The process lives on, so the operation ends as any other.
            self.fire(refused.index);
        }
        if let Some(Strike { index, moment }) = strike
            && let Moment::Within(permille) = moment
        {
            self.hosts[node].device.tear(ticket, permille);
            self.fire(index);
            return;
        }
        let device = &self.hosts[node].device;
        let failed = device.tally().failed_syncs;
        let before =
            (device.is_sync(ticket) && device.may_drop_dirty()).then(|| self.log_view(node));
        let event = self.hosts[node].device.go_on(now, ticket);
        if let Some(before) = before
            && self.hosts[node].device.tally().failed_syncs > failed
        {
            let before = &before;
            self.node_changed(node, NodeChange::LostDirty { before });
        }
        if let Some(Strike { index, .. }) = strike {
            self.fire(index);
            return;
        }
        self.notice_lies(node);
        match event {
            DeviceEvent::Complete(completion) => self.feed(node, Input::Storage(completion)),
            DeviceEvent::Later(at) => self.engine.schedule(at, Happening::Device { node, ticket }),
            DeviceEvent::Gone => {}
        }
    }

    pub(super) fn arrive(&mut self, arrival: Arrival) {
        let (link, to) = (arrival.link, arrival.to);
        match self.network.arrive(arrival) {
            Outcome::Deliver(End::Node(node), parcel) => self.deliver(node, link, to, parcel),
            Outcome::Deliver(End::Client(client), parcel) => self.visit(client, link, parcel),
            Outcome::Nothing => {}
            Outcome::NobodyThere(End::Node(node)) => {
                if self.hosts[node].status != Status::Off {
                    self.answer_reset(link, to);
                }
            }
            Outcome::NobodyThere(End::Client(_)) => self.answer_reset(link, to),
        }
    }

    pub(super) fn sent(&mut self, node: usize, incarnation: u64, connection: ConnectionId) {
        self.sent_pending.remove(&(node, connection));
        if self.hosts[node].incarnation != incarnation {
            return;
        }
        let Some((link, side)) = self.link_of(node, connection) else {
            return;
        };
        let until = self.network.busy_until(link, side.other());
        if until > self.engine.now() {
            // More was sent since: it is not all out yet.
            self.expect_sent(node, connection, until);
        } else if self.network.is_open(link, side) {
            self.feed(node, Input::Sent { connection });
        }
    }

    /// Has the node told when the last byte has left.
    fn expect_sent(&mut self, node: usize, connection: ConnectionId, at: SimTime) {
        if self.sent_pending.insert((node, connection)) {
            let incarnation = self.hosts[node].incarnation;
            let sent = Happening::Sent {
                node,
                incarnation,
                connection,
            };
            self.engine.schedule(at, sent);
        }
    }

    /// The process ends; `machine` says whether the whole machine does.
    pub(super) fn lose_process(&mut self, node: usize, machine: bool) {
        let now = self.engine.now();
        let host = &mut self.hosts[node];
        host.machine = None;
        host.status = if machine { Status::Off } else { Status::Down };
        host.armed = None;
        host.paused_until = None;
        host.backlog.clear();
        host.stopping = None;
        self.plan.forget_strikes(node);
        self.forget_dialled(node);
        for (at, arrival) in self.network.lose(now, End::Node(node), machine) {
            self.schedule_arrival(at, arrival);
        }
    }

    pub(super) fn return_after(&mut self, node: usize, nanos: u64) {
        if !self.hosts[node].returning {
            self.hosts[node].returning = true;
            self.engine.schedule_in(nanos, Happening::Start { node });
        }
    }

    pub(super) fn node_changed(&mut self, node: usize, change: NodeChange<'_>) {
        self.trace_line(|| What::Node(node, format!("{change:?}")));
        if self.watched {
            let moment = self.moment();
            let disk = &self.hosts[node].device.disk;
            self.jury.see(moment, &Seen::Node { node, change, disk });
        }
    }

    /// Goes on with a paused node: everything that waited happens now.
    pub(super) fn resume(&mut self, node: usize) {
        let now = self.engine.now();
        let host = &mut self.hosts[node];
        if host.paused_until.is_none_or(|until| until > now) {
            return;
        }
        host.paused_until = None;
        let incarnation = host.incarnation;
        let mut backlog = std::mem::take(&mut host.backlog);
        while let Some(input) = backlog.pop_front() {
            let host = &mut self.hosts[node];
            if host.incarnation != incarnation || !host.is_running() {
                return;
            }
            if host.is_paused(now) {
                backlog.push_front(input);
                host.backlog = backlog;
                return;
            }
            self.feed(node, input);
        }
        self.arm(node);
    }

    pub(super) fn stop_too_long(&mut self, node: usize, incarnation: u64) {
        let host = &self.hosts[node];
        if host.incarnation != incarnation || host.status != Status::Stopping {
            return;
        }
        // A supervisor's patience ends: the process is killed.
        let back = host.stopping.clone();
        self.end_operations(node);
        self.lose_process(node, false);
        self.node_changed(node, NodeChange::StopOverdue);
        self.come_back(node, back);
    }

    fn deliver(&mut self, node: usize, link: LinkId, side: Side, parcel: Parcel) {
        let now = self.engine.now();
        if side == Side::Dialer {
            self.deliver_dialled(node, link, parcel);
        } else {
            let connection = ConnectionId(link.0);
            match parcel {
                Parcel::Knock(listener) => self.knock(node, link, listener),
                Parcel::Frame(bytes, _) => self.feed(node, Input::Frame { connection, bytes }),
                Parcel::Closed => self.feed(node, Input::Closed { connection }),
                Parcel::Opened => {}
            }
        }
        debug_assert!(self.engine.now() == now, "handling takes no simulated time");
    }

    fn knock(&mut self, node: usize, link: LinkId, listener: u16) {
        let now = self.engine.now();
        let host = &mut self.hosts[node];
        if host.status == Status::Off {
            return;
        }
        if let Some(first) = host.hanging.knock(now) {
            self.tally.fault("link-hang").effective += u64::from(first);
            return;
        }
        if !host.is_running() {
            self.answer_reset(link, Side::Acceptor);
            return;
        }
        if let Some(first) = host.refusing.knock(now) {
            self.tally.fault("link-refused").effective += u64::from(first);
            self.answer_reset(link, Side::Acceptor);
            return;
        }
        if let Some((_, Some((at, arrival)))) =
            self.network.send(now, link, Side::Dialer, Parcel::Opened)
        {
            self.schedule_arrival(at, arrival);
        }
        let last = link.0.to_be_bytes();
        let peer = SocketAddr::from((Ipv4Addr::new(10, last[5], last[6], last[7]), 40_000));
        self.feed(
            node,
            Input::Connected {
                connection: ConnectionId(link.0),
                peer,
                listener,
            },
        );
    }

    /// Nobody takes what arrived at `at`: the other end gets a reset.
    fn answer_reset(&mut self, link: LinkId, at: Side) {
        let now = self.engine.now();
        if let Some((at, arrival)) = self.network.close(now, link, at) {
            self.schedule_arrival(at, arrival);
        } else if !self.network.is_cut(now, link, at.other()) {
            let delay = self.chance.magnitude(50_000..=2_000_000);
            let arrival = Arrival {
                link,
                to: at.other(),
                what: Parcel::Closed,
            };
            self.schedule_arrival(now.plus_nanos(delay), arrival);
        }
    }

    /// Takes all outputs of a machine and does what they want.
    fn drain(&mut self, node: usize) {
        let incarnation = self.hosts[node].incarnation;
        loop {
            let Some(machine) = self.hosts[node].machine.as_mut() else {
                return;
            };
            let output = match guard(|| machine.poll_output()) {
                Ok(Some(output)) => output,
                Ok(None) => break,
                Err(message) => {
                    self.panicked(node, &message);
                    return;
                }
            };
            self.perform(node, output);
            // A fault may strike in the middle: the rest of the outputs dies with the process.
            if self.hosts[node].incarnation != incarnation {
                return;
            }
        }
        if self.watched {
            self.look(node);
        }
        self.arm(node);
    }

    /// Shows white-box checkers the state after a step.
    fn look(&mut self, node: usize) {
        let Some(machine) = self.hosts[node].machine.as_ref() else {
            return;
        };
        machine.probe(&mut self.probe);
        let places = self.jury.ghost().places();
        for partition in &mut self.probe.partitions {
            partition.place = places.place(&partition.partition);
        }
        let moment = self.moment();
        let seen = Seen::Probe {
            node,
            probe: &self.probe,
            disk: &self.hosts[node].device.disk,
        };
        self.jury.see(moment, &seen);
    }

    pub(super) fn arm(&mut self, node: usize) {
        let now = self.engine.now();
        let host = &mut self.hosts[node];
        let Some(at) = host.deadline().map(|at| at.max(now)) else {
            return;
        };
        if host.armed.is_none_or(|armed| at < armed) {
            host.armed = Some(at);
            self.engine.schedule(at, Happening::NodeTimer { node });
        }
    }

    fn perform(&mut self, node: usize, output: Output) {
        let now = self.engine.now();
        match output {
            Output::Send { connection, frame } => self.send(node, connection, frame),
            Output::Dial {
                connection,
                host,
                port,
                frame_bytes_max,
            } => self.dial(node, connection, (&host, port), frame_bytes_max),
            Output::Close { connection } => self.hang_up(node, connection),
            Output::PauseReading { connection } => {
                if let Some((link, side)) = self.link_of(node, connection) {
                    self.network.pause(link, side);
                }
            }
            Output::ResumeReading { connection } => {
                if let Some((link, side)) = self.link_of(node, connection) {
                    for arrival in self.network.resume(link, side) {
                        self.schedule_arrival(now, arrival);
                    }
                }
            }
            Output::Storage(op) => self.submit(node, op),
            Output::Event(event) => self.event(node, event),
            Output::Stopped => self.stopped(node),
        }
    }

    fn send(&mut self, node: usize, connection: ConnectionId, frame: Frame) {
        let now = self.engine.now();
        let Some((link, side)) = self.link_of(node, connection) else {
            return;
        };
        if !self.network.is_open(link, side) {
            return;
        }
        let bytes = match self.assemble(node, frame) {
            Ok(bytes) => bytes,
            Err((file, fault)) => {
                self.hang_up(node, connection);
                self.feed(node, Input::RangeUnreadable { file, fault });
                return;
            }
        };
        self.tally.frames += 1;
        self.engine.fold(link.0);
        self.engine.fold_bytes(&bytes);
        let step = self.hosts[node].device.disk.step();
        let parcel = Parcel::Frame(
            bytes.slice(PREFIX.min(bytes.len())..),
            Stamp { at: now, step },
        );
        let Some((left, arrival)) = self.network.send(now, link, side.other(), parcel) else {
            return;
        };
        if let Some((at, arrival)) = arrival {
            self.schedule_arrival(at, arrival);
        }
        self.expect_sent(node, connection, left);
        if side == Side::Acceptor {
            self.decisive(node, Decisive::Answered);
        }
    }

    /// Puts a frame together; its file ranges are read as they are now.
    fn assemble(&self, node: usize, frame: Frame) -> Result<Bytes, (FileId, StorageFault)> {
        let parts = match frame {
            Frame::Whole(bytes) => return Ok(bytes),
            Frame::Parts(parts) => parts,
        };
        let mut whole = BytesMut::with_capacity(parts.iter().map(Part::len).sum());
        for part in parts {
            match part {
                Part::Bytes(bytes) => whole.extend_from_slice(&bytes),
                Part::File(range) => {
                    let disk = &self.hosts[node].device.disk;
                    let read = disk.read(range.file, range.at, range.len);
                    let bytes = read.map_err(|fault| (range.file, fault))?;
                    if bytes.len() != range.len as usize {
                        let fault = StorageFault::new(seedlog_core::storage::FaultKind::Io);
                        return Err((range.file, fault));
                    }
                    whole.extend_from_slice(&bytes);
                }
            }
        }
        Ok(whole.freeze())
    }

    fn submit(&mut self, node: usize, op: StorageOp) {
        let now = self.engine.now();
        self.tally.storage_ops += 1;
        fold_op(&mut self.engine, node, &op);
        let strike = if self.plan.watches_storage(node) {
            let (kind, path) = self.hosts[node].device.describe(&op.op);
            self.plan.storage(node, kind, &path)
        } else {
            None
        };
        if let Some(strike) = strike
            && strike.moment == Moment::Before
        {
            self.fire(strike.index);
            if !self.hosts[node].is_running() {
                return;
            }
        }
        let (ticket, at) = self.hosts[node].device.submit(now, op);
        if let Some(strike) = strike
            && strike.moment != Moment::Before
        {
            self.plan.expect(node, ticket, strike);
        }
        self.engine.schedule(at, Happening::Device { node, ticket });
    }

    fn event(&mut self, node: usize, event: Event) {
        *self.tally.events.entry(name_of(&event)).or_default() += 1;
        let host = &mut self.hosts[node];
        match &event {
            Event::Fatal { message } => host.last_words = Some(message.clone()),
            Event::PartitionOffline { partition, .. } => {
                host.offline.insert(partition.clone());
            }
            Event::LogOpened { partition, .. } => {
                host.offline.remove(partition);
            }
            Event::BecameLeader { partition, .. } => {
                let before = self.led_by.insert(partition.clone(), node);
                let is_other = before.is_some_and(|before| before != node);
                self.tally.leader_changes += u64::from(is_other && self.writes_under_way > 0);
            }
            _ => {}
        }
        self.trace_line(|| What::Event(node, event.clone()));
        if self.watched {
            let moment = self.moment();
            let event = &event;
            self.jury.see(moment, &Seen::Event { node, event });
        }
        if matches!(event, Event::Ready) {
            self.hosts[node].status = Status::Ready;
            self.hosts[node].starts = 0;
            self.node_changed(node, NodeChange::Ready);
        }
        if let Some(decisive) = decisive_of(&event) {
            self.decisive(node, decisive);
        }
    }

    fn stopped(&mut self, node: usize) {
        let host = &mut self.hosts[node];
        let back = host.stopping.take();
        let asked = host.status == Status::Stopping;
        let words = host.last_words.clone();
        self.end_operations(node);
        self.lose_process(node, false);
        if asked {
            self.node_changed(node, NodeChange::Stopped);
        } else {
            let words = words.as_deref().unwrap_or_default();
            self.node_changed(node, NodeChange::GaveUp(words));
        }
        self.come_back(node, back);
    }

    /// A process is gone: each of its operations under way takes effect, or not; a sync among them may still fail and take
    /// dirty bytes along.
    pub(super) fn end_operations(&mut self, node: usize) {
        let now = self.engine.now();
        let device = &self.hosts[node].device;
        let failed = device.tally().failed_syncs;
        let before = device.may_drop_dirty().then(|| self.log_view(node));
        self.hosts[node].device.crash(now);
        if let Some(before) = before
            && self.hosts[node].device.tally().failed_syncs > failed
        {
            let before = &before;
            self.node_changed(node, NodeChange::LostDirty { before });
        }
    }

    fn panicked(&mut self, node: usize, message: &str) {
        self.end_operations(node);
        self.lose_process(node, false);
        self.node_changed(node, NodeChange::Panicked(message));
        self.come_back(node, None);
    }

    fn come_back(&mut self, node: usize, back: Option<super::host::Return>) {
        let nanos = match back {
            Some(back) => {
                if let Some((damage, file)) = back.damage
                    && self.damage(node, damage, &file)
                {
                    self.tally.fault(damage.kind()).effective += 1;
                }
                back.down_nanos
            }
            // A supervisor starts it again, ever more slowly.
            None => {
                let backoff = u64::from(self.hosts[node].starts.min(BACKOFF_DOUBLINGS_MAX));
                self.chance.within(50_000_000..=500_000_000) << backoff
            }
        };
        self.return_after(node, nanos);
    }

    fn notice_lies(&mut self, node: usize) {
        let tally = self.hosts[node].device.tally();
        let lies = tally.lies + tally.lost_writes;
        if lies > self.hosts[node].lies_seen {
            self.hosts[node].lies_seen = lies;
            self.node_changed(node, NodeChange::Lied);
        }
    }

    pub(super) fn log_view(&self, node: usize) -> ghost::LogView {
        ghost::view(self.jury.ghost().places(), &self.hosts[node].device.disk)
    }
}

/// Bytes of a frame's length prefix.
const PREFIX: usize = 4;
/// How often the pause before a restart doubles.
const BACKOFF_DOUBLINGS_MAX: u32 = 3;
const SPINS_MAX: u32 = 10_000;
