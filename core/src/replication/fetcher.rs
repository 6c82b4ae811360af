//! What this broker fetches from one leader: one request at a time for all partitions that follow it, in an incremental
//! fetch session (KIP-227), so that partitions at rest cost nothing.
//!
//! | session | next request | leads to |
//! | --- | --- | --- |
//! | none | all partitions that are ready, epoch 0 | open, if the leader grants one |
//! | open | those whose position changed, and those to forget | open, with the next epoch |
//! | in doubt | all, epoch 0, naming the old session so that the leader closes it | as none |
//!
//! A partition that has just taken records is waited for until they count (a write, or a group commit), so that the next
//! request carries its new position; one that takes long is left out of the session until it is ready again.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    FetchPosition, FetchedPartition, OffsetQuestion, Readiness, ReplicationConfig, SlotId,
    TopicIdPartition,
};
use crate::{protocol::ErrorCode, time::Instant};

/// One partition of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchWant {
    /// The partition.
    pub partition: TopicIdPartition,
    /// What the follower says of itself.
    pub position: FetchPosition,
}

/// A Fetch request to be sent to the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchAsk {
    /// Its number, to be given back with the answer.
    pub number: u64,
    /// The fetch session, or 0.
    pub session_id: i32,
    /// The session's epoch; 0 asks for a new session.
    pub session_epoch: i32,
    /// How long the leader may wait for records.
    pub max_wait_ms: u64,
    /// What to read.
    pub wanted: Vec<FetchWant>,
    /// What to drop from the session.
    pub forgotten: Vec<TopicIdPartition>,
}

/// A ListOffsets request to be sent to the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetAsk {
    /// Its number, to be given back with the answer.
    pub number: u64,
    /// The partition.
    pub partition: TopicIdPartition,
    /// What to ask.
    pub question: OffsetQuestion,
}

/// Something to be sent to the leader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FetcherAsk {
    /// A fetch.
    Fetch(FetchAsk),
    /// A question.
    Offset(OffsetAsk),
}

/// The answer to a [`FetchAsk`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FetchAnswer {
    /// The error of the whole.
    pub error: ErrorCode,
    /// The session that the leader granted or goes on with; 0 for none.
    pub session_id: i32,
    /// What was read.
    pub partitions: Vec<(TopicIdPartition, FetchedPartition)>,
}

/// The answer for one partition, with the position it answers: for [`Partition::on_fetched`](super::Partition::on_fetched).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// The partition's place on this broker.
    pub slot: SlotId,
    /// The position that was sent.
    pub sent: FetchPosition,
    /// The answer.
    pub answer: FetchedPartition,
}

/// The epoch that asks for a new session.
const INITIAL_EPOCH: i32 = 0;

#[derive(Clone, Copy, Debug, Default)]
struct Session {
    id: i32,
    epoch: i32,
}

impl Session {
    const fn is_full(self) -> bool {
        self.epoch == INITIAL_EPOCH
    }

    /// Asks for a new session and closes this one with the same request.
    const fn doubt(&mut self) {
        self.epoch = INITIAL_EPOCH;
    }

    const fn advance(&mut self, id: i32) {
        self.id = id;
        self.epoch = match self.epoch {
            _ if id == 0 => INITIAL_EPOCH,
            i32::MAX => 1,
            epoch => epoch + 1,
        };
    }
}

/// The fetches from one leader.
#[derive(Debug)]
pub struct Fetcher {
    config: ReplicationConfig,
    followed: BTreeMap<SlotId, TopicIdPartition>,
    slots: BTreeMap<TopicIdPartition, SlotId>,
    /// Partitions that may ask for something else than before.
    news: BTreeSet<SlotId>,
    ready: BTreeMap<TopicIdPartition, FetchPosition>,
    soon: BTreeSet<SlotId>,
    /// Partitions whose place in the session may differ from what is wanted.
    changed: BTreeSet<TopicIdPartition>,
    /// What the leader's session holds, as far as it is known.
    sent: BTreeMap<TopicIdPartition, FetchPosition>,
    session: Session,
    in_flight: Option<u64>,
    questions: BTreeMap<u64, (SlotId, OffsetQuestion)>,
    number: u64,
    retry_at: Option<Instant>,
    hold_until: Option<Instant>,
}

