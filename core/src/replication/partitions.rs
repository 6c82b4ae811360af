//! All partitions of this broker: found by name, driven by completions, flushed together.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use super::{
    AckToken, Acknowledged, Acks, AppendFailure, AppendRefusal, FetchRefusal, FollowerFetch,
    KnownBroker, KnownBrokers, NewPartition, Partition, PartitionDuty, PartitionState,
    ReplicationConfig, SlotId,
};
use crate::{
    batch::Batch,
    event::Event,
    ids::{NodeId, Offset, TopicName, TopicPartition, Uuid},
    log::{
        FetchSlice, FlushMark, FoundOffset, Log, LogContext, LogEvent, LookupOutcome, LookupTarget,
        ReadError, ReadId, ReadOutcome, ReadRequest,
    },
    logdir::Flusher,
    planted::{Planted, PlantedSet},
    storage::{Completion, FilePath, OpId, Owner, StorageFault, StorageQueue},
    time::{Instant, Now},
};

/// What the partitions need from the broker in every step.
#[derive(Debug)]
pub struct Context<'a> {
    /// The time of the input being handled.
    pub now: Now,
    /// Where storage operations go.
    pub storage: &'a mut StorageQueue,
    /// Switched-on historical bugs.
    pub planted: PlantedSet,
}

/// What a step did to one partition.
#[derive(Debug, Default)]
pub struct Effects {
    pub(super) acknowledged: Vec<(AckToken, Result<Acknowledged, AppendFailure>)>,
    pub(super) reads: Vec<(ReadId, Result<FetchSlice, ReadError>)>,
    pub(super) lookups: Vec<(ReadId, Result<Option<FoundOffset>, ReadError>)>,
    pub(super) events: Vec<Event>,
    pub(super) duties: Vec<PartitionDuty>,
    pub(super) opened: bool,
    pub(super) moved: bool,
    pub(super) changed: bool,
    pub(super) dirty: bool,
    pub(super) synced: bool,
    pub(super) gone: bool,
    pub(super) closed: bool,
    pub(super) unlinked: bool,
    pub(super) retention: Option<Offset>,
    pub(super) sync_failed: Option<(FilePath, StorageFault)>,
}

/// Something that a request waits for.
#[derive(Debug)]
pub enum Outcome {
    /// An append was acknowledged, or failed.
    Acknowledged(AckToken, Result<Acknowledged, AppendFailure>),
    /// A read that had to go to the disk is done.
    Read(ReadId, Result<FetchSlice, ReadError>),
    /// A look-up that had to go to the disk is done.
    Lookup(ReadId, Result<Option<FoundOffset>, ReadError>),
    /// A log is open, or will never be.
    Opened(SlotId),
    /// A high watermark moved.
    Moved(SlotId),
    /// Somebody else leads now, or the log is gone: requests that wait for more of it are to be looked at.
    Changed(SlotId),
    /// A log has written all that a clean stop needs.
    Closed(SlotId),
    /// Retention no longer keeps what lies below an offset.
    RetentionDue(SlotId, Offset),
    /// A deleted log's folder name is durably free.
    Unlinked(TopicPartition),
    /// A sync failed: the log directory must be given up.
    SyncFailed(FilePath, StorageFault),
    /// Something to tell.
    Told(Event),
}

#[derive(Debug)]
struct TopicEntry {
    id: Uuid,
    slots: Vec<Option<SlotId>>,
}

/// The table.
#[derive(Debug)]
pub struct Partitions {
    slots: Vec<Option<Box<Partition>>>,
    topics: BTreeMap<TopicName, TopicEntry>,
    names: BTreeMap<Uuid, TopicName>,
    flusher: Flusher<SlotId, FlushMark>,
    timers: BTreeSet<(Instant, SlotId)>,
    armed: BTreeMap<SlotId, Instant>,
    outcomes: VecDeque<Outcome>,
    synced: BTreeSet<SlotId>,
    duties: VecDeque<(SlotId, PartitionDuty)>,
    brokers: KnownBrokers,
    config: ReplicationConfig,
}

