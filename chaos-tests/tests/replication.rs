//! Three brokers, three copies, two of which have what is committed: what a cluster keeps, and what it may lose.

use seedlog_chaos_tests::seeds::{allowed, check, effective};
use seedlog_sim::{
    disk::Survival,
    history::Acks,
    network::{Cut, Ends},
    plan::{Aim, Fault, LinkFault},
    report::Report,
    scenario::{CONTROL_PLANE, Producers, Rule, Scenario},
};

const UNSYNCED: &str = "unsynced record lost by power loss";
const FAILOVER: &str = "record of a deposed leader that nobody else had";

/// Failures are noticed soon, so that a run of half a minute sees several of them through.
fn scenario(name: &str, rule: Rule) -> Scenario {
    Scenario::new("replication", name)
        .brokers(3)
        .property("broker.session.timeout.ms", "2000")
        .property("broker.heartbeat.interval.ms", "300")
        .property("replica.lag.time.max.ms", "5000")
        .topic("orders", 2, rule)
        .replication(3, 2)
        .producers(Producers::new(2, Acks::All))
        .readers(1)
        .lasting_ms(30_000)
}

fn leader(place: usize, fault: Fault) -> Fault {
    Fault::Aimed {
        at: Aim::Leader { place },
        fault: Box::new(fault),
    }
}

fn controller(fault: Fault) -> Fault {
    Fault::Aimed {
        at: Aim::Controller,
        fault: Box::new(fault),
    }
}

fn crash(down_ms: u64) -> Fault {
    Fault::Crash { node: 0, down_ms }
}

const fn cut(from: Ends, to: Ends, for_ms: u64) -> Fault {
    Fault::Cut {
        cut: Cut {
            from,
            to,
            listener: None,
        },
        for_ms,
    }
}

fn leaders_changed(reports: &[Report]) -> u64 {
    reports
        .iter()
        .map(|report| report.tally.leader_changes)
        .sum()
}

/// Without a fault every write is answered and found again, on every copy; nothing is lost and no leader changes.
#[test]
fn healthy_cluster_keeps_everything() {
    let scenario = scenario("healthy_cluster_keeps_everything", Rule::Durable);
    let reports = check(1, &scenario);
    assert!(reports.iter().all(|r| r.tally.acknowledged > 500));
    assert!(reports.iter().all(|r| r.findings.allowed.is_empty()));
    assert_eq!(leaders_changed(&reports), 0);
}

/// acks=-1 waits for all in-sync replicas: a leader that dies takes nothing along that was acknowledged.
#[test]
fn leader_crash_loses_nothing_that_all_acknowledged() {
    let scenario = (1..=4).fold(
        scenario(
            "leader_crash_loses_nothing_that_all_acknowledged",
            Rule::Replicated,
        ),
        |s, time| s.fault_at(time * 6_000, leader(0, crash(3_000))),
    );
    let reports = check(1, &scenario);
    assert!(leaders_changed(&reports) > 0);
    assert_eq!(allowed(&reports, UNSYNCED) + allowed(&reports, FAILOVER), 0);
}

/// acks=1 waits for the leader alone: what only a leader has that is cut off from the other brokers is lost with its leadership,
/// and the loss is seen.
#[test]
fn deposed_leader_loses_what_only_it_acknowledged() {
    let name = "deposed_leader_loses_what_only_it_acknowledged";
    let scenario = scenario(name, Rule::Durable)
        .producers(Producers::new(2, Acks::Leader))
        .fault_at(8_000, cut(Ends::Node(0), Ends::Nodes, 8_000))
        .fault_at(8_000, cut(Ends::Nodes, Ends::Node(0), 8_000));
    let reports = check(1, &scenario);
    assert!(leaders_changed(&reports) > 0);
    assert!(
        allowed(&reports, FAILOVER) > 0,
        "an allowed loss must be seen"
    );
}

/// A controller that nobody hears gives up; another one takes its place, and nothing acknowledged is lost.
#[test]
fn isolated_controller_is_replaced() {
    let isolated = |s: Scenario, at| {
        s.fault_at(at, controller(cut(Ends::Node(0), Ends::All, 6_000)))
            .fault_at(at, controller(cut(Ends::All, Ends::Node(0), 6_000)))
    };
    let scenario = scenario("isolated_controller_is_replaced", Rule::Durable);
    let scenario = [5_000, 16_000].into_iter().fold(scenario, isolated);
    check(1, &scenario);
}

/// The control plane alone is cut: the broker is fenced, and its leaderships move.
#[test]
fn cut_control_plane_moves_leaderships_and_loses_nothing() {
    let control = |from, to| Fault::Cut {
        cut: Cut {
            from,
            to,
            listener: Some(CONTROL_PLANE),
        },
        for_ms: 7_000,
    };
    let name = "cut_control_plane_moves_leaderships_and_loses_nothing";
    let scenario = (0..3).fold(scenario(name, Rule::Replicated), |s, node| {
        let at = 3_000 + 9_000 * node as u64;
        s.fault_at(at, control(Ends::Node(node), Ends::Nodes))
            .fault_at(at, control(Ends::Nodes, Ends::Node(node)))
    });
    let reports = check(1, &scenario);
    assert!(effective(&reports, "control-cut") > 0);
    assert_eq!(allowed(&reports, UNSYNCED), 0);
}