impl Fetcher {
    /// Makes a fetcher that follows nothing yet.
    #[must_use]
    pub fn new(config: ReplicationConfig) -> Self {
        Self {
            config,
            followed: BTreeMap::new(),
            slots: BTreeMap::new(),
            news: BTreeSet::new(),
            ready: BTreeMap::new(),
            soon: BTreeSet::new(),
            changed: BTreeSet::new(),
            sent: BTreeMap::new(),
            session: Session::default(),
            in_flight: None,
            questions: BTreeMap::new(),
            number: 0,
            retry_at: None,
            hold_until: None,
        }
    }

    /// Adds a partition.
    pub fn follow(&mut self, slot: SlotId, partition: TopicIdPartition) {
        self.followed.insert(slot, partition);
        self.slots.insert(partition, slot);
        self.news.insert(slot);
    }

    /// Removes a partition.
    pub fn unfollow(&mut self, slot: SlotId) {
        let Some(partition) = self.followed.remove(&slot) else {
            return;
        };
        self.slots.remove(&partition);
        self.news.remove(&slot);
        self.soon.remove(&slot);
        self.ready.remove(&partition);
        self.changed.insert(partition);
        self.questions.retain(|_, (asking, _)| *asking != slot);
    }

    /// Notes that a partition may ask for something else than before.
    pub fn wake(&mut self, slot: SlotId) {
        if self.followed.contains_key(&slot) {
            self.news.insert(slot);
        }
    }

