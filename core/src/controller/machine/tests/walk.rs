//! A seeded walk through the life of a cluster, with the rules of KIP-966 checked after every committed record.
//!
//! Beside the image it keeps what the rules are for: which replicas hold every committed record of a partition. A
//! partition whose in-sync set is large enough commits after each step, so that all others fall behind; a broker that
//! restarts uncleanly has lost what it had; a leader lets in only who has caught up under its present epoch.

use std::collections::{BTreeMap, BTreeSet};

use rand::Rng;

use super::*;
use crate::controller::{
    image::{ConfigResource, NO_LEADER},
    messages::{
        AlterPartitionRequestData, ElectLeadersRequestData, alter_partition_request as asked,
    },
    records::PartitionChangeV1,
};

type Key = (Uuid, i32);

const BROKERS: i32 = 5;
const STEPS: usize = 400;
const WALKS: u64 = 30;

/// A broker's process.
#[derive(Debug, Default)]
struct Process {
    is_alive: bool,
    wants_to_stop: bool,
    /// Its registration, once that was answered.
    epoch: Option<i64>,
    incarnation: Uuid,
    /// The epoch that its clean marker names.
    clean_epoch: Option<i64>,
}

/// Who a reply is for.
enum Asked {
    Registration(i32),
    Heartbeat(i32),
    Other,
}

struct Walk {
    quorum: Quorum,
    rng: ChaCha12Rng,
    processes: BTreeMap<i32, Process>,
    waiting: BTreeMap<u64, Asked>,
    next_ticket: u64,
    next_incarnation: u8,
    /// Incarnations that stopped cleanly before they began.
    clean: BTreeSet<Uuid>,
    /// Proposals on their way.
    delayed: Vec<AlterPartitionRequestData>,
    /// The broker epoch and the partition epoch under which a leader once said that a replica has caught up.
    caught_up: BTreeSet<(Key, NodeId, i64, i32)>,
    asked_unclean: BTreeSet<Key>,
    shadow: MetadataImage,
    checked: usize,
    /// The replicas that hold every committed record.
    complete: BTreeMap<Key, BTreeSet<NodeId>>,
    unclean: usize,
    refused: usize,
}

impl Walk {
    fn new(seed: u64, planted: PlantedSet) -> Self {
        let mut quorum = Quorum::begun();
        quorum.controller.planted = planted;
        let processes = (1..=BROKERS).map(|id| (id, Process::default())).collect();
        Self {
            quorum,
            rng: ChaCha12Rng::seed_from_u64(seed),
            processes,
            waiting: BTreeMap::new(),
            next_ticket: 1,
            next_incarnation: 1,
            clean: BTreeSet::new(),
            delayed: Vec::new(),
            caught_up: BTreeSet::new(),
            asked_unclean: BTreeSet::new(),
            shadow: MetadataImage::new(),
            checked: 0,
            complete: BTreeMap::new(),
            unclean: 0,
            refused: 0,
        }
    }

    /// Brings the cluster up.
    fn begin(&mut self) {
        for id in 1..=BROKERS {
            self.start_broker(id);
        }
        self.commit();
        self.time_goes_on();
        self.commit();
        self.ask(Asked::Other, set_config("", "min.insync.replicas", "2"));
        for _ in 0..6 {
            self.change_topics();
        }
        self.commit();
    }

