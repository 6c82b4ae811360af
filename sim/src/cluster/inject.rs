//! Carrying out the fault plan, and healing.

use seedlog_core::ids::Epoch;

use super::{
    Cluster, Happening, Status,
    host::{Door, Return},
    tally::{CRASH_AT_OPERATION, ENTRY_LOST, UNSYNCED_LOSS},
    waiting::{Waiting, ends_process},
};
use crate::{
    budget::Budget,
    checker::{NodeChange, Phase},
    disk::{Damage, DiskFault, Survival},
    history::Place,
    network::End,
    node::Probe,
    plan::{
        Aim, ClockFault, Decisive, Fault, Glob, LinkFault, PlannedDiskFault, PlannedFault, Trigger,
    },
    time::SimTime,
    trace::What,
};

impl Cluster {
    /// Sets how far faults may go.
    pub const fn set_budget(&mut self, budget: Budget) {
        self.plan.budget = Some(budget);
    }

    /// Lets a fault happen now.
    pub fn strike(&mut self, fault: Fault) {
        self.plan.faults.push(Waiting {
            planned: PlannedFault {
                when: Trigger::At(0),
                what: fault,
            },
            seen: 0,
            done: false,
        });
        self.fire(self.plan.faults.len() - 1);
    }

    /// A decisive event happened on a node: faults may wait for it.
    pub(super) fn decisive(&mut self, node: usize, event: Decisive) {
        if self.plan.faults.is_empty() {
            return;
        }
        for index in self.plan.event(node, event) {
            self.fire(index);
        }
    }

    /// The moment of a planned fault has come.
    pub(super) fn fire(&mut self, index: usize) {
        let Some(waiting) = self.plan.faults.get_mut(index) else {
            return;
        };
        if waiting.done || self.phase != Phase::Safety {
            return;
        }
        waiting.done = true;
        let PlannedFault {
            when: waiting_for,
            what: fault,
        } = waiting.planned.clone();
        let kind = fault.kind();
        self.tally.fault(kind).fired += 1;
        if !self.allows(&fault) {
            self.tally.fault(kind).refused += 1;
            self.trace_line(|| What::Fault(format!("refused by the budget: {fault:?}")));
            return;
        }
        self.trace_line(|| What::Fault(format!("{fault:?}")));
        self.engine.fold(FAULT_MARK);
        self.engine.fold(u64::try_from(index).unwrap_or(u64::MAX));
        let at_operation = matches!(waiting_for, Trigger::Storage { .. }) && ends_process(&fault);
        match self.inject(&fault) {
            Effect::Now => {
                self.tally.fault(kind).effective += 1;
                if at_operation {
                    self.tally.fault(CRASH_AT_OPERATION).effective += 1;
                }
            }
            Effect::Later => {}
            Effect::None => self.tally.fault(kind).refused += 1,
        }
    }

    /// Whether a planned fault will happen when its moment comes.
    pub(super) fn will_fire(&self, index: usize) -> bool {
        let waiting = self.plan.faults.get(index).filter(|fault| !fault.done);
        self.phase == Phase::Safety
            && waiting.is_some_and(|waiting| self.allows(&waiting.planned.what))
    }

    fn allows(&self, fault: &Fault) -> bool {
        let lossy = self.plan.lossy;
        let budget = self.plan.budget;
        budget.is_none_or(|budget| budget.allows(fault, lossy))
            && fault.node().is_none_or(|node| node < self.hosts.len())
    }

    /// Ends all faults: machines are on, processes started, disks and links well.
    pub fn heal(&mut self) {
        let now = self.engine.now();
        self.network.heal();
        self.release_cuts();
        for node in 0..self.hosts.len() {
            let host = &mut self.hosts[node];
            host.device.heal();
            host.clock.heal(now);
            host.refusing = Door::default();
            host.hanging = Door::default();
            host.armed = None;
            if host.status == Status::Off {
                host.status = Status::Down;
            }
            if host.paused_until.is_some() {
                host.paused_until = Some(now);
                self.resume(node);
            }
            self.arm(node);
            if !self.hosts[node].offline.is_empty() {
                // What an error took offline comes back with a restart, as an operator would try.
                let damage = None;
                self.stop(
                    node,
                    Return {
                        down_nanos: 1_000_000,
                        damage,
                    },
                );
            }
            if !self.hosts[node].is_running() {
                self.return_after(node, 1_000_000);
            }
        }
        self.trace_line(|| What::Fault("all faults end".to_owned()));
    }

    /// Returns who has a role now.
    ///
    /// Nobody is asked: a stale leader counts until a newer one shows.
    fn aim(&self, at: Aim) -> Option<usize> {
        let mut found: Option<(Epoch, usize)> = None;
        let places = self.jury.ghost().places();
        let mut probe = Probe::default();
        for (node, host) in self.hosts.iter().enumerate() {
            let Some(machine) = host.machine.as_ref() else {
                continue;
            };
            machine.probe(&mut probe);
            let epoch = match at {
                Aim::Controller => {
                    let quorum = probe.quorum;
                    (quorum.leader == Some(host.seat.id)).then_some(quorum.epoch)
                }
                Aim::Leader { place } => {
                    let place = Place(place % places.len().max(1));
                    let name = (place.0 < places.len()).then(|| places.partition(place))?;
                    let mut partitions = probe.partitions.iter();
                    let led = partitions.find(|known| known.leads && known.partition == *name);
                    led.map(|known| known.leader_epoch)
                }
            };
            if let Some(epoch) = epoch
                && found.is_none_or(|(newest, _)| epoch > newest)
            {
                found = Some((epoch, node));
            }
        }
        found.map(|(_, node)| node)
    }

