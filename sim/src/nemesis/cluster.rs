//! The swarm of several brokers: what goes wrong between them, and at whom it is aimed.

use super::{crash, fault, power_loss, skew_nodes, trigger};
use crate::{
    disk::Survival,
    kind::Kind,
    network::{Cut, Ends},
    plan::{Aim, Decisive, Fault, Plan, PlannedFault, Trigger},
    random::{Stream, Streams},
    scenario::{CONTROL_PLANE, Rule, Scenario},
};

/// A kind of fault that a seed of the cluster swarm may have or leave out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClusterKind {
    /// One node goes wrong, as it would alone.
    Node(Kind),
    /// A node and everybody else do not hear each other.
    Isolated,
    /// A node and all other nodes do not hear each other; clients reach it.
    Alone,
    /// Two nodes do not hear each other.
    Pair,
    /// A node does not hear others, or is not heard.
    OneWay,
    /// Only the control plane of a node is cut.
    Control,
    /// A link comes and goes.
    Flapping,
    /// A node stops for longer than every timeout, and goes on.
    Zombie,
    /// All nodes restart in good order, one after the other.
    Rolling,
    /// All machines lose power at once.
    AllPower,
    /// Something happens to the leader of the controller quorum.
    AtController,
    /// Something happens to the leader of a partition.
    AtLeader,
}

const KINDS: &[ClusterKind] = &[
    ClusterKind::Node(Kind::Crash),
    ClusterKind::Node(Kind::PowerLoss),
    ClusterKind::Node(Kind::CrashThenPowerLoss),
    ClusterKind::Node(Kind::Pause),
    ClusterKind::Node(Kind::CleanStop),
    ClusterKind::Node(Kind::RestartStorm),
    ClusterKind::Node(Kind::SyncError),
    ClusterKind::Node(Kind::WriteError),
    ClusterKind::Node(Kind::ReadError),
    ClusterKind::Node(Kind::DiskStall),
    ClusterKind::Node(Kind::DiskFull),
    ClusterKind::Node(Kind::IndexDamage),
    ClusterKind::Node(Kind::Clock),
    ClusterKind::Node(Kind::Link),
    ClusterKind::Isolated,
    ClusterKind::Alone,
    ClusterKind::Pair,
    ClusterKind::OneWay,
    ClusterKind::Control,
    ClusterKind::Flapping,
    ClusterKind::Zombie,
    ClusterKind::Rolling,
    ClusterKind::AllPower,
    ClusterKind::AtController,
    ClusterKind::AtLeader,
];

/// Draws a whole swarm scenario of three or five brokers.
#[must_use]
pub fn cluster_swarm(file: &str, name: &str, seed: u64) -> Scenario {
    let mut stream = Streams::new(seed).stream("cluster-nemesis");
    let stream = &mut stream;
    let brokers = if stream.one_in(4) { 5 } else { 3 };
    let lasting_ms = stream.within(60_000..=66_000);
    let clients = super::clients(stream);
    let mut surroundings = super::surroundings(stream);
    skew_nodes(&mut surroundings, brokers, stream);
    let mut scenario = Scenario::new(file, name)
        .brokers(brokers)
        .lasting_ms(lasting_ms)
        .at_least_acknowledged(600, 240_000)
        .surroundings(surroundings);
    let batch = super::largest_batch(&clients);
    let rules = stream.below(3);
    for topic in 0..stream.within(1..=2) {
        let rule = match rules {
            0 => Rule::Durable,
            1 => Rule::Replicated,
            _ if topic % 2 == 0 => Rule::Durable,
            _ => Rule::Replicated,
        };
        scenario = super::with_topic(scenario, &format!("t{topic}"), rule, batch, stream);
        let (factor, min_isr) =
            *stream.pick(&[(3, 2), (3, 2), (3, 2), (3, 1), (2, 1), (2, 2), (3, 3)]);
        scenario = scenario.replication(factor, min_isr);
    }
    for producers in clients {
        scenario = scenario.producers(producers);
    }
    scenario = scenario.readers(usize::try_from(stream.within(1..=2)).unwrap_or(1));
    if stream.one_in(2) {
        scenario = scenario
            .racks(&["a", "b", "c"])
            .property(
                "replica.selector.class",
                "org.apache.kafka.common.replica.RackAwareReplicaSelector",
            )
            .follower_readers(1);
    }
    if stream.one_in(2) {
        scenario = scenario.operators(1);
    }
    // A connection that went silent is given up well before the judgement.
    scenario = scenario.property("replica.socket.timeout.ms", "3000");
    scenario = with_timeouts(scenario, stream);
    let plan = draw(brokers, lasting_ms, stream);
    scenario.plan(plan)
}

const SESSION: &str = "broker.session.timeout.ms";
const HEARTBEAT: &str = "broker.heartbeat.interval.ms";