/// Links that come and go, and links that carry only one way, only delay.
#[test]
fn flapping_and_one_way_links_only_delay() {
    let flapping = (0..20).fold(
        scenario("flapping_and_one_way_links_only_delay", Rule::Durable),
        |s, time| {
            let at = 3_000 + 700 * time;
            s.fault_at(at, cut(Ends::Node(0), Ends::Node(1), 350))
                .fault_at(at, cut(Ends::Node(1), Ends::Node(0), 350))
        },
    );
    let scenario = flapping.fault_at(19_000, cut(Ends::Node(2), Ends::Node(0), 5_000));
    check(1, &scenario);
}

/// A broker that was stopped for longer than every timeout goes on in a cluster that went on without it.
#[test]
fn zombie_harms_nothing() {
    let pause = || Fault::Pause {
        node: 0,
        for_ms: 6_000,
    };
    let scenario = scenario("zombie_harms_nothing", Rule::Replicated)
        .fault_at(4_000, leader(0, pause()))
        .fault_at(14_000, controller(pause()))
        .fault_at(24_000, leader(1, pause()));
    let reports = check(1, &scenario);
    assert!(leaders_changed(&reports) > 0);
}

/// A follower that lags leaves the in-sync replicas, so that writes go on, and comes back when it has caught up.
#[test]
fn lagging_follower_leaves_and_comes_back() {
    let slow = Fault::Link {
        node: 2,
        fault: LinkFault::Slow {
            by_ms: 3_000,
            for_ms: 15_000,
        },
    };
    let scenario = scenario("lagging_follower_leaves_and_comes_back", Rule::Durable)
        .property("replica.lag.time.max.ms", "1000")
        .fault_at(5_000, slow);
    let reports = check(1, &scenario);
    assert!(reports.iter().all(|r| r.tally.acknowledged > 200));
}

/// All brokers restart in good order, one after the other: nothing is lost.
#[test]
fn rolling_restart_loses_nothing() {
    let scenario = (0..3).fold(
        scenario("rolling_restart_loses_nothing", Rule::Replicated)
            .producers(Producers::new(1, Acks::Leader)),
        |s, node| {
            let at = 3_000 + 8_000 * node as u64;
            let down_ms = 500;
            s.fault_at(at, Fault::CleanStop { node, down_ms })
        },
    );
    let reports = check(1, &scenario);
    assert!(effective(&reports, "clean-stop") >= 2);
    assert_eq!(allowed(&reports, UNSYNCED), 0);
}

fn all_lose_power(name: &str, rule: Rule) -> Vec<Report> {
    let loss = |survival| Fault::PowerLossAll {
        down_ms: 200,
        survival,
    };
    let scenario = scenario(name, rule)
        .producers(Producers::new(1, Acks::Leader))
        .fault_at(6_000, loss(Survival::Nothing))
        .fault_at(16_000, loss(Survival::Scattered));
    check(1, &scenario)
}

/// Rule `durable`: all machines lose power at once, and nothing acknowledged is lost.
#[test]
fn power_loss_of_all_loses_nothing_under_durable() {
    let name = "power_loss_of_all_loses_nothing_under_durable";
    let reports = all_lose_power(name, Rule::Durable);
    assert_eq!(allowed(&reports, UNSYNCED), 0);
}

/// Rule `replicated`: when all machines lose power at once, unsynced records are lost, and the loss is seen.
#[test]
fn power_loss_of_all_loses_what_was_unsynced_under_replicated() {
    let name = "power_loss_of_all_loses_what_was_unsynced_under_replicated";
    let reports = all_lose_power(name, Rule::Replicated);
    assert!(
        allowed(&reports, UNSYNCED) > 0,
        "an allowed loss must be seen"
    );
}

/// Rule `replicated`: one machine's power loss is less than `min.insync.replicas` copies, and loses nothing.
#[test]
fn power_loss_of_one_loses_nothing_under_replicated() {
    let loss = |node| Fault::PowerLoss {
        node,
        down_ms: 500,
        survival: Survival::Nothing,
    };
    let name = "power_loss_of_one_loses_nothing_under_replicated";
    let scenario = (0..3).fold(scenario(name, Rule::Replicated), |s, node| {
        s.fault_at(3_000 + 9_000 * node as u64, loss(node))
    });
    let reports = check(1, &scenario);
    assert_eq!(allowed(&reports, UNSYNCED), 0);
}

/// Two of three are gone: nothing is acknowledged by all, and when they are back everything goes on.
#[test]
fn lost_majority_is_regained() {
    let name = "lost_majority_is_regained";
    let scenario = scenario(name, Rule::Durable)
        .fault_at(
            5_000,
            Fault::Crash {
                node: 0,
                down_ms: 6_000,
            },
        )
        .fault_at(
            6_000,
            Fault::Crash {
                node: 1,
                down_ms: 6_000,
            },
        )
        .fault_at(
            18_000,
            Fault::Crash {
                node: 1,
                down_ms: 6_000,
            },
        )
        .fault_at(
            19_000,
            Fault::Crash {
                node: 2,
                down_ms: 6_000,
            },
        );
    check(1, &scenario);
}

/// Readers that read from the replica in their own rack see nothing that a failover takes back (KIP-392).
#[test]
fn follower_reads_survive_a_failover() {
    let scenario = (1..=3).fold(
        scenario("follower_reads_survive_a_failover", Rule::Replicated)
            .racks(&["a", "b", "c"])
            .property(
                "replica.selector.class",
                "org.apache.kafka.common.replica.RackAwareReplicaSelector",
            )
            .follower_readers(3),
        |s, time| s.fault_at(time * 8_000, leader(1, crash(3_000))),
    );
    let reports = check(1, &scenario);
    assert!(leaders_changed(&reports) > 0);
}