    fn below(&mut self, bound: usize) -> usize {
        let drawn = self.rng.next_u64() % u64::try_from(bound.max(1)).unwrap();
        usize::try_from(drawn).unwrap()
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn some_broker(&mut self) -> i32 {
        1 + i32::try_from(self.below(5)).unwrap()
    }

    fn ask(&mut self, asked: Asked, request: ControllerRequest) {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.waiting.insert(ticket, asked);
        self.quorum.ask_only(ticket, request);
    }

    fn step(&mut self) {
        match self.below(40) {
            0..=8 => self.time_goes_on(),
            9 => self.crash(),
            10 => self.stop(),
            11..=14 => self.start(),
            15..=27 => self.propose(),
            28..=31 => self.deliver(),
            32 | 33 => self.configure(),
            34 => self.change_topics(),
            35..=38 => self.elect(),
            _ => self.lose_the_lead(),
        }
        if self.chance(60) {
            self.quorum.turn();
        }
        if self.chance(70) {
            self.commit();
        }
    }

    fn commit(&mut self) {
        let _ = self.quorum.commit();
        self.check();
        self.take_replies();
    }

    fn take_replies(&mut self) {
        for (ticket, reply) in std::mem::take(&mut self.quorum.replies) {
            match (self.waiting.remove(&ticket).unwrap(), reply) {
                (Asked::Registration(id), ControllerReply::RegisterBroker(reply))
                    if reply.error_code == 0 =>
                {
                    self.processes.get_mut(&id).unwrap().epoch = Some(reply.broker_epoch);
                }
                (Asked::Heartbeat(id), ControllerReply::BrokerHeartbeat(reply)) => {
                    let process = self.processes.get_mut(&id).unwrap();
                    if reply.error_code == 0 && reply.should_shut_down && process.wants_to_stop {
                        process.is_alive = false;
                        process.clean_epoch = process.epoch.take();
                    }
                }
                (_, ControllerReply::AlterPartition(reply)) => {
                    let partitions = reply.topics.iter().flat_map(|topic| &topic.partitions);
                    self.refused += partitions.filter(|it| it.error_code != 0).count();
                }
                _ => {}
            }
        }
    }

    fn time_goes_on(&mut self) {
        let millis = u64::try_from(self.below(3000)).unwrap();
        self.quorum.now = self.quorum.now.plus_millis(millis);
        for id in 1..=BROKERS {
            let process = &self.processes[&id];
            if let (true, Some(epoch)) = (process.is_alive, process.epoch)
                && self.chance(90)
            {
                let request = BrokerHeartbeatRequestData {
                    want_shut_down: self.processes[&id].wants_to_stop,
                    ..heartbeat_of(id, epoch, self.quorum.controller.committed_end() - 1)
                };
                self.ask(
                    Asked::Heartbeat(id),
                    ControllerRequest::BrokerHeartbeat(request),
                );
            }
        }
    }

    fn crash(&mut self) {
        let id = self.some_broker();
        let process = self.processes.get_mut(&id).unwrap();
        if process.is_alive {
            process.is_alive = false;
            process.epoch = None;
            process.clean_epoch = None;
        }
    }

    fn stop(&mut self) {
        let id = self.some_broker();
        self.processes.get_mut(&id).unwrap().wants_to_stop = true;
    }

    fn start(&mut self) {
        let id = self.some_broker();
        self.start_broker(id);
    }

    fn start_broker(&mut self, id: i32) {
        let process = self.processes.get_mut(&id).unwrap();
        if process.epoch.is_some() {
            return;
        }
        if !process.is_alive {
            process.is_alive = true;
            process.wants_to_stop = false;
            process.incarnation = Uuid([self.next_incarnation; 16]);
            // The marker of a clean stop counts once; the image says which registration it must name.
            if let Some(epoch) = process.clean_epoch
                && self
                    .shadow
                    .broker(NodeId(id))
                    .is_some_and(|known| known.epoch == epoch)
            {
                self.clean.insert(process.incarnation);
            }
            self.next_incarnation += 1;
        }
        let request = BrokerRegistrationRequestData {
            incarnation_id: process.incarnation.into(),
            previous_broker_epoch: process.clean_epoch.unwrap_or(-1),
            ..registration_of(id, 0)
        };
        self.ask(
            Asked::Registration(id),
            ControllerRequest::RegisterBroker(request),
        );
    }

    fn keys(&self) -> Vec<Key> {
        let keys = |topic: &std::sync::Arc<crate::controller::image::TopicImage>| {
            let id = topic.id();
            (0..topic.partition_count()).map(move |number| (id, number))
        };
        self.shadow.topics().flat_map(keys).collect()
    }

    fn partition_of<'image>(
        image: &'image MetadataImage,
        key: &Key,
    ) -> Option<&'image PartitionImage> {
        image.topic_by_id(key.0)?.partition(key.1)
    }

    /// A leader proposes another in-sync set: now, or in a while.
    fn propose(&mut self) {
        let keys = self.keys();
        if keys.is_empty() {
            return;
        }
        let key = keys[self.below(keys.len())];
        let partition = Self::partition_of(&self.shadow, &key).unwrap().clone();
        let leader = partition.leader;
        let Some(leader_epoch) = self
            .processes
            .get(&leader.0)
            .and_then(|process| process.epoch)
        else {
            return;
        };
        let mut isr = vec![];
        for id in &partition.replicas {
            let process = &self.processes[&id.0];
            let (is_member, is_alive) = (partition.isr.contains(id), process.is_alive);
            let epoch = process.epoch.filter(|_| is_alive);
            let stays = if is_member { 70 } else { 60 };
            if let Some(epoch) = epoch
                && (*id == leader || self.chance(stays))
            {
                isr.push((*id, epoch));
            }
        }
        let recovering = partition.leader_recovering && self.chance(30);
        let member = |(id, epoch): &(NodeId, i64)| asked::BrokerState {
            broker_id: id.0,
            broker_epoch: *epoch,
            ..asked::BrokerState::default()
        };
        let request = AlterPartitionRequestData {
            broker_id: leader.0,
            broker_epoch: leader_epoch,
            topics: vec![asked::TopicData {
                topic_id: key.0.into(),
                partitions: vec![asked::PartitionData {
                    partition_index: key.1,
                    leader_epoch: partition.leader_epoch.0,
                    partition_epoch: partition.partition_epoch,
                    new_isr_with_epochs: isr.iter().map(member).collect(),
                    leader_recovery_state: i8::from(recovering),
                    ..asked::PartitionData::default()
                }],
                ..asked::TopicData::default()
            }],
            ..AlterPartitionRequestData::default()
        };
        let caught_up = isr
            .into_iter()
            .map(|(id, epoch)| (key, id, epoch, partition.partition_epoch));
        self.caught_up.extend(caught_up);
        self.delayed.push(request);
        if self.chance(50) {
            self.deliver();
        }
    }

    fn deliver(&mut self) {
        if !self.delayed.is_empty() {
            let at = self.below(self.delayed.len());
            let request = if self.chance(90) {
                self.delayed.remove(at)
            } else {
                self.delayed[at].clone()
            };
            self.ask(Asked::Other, ControllerRequest::AlterPartition(request, 3));
        }
    }

    fn configure(&mut self) {
        let names: Vec<String> = self
            .shadow
            .topics()
            .map(|topic| topic.name().to_string())
            .collect();
        if names.is_empty() {
            return;
        }
        let name = names[self.below(names.len())].clone();
        let min_isr = (1 + self.below(3)).to_string();
        let request = match self.below(4) {
            0 => set_config("", "min.insync.replicas", &min_isr),
            1 => set_config(
                &name,
                UNCLEAN_LEADER_ELECTION,
                ["true", "false"][self.below(2)],
            ),
            _ => set_config(&name, "min.insync.replicas", &min_isr),
        };
        self.ask(Asked::Other, request);
    }

    fn change_topics(&mut self) {
        let name = ["a", "b", "c"][self.below(3)];
        let request = if self.shadow.topic(name).is_some() && self.chance(10) {
            let request = DeleteTopicsRequestData {
                topic_names: vec![wire_string(name)],
                timeout_ms: 1000,
                ..DeleteTopicsRequestData::default()
            };
            ControllerRequest::DeleteTopics(request, 5)
        } else {
            let replication_factor = 1 + i16::try_from(self.below(3)).unwrap();
            ControllerRequest::CreateTopics(CreateTopicsRequestData {
                topics: vec![CreatableTopic {
                    name: wire_string(name),
                    num_partitions: 3,
                    replication_factor,
                    ..CreatableTopic::default()
                }],
                ..CreateTopicsRequestData::default()
            })
        };
        self.ask(Asked::Other, request);
    }

    fn elect(&mut self) {
        let election_type = i8::from(self.chance(10));
        if election_type == 1 {
            self.asked_unclean = self.keys().into_iter().collect();
        }
        let request = ElectLeadersRequestData {
            election_type,
            topic_partitions: None,
            ..ElectLeadersRequestData::default()
        };
        self.ask(Asked::Other, ControllerRequest::ElectLeaders(request));
    }

    /// Another controller takes over; what was not committed is lost, or is committed after all.
    fn lose_the_lead(&mut self) {
        let end = usize::try_from(self.quorum.controller.committed_end()).unwrap();
        self.quorum.controller.resign();
        self.quorum.drain();
        if self.chance(50) {
            self.quorum.log.truncate(end);
        } else {
            let rest = self.quorum.log[end..].to_vec();
            let base = Offset::try_from(end).unwrap();
            let _ = self
                .quorum
                .controller
                .replay_committed(base, &rest)
                .unwrap();
        }
        self.check();
        self.take_replies();
        self.quorum.lead();
    }

    fn min_isr(&self, key: &Key) -> usize {
        let topic = self.shadow.topic_by_id(key.0).unwrap();
        let own = self.shadow.topic_configs(topic.name().as_str());
        let all = self.shadow.configs(&ConfigResource::all_brokers());
        let text = own
            .get("min.insync.replicas")
            .or_else(|| all.get("min.insync.replicas"));
        let asked = text.map_or(1, |text| text.parse().unwrap());
        asked.min(topic.partitions()[0].replicas.len())
    }

    /// Replays what was committed since, record by record.
    fn check(&mut self) {
        let end = usize::try_from(self.quorum.controller.committed_end()).unwrap();
        while self.checked < end {
            let record = self.quorum.log[self.checked].clone();
            match &record {
                Record::PartitionChange(change) => self.check_change(change),
                Record::RegisterBroker(registration) => {
                    let before = self.shadow.broker(registration.broker_id);
                    let is_new =
                        before.is_none_or(|it| it.incarnation_id != registration.incarnation_id);
                    let _ = self.shadow.replay(&record).unwrap();
                    if is_new {
                        let offset = i64::try_from(self.checked).unwrap();
                        assert_eq!(registration.broker_epoch, offset, "the epoch is the offset");
                        self.check_restart(registration.broker_id, registration.incarnation_id);
                    }
                }
                _ => {
                    let _ = self.shadow.replay(&record).unwrap();
                }
            }
            self.checked += 1;
            self.commit_everywhere();
        }
        assert_eq!(&self.shadow, self.quorum.controller.committed());
    }

    /// A new incarnation is in sync with nothing; one that may have lost records is not eligible either.
    fn check_restart(&mut self, id: NodeId, incarnation: Uuid) {
        let is_clean = self.clean.contains(&incarnation);
        for key in self.keys() {
            let partition = Self::partition_of(&self.shadow, &key).unwrap();
            assert!(!partition.isr.contains(&id));
            assert!(is_clean || !partition.elr.contains(&id), "UncleanExclusion");
            if !is_clean && let Some(complete) = self.complete.get_mut(&key) {
                complete.remove(&id);
            }
        }
    }

    fn check_change(&mut self, change: &PartitionChangeV1) {
        let key = (change.topic_id, change.partition_id);
        let before = Self::partition_of(&self.shadow, &key).unwrap().clone();
        let told = self.shadow.replay(&change.clone().into()).unwrap();
        let after = Self::partition_of(&self.shadow, &key).unwrap().clone();
        let min_isr = self.min_isr(&key);
        let context = format!("{before:?}\n{change:?}\n{after:?}\nmin ISR {min_isr}");
        assert_eq!(
            after.partition_epoch,
            before.partition_epoch + 1,
            "{context}"
        );
        let new_epoch = before.leader_epoch.0 + i32::from(change.leader.is_some());
        assert_eq!(after.leader_epoch.0, new_epoch, "{context}");
        assert!(
            change.leader.is_none_or(|leader| leader != before.leader),
            "{context}"
        );
        assert_eq!(after.leader == NO_LEADER, after.isr.is_empty(), "{context}");
        let isr: BTreeSet<NodeId> = after.isr.iter().copied().collect();
        let elr: BTreeSet<NodeId> = after.elr.iter().copied().collect();
        assert!(
            after.leader == NO_LEADER || isr.contains(&after.leader),
            "{context}"
        );
        assert_eq!(
            isr.len() + elr.len(),
            after.isr.len() + after.elr.len(),
            "{context}"
        );
        assert!(isr.is_disjoint(&elr), "{context}");
        assert!(
            isr.union(&elr).all(|id| after.replicas.contains(id)),
            "{context}"
        );
        assert!(elr.is_empty() || isr.len() < min_isr, "{context}");
        if let Some(leader) = change.leader.filter(|leader| *leader != NO_LEADER) {
            let is_active = self.shadow.broker(leader).is_some_and(|it| it.is_active());
            assert!(is_active, "LeaderElected: {context}");
        }
        self.check_completeness(key, &before, &after, &told);
    }

    /// Whoever is in sync or eligible holds every committed record, unless they were given up.
    fn check_completeness(
        &mut self,
        key: Key,
        before: &PartitionImage,
        after: &PartitionImage,
        told: &Change,
    ) {
        let context = format!("{before:?}\n{after:?}");
        let isr: BTreeSet<NodeId> = after.isr.iter().copied().collect();
        let elr: BTreeSet<NodeId> = after.elr.iter().copied().collect();
        let complete = self
            .complete
            .entry(key)
            .or_insert_with(|| before.isr.iter().copied().collect());
        if matches!(told, Change::LeaderElectedUncleanly { .. }) {
            let allowed = self
                .shadow
                .topic_configs(self.shadow.topic_by_id(key.0).unwrap().name().as_str());
            let is_allowed = allowed
                .get(UNCLEAN_LEADER_ELECTION)
                .is_some_and(|it| it == "true")
                || self.asked_unclean.contains(&key)
                || before.last_known_elr == [after.leader];
            assert!(is_allowed, "UncleanExclusion: {context}");
            *complete = BTreeSet::from([after.leader]);
            self.unclean += 1;
        } else {
            for id in isr.iter().filter(|id| !before.isr.contains(id)) {
                let epoch = self.shadow.broker(*id).map_or(-1, |it| it.epoch);
                if before.leader == after.leader
                    && self
                        .caught_up
                        .contains(&(key, *id, epoch, before.partition_epoch))
                {
                    complete.insert(*id);
                }
            }
        }
        assert!(
            isr.union(&elr).all(|id| complete.contains(id)),
            "StrongIsr {complete:?}: {context}"
        );
    }

    /// Commits a record in each partition that can: who is not in sync falls behind.
    fn commit_everywhere(&mut self) {
        for key in self.keys() {
            let min_isr = self.min_isr(&key);
            let partition = Self::partition_of(&self.shadow, &key).unwrap();
            let isr: BTreeSet<NodeId> = partition.isr.iter().copied().collect();
            let complete = self.complete.entry(key).or_insert_with(|| isr.clone());
            if partition.leader != NO_LEADER && isr.len() >= min_isr {
                assert!(
                    isr.is_subset(complete),
                    "StrongIsr {partition:?} {complete:?}"
                );
                *complete = isr;
            }
        }
    }

    /// When all work is done, nobody unfit is in sync, and whoever can lead without a loss does.
    fn check_rest(&mut self) {
        while self.quorum.turn() {
            self.commit();
        }
        self.commit();
        let image = self.quorum.controller.committed();
        for key in self.keys() {
            let partition = Self::partition_of(image, &key).unwrap();
            let is_active = |id: &NodeId| image.broker(*id).is_some_and(|it| it.is_active());
            assert!(partition.isr.iter().all(is_active), "{partition:?}");
            let could_lead = partition.elr.iter().any(is_active);
            assert!(
                partition.leader != NO_LEADER || !could_lead,
                "{partition:?}"
            );
        }
        let mut latecomer = MetadataImage::new();
        for record in image.to_snapshot_records() {
            let _ = latecomer.replay(&record).unwrap();
        }
        assert_eq!(&latecomer, image, "replay(snapshot) = replay(log)");
        assert_eq!(latecomer.state_hash(), self.shadow.state_hash());
    }
}