    fn inject(&mut self, fault: &Fault) -> Effect {
        match fault {
            Fault::Aimed { at, fault } => match self.aim(*at) {
                Some(node) => {
                    let fault = fault.as_ref().clone().moved_to(node);
                    self.trace_line(|| What::Fault(format!("aimed: {fault:?}")));
                    self.inject(&fault)
                }
                None => Effect::None,
            },
            Fault::Crash { node, down_ms } => self.crash(*node, millis(*down_ms)),
            Fault::PowerLoss {
                node,
                down_ms,
                survival,
            } => self.lose_power(*node, millis(*down_ms), *survival),
            Fault::PowerLossAll { down_ms, survival } => {
                let mut effect = Effect::None;
                for node in 0..self.hosts.len() {
                    if let Effect::Now = self.lose_power(node, millis(*down_ms), *survival) {
                        effect = Effect::Now;
                    }
                }
                effect
            }
            Fault::Pause { node, for_ms } => self.pause(*node, millis(*for_ms)),
            Fault::CleanStop { node, down_ms } => self.stop(
                *node,
                Return {
                    down_nanos: millis(*down_ms),
                    damage: None,
                },
            ),
            Fault::Wipe { node, down_ms } => {
                let effect = self.crash(*node, millis(*down_ms));
                let host = &mut self.hosts[*node];
                host.device.wipe(host.seat.config.log_dirs);
                self.plan.lossy += 1;
                self.node_changed(*node, NodeChange::Wiped);
                effect
            }
            Fault::Damage {
                node,
                damage,
                file,
                down_ms,
                clean,
            } => self.stop_and_damage(*node, *damage, file, millis(*down_ms), *clean),
            Fault::Disk { node, fault } => self.arm_disk(*node, fault),
            Fault::Clock { node, fault } => self.upset_clock(*node, *fault),
            Fault::Link { node, fault } => self.upset_links(*node, *fault),
            Fault::Cut { cut, for_ms } => {
                let until = self.engine.now().plus_millis(*for_ms);
                self.network.cut(*cut, until);
                self.engine.schedule(until, Happening::CutOver);
                Effect::Now
            }
        }
    }

    /// Lets what was blocked by cuts that are over go on its way.
    pub(super) fn release_cuts(&mut self) {
        for (at, arrival) in self.network.release(self.engine.now()) {
            self.schedule_arrival(at, arrival);
        }
    }

    fn crash(&mut self, node: usize, down_nanos: u64) -> Effect {
        if !self.hosts[node].is_running() {
            return Effect::None;
        }
        self.end_operations(node);
        self.lose_process(node, false);
        self.node_changed(node, NodeChange::Crashed);
        self.return_after(node, down_nanos);
        Effect::Now
    }

    fn lose_power(&mut self, node: usize, down_nanos: u64, survival: Survival) -> Effect {
        let now = self.engine.now();
        // A crashed process on a machine that is on still has its page cache to lose (B46 needs that).
        if self.hosts[node].status == Status::Off {
            return Effect::None;
        }
        self.end_operations(node);
        let before = self.log_view(node);
        let loss = self.hosts[node].device.lose_power(now, survival);
        self.lose_process(node, true);
        for (kind, lost) in [(UNSYNCED_LOSS, loss.files), (ENTRY_LOST, loss.entries)] {
            if lost > 0 {
                self.tally.fault(kind).effective += 1;
            }
        }
        let before = &before;
        self.node_changed(node, NodeChange::LostPower { before, loss });
        self.return_after(node, down_nanos);
        Effect::Now
    }

    fn pause(&mut self, node: usize, nanos: u64) -> Effect {
        let now = self.engine.now();
        let host = &mut self.hosts[node];
        if !host.is_running() || host.is_paused(now) {
            return Effect::None;
        }
        host.paused_until = Some(now.plus_nanos(nanos));
        self.engine.schedule_in(nanos, Happening::Resume { node });
        Effect::Now
    }

    fn stop(&mut self, node: usize, back: Return) -> Effect {
        let host = &mut self.hosts[node];
        if host.status != Status::Ready {
            return Effect::None;
        }
        host.status = Status::Stopping;
        host.stopping = Some(back);
        let incarnation = host.incarnation;
        let too_long = Happening::StopTooLong { node, incarnation };
        self.engine.schedule_in(STOP_PATIENCE_NANOS, too_long);
        self.node_changed(node, NodeChange::StopAsked);
        // A fault may strike between two outputs of one step: what it asks for comes after all of them.
        let asked = Happening::StopAsked { node, incarnation };
        self.engine.schedule_in(0, asked);
        Effect::Now
    }

