//! The nemesis: draws from a seed which features, sizes and faults a run has at all, and the fault plan itself.
//!
//! Swarm testing: a run in which every kind of fault happens is one in which few of them happen at a bad moment. Each seed
//! leaves most kinds out, and draws the moments of the rest at decisive events as often as at random times.

use crate::{
    budget::Budget,
    cluster::Surroundings,
    disk::{Damage, Latency, Survival},
    history::Acks,
    network::LinkProfile,
    plan::{
        ClockFault, Decisive, Fault, Glob, LinkFault, Moment, OpKind, Plan, PlannedDiskFault,
        PlannedFault, Trigger,
    },
    random::{Stream, Streams},
    scenario::{Producers, Rule, Scenario},
};

mod cluster;

pub use crate::kind::{CLUSTER_KINDS, KINDS, Kind};
pub use cluster::cluster_swarm;

/// Draws fault plans.
#[derive(Clone, Debug)]
pub struct Nemesis {
    /// How many nodes there are.
    pub nodes: usize,
    /// How long faults may happen, milliseconds.
    pub lasting_ms: u64,
    /// How many faults, at least and at most.
    pub faults: (u64, u64),
    /// The kinds to draw from.
    pub kinds: Vec<Kind>,
}

impl Nemesis {
    /// Draws a plan.
    pub fn draw(&self, stream: &mut Stream) -> Plan {
        let mut plan = Plan::default();
        let (low, high) = self.faults;
        let count = stream.within(low..=high);
        if self.kinds.is_empty() {
            return plan;
        }
        while plan.faults.len() < usize::try_from(count).unwrap_or(usize::MAX) {
            let kind = *stream.pick(&self.kinds);
            let at = stream.within(1..=self.lasting_ms.max(1));
            let node = stream.index(self.nodes);
            self.add(kind, node, at, stream, &mut plan);
        }
        plan
    }

    /// Adds faults that wait for nothing, over the whole time: what waits for a moment that never comes is no test.
    fn add_sure(&self, stream: &mut Stream, plan: &mut Plan) {
        let kinds = self.kinds.iter().copied().filter(|kind| kind.is_sure());
        let kinds: Vec<Kind> = kinds.collect();
        if kinds.is_empty() {
            return;
        }
        let part = self.lasting_ms / SURE_FAULTS;
        for number in 0..SURE_FAULTS {
            let kind = *stream.pick(&kinds);
            let what = fault(kind, stream.index(self.nodes), stream);
            let at = number * part + stream.within(1..=part.max(1));
            let when = Trigger::At(at);
            plan.faults.push(PlannedFault { when, what });
        }
    }

    fn add(&self, kind: Kind, node: usize, at: u64, stream: &mut Stream, plan: &mut Plan) {
        let mut push = |when, what| plan.faults.push(PlannedFault { when, what });
        match kind {
            Kind::CrashThenPowerLoss => {
                let crash = crash(node, stream);
                push(Trigger::At(at), crash);
                let later = at + stream.magnitude(1..=3_000);
                let loss = power_loss(node, stream);
                push(Trigger::At(later), loss);
            }
            Kind::RestartStorm => {
                let mut at = at;
                for _ in 0..stream.within(3..=8) {
                    let down_ms = stream.magnitude(1..=50);
                    push(Trigger::At(at), Fault::Crash { node, down_ms });
                    at += stream.magnitude(1..=400);
                }
            }
            Kind::Crash
            | Kind::PowerLoss
            | Kind::Pause
            | Kind::CleanStop
            | Kind::SyncError
            | Kind::WriteError
            | Kind::ReadError
            | Kind::DiskStall
            | Kind::DiskFull
            | Kind::IndexDamage
            | Kind::Clock
            | Kind::Link => {
                let what = fault(kind, node, stream);
                push(trigger(kind, node, at, stream), what);
            }
        }
    }
}

/// How many faults a plan has that wait for nothing.
const SURE_FAULTS: u64 = 15;

