//! One broker of the model cluster: the real table of partitions with one partition, its fetchers, its fetch sessions and
//! its proposals, on a model disk.

use std::{collections::VecDeque, sync::Arc};

use crate::{
    batch::{
        Batch, BatchBuilder, BatchIter, Compression, CompressionType, NewRecord, ProduceRules,
    },
    ids::{Epoch, NodeId, Offset, TopicName, TopicPartition, Uuid},
    log::tests::disk::{Disk, Draw},
    log::{LogConfig, OpenHint},
    planted::PlantedSet,
    protocol::ErrorCode,
    replication::{
        AckToken, Acknowledged, Acks, AlterPartitionAsk, AppendFailure, Context, FetchAnswer,
        FetchAsk, FetchSessions, FetchWant, FetcherAsk, Fetchers, FlushRule, IsrProposals,
        KnownBroker, LeaderAssignment, NewPartition, OffsetAsk, Outcome, Partition,
        PartitionAltered, PartitionDuty, Partitions, ReplicationConfig, SlotId, TopicIdPartition,
        TopicSettings,
    },
    storage::{Completion, FileOp, FilePath, LogDirId, Owner, StorageOp, StorageQueue},
    time::{Instant, Now, Timestamp},
};

use super::{
    model::{Assigned, Record},
    serving::Serving,
};

pub(super) const KEY: TopicIdPartition = TopicIdPartition {
    topic_id: Uuid([7; 16]),
    partition: 0,
};
const FLUSHER: Owner = Owner(2);

pub(super) fn name() -> TopicPartition {
    TopicPartition {
        topic: TopicName::new("orders"),
        partition: 0,
    }
}

fn dir() -> FilePath {
    FilePath::root(LogDirId(0)).join("orders-0")
}

pub(super) fn config() -> ReplicationConfig {
    ReplicationConfig {
        replica_lag_time_max_ms: 1_500,
        replica_fetch_backoff_ms: 150,
        replica_fetch_wait_max_ms: 200,
    }
}

pub(super) fn settings(rule: FlushRule) -> Arc<TopicSettings> {
    Arc::new(TopicSettings {
        log: Arc::new(LogConfig {
            segment_bytes: 900,
            index_interval_bytes: 200,
            file_delete_delay_ms: 100,
            ..LogConfig::default()
        }),
        produce_rules: ProduceRules::default(),
        rule,
        min_insync_replicas: 2,
        flush_messages: i64::MAX,
        flush_ms: i64::MAX,
    })
}

/// What a broker has on disk beside its logs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks {
    pub(super) recovery_point: Offset,
    pub(super) synced: Offset,
    pub(super) log_start: Offset,
    pub(super) high_watermark: Offset,
}

/// A batch as it lies on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    pub(super) base: Offset,
    pub(super) next: Offset,
    pub(super) epoch: Epoch,
    pub(super) crc: u32,
}

/// Reads what a disk holds from the log start on, up to the first gap: files of a log are written, and removed, in any order.
pub(super) fn content(disk: &Disk, log_start: Offset) -> Vec<Stored> {
    let mut stored: Vec<Stored> = Vec::new();
    for (file, bytes) in disk.files(&dir()) {
        if !file.ends_with(".log") {
            continue;
        }
        for view in BatchIter::new(&bytes, 0).with_crc() {
            let Ok(view) = view else { return stored };
            let header = view.header();
            let (base, next) = (header.base_offset(), header.next_offset().unwrap());
            if next <= log_start {
                continue;
            }
            if stored.last().is_some_and(|last| last.next != base) {
                return stored;
            }
            stored.push(Stored {
                base,
                next,
                epoch: header.partition_leader_epoch(),
                crc: header.crc(),
            });
        }
    }
    stored
}

