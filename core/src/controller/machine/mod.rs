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

mod brokers;
mod leading;
mod work;

use std::collections::VecDeque;

use rand_chacha::ChaCha12Rng;

use self::{leading::Leading, work::WorkQueue};
use super::{
    decide::{
        Decision, DecisionContext, Sweep, alter_configs, alter_partition, auto_create_topics,
        create_partitions, create_topics, delete_topics, elect_leaders,
    },
    image::{Change, MetadataImage, ReplayError},
    messages::AlterPartitionResponseData,
    records::Record,
    request::{ControllerOutput, ControllerReply, ControllerRequest, Ticket},
};
use crate::{
    config::{BrokerSettings, StaticConfig},
    ids::{Epoch, NodeId, Offset},
    planted::PlantedSet,
    time::Instant,
};

/// The topic config whose change may let partitions have a leader again.
const UNCLEAN_LEADER_ELECTION: &str = "unclean.leader.election.enable";

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
    planted: PlantedSet,
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
            planted: PlantedSet::NONE,
        }
    }

    /// Switches bugs on.
    #[must_use]
    pub const fn with_planted(mut self, planted: PlantedSet) -> Self {
        self.planted = planted;
        self
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
        let work = WorkQueue::begin(now, &speculative, &self.settings());
        self.leading = Some(Leading::begin(epoch, speculative, log_end, expires, work));
    }

    /// Stops deciding: what is parked is answered `NotController`, what is not committed is forgotten.
    pub fn resign(&mut self) {
        // Batches that the quorum has not taken yet must not reach it in another epoch.
        self.outputs
            .retain(|output| matches!(output, ControllerOutput::Reply(..)));
        if let Some(leading) = self.leading.take() {
            let refused = leading
                .into_tickets()
                .map(|ticket| ControllerOutput::Reply(ticket, ControllerReply::NotController));
            self.outputs.extend(refused);
        }
    }

    /// Decides on a request.
    pub fn handle(&mut self, now: Instant, ticket: Ticket, request: ControllerRequest) {
        let Some(leading) = &mut self.leading else {
            self.outputs.push_back(ControllerOutput::Reply(
                ticket,
                ControllerReply::NotController,
            ));
            return;
        };
        match request {
            ControllerRequest::RegisterBroker(data) => leading.work.register(ticket, data),
            ControllerRequest::BrokerHeartbeat(data) => self.heartbeat(now, ticket, &data),
            ControllerRequest::CreateTopics(_)
            | ControllerRequest::DeleteTopics(..)
            | ControllerRequest::CreatePartitions(_)
            | ControllerRequest::AlterConfigs(_)
            | ControllerRequest::AutoCreateTopics(_)
            | ControllerRequest::AlterPartition(..)
            | ControllerRequest::ElectLeaders(_) => {
                let decision = self.decide(request);
                self.adopt(ticket, decision);
            }
            // The host answers that one: how far the quorum is is not the controller's to know.
            ControllerRequest::DescribeQuorum(..) => {
                let reply = ControllerReply::NotController;
                self.outputs
                    .push_back(ControllerOutput::Reply(ticket, reply));
            }
        }
        self.work(now);
    }

    /// Hands out records that no request asked for, such as the first ones of a cluster.
    pub fn append_own(&mut self, records: Vec<Record>) {
        if let Some(leading) = &mut self.leading {
            leading.append(records, &mut self.outputs);
            leading.hand_out(&mut self.outputs);
        }
    }

    /// Returns when [`Self::on_timeout`] is next due; in the past while work is left to do.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let leading = self.leading.as_ref()?;
        let deadlines = [leading.sessions.deadline(), leading.work.deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// Notes that the quorum appended the oldest batch it had not appended yet.
    ///
    /// # Panics
    /// If it stands elsewhere than agreed: broker epochs decided since would name the wrong records.
    pub fn on_appended(&mut self, base_offset: Offset) {
        if let Some(leading) = &mut self.leading {
            leading.on_appended(base_offset);
        }
    }

    /// Notes that everything below `end` is committed: replays it and releases the replies that waited for it.
    ///
    /// # Errors
    /// If a record does not fit; it was replayed once already, so this build is at fault, and the node cannot go on.
    pub fn on_committed(&mut self, end: Offset) -> Result<Vec<Change>, ReplayError> {
        let Some(leading) = &mut self.leading else {
            return Ok(Vec::new());
        };
        let changes = leading.commit(end, &mut self.committed)?;
        self.committed_end = self.committed_end.max(end);
        leading.release(self.committed_end, &mut self.outputs);
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

    /// Decides on a request that needs no more than the image.
    fn decide(&mut self, request: ControllerRequest) -> Decision<ControllerReply> {
        let context = DecisionContext {
            node_id: self.node_id,
            fixed: &self.fixed,
            planted: self.planted,
        };
        let Some(leading) = &self.leading else {
            return Decision::answer(ControllerReply::NotController);
        };
        let (image, rng) = (&leading.speculative, &mut self.rng);
        match request {
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
            ControllerRequest::AlterPartition(data, version) => {
                let refused = |code: i16| AlterPartitionResponseData {
                    error_code: code,
                    ..AlterPartitionResponseData::default()
                };
                alter_partition(image, &context, &data, version)
                    .unwrap_or_else(|error| Decision::answer(refused(error.code.code())))
                    .map(ControllerReply::AlterPartition)
            }
            ControllerRequest::ElectLeaders(data) => {
                elect_leaders(image, &context, &data).map(ControllerReply::ElectLeaders)
            }
            ControllerRequest::RegisterBroker(_)
            | ControllerRequest::BrokerHeartbeat(_)
            | ControllerRequest::DescribeQuorum(..) => {
                Decision::answer(ControllerReply::NotController)
            }
        }
    }

    /// Makes a decision come true, and keeps its reply until that is committed.
    fn adopt(&mut self, ticket: Ticket, decision: Decision<ControllerReply>) {
        let Some(leading) = &mut self.leading else {
            return;
        };
        let allows_unclean = |record: &Record| matches!(record, Record::Config(config) if config.name == UNCLEAN_LEADER_ELECTION);
        if decision.records.iter().any(allows_unclean) {
            leading.work.sweep(Sweep::Leaderless);
        }
        leading.append(decision.records, &mut self.outputs);
        leading.park(ticket, decision.reply);
    }

    const fn context(&self) -> DecisionContext<'_> {
        DecisionContext {
            node_id: self.node_id,
            fixed: &self.fixed,
            planted: self.planted,
        }
    }

    fn settings(&self) -> BrokerSettings {
        self.context().settings(&self.committed)
    }

    fn session_end(&self, now: Instant) -> Instant {
        let timeout = self.settings().broker_session_timeout_ms;
        now.plus_millis(u64::try_from(timeout).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests;
