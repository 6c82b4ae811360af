//! What many replicated partitions cost three brokers: to be made, to be kept while nothing happens, and to lose a leader.
//!
//! Some file systems (ext4) search long for a free inode while many files have just been deleted, and making partitions is
//! making files: so nothing is deleted before all is measured, and a run that follows another within minutes is slower.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;

use crate::{
    Plan,
    batch::batch,
    client::Client,
    cluster::{Cluster, places, produce},
    report::{median, sorted},
};

/// Measures once for each session timeout: Kafka's default, and a short one.
pub(crate) fn run(plan: &Plan, scratch: &Path) {
    let partitions = plan.failover;
    println!("\nthree brokers, {partitions} partitions of three copies");
    let dir = scratch.join(format!("failover-{}", std::process::id()));
    for session_ms in [9_000, 3_000] {
        println!("broker.session.timeout.ms={session_ms}");
        measure(session_ms, partitions, &dir.join(session_ms.to_string()));
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

fn measure(session_ms: u64, partitions: usize, dir: &Path) {
    // As in Kafka's defaults, a session outlasts four heartbeats.
    let settings = format!(
        "broker.session.timeout.ms={session_ms}\nbroker.heartbeat.interval.ms={}\n",
        session_ms * 2 / 9
    );
    let begin = Instant::now();
    let mut cluster = Cluster::start(3, dir, &settings);
    println!(
        "  started on empty folders within {:.2} s",
        begin.elapsed().as_secs_f64()
    );
    println!("  idle without partitions: {}", idle(&cluster));

    let batch = batch(1024);
    let begin = Instant::now();
    let before = cluster.usage();
    cluster.create_topic(partitions, 3);
    let created = begin.elapsed();
    let all: Vec<usize> = (0..partitions).collect();
    let first = await_acknowledged(&cluster, &all, &batch, begin);
    let cpu = cluster.usage().cpu.saturating_sub(before.cpu);
    println!(
        "  created within {:.2} s; each had acknowledged a batch after {:.2} s; {:.2} CPU-s",
        created.as_secs_f64(),
        first.last().copied().unwrap_or_default(),
        cpu.as_secs_f64()
    );
    await_all_in_sync(&cluster, partitions);
    println!("  idle with {partitions} partitions: {}", idle(&cluster));

    let lost = places(&mut cluster.connect());
    // The broker that leads the first partition is as good as any.
    let victim = lost[0].leader.unwrap();
    let led: Vec<usize> = lost
        .iter()
        .filter(|place| place.leader == Some(victim))
        .map(|place| place.partition)
        .collect();
    let begin = Instant::now();
    cluster.kill(victim);
    let before = cluster.usage();
    let again = await_acknowledged(&cluster, &led, &batch, begin);
    let cpu = cluster.usage().cpu.saturating_sub(before.cpu);
    println!(
        "  after kill -9 of the leader of {}: the first acknowledged again after {:.2} s, half after {:.2} s, all after {:.2} s; {:.2} CPU-s",
        led.len(),
        again[0],
        median(&again),
        again[again.len() - 1],
        cpu.as_secs_f64()
    );
}

/// Processor time of all brokers while nobody asks them anything.
fn idle(cluster: &Cluster) -> String {
    thread::sleep(Duration::from_secs(2));
    let before = cluster.usage();
    let begin = Instant::now();
    thread::sleep(IDLE);
    let elapsed = begin.elapsed().as_secs_f64();
    let after = cluster.usage();
    let cpu = after.cpu.saturating_sub(before.cpu).as_secs_f64();
    let sleeps = after.sleeps.saturating_sub(before.sleeps);
    format!(
        "{:.2} % of a core for all brokers, {:.0} wake-ups a second, {:.1} MiB",
        cpu / elapsed * 100.0,
        sleeps as f64 / elapsed,
        after.rss_kib as f64 / 1024.0
    )
}

/// Produces to partitions until each has acknowledged a batch; when they did, in seconds and sorted.
fn await_acknowledged(
    cluster: &Cluster,
    wanted: &[usize],
    batch: &Bytes,
    since: Instant,
) -> Vec<f64> {
    let mut waiting = wanted.to_vec();
    let mut times = Vec::new();
    let mut clients: Vec<Option<Client>> = (0..3).map(|_| None).collect();
    while !waiting.is_empty() {
        assert!(
            since.elapsed() < PATIENCE,
            "{} partitions acknowledge nothing",
            waiting.len()
        );
        let leaders = places(&mut cluster.connect());
        for id in (1..=3).filter(|id| cluster.runs(*id)) {
            let led: Vec<usize> = leaders
                .iter()
                .filter(|place| place.leader == Some(id) && waiting.contains(&place.partition))
                .map(|place| place.partition)
                .collect();
            if led.is_empty() {
                continue;
            }
            let client = clients[id - 1].get_or_insert_with(|| cluster.connect_to(id));
            let acknowledged = produce(client, &led, batch);
            let time = since.elapsed().as_secs_f64();
            times.extend(acknowledged.iter().map(|_| time));
            waiting.retain(|partition| !acknowledged.contains(partition));
        }
        thread::sleep(Duration::from_millis(5));
    }
    sorted(times.into_iter())
}

fn await_all_in_sync(cluster: &Cluster, partitions: usize) {
    let begin = Instant::now();
    loop {
        let places = places(&mut cluster.connect());
        if places.len() == partitions && places.iter().all(|place| place.in_sync == 3) {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "replicas stay behind");
        thread::sleep(Duration::from_millis(20));
    }
}

/// How long it is watched that nothing happens.
const IDLE: Duration = Duration::from_secs(10);

const PATIENCE: Duration = Duration::from_secs(120);
