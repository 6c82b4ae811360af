//! kill -9 under load.

use std::{collections::BTreeMap, thread, time::Duration};

use crate::{
    client::{Client, records},
    process::{Broker, FlushRule, folder},
};

/// Offset and value of acknowledged records.
type Acknowledged = Vec<(i64, Vec<u8>)>;

/// Produces until the broker is gone.
fn produce_until_killed(
    broker: &Broker,
    round: u32,
    producer: u32,
) -> thread::JoinHandle<Acknowledged> {
    let address = broker.address;
    thread::spawn(move || {
        let mut acknowledged = Acknowledged::new();
        let mut client = Client::connect(address);
        for number in 0_u32.. {
            let mut value =
                format!("round {round} producer {producer} number {number} ").into_bytes();
            // Sizes around those of pages and blocks.
            value.resize(value.len() + (number as usize * 997) % 9000, b'.');
            match client.produce(TOPIC, &value) {
                Ok(offset) => acknowledged.push((offset, value)),
                Err(_) => break,
            }
        }
        acknowledged
    })
}

/// Reads the whole log: the value of the record at each offset.
fn read_all(client: &mut Client) -> BTreeMap<i64, Vec<u8>> {
    let mut values = BTreeMap::new();
    loop {
        let from = values.last_key_value().map_or(0, |(last, _)| last + 1);
        let batches = client.fetch(TOPIC, from).unwrap();
        if batches.is_empty() {
            return values;
        }
        for (offset, value) in records(&batches) {
            if offset >= from {
                values.insert(offset, value);
            }
        }
    }
}

/// Fifty kills at different moments; after each, everything that was ever acknowledged is there, byte for byte, at its offset.
#[test]
fn nothing_acknowledged_is_lost_by_kills() {
    let dir = folder();
    let mut acknowledged = BTreeMap::new();
    for round in 0..KILLS {
        let broker = Broker::start(dir.path(), FlushRule::Durable);
        let mut client = Client::connect(broker.address);
        client.await_topic(TOPIC);
        let producers = [0, 1, 2].map(|producer| produce_until_killed(&broker, round, producer));
        thread::sleep(Duration::from_millis(20 + u64::from(round * 37 % 200)));
        broker.kill();
        for producer in producers {
            for (offset, value) in producer.join().unwrap() {
                let before = acknowledged.insert(offset, value);
                assert!(before.is_none(), "offset {offset} was given away twice");
            }
        }
        if round % 10 == 9 || round == 0 {
            check(dir.path(), &acknowledged);
        }
    }
    assert!(
        acknowledged.len() > 500,
        "too little load: {}",
        acknowledged.len()
    );
}

fn check(dir: &std::path::Path, acknowledged: &BTreeMap<i64, Vec<u8>>) {
    let broker = Broker::start(dir, FlushRule::Durable);
    let kept = read_all(&mut Client::connect(broker.address));
    for (offset, value) in acknowledged {
        let kept = kept.get(offset);
        assert!(
            kept == Some(value),
            "acknowledged record {offset} is lost or changed"
        );
    }
    assert_eq!(broker.stop().0, Some(0));
}

const KILLS: u32 = 50;

const TOPIC: &str = "killed";
