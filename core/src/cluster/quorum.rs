//! The quorum's side: calls of replicas in and out, and what is committed.

use bytes::Bytes;

use super::{
    Cluster, ClusterEvent, Purpose, decode, encode, quorum_wire, raft_context,
    registration::Standing,
};
use crate::{
    event::Event,
    ids::{NodeId, Offset},
    peer::{self, CallError},
    raft::{self, LinkLost, PeerReply, PeerRequest, PeerTicket, RaftEvent},
    storage::StorageQueue,
    time::Now,
};

pub(crate) use super::quorum_wire::Asked;

/// The most that an answer to a replica's call may hold: what a fetch asks for, and one batch that is larger.
const ANSWER_BYTES_MAX: usize = 16 << 20;

impl Cluster {
    /// Takes what another replica of the metadata log asks; [`Self::poll_peer_reply`] hands out the answer.
    pub(crate) fn on_peer_request(
        &mut self,
        now: Now,
        storage: &mut StorageQueue,
        ticket: PeerTicket,
        request: PeerRequest,
    ) {
        let mut context = raft_context(self.planted, now, storage);
        self.raft.on_peer_request(&mut context, request, ticket);
    }

    /// Takes the oldest answer to another replica.
    pub(crate) fn poll_peer_reply(&mut self) -> Option<(PeerTicket, PeerReply)> {
        self.raft.poll_reply()
    }

    /// Takes the answer to a call of this replica, or its loss.
    pub(crate) fn on_peer_answer(
        &mut self,
        now: Now,
        storage: &mut StorageQueue,
        from: NodeId,
        (id, asked): (raft::CallId, Asked),
        outcome: Result<Bytes, CallError>,
    ) {
        let reply = outcome.map_err(|_| LinkLost).and_then(|body| {
            // Whoever answers what is none is as good as silent.
            quorum_wire::decode(asked, body).map_err(|_| LinkLost)
        });
        let mut context = raft_context(self.planted, now, storage);
        self.raft.on_peer_reply(&mut context, from, id, reply);
    }

    /// Hands out the next call of the replica here.
    pub(super) fn poll_replica(&mut self) -> Option<ClusterEvent> {
        let (to, id, (asked, api, version, body)) = loop {
            let (to, id, request) = self.raft.poll_send()?;
            // One that cannot be written counts as lost: its time runs out.
            if let Ok(written) = quorum_wire::encode(&request) {
                break (to, id, written);
            }
        };
        let call = peer::Call {
            api_key: api.key(),
            version,
            body,
            timeout_ms: self.quorum_timeout_ms,
            answer_bytes_max: ANSWER_BYTES_MAX,
        };
        Some(ClusterEvent::CallReplica(to, (id, asked), call))
    }

    pub(super) fn on_raft_event(
        &mut self,
        now: Now,
        storage: &mut StorageQueue,
        event: RaftEvent,
    ) -> Result<(), String> {
        match event {
            RaftEvent::SnapshotLoaded {
                end_offset,
                records,
                ..
            } => {
                let records = decode(&records)?;
                let loaded = self.controller.load_snapshot(end_offset, &records);
                loaded.map_err(|error| format!("the metadata snapshot does not fit: {error}"))?;
                self.refresh_settings();
                self.events.push_back(ClusterEvent::Reloaded);
                self.see_image()?;
            }
            RaftEvent::Committed {
                base_offset,
                records,
                ..
            } => self.on_committed(base_offset, &records)?,
            RaftEvent::Founding => self.events.push_back(ClusterEvent::Founding),
            RaftEvent::BecameLeader { epoch } => {
                let log_end = self.raft.probe().log_end;
                self.controller.skip_to(self.raft.high_watermark());
                self.controller.become_leader(now.instant, epoch, log_end);
                let first_records = std::mem::take(&mut self.first_records);
                if self.image().cluster_id().is_none() && !first_records.is_empty() {
                    self.controller.append_own(first_records);
                }
                self.errands.wake(now.instant, self.node_id);
                self.knows_leader();
            }
            RaftEvent::SnapshotNeeded { at } => {
                let records = encode(&self.controller.committed().to_snapshot_records())?;
                let mut context = raft_context(self.planted, now, storage);
                self.raft.write_snapshot(&mut context, at, records);
            }
            RaftEvent::LostLeadership { .. } => self.controller.resign(),
            RaftEvent::LeaderChanged { leader, .. } => {
                if let Some(leader) = leader {
                    self.errands.wake(now.instant, leader);
                    self.knows_leader();
                }
            }
            RaftEvent::Warning { message } => {
                let warning = Event::QuorumWarning { message };
                self.events.push_back(ClusterEvent::Told(warning));
            }
            RaftEvent::Notice(event) => self.events.push_back(ClusterEvent::Told(event)),
            RaftEvent::Closed => self.events.push_back(ClusterEvent::Closed),
            RaftEvent::Fatal { message } => return Err(message),
        }
        Ok(())
    }

    fn on_committed(&mut self, base_offset: Offset, records: &[Bytes]) -> Result<(), String> {
        let changes = if self.controller.leading_epoch().is_some() {
            let length = Offset::try_from(records.len()).unwrap_or(Offset::MAX);
            self.controller
                .on_committed(base_offset.saturating_add(length))
        } else {
            self.controller
                .replay_committed(base_offset, &decode(records)?)
        };
        let changes = changes.map_err(|error| format!("the metadata log does not fit: {error}"))?;
        self.events
            .extend(changes.into_iter().map(ClusterEvent::Changed));
        self.see_image()
    }

    /// A node that is no broker has nothing else to wait for before it serves.
    fn knows_leader(&mut self) {
        if self.registration.is_none() {
            self.events.push_back(ClusterEvent::Unfenced);
        }
    }

    /// Looks for what the metadata says of this very node.
    fn see_image(&mut self) -> Result<(), String> {
        if self.cluster_id.is_none()
            && let Some(cluster_id) = self.controller.committed().cluster_id()
        {
            self.cluster_id = Some(cluster_id.to_owned());
            let founded = ClusterEvent::Founded(cluster_id.to_owned());
            self.events.push_back(founded);
        }
        let own = self.controller.committed().broker(self.node_id);
        let Some(registration) = &mut self.registration else {
            return Ok(());
        };
        for standing in registration.see(own) {
            match standing {
                Standing::Registered => {
                    self.events.push_back(ClusterEvent::Registered);
                }
                Standing::Unfenced => {
                    self.events.push_back(ClusterEvent::Unfenced);
                }
                Standing::Replaced => {
                    return Err(format!(
                        "another process is registered as broker {} now, or an operator unregistered it: this one must not go on",
                        self.node_id
                    ));
                }
            }
        }
        Ok(())
    }

    /// The cluster's id is durable here: only now may this node become part of it.
    pub(crate) fn join(&mut self, now: Now, cluster_id: String) {
        self.raft.join_cluster(cluster_id);
        self.begin_registration(now);
    }

    pub(super) fn has_heartbeat_under_way(&self) -> bool {
        self.errands
            .has(|purpose| matches!(purpose, Purpose::Heartbeat))
    }
}
