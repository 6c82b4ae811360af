//! The controller as a machine.
//!
//! **What it decides.** While it leads, every [`ControllerRequest`]: it looks at the speculative image, which holds
//! all it has decided so far, hands out records to append, replays them at once into that image, and keeps the reply
//! until they are committed. While it does not lead, nothing: it follows the committed records.
//!
//! | state | a request | a committed record | resigning |
//! | --- | --- | --- | --- |
//! | follows | `NotController` | replayed into the committed image | nothing |
//! | leads | decided on the speculative image, reply parked | replayed into the committed image, replies released | parked replies become `NotController`, the speculative image is dropped |
//!
//! A reply without records waits too: it may rest on a decision that is not committed yet.
//!
//! **What the host must guarantee.** It calls [`Controller::become_leader`] when the quorum has elected this node *and*
//! everything committed has been replayed; it appends the batches in the order they were handed out, at their offsets,
//! each as a whole, and nothing else in between without saying so ([`Controller::on_appended`] checks it); it calls
//! [`Controller::resign`] before it reports anything of another epoch. It numbers a committed batch by the offset of
//! its first record.

use std::collections::VecDeque;

use rand_chacha::ChaCha12Rng;

use super::{
    decide::{
        ApiError, Decision, DecisionContext, RECORDS_PER_REQUEST_MAX, alter_configs,
        auto_create_topics, broker_heartbeat, create_partitions, create_topics, delete_topics,
        fence_broker, register_broker,
    },
    image::{Change, MetadataImage, ReplayError},
    messages::{
        BrokerHeartbeatRequestData, BrokerHeartbeatResponseData, BrokerRegistrationRequestData,
        BrokerRegistrationResponseData,
    },
    records::Record,
    request::{ControllerOutput, ControllerReply, ControllerRequest, Ticket},
    sessions::Sessions,
};
use crate::{
    config::StaticConfig,
    ids::{Epoch, NodeId, Offset},
    time::Instant,
};

/// The controller of one node.
#[derive(Debug)]
pub struct Controller {
    node_id: NodeId,
    fixed: StaticConfig,
    rng: ChaCha12Rng,
    committed: MetadataImage,
    /// The offset after the last committed record.
    committed_end: Offset,
    leading: Option<Leading>,
    outputs: VecDeque<ControllerOutput>,
}

/// What only a leader has.
#[derive(Debug)]
struct Leading {
    epoch: Epoch,
    speculative: MetadataImage,
    /// The offset after the last record handed out.
    log_end: Offset,
    /// Batches that are not committed yet, in the order of their offsets.
    batches: VecDeque<(Offset, Vec<Record>)>,
    /// The number of batches, from the front, that the quorum has appended.
    appended: usize,
    /// Replies with the offset that must be committed first: all records below it.
    parked: VecDeque<(Offset, Ticket, ControllerReply)>,
    sessions: Sessions,
}

impl Controller {
    /// Makes a controller that follows, with an empty image; `rng` decides on ids and placement.
    #[must_use]
    pub fn new(node_id: NodeId, fixed: StaticConfig, rng: ChaCha12Rng) -> Self {
        Self {
            node_id,
            fixed,
            rng,
            committed: MetadataImage::new(),
            committed_end: 0,
            leading: None,
            outputs: VecDeque::new(),
        }
    }

    /// Replaces the committed image by a snapshot of everything below `end`.
    ///
    /// # Errors
    /// If the records do not fit each other; the image is then as it was.
    ///
    /// # Panics
    /// If this node leads: a leader has everything that is committed.
    pub fn load_snapshot(&mut self, end: Offset, records: &[Record]) -> Result<(), ReplayError> {
        assert!(self.leading.is_none(), "a leader never loads a snapshot");
        let mut image = MetadataImage::new();
        for record in records {
            let _ = image.replay(record)?;
        }
        self.committed = image;
        self.committed_end = end;
        Ok(())
    }