/// Draws a whole swarm scenario: topics, sizes, clients, surroundings and plan.
#[must_use]
pub fn swarm(file: &str, name: &str, seed: u64) -> Scenario {
    let mut stream = Streams::new(seed).stream("nemesis");
    let stream = &mut stream;
    let lasting_ms = stream.within(60_000..=75_000);
    let clients = clients(stream);
    let mut scenario = Scenario::new(file, name)
        .lasting_ms(lasting_ms)
        .at_least_acknowledged(600, 240_000)
        .surroundings(surroundings(stream));
    let batch = largest_batch(&clients);
    let durable = stream.below(3);
    for topic in 0..stream.within(1..=3) {
        let rule = match durable {
            0 => Rule::Durable,
            1 => Rule::Replicated,
            _ if topic % 2 == 0 => Rule::Durable,
            _ => Rule::Replicated,
        };
        scenario = with_topic(scenario, &format!("t{topic}"), rule, batch, stream);
    }
    for producers in clients {
        scenario = scenario.producers(producers);
    }
    scenario = scenario.readers(usize::try_from(stream.within(1..=3)).unwrap_or(1));
    let kinds: Vec<Kind> = Kind::ALL
        .iter()
        .copied()
        .filter(|_| stream.permille(350))
        .collect();
    let mut nemesis = Nemesis {
        nodes: 1,
        lasting_ms,
        faults: (20, 50),
        kinds,
    };
    if !nemesis.kinds.iter().any(|kind| kind.is_sure()) {
        nemesis.kinds.extend([Kind::PowerLoss, Kind::Crash]);
    }
    let mut plan = nemesis.draw(stream);
    nemesis.add_sure(stream, &mut plan);
    scenario.plan(plan)
}

fn with_topic(
    scenario: Scenario,
    name: &str,
    rule: Rule,
    batch: u64,
    stream: &mut Stream,
) -> Scenario {
    let partitions = i32::try_from(stream.within(1..=3)).unwrap_or(1);
    let mut scenario = scenario.topic(name, partitions, rule);
    if !stream.one_in(8) || name == "t0" {
        // Clocks jump by days; a run whose writes are all refused tells little: the first topic takes any time.
        let name = "message.timestamp.after.max.ms";
        scenario = scenario.config(name, &i64::MAX.to_string());
    }
    if stream.permille(800) {
        // A batch that no segment holds is refused for good.
        let bytes = batch + stream.magnitude(64..=65_536);
        scenario = scenario.config("internal.segment.bytes", &bytes.to_string());
    }
    if stream.permille(700) {
        let bytes = stream.magnitude(1..=4_096);
        scenario = scenario.config("index.interval.bytes", &bytes.to_string());
    }
    if stream.permille(150) {
        let bytes = stream.magnitude(4_096..=262_144);
        scenario = scenario.config("retention.bytes", &bytes.to_string());
    }
    if stream.permille(200) {
        scenario = scenario.config("message.timestamp.type", "LogAppendTime");
    }
    scenario
}

fn clients(stream: &mut Stream) -> Vec<Producers> {
    let count = stream.within(1..=4);
    let one = |number| {
        let acks = match stream.below(8) {
            _ if number == 0 => Acks::All,
            0 => Acks::None,
            1..=3 => Acks::Leader,
            _ => Acks::All,
        };
        let most = stream.magnitude(1..=40);
        Producers {
            count: 1,
            acks,
            records: (1, most),
            padding: (1, stream.magnitude(1..=400)),
            pause_ms: (1, stream.magnitude(60..=250)),
            in_flight: usize::try_from(stream.within(1..=5)).unwrap_or(1),
            retries: stream.permille(800),
        }
    };
    (0..count).map(one).collect()
}

fn largest_batch(clients: &[Producers]) -> u64 {
    let sizes = clients.iter().map(|producers| {
        let record = 30 + producers.padding.1;
        100 + producers.records.1 * record
    });
    sizes.max().unwrap_or_default()
}

fn surroundings(stream: &mut Stream) -> Surroundings {
    let mut disks = Latency::default();
    if stream.one_in(4) {
        disks.op = (20_000, 2_000_000);
        disks.sync = (1_000_000, 60_000_000);
    }
    disks.reverts = stream.one_in(2);
    disks.late_permille = u32::try_from(stream.within(0..=500)).unwrap_or(0);
    disks.slow_permille = u32::try_from(stream.within(0..=20)).unwrap_or(0);
    let mut links = LinkProfile::default();
    if stream.one_in(4) {
        links.delay = (500_000, 40_000_000);
    }
    links.slow_permille = u32::try_from(stream.within(0..=30)).unwrap_or(0);
    let skew = i64::try_from(stream.magnitude(1..=10_000_000)).unwrap_or(0);
    let skew = if stream.one_in(2) { skew } else { -skew };
    Surroundings {
        links,
        disks,
        skew_ms: vec![if stream.one_in(3) { skew } else { 0 }],
    }
}

