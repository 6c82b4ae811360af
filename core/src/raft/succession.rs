//! The beginning and the end of a leader's epoch as others hear of it, and the leader's doubt whether they still do.

use std::collections::BTreeSet;

use crate::{
    ids::{Epoch, NodeId},
    protocol::ErrorCode,
    time::Instant,
};

use super::{
    Phase, Raft,
    calls::CallKind,
    config::RaftContext,
    event::RaftEvent,
    messages::{
        BeginQuorumEpochRequest, EndQuorumEpochRequest, PeerRequest, PeerTicket, ReplyBody,
    },
    role::Role,
    voters::{ReplicaKey, Voter},
};

/// A leadership that is over, and who has not been told.
#[derive(Debug)]
pub(super) struct Ending {
    epoch: Epoch,
    preferred: Vec<ReplicaKey>,
    untold: BTreeSet<NodeId>,
}

impl Raft {
    /// Tells the voters that have not fetched for a while, or not yet, who leads.
    pub(super) fn remind_voters(&mut self, cx: &RaftContext<'_>) {
        let now = cx.now.instant;
        let Role::Leader(leader) = &self.role else {
            return;
        };
        let silent: Vec<NodeId> = self
            .voters
            .iter()
            .map(|voter| voter.id)
            .filter(|id| *id != self.local.key.id)
            .filter(|id| {
                let heard = leader.heard_of(*id);
                heard == leader.since || self.timing.reminder(heard) <= now
            })
            .filter(|id| self.calls.may_call(*id, now))
            .collect();
        for voter in silent {
            let request = PeerRequest::BeginQuorumEpoch(BeginQuorumEpochRequest {
                cluster_id: self.cluster_id.clone(),
                voter: self.voters.get(voter).map(Voter::key),
                leader: self.local.key.id,
                epoch: self.epoch,
                endpoints: self.own_endpoints(),
            });
            self.send(cx, voter, CallKind::Begin, request);
        }
    }

    fn own_endpoints(&self) -> Vec<super::voters::Endpoint> {
        self.voters
            .get(self.local.key.id)
            .map(|voter| voter.endpoints.clone())
            .unwrap_or_default()
    }

    /// Returns when a leader must look at its voters again.
    pub(super) fn leader_deadline(&self) -> Option<Instant> {
        let Role::Leader(leader) = &self.role else {
            return None;
        };
        let heard = leader.majority_heard(&self.voters, self.local.key)?;
        let reminders = self
            .voters
            .iter()
            .filter(|voter| voter.id != self.local.key.id)
            .map(|voter| leader.heard_of(voter.id))
            // One who is silent has an open call or is left in peace: that has its own time.
            .filter(|heard| *heard != leader.since)
            .map(|heard| self.timing.reminder(heard))
            .filter(|due| *due > self.woken_at);
        reminders.chain([self.timing.quorum_end(heard)]).min()
    }

    pub(super) fn on_begin_request(
        &mut self,
        cx: &mut RaftContext<'_>,
        ticket: PeerTicket,
        request: &BeginQuorumEpochRequest,
    ) {
        let error = match request.voter {
            Some(voter) if !self.is_local(voter) => ErrorCode::InvalidVoterKey,
            _ if request.epoch < self.epoch => ErrorCode::FencedLeaderEpoch,
            _ if self.voters.get(request.leader).is_none() => ErrorCode::InconsistentVoterSet,
            _ => {
                self.learn(cx, request.epoch, Some(request.leader));
                ErrorCode::None
            }
        };
        self.answer(ticket, error, ReplyBody::BeginQuorumEpoch);
    }

    pub(super) fn on_begin_reply(&mut self, cx: &RaftContext<'_>, from: NodeId, error: ErrorCode) {
        match error {
            // It knows and will fetch; if it does not, it is told again.
            ErrorCode::None => {
                let again = self.timing.reminder(cx.now.instant);
                self.calls.quiet(from, again);
            }
            ErrorCode::InvalidVoterKey
            | ErrorCode::InconsistentVoterSet
            | ErrorCode::InconsistentClusterId => {
                self.warn_of(from, error);
                let again = self.timing.reminder(cx.now.instant);
                self.calls.quiet(from, again);
            }
            _ => self.retry_later(cx, from),
        }
    }