/// Shortens what decides how soon a failure is noticed, on most seeds.
fn with_timeouts(scenario: Scenario, stream: &mut Stream) -> Scenario {
    if stream.one_in(5) {
        return scenario;
    }
    let session = stream.magnitude(1_500..=9_000);
    let heartbeat = (session / 5).max(100);
    let lag = stream.magnitude(1_000..=30_000);
    let election = stream.magnitude(500..=2_000);
    let fetch = stream.magnitude(1_000..=3_000);
    let mut chosen = Vec::new();
    for (name, millis) in [
        (SESSION, session),
        (HEARTBEAT, heartbeat),
        ("replica.lag.time.max.ms", lag),
        ("controller.quorum.election.timeout.ms", election),
        ("controller.quorum.fetch.timeout.ms", fetch),
    ] {
        if stream.permille(700) {
            chosen.push((name, millis));
        }
    }
    // A session shorter than the usual time between two heartbeats would end with each of them, faults or not.
    let has = |wanted| chosen.iter().any(|(name, _)| *name == wanted);
    if has(SESSION) && !has(HEARTBEAT) {
        chosen.push((HEARTBEAT, heartbeat));
    }
    chosen
        .into_iter()
        .fold(scenario, |scenario, (name, millis)| {
            scenario.property(name, &millis.to_string())
        })
}

fn draw(nodes: usize, lasting_ms: u64, stream: &mut Stream) -> Plan {
    let kinds = KINDS.iter().copied().filter(|_| stream.permille(300));
    let mut kinds: Vec<ClusterKind> = kinds.collect();
    if kinds.len() < 3 {
        kinds.extend([
            ClusterKind::Isolated,
            ClusterKind::AtLeader,
            ClusterKind::Node(Kind::Crash),
        ]);
    }
    let mut plan = Plan::default();
    let count = usize::try_from(stream.within(14..=32)).unwrap_or(14);
    // Waves of faults leave quiet time between them, in which the cluster gets on its feet.
    let part = lasting_ms / u64::try_from(count).unwrap_or(1).max(1);
    let mut at = 0;
    while plan.faults.len() < count && at < lasting_ms {
        at += stream.within(1..=2 * part);
        let kind = *stream.pick(&kinds);
        add(kind, nodes, at, stream, &mut plan);
    }
    for _ in 0..SURE_FAULTS {
        let at = stream.within(1..=lasting_ms);
        let kind = *stream.pick(&[
            ClusterKind::Node(Kind::Crash),
            ClusterKind::Node(Kind::Pause),
            ClusterKind::Pair,
            ClusterKind::AtLeader,
            ClusterKind::Node(Kind::Link),
        ]);
        add(kind, nodes, at, stream, &mut plan);
    }
    plan
}

fn add(kind: ClusterKind, nodes: usize, at: u64, stream: &mut Stream, plan: &mut Plan) {
    let node = stream.index(nodes);
    let mut push = |when, what| plan.faults.push(PlannedFault { when, what });
    match kind {
        ClusterKind::Node(Kind::CrashThenPowerLoss) => {
            push(Trigger::At(at), crash(node, stream));
            let later = at + stream.magnitude(1..=3_000);
            push(Trigger::At(later), power_loss(node, stream));
        }
        ClusterKind::Node(Kind::RestartStorm) => {
            let mut at = at;
            for _ in 0..stream.within(2..=5) {
                let down_ms = stream.magnitude(1..=50);
                push(Trigger::At(at), Fault::Crash { node, down_ms });
                at += stream.magnitude(50..=3_000);
            }
        }
        ClusterKind::Node(kind) => {
            let what = fault(kind, node, stream);
            push(trigger(kind, node, at, stream), what);
        }
        ClusterKind::Isolated
        | ClusterKind::Alone
        | ClusterKind::Pair
        | ClusterKind::OneWay
        | ClusterKind::Control => {
            let for_ms = stream.magnitude(100..=15_000);
            for cut in cuts(kind, node, nodes, stream) {
                push(Trigger::At(at), Fault::Cut { cut, for_ms });
            }
        }
        ClusterKind::Flapping => flap(node, nodes, at, stream, plan),
        ClusterKind::Zombie => {
            let for_ms = stream.within(5_000..=25_000);
            push(Trigger::At(at), Fault::Pause { node, for_ms });
        }
        ClusterKind::Rolling => {
            let mut at = at;
            for step in 0..nodes {
                let node = (node + step) % nodes;
                let down_ms = stream.magnitude(1..=1_000);
                push(Trigger::At(at), Fault::CleanStop { node, down_ms });
                at += stream.within(1_500..=5_000);
            }
        }
        ClusterKind::AllPower => {
            let what = Fault::PowerLossAll {
                down_ms: stream.magnitude(1..=3_000),
                survival: survival(stream),
            };
            push(Trigger::At(at), what);
        }
        ClusterKind::AtController => push(Trigger::At(at), aimed(Aim::Controller, stream)),
        ClusterKind::AtLeader => {
            let place = stream.index(4);
            let when = at_leaders(node, at, stream);
            push(when, aimed(Aim::Leader { place }, stream));
        }
    }
}

