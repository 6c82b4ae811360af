//! The peers' side of a replica: requests in, replies out, calls out, replies in.

use crate::{ids::NodeId, protocol::ErrorCode};

use super::{
    Phase, Raft,
    calls::{Call, CallKind},
    config::RaftContext,
    event::RaftEvent,
    messages::{CallId, LinkLost, PeerReply, PeerRequest, PeerTicket, ReplyBody},
    refusal::Refusal,
    role::Role,
    voters::ReplicaKey,
};
use crate::ids::Uuid;

impl Raft {
    /// Takes a peer's request; [`Raft::poll_reply`] hands out the reply under the same ticket, at once or when what it
    /// promises is durable, or when there is news to tell.
    pub fn on_peer_request(
        &mut self,
        cx: &mut RaftContext<'_>,
        request: PeerRequest,
        ticket: PeerTicket,
    ) {
        let is_stranger = request
            .cluster_id()
            .zip(self.cluster_id.as_deref())
            .is_some_and(|(theirs, own)| theirs != own);
        let is_up = matches!(self.phase, Phase::Running) && self.founding.is_none();
        let error = if !is_up || self.is_closing {
            Some(ErrorCode::BrokerNotAvailable)
        } else if is_stranger {
            Some(ErrorCode::InconsistentClusterId)
        } else {
            None
        };
        if let Some(error) = error {
            // Before the loading is over not even the epoch is known.
            let reply = PeerReply {
                error,
                epoch: None,
                leader: None,
                body: request.empty_body(),
            };
            self.replies.push_back((ticket, reply));
            return;
        }
        let taken = match request {
            PeerRequest::Vote(request) => {
                self.on_vote_request(cx, ticket, &request);
                Ok(())
            }
            PeerRequest::BeginQuorumEpoch(request) => {
                self.on_begin_request(cx, ticket, &request);
                Ok(())
            }
            PeerRequest::EndQuorumEpoch(request) => {
                self.on_end_request(cx, ticket, &request);
                Ok(())
            }
            PeerRequest::Fetch(request) => self.on_fetch_request(cx, ticket, request),
            PeerRequest::FetchSnapshot(request) => {
                self.on_fetch_snapshot_request(cx, ticket, &request);
                Ok(())
            }
        };
        self.finish(cx, taken);
    }

    /// Takes the reply to a call, or learns that there will be none. Replies to calls that are no longer waited for change
    /// nothing.
    pub fn on_peer_reply(
        &mut self,
        cx: &mut RaftContext<'_>,
        from: NodeId,
        call: CallId,
        reply: Result<PeerReply, LinkLost>,
    ) {
        if !matches!(self.phase, Phase::Running) {
            return;
        }
        let Some(call) = self.calls.close(from, call) else {
            return;
        };
        let taken = match reply {
            Ok(reply) => self.on_reply(cx, call, reply),
            Err(LinkLost) => {
                self.on_silence(cx, call);
                Ok(())
            }
        };
        self.finish(cx, taken);
    }

    /// Takes the oldest reply not taken yet.
    pub fn poll_reply(&mut self) -> Option<(PeerTicket, PeerReply)> {
        self.replies.pop_front()
    }

    /// Takes the oldest call not taken yet: to be sent to that node, its reply to be handed in under that number.
    pub fn poll_send(&mut self) -> Option<(NodeId, CallId, PeerRequest)> {
        self.sends.pop_front()
    }

    /// Tells which cluster this node belongs to, once the committed records say so and the host has made it durable.
    pub fn join_cluster(&mut self, cluster_id: String) {
        self.cluster_id.get_or_insert(cluster_id);
    }

    /// Makes a call.
    pub(super) fn send(
        &mut self,
        cx: &RaftContext<'_>,
        to: NodeId,
        kind: CallKind,
        request: PeerRequest,
    ) {
        let due = cx
            .now
            .instant
            .plus_millis(self.config.request_timeout_ms.max(1));
        let id = self.calls.open(to, kind, due);
        self.sends.push_back((to, id, request));
    }

    /// Makes an answer with what this replica knows of the quorum.
    pub(super) const fn reply(&self, error: ErrorCode, body: ReplyBody) -> PeerReply {
        PeerReply {
            error,
            epoch: Some(self.epoch),
            leader: self.leader_id(),
            body,
        }
    }