/// Gives each of several nodes a clock of its own that may be wrong.
fn skew_nodes(surroundings: &mut Surroundings, nodes: usize, stream: &mut Stream) {
    if stream.one_in(3) {
        let skew = |_| i64::try_from(stream.magnitude(1..=100_000)).unwrap_or(0) - 50_000;
        surroundings.skew_ms = (0..nodes).map(skew).collect();
    }
}

/// Half of the faults wait for a decisive moment.
fn trigger(kind: Kind, node: usize, at: u64, stream: &mut Stream) -> Trigger {
    if stream.one_in(2) {
        return Trigger::At(at);
    }
    let ends_process = matches!(kind, Kind::Crash | Kind::PowerLoss | Kind::CleanStop);
    if stream.one_in(4) {
        let event = *stream.pick(&[
            Decisive::Ready,
            Decisive::LogOpened,
            Decisive::TailCut,
            Decisive::SegmentRolled,
            Decisive::HighWatermark,
            Decisive::LogStartMoved,
            Decisive::Answered,
        ]);
        return Trigger::Event {
            node,
            event,
            nth: stream.magnitude(1..=200),
        };
    }
    let kind = *stream.pick(&[
        OpKind::Any,
        OpKind::Write,
        OpKind::Write,
        OpKind::Sync,
        OpKind::Sync,
        OpKind::Open,
        OpKind::CreateDir,
        OpKind::Rename,
        OpKind::Truncate,
        OpKind::Remove,
    ]);
    let file = file(stream);
    let nth = match kind {
        OpKind::Any | OpKind::Write | OpKind::Sync => stream.magnitude(1..=2_000),
        _ => stream.magnitude(1..=30),
    };
    let moment = match stream.below(3) {
        _ if !ends_process => Moment::Before,
        0 => Moment::Before,
        1 => Moment::Within(u32::try_from(stream.within(0..=1_000)).unwrap_or(0)),
        _ => Moment::After,
    };
    Trigger::Storage {
        node,
        kind,
        file,
        nth,
        moment,
    }
}

fn fault(kind: Kind, node: usize, stream: &mut Stream) -> Fault {
    let disk = |fault| Fault::Disk { node, fault };
    match kind {
        Kind::Crash | Kind::RestartStorm | Kind::CrashThenPowerLoss => crash(node, stream),
        Kind::PowerLoss => power_loss(node, stream),
        Kind::Pause => Fault::Pause {
            node,
            for_ms: stream.magnitude(10..=15_000),
        },
        Kind::CleanStop => Fault::CleanStop {
            node,
            down_ms: stream.magnitude(1..=2_000),
        },
        Kind::SyncError => disk(PlannedDiskFault::FailSync {
            file: file(stream),
            times: u32::try_from(stream.within(1..=2)).unwrap_or(1),
        }),
        Kind::WriteError => disk(PlannedDiskFault::FailWrite {
            file: file(stream),
            times: 1,
            no_space: stream.one_in(2),
            short: stream.one_in(2),
        }),
        Kind::ReadError => disk(PlannedDiskFault::FailRead {
            file: file(stream),
            times: 1,
        }),
        Kind::DiskStall => disk(PlannedDiskFault::Stall {
            for_ms: stream.magnitude(20..=8_000),
            syncs_only: stream.one_in(2),
        }),
        Kind::DiskFull => disk(PlannedDiskFault::Full {
            room: stream.magnitude(1..=20_000),
            for_ms: stream.magnitude(100..=10_000),
        }),
        Kind::IndexDamage => Fault::Damage {
            node,
            damage: *stream.pick(&[Damage::FlipBit, Damage::Cut, Damage::Zero, Damage::Remove]),
            file: Glob::new(stream.pick::<&str>(&["*.index", "*.timeindex"])),
            down_ms: stream.magnitude(1..=500),
            clean: stream.one_in(2),
        },
        Kind::Clock => Fault::Clock {
            node,
            fault: clock(stream),
        },
        Kind::Link => Fault::Link {
            node,
            fault: link(stream),
        },
    }
}

fn crash(node: usize, stream: &mut Stream) -> Fault {
    Fault::Crash {
        node,
        down_ms: stream.magnitude(1..=2_000),
    }
}

fn power_loss(node: usize, stream: &mut Stream) -> Fault {
    Fault::PowerLoss {
        node,
        down_ms: stream.magnitude(1..=4_000),
        survival: *stream.pick(&[
            Survival::Mixed,
            Survival::Mixed,
            Survival::Nothing,
            Survival::Scattered,
            Survival::Prefix,
            Survival::Everything,
        ]),
    }
}