/// A link between two nodes comes and goes.
fn flap(node: usize, nodes: usize, at: u64, stream: &mut Stream, plan: &mut Plan) {
    let cuts = cuts(ClusterKind::Pair, node, nodes, stream);
    let mut at = at;
    for _ in 0..stream.within(3..=8) {
        let for_ms = stream.magnitude(20..=1_500);
        for cut in &cuts {
            plan.faults.push(PlannedFault {
                when: Trigger::At(at),
                what: Fault::Cut { cut: *cut, for_ms },
            });
        }
        at += for_ms + stream.magnitude(20..=1_500);
    }
}

/// When to strike a leader: at some time, or when it matters to it.
fn at_leaders(node: usize, at: u64, stream: &mut Stream) -> Trigger {
    if !stream.one_in(3) {
        return Trigger::At(at);
    }
    Trigger::Event {
        node,
        event: *stream.pick(&[Decisive::HighWatermark, Decisive::BecameLeader]),
        nth: stream.magnitude(1..=200),
    }
}

/// Something that happens to whoever has a role at that moment.
fn aimed(at: Aim, stream: &mut Stream) -> Fault {
    let fault = match stream.below(6) {
        0 | 1 => crash(0, stream),
        2 => power_loss(0, stream),
        3 => Fault::Pause {
            node: 0,
            for_ms: stream.magnitude(500..=15_000),
        },
        4 => Fault::CleanStop {
            node: 0,
            down_ms: stream.magnitude(1..=2_000),
        },
        _ => Fault::Cut {
            cut: Cut {
                from: Ends::Node(0),
                to: Ends::Nodes,
                listener: None,
            },
            for_ms: stream.magnitude(500..=15_000),
        },
    };
    Fault::Aimed {
        at,
        fault: Box::new(fault),
    }
}

fn cuts(kind: ClusterKind, node: usize, nodes: usize, stream: &mut Stream) -> Vec<Cut> {
    let own = Ends::Node(node);
    let other = Ends::Node((node + 1 + stream.index(nodes - 1)) % nodes);
    let cut = |from, to| Cut {
        from,
        to,
        listener: None,
    };
    match kind {
        ClusterKind::Isolated => vec![cut(own, Ends::All), cut(Ends::All, own)],
        ClusterKind::Alone => vec![cut(own, Ends::Nodes), cut(Ends::Nodes, own)],
        ClusterKind::OneWay => {
            let with = *stream.pick(&[other, Ends::Nodes, Ends::All]);
            if stream.one_in(2) {
                vec![cut(own, with)]
            } else {
                vec![cut(with, own)]
            }
        }
        ClusterKind::Control => {
            let control = |from, to| Cut {
                listener: Some(CONTROL_PLANE),
                ..cut(from, to)
            };
            vec![control(own, Ends::Nodes), control(Ends::Nodes, own)]
        }
        _ => vec![cut(own, other), cut(other, own)],
    }
}

fn survival(stream: &mut Stream) -> Survival {
    *stream.pick(&[
        Survival::Mixed,
        Survival::Nothing,
        Survival::Scattered,
        Survival::Prefix,
        Survival::Everything,
    ])
}

/// How many faults a plan has beside those drawn, of kinds that take effect at any moment.
const SURE_FAULTS: u64 = 8;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::budget::Budget;

    #[test]
    fn plan_is_drawn_from_the_seed_alone() {
        let plan = |seed| cluster_swarm("swarm", "swarm", seed).planned().clone();
        assert_eq!(plan(1), plan(1));
        assert_ne!(plan(1), plan(2));
        assert!(plan(1).faults.len() >= 10);
    }

    #[test]
    fn every_kind_is_drawn_and_left_out_over_some_seeds() {
        let kinds_of = |seed| -> BTreeSet<&'static str> {
            let scenario = cluster_swarm("swarm", "swarm", seed);
            let faults = &scenario.planned().faults;
            faults.iter().map(|fault| fault.what.kind()).collect()
        };
        let all: Vec<_> = (0..200).map(kinds_of).collect();
        for kind in ["power-loss-all", "control-cut", "clean-stop"] {
            let with = all.iter().filter(|kinds| kinds.contains(kind)).count();
            assert!(with > 0 && with < 200, "{kind} in {with} of 200");
        }
    }

    #[test]
    fn nothing_drawn_within_the_budget_is_refused_by_it() {
        for seed in 0..200 {
            for fault in &cluster_swarm("swarm", "swarm", seed).planned().faults {
                assert!(Budget::single(true).allows(&fault.what, 0), "{fault:?}");
            }
        }
    }

    #[test]
    fn session_outlasts_several_heartbeats_wherever_it_is_short() {
        let mut short = 0;
        for seed in 0..200 {
            let scenario = cluster_swarm("swarm", "swarm", seed);
            let millis = |name| {
                let value = scenario.properties.get(name)?;
                value.parse::<u64>().ok()
            };
            let Some(session) = millis(SESSION) else {
                continue;
            };
            short += 1;
            let heartbeat = millis(HEARTBEAT).expect("the usual one may be longer");
            assert!(session >= 3 * heartbeat, "{session} and {heartbeat}");
        }
        assert!(short > 50, "{short} of 200");
    }
}