    /// Takes note that the leader of this epoch leads no more. The preferred successor stands at once, the others give it
    /// the time to win.
    pub(super) fn on_end_request(
        &mut self,
        cx: &mut RaftContext<'_>,
        ticket: PeerTicket,
        request: &EndQuorumEpochRequest,
    ) {
        let error = if request.epoch < self.epoch {
            ErrorCode::FencedLeaderEpoch
        } else if self.voters.get(request.leader).is_none() {
            ErrorCode::InconsistentVoterSet
        } else {
            ErrorCode::None
        };
        if error == ErrorCode::None {
            let is_local = request.leader == self.local.key.id;
            let follows = match self.leader_id() {
                Some(leader) => leader == request.leader,
                None => true,
            };
            if request.epoch > self.epoch || (follows && !is_local) {
                let place = request
                    .preferred
                    .iter()
                    .position(|preferred| self.is_local(*preferred))
                    .unwrap_or(request.preferred.len());
                self.leave_leader(cx, request.epoch, place);
            }
        }
        self.answer(ticket, error, ReplyBody::EndQuorumEpoch);
    }

    /// Waits for another leader than the one of this epoch, who leads no more.
    pub(super) fn leave_leader(&mut self, cx: &mut RaftContext<'_>, epoch: Epoch, place: usize) {
        let is_waiting = match &self.role {
            Role::Follower { .. } | Role::Observer { .. } | Role::Unattached { .. } => true,
            Role::Prospective { .. }
            | Role::Candidate { .. }
            | Role::Leader(_)
            | Role::Resigned => epoch > self.epoch,
        };
        if !is_waiting {
            return;
        }
        self.become_unattached(cx, epoch);
        self.ended = Some(epoch);
        if self.is_voter() {
            self.role_until = Some(self.timing.succession(cx.now.instant, place));
        }
    }

    /// Prepares a clean stop; [`RaftEvent::Closed`] says that all is durable. Nothing can be appended any more. A leader first
    /// lets the others know, so that they need not wait for a timeout.
    pub fn close(&mut self, cx: &mut RaftContext<'_>) {
        if !matches!(self.phase, Phase::Running) || !self.log.is_open() {
            self.is_closing = true;
            self.events.push_back(RaftEvent::Closed);
            return;
        }
        let wait = self.config.request_timeout_ms.max(1);
        self.close_by = Some(cx.now.instant.plus_millis(wait));
        if !self.is_only_voter() {
            self.resign(cx);
        }
        self.is_closing = true;
        self.log.close(cx);
        let done = self.drain_log(cx);
        self.finish(cx, done);
    }

    /// Says that everything is done that a close waits for.
    pub(super) fn maybe_closed(&mut self) {
        let is_over = self.close_by.is_some_and(|by| self.woken_at >= by);
        if self.is_log_closed
            && self.founding.is_none()
            && self.close_by.is_some()
            && (self.is_end_told() || is_over)
        {
            self.close_by = None;
            self.events.push_back(RaftEvent::Closed);
        }
    }

    /// Stops leading when no majority has fetched for too long: another may lead already, and nothing can be committed here.
    pub(super) fn maybe_resign(&mut self, cx: &RaftContext<'_>) {
        let Role::Leader(leader) = &self.role else {
            return;
        };
        let heard = leader.majority_heard(&self.voters, self.local.key);
        if heard.is_some_and(|heard| cx.now.instant >= self.timing.quorum_end(heard)) {
            self.resign(cx);
        }
    }

    /// Stops leading and names the successors.
    pub(super) fn resign(&mut self, cx: &RaftContext<'_>) {
        let Role::Leader(leader) = &self.role else {
            return;
        };
        let local = self.local.key.id;
        let preferred = leader.successors(&self.voters, local);
        let untold = preferred.iter().map(|key| key.id).collect();
        let ending = Ending {
            epoch: self.epoch,
            preferred,
            untold,
        };
        self.enter(cx, Role::Resigned);
        self.ending = Some(ending);
    }

    /// Tells the voters that the epoch has ended, each until it answers.
    pub(super) fn tell_end(&mut self, cx: &RaftContext<'_>) {
        let now = cx.now.instant;
        let Some(ending) = &self.ending else {
            return;
        };
        let untold: Vec<NodeId> = ending
            .untold
            .iter()
            .copied()
            .filter(|id| self.calls.may_call(*id, now))
            .collect();
        let (epoch, preferred) = (ending.epoch, ending.preferred.clone());
        for voter in untold {
            let request = PeerRequest::EndQuorumEpoch(EndQuorumEpochRequest {
                cluster_id: self.cluster_id.clone(),
                leader: self.local.key.id,
                epoch,
                preferred: preferred.clone(),
                endpoints: self.own_endpoints(),
            });
            self.send(cx, voter, CallKind::End, request);
        }
    }

    /// Any answer will do: whoever refuses knows of a later epoch.
    pub(super) fn on_end_reply(&mut self, _cx: &RaftContext<'_>, from: NodeId) {
        if let Some(ending) = &mut self.ending {
            ending.untold.remove(&from);
        }
    }

    /// Returns whether everybody knows that this leader leads no more.
    pub(super) fn is_end_told(&self) -> bool {
        self.ending
            .as_ref()
            .is_none_or(|ending| ending.untold.is_empty())
    }
}