impl Partitions {
    /// Makes an empty table whose group commits complete to `flush_owner`.
    #[must_use]
    pub fn new(flush_owner: Owner) -> Self {
        Self {
            slots: Vec::new(),
            topics: BTreeMap::new(),
            names: BTreeMap::new(),
            flusher: Flusher::new(flush_owner),
            timers: BTreeSet::new(),
            armed: BTreeMap::new(),
            outcomes: VecDeque::new(),
            synced: BTreeSet::new(),
            duties: VecDeque::new(),
            brokers: KnownBrokers::default(),
            config: ReplicationConfig::default(),
        }
    }

    /// Sets the broker's settings for replication, before the first partition is added.
    pub const fn configure(&mut self, config: ReplicationConfig) {
        self.config = config;
    }

    /// Adds a partition; its log stays closed until it is used.
    pub fn add(&mut self, new: NewPartition) -> Option<SlotId> {
        let slot = SlotId::new(self.slots.len())?;
        let at = usize::try_from(new.name.partition).ok()?;
        let dir = new.root.join(&new.name.to_string());
        let config = Arc::clone(&new.settings.log);
        let log = Log::new(new.name.clone(), dir, slot.owner(), config, new.hint);
        let topic = new.name.topic.clone();
        let entry = self
            .topics
            .entry(topic.clone())
            .or_insert_with(|| TopicEntry {
                id: new.topic_id,
                slots: Vec::new(),
            });
        if entry.slots.len() <= at {
            entry.slots.resize(at + 1, None);
        }
        entry.slots[at] = Some(slot);
        self.names.insert(new.topic_id, topic);
        let mut partition = Partition::new(
            new.name,
            new.topic_id,
            log,
            new.settings,
            new.assignment,
            new.vouched,
        );
        partition.configure(self.config);
        if partition.must_open() {
            self.duties.push_back((slot, PartitionDuty::Open));
        }
        self.slots.push(Some(Box::new(partition)));
        Some(slot)
    }

    /// Deletes all partitions of a topic.
    pub fn delete_topic(&mut self, context: &mut Context<'_>, topic: &TopicName) {
        let Some(entry) = self.topics.remove(topic) else {
            return;
        };
        self.names.remove(&entry.id);
        for slot in entry.slots.into_iter().flatten() {
            self.with(context, slot, |partition, log, effects| {
                partition.delete(log, effects)
            });
        }
    }

    /// Starts to open a partition's log; returns whether a request must wait for it.
    pub fn open(&mut self, context: &mut Context<'_>, slot: SlotId) -> bool {
        self.with(context, slot, |partition, log, effects| {
            partition.open(log, effects);
            matches!(
                partition.state(),
                PartitionState::Closed | PartitionState::Opening
            )
        })
        .unwrap_or(false)
    }

    /// Appends a checked batch to a partition.
    ///
    /// # Errors
    /// Says why nothing was appended.
    pub fn append(
        &mut self,
        context: &mut Context<'_>,
        slot: SlotId,
        batch: Batch,
        acks: Acks,
        token: AckToken,
    ) -> Result<(), AppendRefusal> {
        self.with(context, slot, |partition, log, effects| {
            partition.append(log, batch, acks, token, effects)
        })
        .unwrap_or(Err(AppendRefusal::NotLeader))
    }

    /// Reads from a partition; `None` if it is gone.
    pub fn read(
        &mut self,
        context: &mut Context<'_>,
        slot: SlotId,
        request: ReadRequest,
    ) -> Option<ReadOutcome> {
        self.with(context, slot, |partition, log, effects| {
            partition.read(log, request, effects)
        })
    }

    /// Looks an offset up; `None` if the partition is gone.
    pub fn look_up(
        &mut self,
        context: &mut Context<'_>,
        slot: SlotId,
        id: ReadId,
        target: LookupTarget,
    ) -> Option<LookupOutcome> {
        self.with(context, slot, |partition, log, effects| {
            partition.look_up(log, id, target, effects)
        })
    }