    pub(super) fn stop_asked(&mut self, node: usize, incarnation: u64) {
        if self.hosts[node].incarnation == incarnation {
            self.feed(node, seedlog_core::broker::Input::Stop);
        }
    }

    fn stop_and_damage(
        &mut self,
        node: usize,
        damage: Damage,
        file: &Glob,
        down_nanos: u64,
        clean: bool,
    ) -> Effect {
        if clean {
            let damage = Some((damage, file.clone()));
            return match self.stop(node, Return { down_nanos, damage }) {
                Effect::Now | Effect::Later => Effect::Later,
                Effect::None => Effect::None,
            };
        }
        // What is down already, or without power, goes bad as well.
        self.crash(node, down_nanos);
        if self.damage(node, damage, file) {
            Effect::Now
        } else {
            Effect::None
        }
    }

    /// Damages a file of a node that is down.
    pub(super) fn damage(&mut self, node: usize, damage: Damage, file: &Glob) -> bool {
        let disk = &mut self.hosts[node].device.disk;
        let Some(done) = disk.damage(damage, file, &mut self.chance) else {
            return false;
        };
        self.node_changed(node, NodeChange::Damaged(&done));
        true
    }

    fn arm_disk(&mut self, node: usize, fault: &PlannedDiskFault) -> Effect {
        let now = self.engine.now();
        let device = &mut self.hosts[node].device;
        let fault = match fault {
            PlannedDiskFault::FailSync { file, times } => DiskFault::FailSync {
                file: file.clone(),
                times: *times,
            },
            PlannedDiskFault::FailWrite {
                file,
                times,
                no_space,
                short,
            } => DiskFault::FailWrite {
                file: file.clone(),
                times: *times,
                kind: PlannedDiskFault::write_fault(*no_space),
                short: *short,
            },
            PlannedDiskFault::FailRead { file, times } => DiskFault::FailRead {
                file: file.clone(),
                times: *times,
            },
            PlannedDiskFault::LoseWrite { file } => DiskFault::LoseWrite { file: file.clone() },
            PlannedDiskFault::Lie { for_ms } => DiskFault::Lie {
                until: now.plus_millis(*for_ms),
            },
            PlannedDiskFault::Stall { for_ms, syncs_only } => DiskFault::Stall {
                until: now.plus_millis(*for_ms),
                syncs_only: *syncs_only,
            },
            PlannedDiskFault::Full { room, for_ms } => {
                device.limit_room(Some(*room));
                self.engine
                    .schedule_in(millis(*for_ms), Happening::RoomAgain { node });
                return Effect::Later;
            }
        };
        device.arm(fault);
        Effect::Later
    }

    fn upset_clock(&mut self, node: usize, fault: ClockFault) -> Effect {
        let now = self.engine.now();
        let is_running = self.hosts[node].is_running();
        let clock = &mut self.hosts[node].clock;
        match fault {
            ClockFault::Jump { by_ms } => clock.jump(by_ms),
            ClockFault::Drift { ppm } => clock.drift(now, ppm),
            ClockFault::Strobe {
                by_ms,
                period_ms,
                for_ms,
            } => clock.strobe(by_ms, millis(period_ms), now.plus_millis(for_ms)),
            // A monotonic clock that nobody reads can stand still unnoticed.
            ClockFault::Stall { .. } if !is_running => return Effect::None,
            ClockFault::Stall { for_ms } => clock.stall(now, now.plus_millis(for_ms)),
        }
        self.hosts[node].armed = None;
        self.arm(node);
        Effect::Now
    }

    fn upset_links(&mut self, node: usize, fault: LinkFault) -> Effect {
        let now = self.engine.now();
        let end = End::Node(node);
        let until = |for_ms: u64| -> SimTime { now.plus_millis(for_ms) };
        match fault {
            LinkFault::Reset => {
                let news = self.network.reset(now, end);
                let effect = if news.is_empty() {
                    Effect::None
                } else {
                    Effect::Now
                };
                for (at, arrival) in news {
                    self.schedule_arrival(at, arrival);
                }
                return effect;
            }
            LinkFault::HalfOpen => {
                if self.network.mute(end) == 0 {
                    return Effect::None;
                }
            }
            LinkFault::Refuse { for_ms } => {
                self.hosts[node].refusing = Door::shut_until(until(for_ms));
                return Effect::Later;
            }
            LinkFault::Hang { for_ms } => {
                self.hosts[node].hanging = Door::shut_until(until(for_ms));
                return Effect::Later;
            }
            LinkFault::Slow { by_ms, for_ms } => {
                self.network.slow(end, until(for_ms), millis(by_ms));
            }
        }
        Effect::Now
    }
}

/// Whether a fault changed something.
enum Effect {
    Now,
    /// When its operation, its connection or the end of its process comes; it is counted then.
    Later,
    None,
}

const fn millis(millis: u64) -> u64 {
    millis.saturating_mul(1_000_000)
}

const FAULT_MARK: u64 = 0x6661_756c_7400;
/// How long a supervisor waits for an orderly stop before it kills the process.
const STOP_PATIENCE_NANOS: u64 = 60_000_000_000;