fn file(stream: &mut Stream) -> Glob {
    Glob::new(stream.pick::<&str>(&[
        "*",
        "*",
        "*.log",
        "*.log",
        "*index",
        "*checkpoint*",
        "*__cluster_metadata*",
        "*partition.metadata*",
        "*quorum-state*",
    ]))
}

fn clock(stream: &mut Stream) -> ClockFault {
    let far = i64::try_from(stream.magnitude(1..=100_000_000)).unwrap_or(0);
    let by_ms = if stream.one_in(2) { far } else { -far };
    match stream.below(4) {
        0 => ClockFault::Drift {
            ppm: i64::try_from(stream.magnitude(1..=100_000)).unwrap_or(0) * by_ms.signum(),
        },
        1 => ClockFault::Strobe {
            by_ms,
            period_ms: stream.magnitude(1..=1_000),
            for_ms: stream.magnitude(10..=10_000),
        },
        2 => ClockFault::Stall {
            for_ms: stream.magnitude(10..=5_000),
        },
        _ => ClockFault::Jump { by_ms },
    }
}

fn link(stream: &mut Stream) -> LinkFault {
    let for_ms = stream.magnitude(10..=5_000);
    match stream.below(5) {
        0 | 1 => LinkFault::Reset,
        2 => LinkFault::HalfOpen,
        3 if stream.one_in(2) => LinkFault::Refuse { for_ms },
        3 => LinkFault::Hang { for_ms },
        _ => LinkFault::Slow {
            by_ms: stream.magnitude(1..=400),
            for_ms,
        },
    }
}

/// Draws a plan that goes beyond what is promised: lying disks, wiped disks, damaged logs.
pub fn beyond(nodes: usize, lasting_ms: u64, budget: Budget, stream: &mut Stream) -> Plan {
    let mut plan = Plan::default();
    if !budget.beyond {
        return plan;
    }
    for _ in 0..stream.within(1..=4) {
        let node = stream.index(nodes);
        let what = match stream.below(4) {
            0 => Fault::Disk {
                node,
                fault: PlannedDiskFault::Lie {
                    for_ms: stream.magnitude(100..=20_000),
                },
            },
            1 => Fault::Disk {
                node,
                fault: PlannedDiskFault::LoseWrite { file: file(stream) },
            },
            2 => Fault::Wipe {
                node,
                down_ms: stream.magnitude(1..=1_000),
            },
            _ => Fault::Damage {
                node,
                damage: *stream.pick(&[Damage::FlipBit, Damage::Cut, Damage::Zero]),
                file: Glob::new("*.log"),
                down_ms: stream.magnitude(1..=500),
                clean: stream.one_in(2),
            },
        };
        let when = Trigger::At(stream.within(1..=lasting_ms.max(1)));
        plan.faults.push(PlannedFault { when, what });
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plan_is_drawn_from_the_seed_alone() {
        let plan = |seed| swarm("swarm", "swarm", seed).planned().clone();
        assert_eq!(plan(1), plan(1));
        assert_ne!(plan(1), plan(2));
        assert!(plan(1).faults.len() >= 20);
    }

    #[test]
    fn every_kind_is_drawn_and_left_out_over_some_seeds() {
        let kinds_of = |seed| -> std::collections::BTreeSet<&'static str> {
            let scenario = swarm("swarm", "swarm", seed);
            let faults = &scenario.planned().faults;
            faults.iter().map(|fault| fault.what.kind()).collect()
        };
        let all: Vec<_> = (0..200).map(kinds_of).collect();
        for kind in [
            "crash",
            "power-loss",
            "pause",
            "clean-stop",
            "failed-sync",
            "write-error",
            "read-error",
            "disk-stall",
            "disk-full",
            "bit-flip",
            "file-lost",
            "clock-jump",
            "clock-stall",
            "link-reset",
            "half-open",
        ] {
            let with = all.iter().filter(|kinds| kinds.contains(kind)).count();
            assert!(with > 0 && with < 200, "{kind} in {with} of 200");
        }
    }

    #[test]
    fn nothing_drawn_within_the_budget_is_refused_by_it() {
        for seed in 0..200 {
            for fault in &swarm("swarm", "swarm", seed).planned().faults {
                assert!(Budget::single(true).allows(&fault.what, 0), "{fault:?}");
            }
        }
    }
}