    /// Returns whether nothing follows this leader.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.followed.is_empty()
    }

    /// Returns what to send next. `readiness` says what a partition would ask.
    pub fn poll(
        &mut self,
        now: Instant,
        mut readiness: impl FnMut(SlotId) -> Readiness,
    ) -> Option<FetcherAsk> {
        if self.retry_at.is_some_and(|at| at > now) {
            return None;
        }
        self.retry_at = None;
        while let Some(slot) = self.news.pop_first() {
            let Some(partition) = self.followed.get(&slot).copied() else {
                continue;
            };
            let readiness = readiness(slot);
            self.place(slot, partition, readiness);
            if let Readiness::Ask(question) = readiness
                && let Some(ask) = self.ask(slot, partition, question)
            {
                return Some(FetcherAsk::Offset(ask));
            }
        }
        self.fetch(now).map(FetcherAsk::Fetch)
    }

    fn place(&mut self, slot: SlotId, partition: TopicIdPartition, readiness: Readiness) {
        self.changed.insert(partition);
        self.soon.remove(&slot);
        match readiness {
            Readiness::Fetch(position) => {
                self.ready.insert(partition, position);
            }
            Readiness::Soon => {
                self.ready.remove(&partition);
                self.soon.insert(slot);
            }
            Readiness::Ask(_) | Readiness::Later => {
                self.ready.remove(&partition);
            }
        }
    }

    fn ask(
        &mut self,
        slot: SlotId,
        partition: TopicIdPartition,
        question: OffsetQuestion,
    ) -> Option<OffsetAsk> {
        if self
            .questions
            .values()
            .any(|known| *known == (slot, question))
        {
            return None;
        }
        self.number += 1;
        self.questions.insert(self.number, (slot, question));
        Some(OffsetAsk {
            number: self.number,
            partition,
            question,
        })
    }

    fn fetch(&mut self, now: Instant) -> Option<FetchAsk> {
        if self.in_flight.is_some() {
            return None;
        }
        if self.ready.is_empty() && self.soon.is_empty() {
            self.hold_until = None;
            return None;
        }
        if !self.soon.is_empty() {
            let wait = self.config.replica_fetch_wait_max_ms;
            let until = self.hold_until.unwrap_or_else(|| now.plus_millis(wait));
            self.hold_until = Some(until);
            if until > now {
                return None;
            }
            // It takes long: the others go on without it, until it says that it is ready.
            self.soon.clear();
        }
        self.hold_until = None;
        if self.ready.is_empty() {
            return None;
        }
        self.number += 1;
        self.in_flight = Some(self.number);
        let changed = std::mem::take(&mut self.changed);
        let (wanted, forgotten) = if self.session.is_full() {
            self.sent.clone_from(&self.ready);
            let all = self.ready.iter();
            (all.map(want).collect(), Vec::new())
        } else {
            self.difference(changed)
        };
        Some(FetchAsk {
            number: self.number,
            session_id: self.session.id,
            session_epoch: self.session.epoch,
            max_wait_ms: self.config.replica_fetch_wait_max_ms,
            wanted,
            forgotten,
        })
    }

    /// Brings the session in line with what is ready.
    fn difference(
        &mut self,
        changed: BTreeSet<TopicIdPartition>,
    ) -> (Vec<FetchWant>, Vec<TopicIdPartition>) {
        let (mut wanted, mut forgotten) = (Vec::new(), Vec::new());
        for partition in changed {
            match self.ready.get(&partition) {
                Some(position) => {
                    let known = self.sent.insert(partition, *position);
                    if known.is_none_or(|known| !known.asks_the_same(position)) {
                        wanted.push(want((&partition, position)));
                    }
                }
                None if self.sent.remove(&partition).is_some() => forgotten.push(partition),
                None => {}
            }
        }
        (wanted, forgotten)
    }

    /// Takes the answer to a fetch; to any but the one in flight there is nothing to take.
    pub fn on_fetched(&mut self, now: Instant, number: u64, answer: FetchAnswer) -> Vec<Delivery> {
        if self.in_flight != Some(number) {
            return Vec::new();
        }
        self.in_flight = None;
        if answer.error.is_error() {
            self.on_session_error(now, answer.error);
            return Vec::new();
        }
        let is_full = self.session.is_full();
        let is_known = |(partition, _): &(TopicIdPartition, _)| self.sent.contains_key(partition);
        let all_known = answer.partitions.iter().all(is_known);
        let answered: BTreeSet<_> = answer.partitions.iter().map(|(key, _)| *key).collect();
        let all_answered = !is_full || answered.len() == self.sent.len();
        if !all_known || !all_answered || answered.len() != answer.partitions.len() {
            // Leader and follower do not mean the same session.
            self.session.id = answer.session_id;
            self.session.doubt();
            self.pause(now);
            return Vec::new();
        }
        self.session.advance(answer.session_id);
        let partitions = answer.partitions.into_iter();
        let deliveries = partitions.filter_map(|(partition, answer)| {
            Some(Delivery {
                slot: *self.slots.get(&partition)?,
                sent: *self.sent.get(&partition)?,
                answer,
            })
        });
        deliveries.collect()
    }

    fn on_session_error(&mut self, now: Instant, error: ErrorCode) {
        if error == ErrorCode::FetchSessionIdNotFound {
            self.session.id = 0;
        }
        self.session.doubt();
        let is_of_session = matches!(
            error,
            ErrorCode::FetchSessionIdNotFound
                | ErrorCode::InvalidFetchSessionEpoch
                | ErrorCode::FetchSessionTopicIdError
        );
        if !is_of_session {
            self.pause(now);
        }
    }

    /// Takes note that a fetch, or its answer, was lost.
    pub fn on_failed(&mut self, now: Instant, number: u64) {
        if self.in_flight == Some(number) {
            self.in_flight = None;
            self.session.doubt();
            self.pause(now);
        }
    }

    /// Takes the answer to a question, or its loss; returns whose it was.
    pub fn on_offset(&mut self, number: u64) -> Option<(SlotId, OffsetQuestion)> {
        self.questions.remove(&number)
    }

    fn pause(&mut self, now: Instant) {
        self.retry_at = Some(now.plus_millis(self.config.replica_fetch_backoff_ms));
    }

    /// Returns when [`Fetcher::poll`] is to be called although nothing has changed.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        [self.retry_at, self.hold_until].into_iter().flatten().min()
    }
}

fn want((partition, position): (&TopicIdPartition, &FetchPosition)) -> FetchWant {
    FetchWant {
        partition: *partition,
        position: *position,
    }
}