    /// Takes a follower's fetch that was granted as a read; `None` if the partition is gone.
    pub fn note_fetch(
        &mut self,
        context: &mut Context<'_>,
        slot: SlotId,
        fetch: &FollowerFetch,
    ) -> Option<Result<(), FetchRefusal>> {
        let brokers = std::mem::take(&mut self.brokers);
        let noted = self.with(context, slot, |partition, log, effects| {
            partition.note_fetch(log, fetch, &brokers, effects)
        });
        self.brokers = brokers;
        noted
    }

    /// Takes what the metadata says of a broker; `None` if it is no longer registered.
    pub fn set_broker(
        &mut self,
        context: &mut Context<'_>,
        node: NodeId,
        broker: Option<KnownBroker>,
    ) {
        let mut brokers = std::mem::take(&mut self.brokers);
        match broker {
            Some(broker) => brokers.set(node, broker),
            None => brokers.remove(node),
        }
        let led = self
            .iter()
            .filter(|(_, partition)| partition.leads_for(node));
        let led: Vec<SlotId> = led.map(|(slot, _)| slot).collect();
        for slot in led {
            self.with(context, slot, |partition, log, effects| {
                partition.on_broker(log, node, &brokers, effects);
            });
        }
        self.brokers = brokers;
    }

    /// Takes the oldest thing that a partition needs done.
    pub fn poll_duty(&mut self) -> Option<(SlotId, PartitionDuty)> {
        self.duties.pop_front()
    }

