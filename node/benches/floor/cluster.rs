//! Several brokers as processes of their own, and who leads what among them.

use std::{
    fs,
    net::{SocketAddr, TcpListener},
    path::Path,
    process::{Child, Command},
    time::Duration,
};

use bytes::Bytes;
use seedlog_core::protocol::messages::{
    CreatableTopic, CreateTopicsRequestData, MetadataRequestData, MetadataRequestTopic,
    wire::produce_request::{PartitionProduceData, ProduceRequestData, TopicProduceData},
};

use crate::{
    batch::PRODUCE_VERSION,
    client::{Client, topic},
    measure::Usage,
    subject::{BINARY, await_ready},
};

/// Running brokers, killed when dropped; their ids begin at 1.
pub(crate) struct Cluster {
    brokers: Vec<Option<Broker>>,
}

struct Broker {
    process: Child,
    address: SocketAddr,
}

impl Cluster {
    /// Starts brokers in an empty folder and waits until all are ready.
    pub(crate) fn start(count: usize, dir: &Path, settings: &str) -> Self {
        let _ = fs::remove_dir_all(dir);
        let held: Vec<TcpListener> = (0..2 * count)
            .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
            .collect();
        let ports: Vec<SocketAddr> = held.iter().map(|it| it.local_addr().unwrap()).collect();
        drop(held);
        let voters: Vec<String> = (0..count)
            .map(|at| format!("{}@{}", at + 1, ports[2 * at + 1]))
            .collect();
        let replicas = count.min(3);
        let commands = (0..count).map(|at| {
            let folder = dir.join(format!("broker-{}", at + 1));
            fs::create_dir_all(&folder).unwrap();
            let text = format!(
                "process.roles=broker,controller\nnode.id={}\ncontroller.listener.names=CONTROLLER\n\
                 listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
                 listeners=PLAINTEXT://{},CONTROLLER://{}\ncontroller.quorum.voters={}\nlog.dirs={}\n\
                 default.replication.factor={replicas}\nmin.insync.replicas={}\n{settings}",
                at + 1,
                ports[2 * at],
                ports[2 * at + 1],
                voters.join(","),
                folder.join("data").display(),
                replicas.min(2),
            );
            let file = folder.join("server.properties");
            fs::write(&file, text).unwrap();
            let mut command = Command::new(BINARY);
            command.arg("start").arg("--config").arg(file);
            command.env("SEEDLOG_LOG", "error");
            command
        });
        // A broker is ready when the others are there: all start before any is waited for.
        let mut starting = Vec::new();
        for command in commands {
            starting.push(std::thread::spawn(|| await_ready(command)));
        }
        let brokers = starting.into_iter().map(|broker| {
            let (process, address) = broker.join().unwrap();
            Some(Broker { process, address })
        });
        Self {
            brokers: brokers.collect(),
        }
    }

    fn running(&self) -> impl Iterator<Item = &Broker> {
        self.brokers.iter().flatten()
    }

    /// What all brokers that run have used so far.
    pub(crate) fn usage(&self) -> Usage {
        let each = self.running().map(|broker| Usage::of(broker.process.id()));
        each.reduce(Usage::plus).unwrap()
    }

    /// Connects to some broker that runs.
    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.running().next().unwrap().address)
    }

    /// Connects to a broker.
    pub(crate) fn connect_to(&self, id: usize) -> Client {
        Client::connect(self.brokers[id - 1].as_ref().unwrap().address)
    }

    /// Whether a broker was not killed.
    pub(crate) fn runs(&self, id: usize) -> bool {
        self.brokers[id - 1].is_some()
    }

    /// Ends a broker as `kill -9` does.
    pub(crate) fn kill(&mut self, id: usize) {
        let mut broker = self.brokers[id - 1].take().unwrap();
        broker.process.kill().unwrap();
        broker.process.wait().unwrap();
    }

    /// Creates the topic that is produced to.
    pub(crate) fn create_topic(&self, partitions: usize, replicas: usize) {
        let request = CreateTopicsRequestData {
            timeout_ms: 60_000,
            topics: vec![CreatableTopic {
                name: topic(),
                num_partitions: i32::try_from(partitions).unwrap(),
                replication_factor: i16::try_from(replicas).unwrap(),
                ..Default::default()
            }],
            ..Default::default()
        };
        let answer = self.connect().ask(5, &request);
        let codes: Vec<i16> = answer.topics.iter().map(|topic| topic.error_code).collect();
        assert_eq!(codes, [0], "the topic was not created");
    }

    /// Waits until all brokers know that a partition has a leader and all its replicas in sync; the answer is the leader.
    pub(crate) fn await_in_sync(&self, partition: usize, replicas: usize) -> usize {
        let mut clients: Vec<Client> = self
            .running()
            .map(|it| Client::connect(it.address))
            .collect();
        loop {
            let mut leaders = clients.iter_mut().map(|client| {
                let places = places(client);
                let place = places.iter().find(|place| place.partition == partition)?;
                place.leader.filter(|_| place.in_sync == replicas)
            });
            let first = leaders.next().unwrap();
            if let Some(leader) = first
                && leaders.all(|other| other == first)
            {
                return leader;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for broker in self.brokers.iter_mut().flatten() {
            let _ = broker.process.kill();
            let _ = broker.process.wait();
        }
    }
}

/// A partition, as a broker knows it.
pub(crate) struct Place {
    pub(crate) partition: usize,
    pub(crate) leader: Option<usize>,
    pub(crate) in_sync: usize,
}

/// Asks a broker where the topic's partitions are.
pub(crate) fn places(client: &mut Client) -> Vec<Place> {
    let request = MetadataRequestData {
        topics: Some(vec![MetadataRequestTopic {
            name: Some(topic()),
            ..Default::default()
        }]),
        ..Default::default()
    };
    let answer = client.ask(9, &request);
    let partitions = answer.topics.iter().flat_map(|topic| &topic.partitions);
    partitions
        .map(|place| Place {
            partition: usize::try_from(place.partition_index).unwrap(),
            leader: usize::try_from(place.leader_id).ok(),
            in_sync: place.isr_nodes.len(),
        })
        .collect()
}

/// Produces the same batch to partitions with acks=all; the answer is those that acknowledged it.
pub(crate) fn produce(client: &mut Client, partitions: &[usize], batch: &Bytes) -> Vec<usize> {
    let data = |partition: &usize| PartitionProduceData {
        index: i32::try_from(*partition).unwrap(),
        records: Some(batch.clone()),
        ..Default::default()
    };
    let request = ProduceRequestData {
        acks: -1,
        timeout_ms: 1_000,
        topic_data: vec![TopicProduceData {
            name: topic(),
            partition_data: partitions.iter().map(data).collect(),
            ..Default::default()
        }],
        ..Default::default()
    };
    let answer = client.ask(PRODUCE_VERSION, &request);
    let answers = answer
        .responses
        .iter()
        .flat_map(|topic| &topic.partition_responses);
    let acknowledged = answers.filter(|partition| partition.error_code == 0);
    acknowledged
        .map(|partition| usize::try_from(partition.index).unwrap())
        .collect()
}