    /// Replays committed records that this node did not decide in its present leadership: at start, and as a follower.
    ///
    /// # Errors
    /// If a record does not fit; the node cannot go on.
    pub fn replay_committed(
        &mut self,
        base_offset: Offset,
        records: &[Record],
    ) -> Result<Vec<Change>, ReplayError> {
        let mut changes = Vec::with_capacity(records.len());
        for (offset, record) in (base_offset..).zip(records) {
            // A batch may reach back below the snapshot it follows.
            if offset >= self.committed_end {
                changes.push(self.committed.replay(record)?);
                self.committed_end = offset.saturating_add(1);
            }
        }
        Ok(changes)
    }

    /// Notes that offsets below `end` hold nothing to replay: the quorum's own control records.
    pub fn skip_to(&mut self, end: Offset) {
        self.committed_end = self.committed_end.max(end);
    }

    /// Begins to decide; the next record will stand at `log_end`.
    ///
    /// # Panics
    /// If this node leads already.
    pub fn become_leader(&mut self, now: Instant, epoch: Epoch, log_end: Offset) {
        assert!(
            self.leading.is_none(),
            "a leader resigns before it leads again"
        );
        let speculative = self.committed.clone();
        let expires = self.session_end(now);
        self.leading = Some(Leading {
            epoch,
            sessions: Sessions::begin(&speculative, expires),
            speculative,
            log_end,
            batches: VecDeque::new(),
            appended: 0,
            parked: VecDeque::new(),
        });
    }

    /// Stops deciding: what is parked is answered `NotController`, what is not committed is forgotten.
    pub fn resign(&mut self) {
        // Batches that the quorum has not taken yet must not reach it in another epoch.
        self.outputs
            .retain(|output| matches!(output, ControllerOutput::Reply(..)));
        if let Some(leading) = self.leading.take() {
            for (_, ticket, _) in leading.parked {
                self.outputs.push_back(ControllerOutput::Reply(
                    ticket,
                    ControllerReply::NotController,
                ));
            }
        }
    }

    /// Decides on a request.
    pub fn handle(&mut self, now: Instant, ticket: Ticket, request: ControllerRequest) {
        let Some(leading) = &self.leading else {
            self.outputs.push_back(ControllerOutput::Reply(
                ticket,
                ControllerReply::NotController,
            ));
            return;
        };
        let image = &leading.speculative;
        let context = DecisionContext {
            node_id: self.node_id,
            fixed: &self.fixed,
        };
        let rng = &mut self.rng;
        let decision = match request {
            ControllerRequest::CreateTopics(data) => {
                create_topics(image, &context, rng, &data).map(ControllerReply::CreateTopics)
            }
            ControllerRequest::DeleteTopics(data, version) => {
                delete_topics(image, &context, &data, version).map(ControllerReply::DeleteTopics)
            }
            ControllerRequest::CreatePartitions(data) => {
                create_partitions(image, rng, &data).map(ControllerReply::CreatePartitions)
            }
            ControllerRequest::AlterConfigs(data) => {
                alter_configs(image, &context, &data).map(ControllerReply::AlterConfigs)
            }
            ControllerRequest::AutoCreateTopics(names) => {
                auto_create_topics(image, &context, rng, &names)
                    .map(ControllerReply::AutoCreateTopics)
            }
            ControllerRequest::RegisterBroker(data) => self.register(now, &data),
            ControllerRequest::BrokerHeartbeat(data) => self.heartbeat(now, &data),
        };
        let reply = decision.reply;
        self.append(decision.records);
        self.park(ticket, reply);
    }

    /// Hands out records that no request asked for, such as the first ones of a cluster.
    pub fn append_own(&mut self, records: Vec<Record>) {
        if self.leading.is_some() {
            self.append(records);
        }
    }

