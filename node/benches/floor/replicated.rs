//! What replication costs: the same batches to one broker, and to three that each keep a copy, both with acks=all.

use std::{path::Path, time::Instant};

use crate::{
    Plan,
    batch::Request,
    cluster::Cluster,
    measure::Sample,
    report::{median, sorted},
};

/// When a batch is answered, as the setting that chooses it.
const RULES: [(&str, i64); 2] = [("replicated", i64::MAX), ("durable", 1)];

/// Measures rounds under both flush rules.
pub(crate) fn run(plan: &Plan, scratch: &Path) {
    for (rule, flush_messages) in RULES {
        // A flush takes about as long as writing some hundred batches.
        let bytes = if flush_messages == 1 {
            plan.bytes / 8
        } else {
            plan.bytes
        };
        println!(
            "\nproduce with acks=all, rule {rule}, {IN_FLIGHT} batches of {} KiB in flight: {} rounds of {} MiB",
            plan.request_bytes >> 10,
            plan.rounds,
            bytes >> 20
        );
        let mut samples = [Vec::new(), Vec::new()];
        for round in 0..plan.rounds {
            for turn in 0..2 {
                let at = (turn + round) % 2;
                let sample = measure(COPIES[at], flush_messages, bytes, plan, scratch);
                eprintln!("round {} RF {}: {sample}", round + 1, COPIES[at]);
                samples[at].push(sample);
            }
        }
        print(&samples);
    }
}

fn measure(copies: usize, flush_messages: i64, bytes: u64, plan: &Plan, scratch: &Path) -> Sample {
    let dir = scratch.join(format!("replicated-{}", std::process::id()));
    let settings = format!("log.flush.interval.messages={flush_messages}\n");
    let cluster = Cluster::start(copies, &dir, &settings);
    cluster.create_topic(1, copies);
    let leader = cluster.await_in_sync(0, copies);
    let requests = [Request::new(plan.request_bytes, 0, -1)];
    let mut client = cluster.connect_to(leader);
    client.produce(&requests, bytes / 8, IN_FLIGHT, true);
    let before = cluster.usage();
    let begin = Instant::now();
    let count = client.produce(&requests, bytes, IN_FLIGHT, true);
    let elapsed = begin.elapsed();
    let after = cluster.usage();
    drop(cluster);
    std::fs::remove_dir_all(&dir).unwrap();
    Sample::between(
        &before,
        &after,
        elapsed,
        (count, count * requests[0].bytes.len() as u64),
    )
}

fn print(samples: &[Vec<Sample>; 2]) {
    println!(
        "{:<8} {:>10} {:>12} {:>9} {:>9} {:>14} {:>9}",
        "copies", "CPU-s/GB", "min-max", "to RF 1", "MB/s", "sleeps/request", "RSS MiB"
    );
    for (copies, own) in COPIES.iter().zip(samples) {
        let costs = sorted(own.iter().map(Sample::cpu_per_gb));
        let pairs = || own.iter().zip(&samples[0]);
        let ratio = |pick: fn(&Sample) -> f64| {
            median(&sorted(pairs().map(|(own, one)| pick(own) / pick(one))))
        };
        println!(
            "{:<8} {:>10.3} {:>12} {:>9.2} {:>9.0} {:>14.3} {:>9.1}",
            format!("RF {copies}"),
            median(&costs),
            format!("{:.2}-{:.2}", costs[0], costs[costs.len() - 1]),
            ratio(Sample::cpu_per_gb),
            median(&sorted(own.iter().map(Sample::rate))),
            median(&sorted(own.iter().map(Sample::sleeps_per_request))),
            median(&sorted(
                own.iter().map(|sample| sample.rss_kib as f64 / 1024.0)
            )),
        );
        if *copies > 1 {
            println!(
                "throughput of RF {copies} to RF 1: {:.2}",
                ratio(Sample::rate)
            );
        }
    }
}

/// How many brokers, each of which keeps a copy.
const COPIES: [usize; 2] = [1, 3];

/// Kafka's own clients keep five requests unanswered.
const IN_FLIGHT: usize = 5;