    /// Runs a step of one partition and takes in what it did.
    pub fn with<R>(
        &mut self,
        context: &mut Context<'_>,
        slot: SlotId,
        step: impl FnOnce(&mut Partition, &mut LogContext<'_>, &mut Effects) -> R,
    ) -> Option<R> {
        let index = slot.index()?;
        let partition = self.slots.get_mut(index)?.as_mut()?;
        let mut effects = Effects::default();
        let mut events: Vec<LogEvent> = Vec::new();
        let mut log = LogContext {
            now: context.now,
            storage: context.storage,
            events: &mut events,
            planted: context.planted,
        };
        let result = step(partition, &mut log, &mut effects);
        let deadline = partition.deadline();
        if effects.unlinked {
            self.outcomes
                .push_back(Outcome::Unlinked(partition.name().clone()));
        }
        if effects.gone {
            self.slots[index] = None;
        }
        self.absorb(slot, effects, deadline);
        Some(result)
    }

    fn absorb(&mut self, slot: SlotId, effects: Effects, deadline: Option<Instant>) {
        let outcomes = &mut self.outcomes;
        outcomes.extend(effects.events.into_iter().map(Outcome::Told));
        outcomes.extend(
            effects
                .acknowledged
                .into_iter()
                .map(|(token, ack)| Outcome::Acknowledged(token, ack)),
        );
        outcomes.extend(
            effects
                .reads
                .into_iter()
                .map(|(id, read)| Outcome::Read(id, read)),
        );
        outcomes.extend(
            effects
                .lookups
                .into_iter()
                .map(|(id, found)| Outcome::Lookup(id, found)),
        );
        let duties = effects.duties.into_iter().map(|duty| (slot, duty));
        self.duties.extend(duties);
        if effects.opened {
            outcomes.push_back(Outcome::Opened(slot));
        }
        if effects.moved {
            outcomes.push_back(Outcome::Moved(slot));
        }
        if effects.changed {
            outcomes.push_back(Outcome::Changed(slot));
        }
        if let Some(start) = effects.retention {
            outcomes.push_back(Outcome::RetentionDue(slot, start));
        }
        if effects.closed {
            outcomes.push_back(Outcome::Closed(slot));
        }
        if let Some((path, fault)) = effects.sync_failed {
            outcomes.push_back(Outcome::SyncFailed(path, fault));
        }
        if effects.dirty {
            self.flusher.mark_dirty(slot);
        }
        if effects.synced {
            self.synced.insert(slot);
        }
        let armed = self.armed.get(&slot).copied();
        if armed != deadline {
            if let Some(old) = armed {
                self.timers.remove(&(old, slot));
                self.armed.remove(&slot);
            }
            if let Some(new) = deadline.filter(|_| !effects.gone) {
                self.timers.insert((new, slot));
                self.armed.insert(slot, new);
            }
        }
    }

    /// Routes a completion to the partition that owns it.
    pub fn on_completion(
        &mut self,
        context: &mut Context<'_>,
        slot: SlotId,
        completion: Completion,
    ) {
        self.with(context, slot, |partition, log, effects| {
            partition.on_completion(log, completion, effects);
        });
    }

    /// Lets every partition whose deadline has passed do its work.
    pub fn on_timeout(&mut self, context: &mut Context<'_>) {
        while let Some((deadline, slot)) = self.timers.first().copied() {
            if deadline > context.now.instant {
                break;
            }
            self.timers.remove(&(deadline, slot));
            self.armed.remove(&slot);
            self.with(context, slot, |partition, log, effects| {
                partition.on_timeout(log, effects)
            });
        }
    }

    /// Submits a group commit of everything that was written and must be durable.
    pub fn flush(&mut self, storage: &mut StorageQueue) {
        let slots = &mut self.slots;
        self.flusher.submit(storage, |slot, set| {
            slots.get_mut(slot.index()?)?.as_mut()?.flush_set(set)
        });
    }

    /// Takes the completion of a group commit.
    ///
    /// # Errors
    /// A failed sync is fatal for the log directory: its dirty pages are gone (catalogue B43).
    pub fn on_flushed(
        &mut self,
        context: &mut Context<'_>,
        op: OpId,
        result: Result<(), StorageFault>,
    ) -> Result<(), StorageFault> {
        let Some(marks) = self.flusher.on_completion(op) else {
            return Ok(());
        };
        if let Err(fault) = result {
            if !context.planted.has(Planted::B43) {
                return Err(fault);
            }
            for (slot, _) in marks {
                self.flusher.mark_dirty(slot);
            }
            return Ok(());
        }
        for (slot, mark) in marks {
            self.with(context, slot, |partition, log, effects| {
                partition.on_flushed(log, mark, effects);
            });
        }
        Ok(())
    }

    /// Marks a partition for the next group commit whatever its rule.
    pub fn mark_dirty(&mut self, slot: SlotId) {
        self.flusher.mark_dirty(slot);
    }

    /// Takes the partitions of which more is synced than when they were last taken.
    pub fn take_synced(&mut self) -> BTreeSet<SlotId> {
        std::mem::take(&mut self.synced)
    }

    /// Takes the oldest thing that a request may wait for.
    pub fn poll_outcome(&mut self) -> Option<Outcome> {
        self.outcomes.pop_front()
    }

    /// Returns a partition.
    #[must_use]
    pub fn get(&self, slot: SlotId) -> Option<&Partition> {
        self.slots.get(slot.index()?)?.as_deref()
    }

    /// Finds a partition by name.
    #[must_use]
    pub fn slot(&self, topic: &str, partition: i32) -> Option<SlotId> {
        let entry = self.topics.get(topic)?;
        *entry.slots.get(usize::try_from(partition).ok()?)?
    }

    /// Finds a topic's name by its id.
    #[must_use]
    pub fn topic_name(&self, id: Uuid) -> Option<&TopicName> {
        self.names.get(&id)
    }

    /// Iterates over all topics by name.
    pub fn topics(&self) -> impl Iterator<Item = (&TopicName, Uuid)> {
        self.topics.iter().map(|(name, entry)| (name, entry.id))
    }

    /// Iterates over all partitions in the order of their slots.
    pub fn iter(&self) -> impl Iterator<Item = (SlotId, &Partition)> {
        self.slots
            .iter()
            .enumerate()
            .filter_map(|(at, partition)| Some((SlotId::new(at)?, partition.as_deref()?)))
    }

    /// Returns whether no group commit is due or under way.
    #[must_use]
    pub fn is_flushed(&self) -> bool {
        self.flusher.is_idle()
    }

    /// Returns when a partition next wants a timeout.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.timers.first().map(|(deadline, _)| *deadline)
    }
}