    /// Fences brokers whose session is over.
    pub fn on_timeout(&mut self, now: Instant) {
        loop {
            let Some(leading) = &mut self.leading else {
                return;
            };
            let Some(broker) = leading.sessions.expired(now) else {
                return;
            };
            leading.sessions.forget(broker);
            let context = DecisionContext {
                node_id: self.node_id,
                fixed: &self.fixed,
            };
            let decision = fence_broker(&leading.speculative, &context, broker);
            self.append(decision.records);
        }
    }

    /// Returns when [`Self::on_timeout`] is next due.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        self.leading.as_ref()?.sessions.deadline()
    }

    /// Notes that the quorum appended the oldest batch it had not appended yet.
    ///
    /// # Panics
    /// If it stands elsewhere than agreed: broker epochs decided since would name the wrong records.
    pub fn on_appended(&mut self, base_offset: Offset) {
        let Some(leading) = &mut self.leading else {
            return;
        };
        if let Some((expected, _)) = leading.batches.get(leading.appended) {
            assert_eq!(
                *expected, base_offset,
                "the quorum appends each batch at its agreed offset"
            );
            leading.appended += 1;
        }
    }

    /// Notes that everything below `end` is committed: replays it and releases the replies that waited for it.
    ///
    /// # Errors
    /// If a record does not fit; it was replayed once already, so this build is at fault, and the node cannot go on.
    pub fn on_committed(&mut self, end: Offset) -> Result<Vec<Change>, ReplayError> {
        let mut changes = Vec::new();
        let Some(leading) = &mut self.leading else {
            return Ok(changes);
        };
        while let Some((base_offset, records)) = leading.batches.front() {
            let length = Offset::try_from(records.len()).unwrap_or(Offset::MAX);
            if base_offset.saturating_add(length) > end {
                break;
            }
            for record in records {
                changes.push(self.committed.replay(record)?);
            }
            leading.batches.pop_front();
            leading.appended = leading.appended.saturating_sub(1);
        }
        self.committed_end = self.committed_end.max(end);
        self.release();
        Ok(changes)
    }

    /// Returns the next thing to do.
    pub fn poll_output(&mut self) -> Option<ControllerOutput> {
        self.outputs.pop_front()
    }

    /// Returns the committed image: what brokers act on.
    #[must_use]
    pub const fn committed(&self) -> &MetadataImage {
        &self.committed
    }

    /// Returns the offset after the last committed record that was replayed.
    #[must_use]
    pub const fn committed_end(&self) -> Offset {
        self.committed_end
    }

    /// Returns the epoch of leadership, while this node leads.
    #[must_use]
    pub fn leading_epoch(&self) -> Option<Epoch> {
        self.leading.as_ref().map(|leading| leading.epoch)
    }

    /// Returns the settings at start.
    #[must_use]
    pub const fn fixed(&self) -> &StaticConfig {
        &self.fixed
    }

    fn register(
        &mut self,
        now: Instant,
        request: &BrokerRegistrationRequestData,
    ) -> Decision<ControllerReply> {
        let id = NodeId(request.broker_id);
        let expires = self.session_end(now);
        let Some(leading) = &mut self.leading else {
            return Decision::answer(ControllerReply::NotController);
        };
        let context = DecisionContext {
            node_id: self.node_id,
            fixed: &self.fixed,
        };
        let image = &leading.speculative;
        let mut session = leading.sessions.of(image, id, now);
        // A broker that shares this process with the controller is alive only now: its earlier incarnation ended with
        // the earlier controller's.
        session.is_valid &= id != self.node_id;
        match register_broker(image, &context, request, leading.log_end, Some(session)) {
            Ok(decision) => {
                let epoch = decision.reply.broker_epoch;
                leading.sessions.touch(id, epoch, expires, -1);
                decision.map(ControllerReply::RegisterBroker)
            }
            Err(ApiError { code, .. }) => {
                let reply = BrokerRegistrationResponseData {
                    error_code: code.code(),
                    broker_epoch: -1,
                    ..BrokerRegistrationResponseData::default()
                };
                Decision::answer(ControllerReply::RegisterBroker(reply))
            }
        }
    }

    fn heartbeat(
        &mut self,
        now: Instant,
        request: &BrokerHeartbeatRequestData,
    ) -> Decision<ControllerReply> {
        let id = NodeId(request.broker_id);
        let expires = self.session_end(now);
        let Some(leading) = &mut self.leading else {
            return Decision::answer(ControllerReply::NotController);
        };
        let context = DecisionContext {
            node_id: self.node_id,
            fixed: &self.fixed,
        };
        let image = &leading.speculative;
        let session = leading.sessions.of(image, id, now);
        match broker_heartbeat(image, &context, request, session) {
            Ok(decision) => {
                let offset = request.current_metadata_offset;
                if decision.reply.is_fenced {
                    // A fenced broker has no session to lose.
                    leading.sessions.forget(id);
                } else {
                    leading
                        .sessions
                        .touch(id, request.broker_epoch, expires, offset);
                }
                let leaves = |record: &Record| {
                    matches!(record, Record::BrokerRegistrationChange(change)
                        if change.in_controlled_shutdown == Some(true))
                };
                if decision.records.iter().any(leaves) {
                    let length = Offset::try_from(decision.records.len()).unwrap_or(0);
                    leading
                        .sessions
                        .shuts_down(id, leading.log_end.saturating_add(length) - 1);
                }
                decision.map(ControllerReply::BrokerHeartbeat)
            }
            Err(ApiError { code, .. }) => {
                let reply = BrokerHeartbeatResponseData {
                    error_code: code.code(),
                    is_caught_up: false,
                    is_fenced: true,
                    ..BrokerHeartbeatResponseData::default()
                };
                Decision::answer(ControllerReply::BrokerHeartbeat(reply))
            }
        }
    }

    fn session_end(&self, now: Instant) -> Instant {
        let context = DecisionContext {
            node_id: self.node_id,
            fixed: &self.fixed,
        };
        let timeout = context.settings(&self.committed).broker_session_timeout_ms;
        now.plus_millis(u64::try_from(timeout).unwrap_or(0))
    }

    fn append(&mut self, records: Vec<Record>) {
        let Some(leading) = &mut self.leading else {
            return;
        };
        for record in &records {
            let replayed = leading.speculative.replay(record);
            assert!(
                replayed.is_ok(),
                "a decision fits the image it was taken on: {replayed:?}"
            );
        }
        // A request's own records always fit one batch. What a broker's coming or going touches may not; it need not
        // be atomic, for the broker's own record stands last, and without it the broker tries again.
        for batch in records.chunks(RECORDS_PER_REQUEST_MAX) {
            let base_offset = leading.log_end;
            let length = Offset::try_from(batch.len()).unwrap_or(Offset::MAX);
            leading.log_end = base_offset.saturating_add(length);
            leading.batches.push_back((base_offset, batch.to_vec()));
            self.outputs.push_back(ControllerOutput::Append {
                epoch: leading.epoch,
                base_offset,
                records: batch.to_vec(),
            });
        }
    }

    fn park(&mut self, ticket: Ticket, reply: ControllerReply) {
        let Some(leading) = &mut self.leading else {
            return;
        };
        leading.parked.push_back((leading.log_end, ticket, reply));
        self.release();
    }

    fn release(&mut self) {
        let Some(leading) = &mut self.leading else {
            return;
        };
        // Without a batch in flight everything handed out is committed, whatever control records stand around it.
        let settled = leading.batches.is_empty();
        while let Some((needed, ..)) = leading.parked.front() {
            if *needed > self.committed_end && !settled {
                return;
            }
            if let Some((_, ticket, reply)) = leading.parked.pop_front() {
                self.outputs
                    .push_back(ControllerOutput::Reply(ticket, reply));
            }
        }
    }
}

#[cfg(test)]
mod tests;