/// What a broker sends, and what its clients and observers are told.
#[derive(Clone, Debug)]
pub(super) enum Out {
    Fetch(NodeId, FetchAsk),
    Offset(NodeId, OffsetAsk),
    Fetched(Peer, u64, FetchAnswer),
    Alter(AlterPartitionAsk),
    /// The recovery point is to be lowered; then the log may be cut.
    Lower,
    /// The log start is to be written down.
    KeepStart,
    Acknowledged(AckToken, Result<Acknowledged, AppendFailure>),
    /// Something that the invariants are about has moved.
    Moved,
    Storage {
        is_sync: bool,
    },
}

/// Who is to be answered: a broker in one incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Peer {
    pub(super) node: NodeId,
    pub(super) incarnation: u64,
    pub(super) broker_epoch: i64,
}

pub(super) struct Broker {
    pub(super) id: NodeId,
    pub(super) incarnation: u64,
    pub(super) epoch: i64,
    pub(super) partitions: Partitions,
    pub(super) slot: SlotId,
    pub(super) applied: usize,
    pub(super) out: Vec<Out>,
    /// The last things that happened here, for the report of a violation.
    pub(super) trail: VecDeque<String>,
    pub(super) storage: StorageQueue,
    pub(super) waiting: Vec<(u64, StorageOp)>,
    pub(super) fetchers: Fetchers,
    pub(super) sessions: FetchSessions<TopicIdPartition, FetchWant>,
    pub(super) proposals: IsrProposals,
    pub(super) serving: Vec<Serving>,
    pub(super) reads: u64,
    pub(super) draws: Draw,
    pub(super) replicas: Vec<NodeId>,
    pub(super) planted: PlantedSet,
    /// The log has begun anew, and the disk does not say so yet.
    pub(super) keeps_start: bool,
}

pub(super) struct Birth {
    pub(super) id: NodeId,
    pub(super) incarnation: u64,
    pub(super) epoch: i64,
    pub(super) applied: usize,
    pub(super) rule: FlushRule,
    pub(super) planted: PlantedSet,
    pub(super) marks: Marks,
}

pub(super) fn now(ms: u64) -> Now {
    Now {
        instant: Instant::ORIGIN.plus_millis(ms),
        wall: Timestamp::from_millis(1_000_000 + i64::try_from(ms).unwrap()),
    }
}

impl Broker {
    /// Starts with what the metadata log says up to this broker's own registration.
    pub(super) fn new(birth: &Birth, log: &[Record], replicas: &[NodeId]) -> Self {
        let mut partitions = Partitions::new(FLUSHER);
        partitions.configure(config());
        let mut assigned = None;
        let mut brokers = Vec::new();
        for record in &log[..birth.applied] {
            match record {
                Record::Partition(partition) => assigned = Some(partition.clone()),
                Record::Broker { .. } => brokers.push(record),
            }
        }
        let assignment = assignment(assigned.as_ref().unwrap(), birth.id, replicas);
        let slot = partitions
            .add(NewPartition {
                name: name(),
                topic_id: KEY.topic_id,
                root: FilePath::root(LogDirId(0)),
                hint: OpenHint {
                    log_start: birth.marks.log_start,
                    recovery_point: birth.marks.recovery_point,
                    synced: birth.marks.synced,
                    clean: false,
                    fresh: Some(KEY.topic_id),
                },
                settings: settings(birth.rule),
                assignment,
                vouched: false,
            })
            .unwrap();
        let mut broker = Self {
            id: birth.id,
            incarnation: birth.incarnation,
            epoch: birth.epoch,
            partitions,
            slot,
            applied: birth.applied,
            out: Vec::new(),
            trail: VecDeque::new(),
            storage: StorageQueue::default(),
            waiting: Vec::new(),
            fetchers: Fetchers::new(config()),
            sessions: FetchSessions::new(4),
            proposals: IsrProposals::default(),
            serving: Vec::new(),
            reads: 0,
            draws: Draw(birth.incarnation * 7919 + 1),
            replicas: replicas.to_vec(),
            planted: birth.planted,
            keeps_start: false,
        };
        for record in brokers {
            broker.know(0, record);
        }
        broker
    }