/// Goes one walk.
fn walk(seed: u64, planted: PlantedSet) -> Walk {
    let mut walk = Walk::new(seed, planted);
    walk.begin();
    for _ in 0..STEPS {
        walk.step();
    }
    walk.check_rest();
    walk
}

#[test]
fn rules_of_in_sync_sets_hold_on_every_walk() {
    let (mut unclean, mut refused, mut changes) = (0, 0, 0);
    for seed in 0..WALKS {
        let walk = walk(seed, PlantedSet::NONE);
        let is_change = |record: &&Record| matches!(record, Record::PartitionChange(_));
        changes += walk.quorum.log.iter().filter(is_change).count();
        unclean += walk.unclean;
        refused += walk.refused;
    }
    // A walk that never comes to these would prove little.
    assert!(
        changes > 1000 && unclean > 40 && refused > 200,
        "{changes} changes, {unclean} unclean elections, {refused} refusals"
    );
}

#[cfg(feature = "planted-bugs")]
#[test]
fn walk_finds_bugs_that_others_had() {
    use crate::planted::Planted;
    for bug in [Planted::B19, Planted::B20, Planted::B21] {
        let goes_wrong = |seed: &u64| {
            let planted = PlantedSet::only(bug);
            std::panic::catch_unwind(|| walk(*seed, planted).unclean).is_err()
        };
        assert!((0..30).any(|seed| goes_wrong(&seed)), "{}", bug.id());
    }
}
