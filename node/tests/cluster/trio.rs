//! Three nodes as processes of their own, each a broker and a controller.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
    process::ExitStatus,
    thread,
    time::{Duration, Instant},
};

use crate::{
    broker::{Process, Site, free_ports},
    links::Links,
    raw::{Connection, Place, Places},
};

pub(crate) const TOPIC: &str = "load";
pub(crate) const PARTITIONS: i32 = 3;

/// A node, running or not.
#[derive(Debug)]
struct Node {
    site: Site,
    process: Option<Process>,
}

/// Three nodes; their ids are 1, 2 and 3.
#[derive(Debug)]
pub(crate) struct Trio {
    nodes: Vec<Node>,
    /// The topics that were made, with their numbers of partitions.
    topics: Vec<(String, i32)>,
}

/// Where clients find the nodes, by id from 1 on.
pub(crate) type Addresses = Vec<SocketAddr>;

impl Trio {
    /// Sets the nodes up, with proxies between them if there are any, and does not start them.
    pub(crate) fn new(folder: &Path, session_timeout_ms: u64, links: Option<&Links>) -> Self {
        let ports: [SocketAddr; 9] = free_ports();
        let own = |id: usize, listener: usize| ports[3 * (id - 1) + listener];
        let seen = |id: usize, listener: usize| match links {
            None => own(id, listener),
            Some(links) => links.stand_before(id, own(id, listener)),
        };
        let inside: Vec<SocketAddr> = (1..=3).map(|id| seen(id, 1)).collect();
        let voters: Vec<String> = (1..=3).map(|id| format!("{id}@{}", seen(id, 2))).collect();
        let node = |id: usize| {
            let settings = format!(
                "process.roles=broker,controller\nnode.id={id}\ncontroller.listener.names=CONTROLLER\n\
                 listener.security.protocol.map=PLAINTEXT:PLAINTEXT,INSIDE:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
                 listeners=PLAINTEXT://{},INSIDE://{},CONTROLLER://{}\n\
                 advertised.listeners=PLAINTEXT://{},INSIDE://{}\n\
                 inter.broker.listener.name=INSIDE\ncontroller.quorum.voters={}\n\
                 default.replication.factor=3\nmin.insync.replicas=2\nbroker.session.timeout.ms={session_timeout_ms}\n",
                own(id, 0),
                own(id, 1),
                own(id, 2),
                own(id, 0),
                inside[id - 1],
                voters.join(",")
            );
            Node {
                site: Site::with(&folder.join(format!("node-{id}")), own(id, 0), &settings),
                process: None,
            }
        };
        Self {
            nodes: (1..=3).map(node).collect(),
            topics: Vec::new(),
        }
    }

    /// Starts all nodes and makes the topic.
    pub(crate) fn begin(&mut self) {
        self.start(&[1, 2, 3]);
        // Small segments, so that failures also meet rolls.
        self.create(TOPIC, PARTITIONS, &[("segment.bytes", "1048576")]);
    }

    /// Makes a topic of three replicas, and waits until all are in sync.
    pub(crate) fn create(&mut self, topic: &str, partitions: i32, configs: &[(&str, &str)]) {
        let mut connection = Connection::open(self.addresses()[0]).expect("a ready broker accepts");
        let error = connection
            .create_replicated(topic, (partitions, 3), configs)
            .expect("an answer");
        assert_eq!(error, 0, "creating {topic}");
        self.topics.push((topic.to_owned(), partitions));
        self.await_in_sync();
    }

    pub(crate) fn addresses(&self) -> Addresses {
        let nodes = self.nodes.iter();
        nodes.map(|node| node.site.address()).collect()
    }

    /// Starts nodes together, and waits until each is ready.
    pub(crate) fn start(&mut self, ids: &[usize]) {
        for id in ids {
            let node = &mut self.nodes[id - 1];
            assert!(node.process.is_none(), "node {id} runs already");
            node.process = Some(node.site.launch());
        }
        for id in ids {
            let node = &mut self.nodes[id - 1];
            let process = node.process.as_mut().expect("just started");
            assert!(
                process.ready(Duration::from_secs(120)),
                "node {id} was not ready in time; its log is {}",
                node.site.log().display()
            );
        }
    }

    fn process(&self, id: usize) -> &Process {
        let process = self.nodes[id - 1].process.as_ref();
        process.expect("the node runs")
    }

    /// Ends nodes as `kill -9` does.
    pub(crate) fn kill(&mut self, ids: &[usize]) {
        for id in ids {
            let process = self.nodes[id - 1].process.take();
            process.expect("the node runs").kill();
        }
    }

    /// Asks a node to end, and waits for it.
    pub(crate) fn stop(&mut self, id: usize) -> ExitStatus {
        let process = self.nodes[id - 1].process.take();
        process.expect("the node runs").stop()
    }

    pub(crate) fn pause(&self, id: usize) {
        self.process(id).pause();
    }

    pub(crate) fn resume(&self, id: usize) {
        self.process(id).resume();
    }

    /// Where the partitions are, as the first node that answers knows it.
    pub(crate) fn places(&self) -> Option<Places> {
        let mut addresses = self.addresses().into_iter();
        addresses.find_map(|address| places_at(address).ok())
    }

    /// A partition's leader, once all that answer agree on it.
    pub(crate) fn leader(&self, partition: i32) -> usize {
        self.wait_for("a leader", || {
            let place = self.places()?.partitions.get(&partition)?.clone();
            usize::try_from(place.leader?).ok()
        })
    }

    /// Waits until every replica of every partition is in sync, as every running node knows it.
    pub(crate) fn await_in_sync(&self) {
        let whole = |place: &Place| place.leader.is_some() && place.in_sync.len() == 3;
        self.wait_for("all replicas to be in sync", || {
            let running = self.nodes.iter().filter(|node| node.process.is_some());
            for node in running {
                for (topic, partitions) in &self.topics {
                    let places = places_of(topic, node.site.address()).ok()?;
                    let all = usize::try_from(*partitions).ok()? == places.partitions.len();
                    if !(all && places.partitions.values().all(whole)) {
                        return None;
                    }
                }
            }
            Some(())
        });
    }

    fn wait_for<T>(&self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let deadline = Instant::now() + Duration::from_secs(120);
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert!(
                Instant::now() < deadline,
                "waited for {what} for two minutes; last known: {:?}; logs: {}",
                self.places(),
                self.nodes[0].site.log().display()
            );
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// The bytes of a partition's log on a node, of all its segments.
    pub(crate) fn log_bytes(&self, id: usize, partition: i32) -> Vec<u8> {
        let folder = self.nodes[id - 1].site.partition(TOPIC, partition);
        let mut segments: Vec<_> = fs::read_dir(&folder)
            .expect("the partition has a folder")
            .map(|entry| entry.expect("an entry").path())
            .filter(|file| file.extension().is_some_and(|ours| ours == "log"))
            .collect();
        segments.sort();
        let read = |file| fs::read(file).expect("a segment can be read");
        segments.iter().flat_map(read).collect()
    }
}

/// Asks one node where the partitions of the load are.
pub(crate) fn places_at(address: SocketAddr) -> std::io::Result<Places> {
    places_of(TOPIC, address)
}

/// Asks one node where the partitions of a topic are.
pub(crate) fn places_of(topic: &str, address: SocketAddr) -> std::io::Result<Places> {
    debug_assert_eq!(address.ip(), Ipv4Addr::LOCALHOST);
    Connection::open(address)?.places(topic, Duration::from_millis(500))
}