    fn know(&mut self, ms: u64, record: &Record) {
        if let Record::Broker {
            node,
            epoch,
            is_active,
        } = record
        {
            let known = KnownBroker {
                epoch: *epoch,
                is_active: *is_active,
            };
            self.step(ms, |partitions, context, _| {
                partitions.set_broker(context, *node, Some(known));
            });
        }
    }

    pub(super) fn open(&mut self, ms: u64, disk: &Disk, high_watermark: Offset) {
        self.step(ms, |partitions, context, slot| {
            partitions.with(context, slot, |partition, _, _| {
                partition.seed_high_watermark(high_watermark);
            });
            partitions.open(context, slot);
        });
        self.turn(ms, disk);
    }

    pub(super) fn partition(&self) -> &Partition {
        self.partitions.get(self.slot).unwrap()
    }

    pub(super) fn step<R>(
        &mut self,
        ms: u64,
        step: impl FnOnce(&mut Partitions, &mut Context<'_>, SlotId) -> R,
    ) -> R {
        let mut context = Context {
            now: now(ms),
            storage: &mut self.storage,
            planted: self.planted,
        };
        step(&mut self.partitions, &mut context, self.slot)
    }

    /// Does all that is due, until nothing is left.
    pub(super) fn turn(&mut self, ms: u64, disk: &Disk) {
        loop {
            let mut is_busy = false;
            while let Some((_, duty)) = self.partitions.poll_duty() {
                is_busy = true;
                self.on_duty(ms, disk, duty);
            }
            while let Some(outcome) = self.partitions.poll_outcome() {
                is_busy = true;
                self.on_outcome(ms, disk, outcome);
            }
            let (instant, planted) = (now(ms).instant, self.planted);
            let partition = self.partitions.get(self.slot).unwrap();
            let ask = self
                .fetchers
                .poll(instant, |_| partition.readiness(instant, planted));
            if let Some((leader, ask)) = ask {
                is_busy = true;
                self.out.push(match ask {
                    FetcherAsk::Fetch(ask) => Out::Fetch(leader, ask),
                    FetcherAsk::Offset(ask) => Out::Offset(leader, ask),
                });
            }
            if let Some(ask) = self.proposals.poll(instant, self.id, self.epoch) {
                is_busy = true;
                self.out.push(Out::Alter(ask));
            }
            if !is_busy {
                break;
            }
        }
        self.partitions.flush(&mut self.storage);
        while let Some(op) = self.storage.pop() {
            let is_sync = matches!(op.op, FileOp::Sync { .. });
            self.waiting.push((disk.tick, op));
            self.out.push(Out::Storage { is_sync });
        }
    }

    fn on_duty(&mut self, ms: u64, disk: &Disk, duty: PartitionDuty) {
        match duty {
            PartitionDuty::Open => {}
            PartitionDuty::Follow { leader } => self.fetchers.follow(self.slot, KEY, leader),
            PartitionDuty::Unfollow => self.fetchers.unfollow(self.slot),
            PartitionDuty::Ask => self.fetchers.wake(self.slot),
            PartitionDuty::ProposeIsr(proposal) => {
                self.proposals.submit(self.slot, KEY, proposal);
            }
            PartitionDuty::LowerRecoveryPoint(_) => self.out.push(Out::Lower),
            PartitionDuty::KeepLogStart => {
                self.keeps_start = true;
                self.out.push(Out::KeepStart);
            }
            PartitionDuty::Serve => self.serve_again(ms, disk),
        }
    }

    fn on_outcome(&mut self, ms: u64, disk: &Disk, outcome: Outcome) {
        match outcome {
            Outcome::Acknowledged(token, result) => {
                self.out.push(Out::Acknowledged(token, result));
            }
            Outcome::Read(id, result) => self.on_read(ms, disk, id, result),
            Outcome::Moved(_) | Outcome::Changed(_) => {
                self.out.push(Out::Moved);
                self.serve_again(ms, disk);
            }
            Outcome::RetentionDue(slot, start) => {
                // The model's checkpoint of log starts is written at once; the disk's owner reads it back from here.
                self.step(ms, |partitions, context, _| {
                    partitions.with(context, slot, |partition, log, effects| {
                        partition.delete_before(log, start, effects);
                    });
                });
                self.out.push(Out::Moved);
                self.serve_again(ms, disk);
            }
            Outcome::SyncFailed(path, fault) => panic!("{path}: {fault}"),
            Outcome::Lookup(..)
            | Outcome::Opened(_)
            | Outcome::Closed(_)
            | Outcome::Unlinked(_) => {}
            Outcome::Told(event) => self.note(ms, format!("{event:?}")),
        }
    }

    pub(super) fn note(&mut self, ms: u64, line: String) {
        if self.trail.len() == 40 {
            self.trail.pop_front();
        }
        self.trail
            .push_back(format!("{ms} ms, {}: {line}", self.id));
    }

    /// Applies the next record of the metadata log.
    pub(super) fn apply(&mut self, ms: u64, disk: &Disk, record: &Record) {
        self.applied += 1;
        match record {
            Record::Broker { .. } => self.know(ms, record),
            Record::Partition(assigned) => {
                let assignment = assignment(assigned, self.id, &self.replicas);
                self.step(ms, |partitions, context, slot| {
                    partitions.with(context, slot, |partition, log, effects| {
                        partition.assign(log, assignment, effects);
                    });
                });
                if self.partition().leadership().is_none() {
                    self.proposals.withdraw(self.slot);
                }
                self.serve_again(ms, disk);
            }
        }
        self.turn(ms, disk);
    }

    pub(super) fn on_timeout(&mut self, ms: u64, disk: &Disk) {
        self.step(ms, |partitions, context, _| partitions.on_timeout(context));
        self.serve_waiting(ms, disk);
        self.turn(ms, disk);
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let parked = self.serving.iter().map(|serving| serving.deadline).min();
        let deadlines = [
            self.partitions.deadline(),
            self.fetchers.deadline(),
            self.proposals.deadline(),
            parked,
        ];
        deadlines.into_iter().flatten().min()
    }

    pub(super) fn produce(&mut self, ms: u64, disk: &Disk, acks: Acks, request: u64) -> bool {
        let batch = batch(request);
        let token = AckToken {
            request,
            topic: 0,
            partition: 0,
        };
        let taken = self.step(ms, |partitions, context, slot| {
            partitions.append(context, slot, batch, acks, token).is_ok()
        });
        self.turn(ms, disk);
        taken
    }

    /// Deletes records below an offset, as a DeleteRecords request does.
    pub(super) fn delete_before(&mut self, ms: u64, disk: &Disk, offset: Offset) {
        self.step(ms, |partitions, context, slot| {
            partitions.with(context, slot, |partition, log, effects| {
                partition.delete_before(log, offset, effects);
            });
        });
        self.out.push(Out::Moved);
        self.serve_again(ms, disk);
        self.turn(ms, disk);
    }

    pub(super) fn cut(&mut self, ms: u64, disk: &Disk) {
        self.step(ms, |partitions, context, slot| {
            partitions.with(context, slot, |partition, log, effects| {
                partition.cut(log, effects);
            });
        });
        self.out.push(Out::Moved);
        self.turn(ms, disk);
    }

    pub(super) fn start_is_durable(&mut self, ms: u64, disk: &Disk) {
        self.keeps_start = false;
        self.step(ms, |partitions, context, slot| {
            partitions.with(context, slot, |partition, log, effects| {
                partition.start_is_durable(log, effects);
            });
        });
        self.turn(ms, disk);
    }

    pub(super) fn on_altered(
        &mut self,
        ms: u64,
        disk: &Disk,
        number: u64,
        answer: Result<&[PartitionAltered], ErrorCode>,
    ) {
        for settled in self.proposals.on_answer(now(ms).instant, number, answer) {
            self.step(ms, |partitions, context, slot| {
                partitions.with(context, slot, |partition, log, effects| {
                    partition.on_isr_answer(log, settled.id, settled.answer, effects);
                });
            });
        }
        self.turn(ms, disk);
    }

    pub(super) fn on_alter_failed(&mut self, ms: u64, disk: &Disk, number: u64) {
        self.proposals.on_failed(now(ms).instant, number);
        self.turn(ms, disk);
    }

    pub(super) fn on_fetched(
        &mut self,
        ms: u64,
        disk: &Disk,
        leader: NodeId,
        number: u64,
        answer: FetchAnswer,
    ) {
        let Some(fetcher) = self.fetchers.fetcher(leader) else {
            return;
        };
        for delivery in fetcher.on_fetched(now(ms).instant, number, answer) {
            self.step(ms, |partitions, context, slot| {
                partitions.with(context, slot, |partition, log, effects| {
                    partition.on_fetched(log, &delivery.sent, &delivery.answer, effects);
                });
            });
        }
        self.turn(ms, disk);
    }

    pub(super) fn on_fetch_failed(&mut self, ms: u64, disk: &Disk, leader: NodeId, number: u64) {
        if let Some(fetcher) = self.fetchers.fetcher(leader) {
            fetcher.on_failed(now(ms).instant, number);
        }
        self.turn(ms, disk);
    }

    pub(super) fn on_leader_offset(
        &mut self,
        ms: u64,
        disk: &Disk,
        leader: NodeId,
        number: u64,
        answer: Result<Offset, ErrorCode>,
    ) {
        let fetcher = self.fetchers.fetcher(leader);
        if let Some((_, question)) = fetcher.and_then(|fetcher| fetcher.on_offset(number)) {
            self.step(ms, |partitions, context, slot| {
                partitions.with(context, slot, |partition, log, effects| {
                    partition.on_leader_offset(log, question, answer, effects);
                });
            });
        }
        self.turn(ms, disk);
    }

    /// Performs one operation of the disk: any whose file has no older one waiting.
    pub(super) fn storage_step(&mut self, ms: u64, disk: &mut Disk, choice: u64) {
        let older = |at: usize| {
            let file = self.waiting[at].1.op.file();
            let closes = matches!(self.waiting[at].1.op, FileOp::Close { .. });
            let is_older = |op: &FileOp| match op {
                // A driver keeps what it is about to sync.
                FileOp::Sync { files, .. } => {
                    closes && files.iter().any(|target| Some(target.file) == file)
                }
                op => op.file() == file,
            };
            file.is_some() && self.waiting[..at].iter().any(|(_, op)| is_older(&op.op))
        };
        let choices: Vec<usize> = (0..self.waiting.len()).filter(|at| !older(*at)).collect();
        if choices.is_empty() {
            return;
        }
        let at = choices[usize::try_from(choice).unwrap() % choices.len()];
        let (submitted, op) = self.waiting.remove(at);
        let result = disk.perform(&op.op, submitted);
        let id = op.id;
        self.step(ms, |partitions, context, _| {
            if id.owner == FLUSHER {
                partitions
                    .on_flushed(context, id, result.map(|_| ()))
                    .unwrap();
            } else if let Some(slot) = SlotId::of(id.owner) {
                partitions.on_completion(context, slot, Completion { id, result });
            }
        });
        self.turn(ms, disk);
    }
}

fn assignment(assigned: &Assigned, local: NodeId, replicas: &[NodeId]) -> LeaderAssignment {
    LeaderAssignment {
        epoch: assigned.epoch,
        partition_epoch: assigned.partition_epoch,
        leader: assigned.leader,
        local,
        replicas: replicas.to_vec(),
        adding: 0,
        isr: assigned.isr.clone(),
    }
}

fn batch(value: u64) -> Batch {
    let mut builder = BatchBuilder::new(Compression::of(CompressionType::None));
    for at in 0..=value % 3 {
        let text = format!("value {value} {at}");
        builder
            .append(&NewRecord {
                timestamp: 1_000,
                key: None,
                value: Some(text.as_bytes()),
                headers: &[],
            })
            .unwrap();
    }
    Batch::split(&builder.build().unwrap()).unwrap()
}