    pub(super) fn answer(&mut self, ticket: PeerTicket, error: ErrorCode, body: ReplyBody) {
        let reply = self.reply(error, body);
        self.replies.push_back((ticket, reply));
    }

    /// Returns whether a request means this replica; a directory of zero is one that the sender does not know.
    pub(super) fn is_local(&self, asked: ReplicaKey) -> bool {
        let local = self.local.key;
        asked.id == local.id
            && (asked.directory == Uuid::ZERO || asked.directory == local.directory)
    }

    fn on_reply(
        &mut self,
        cx: &mut RaftContext<'_>,
        call: Call,
        reply: PeerReply,
    ) -> Result<(), Refusal> {
        let before = self.epoch;
        if let Some(epoch) = reply.epoch {
            let is_follower = self.role.may_follow();
            // Whoever is looking past a leader is not sent back to it by those who have not noticed yet.
            let is_known = matches!(
                self.role,
                Role::Prospective {
                    leader: Some(_),
                    ..
                }
            );
            let leader = reply.leader.filter(|_| epoch > self.epoch || !is_known);
            self.learn(cx, epoch, leader);
            // The role that made the call is over.
            if self.epoch != before || self.role.may_follow() != is_follower {
                return Ok(());
            }
        }
        let (from, error) = (call.to, reply.error);
        match (call.kind, reply.body) {
            (CallKind::Vote, ReplyBody::Vote { granted }) => {
                self.on_vote_reply(cx, from, error, granted)
            }
            (CallKind::Begin, ReplyBody::BeginQuorumEpoch) => {
                self.on_begin_reply(cx, from, error);
                Ok(())
            }
            (CallKind::End, ReplyBody::EndQuorumEpoch) => {
                self.on_end_reply(cx, from);
                Ok(())
            }
            (CallKind::Fetch, ReplyBody::Fetch(reply)) => {
                self.on_fetch_reply(cx, from, error, reply)
            }
            (CallKind::FetchSnapshot, ReplyBody::FetchSnapshot(piece)) => {
                self.on_snapshot_piece(cx, from, error, piece)
            }
            // An answer to something else than was asked is none.
            (
                CallKind::Vote
                | CallKind::Begin
                | CallKind::End
                | CallKind::Fetch
                | CallKind::FetchSnapshot,
                _,
            ) => {
                self.on_silence(cx, call);
                Ok(())
            }
        }
    }

    /// A call was not answered: it is made again after a pause, if the role still wants it.
    pub(super) fn on_silence(&mut self, cx: &RaftContext<'_>, call: Call) {
        self.retry_later(cx, call.to);
    }

    pub(super) fn retry_later(&mut self, cx: &RaftContext<'_>, peer: NodeId) {
        let pause = self.config.retry_backoff_ms.max(1);
        self.calls.quiet(peer, cx.now.instant.plus_millis(pause));
    }

    /// Says once that a peer and this node do not take each other for what they are.
    pub(super) fn warn_of(&mut self, peer: NodeId, error: ErrorCode) {
        if !self.warned.insert((peer, error)) {
            return;
        }
        let what = match error {
            ErrorCode::InconsistentClusterId => "belongs to another cluster than this node",
            ErrorCode::InvalidVoterKey => {
                "has another directory id than the one of the cluster's voter: it has lost or changed its disk"
            }
            ErrorCode::InconsistentVoterSet => {
                "does not know this node with its directory id as a voter"
            }
            _ => "refuses this node",
        };
        self.events.push_back(RaftEvent::Warning {
            message: format!(
                "node {peer} {what} ({error}); check controller.quorum.voters and the disks of both nodes"
            ),
        });
    }

    /// Ends the handling of an input: what has become possible by it is done.
    pub(super) fn finish(&mut self, cx: &mut RaftContext<'_>, taken: Result<(), Refusal>) {
        self.woken_at = cx.now.instant;
        let done = taken.and_then(|()| self.go_on(cx));
        if let Err(refusal) = done {
            self.fail(&refusal);
        }
    }

    fn go_on(&mut self, cx: &mut RaftContext<'_>) -> Result<(), Refusal> {
        if !matches!(self.phase, Phase::Running) {
            return Ok(());
        }
        if !self.is_closing {
            self.maybe_lead(cx)?;
            self.drain_log(cx)?;
        }
        self.call_peers(cx);
        self.maybe_closed();
        Ok(())
    }
}
