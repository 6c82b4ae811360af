//! Votes: asking for them, giving them, and counting the answers (KIP-595, pre-votes KIP-996).

use crate::{ids::NodeId, planted::Planted, protocol::ErrorCode};

use super::{
    Raft,
    config::RaftContext,
    messages::{LogPosition, PeerReply, PeerRequest, PeerTicket, ReplyBody, VoteRequest},
    quorum_state::ElectionState,
    refusal::Refusal,
    role::Role,
};

/// An answer that waits until the vote it gives is durable.
#[derive(Debug)]
pub(super) struct ParkedVote {
    vote: ElectionState,
    ticket: PeerTicket,
    reply: PeerReply,
}

impl Raft {
    /// Returns the last entry of the log. A log that a snapshot has taken the place of ends where the snapshot does.
    pub(super) fn last_position(&self) -> LogPosition {
        let end = self.log.end();
        let of_snapshot = self
            .snapshots
            .latest()
            .filter(|id| id.end_offset == end)
            .map(|id| id.epoch);
        let epoch = self.log.latest_epoch().or(of_snapshot);
        LogPosition {
            epoch: epoch.unwrap_or_default(),
            end,
        }
    }

    pub(super) fn ask_for_vote(&mut self, cx: &RaftContext<'_>, to: NodeId, is_pre_vote: bool) {
        let request = PeerRequest::Vote(VoteRequest {
            cluster_id: self.cluster_id.clone(),
            voter: self.voters.get(to).map(super::voters::Voter::key),
            candidate: self.local.key,
            epoch: self.epoch,
            last: self.last_position(),
            is_pre_vote,
        });
        self.send(cx, to, super::calls::CallKind::Vote, request);
    }

    /// Decides on a vote.
    pub(super) fn on_vote_request(
        &mut self,
        cx: &mut RaftContext<'_>,
        ticket: PeerTicket,
        request: &VoteRequest,
    ) {
        let refused = |error| (error, ReplyBody::Vote { granted: false });
        if let Some(error) = self.refuse_candidate(request) {
            let (error, body) = refused(error);
            return self.answer(ticket, error, body);
        }
        let is_newer = request.epoch > self.epoch;
        if request.is_pre_vote {
            if is_newer {
                self.become_unattached(cx, request.epoch);
            }
            let granted = self.would_vote(cx, request);
            return self.answer(ticket, ErrorCode::None, ReplyBody::Vote { granted });
        }
        let state = self.next_state(request.epoch);
        let granted = self.votes(cx, request, &state);
        let vote = ElectionState {
            voted: granted.then_some(request.candidate).or(state.voted),
            is_founder: state.is_founder || (granted && !self.has_voters && self.is_empty()),
            ..state
        };
        // Only a new epoch or a vote that is given now ends the present role.
        if is_newer || vote.voted != self.ballot.latest().voted {
            self.decide(cx, vote);
            let role = self.waiting_role();
            self.enter(cx, role);
        }
        let reply = self.reply(ErrorCode::None, ReplyBody::Vote { granted });
        if granted && !cx.planted.has(Planted::B23) {
            self.parked_votes.push(ParkedVote {
                vote,
                ticket,
                reply,
            });
            self.release_votes();
        } else {
            self.replies.push_back((ticket, reply));
        }
    }

    fn refuse_candidate(&self, request: &VoteRequest) -> Option<ErrorCode> {
        if let Some(voter) = request.voter
            && !self.is_local(voter)
        {
            return Some(ErrorCode::InvalidVoterKey);
        }
        if request.epoch < self.epoch {
            return Some(ErrorCode::FencedLeaderEpoch);
        }
        // Whoever is no voter must not even move the epoch; nor does a voter with another disk.
        if !self.voters.contains(request.candidate) {
            return Some(ErrorCode::InconsistentVoterSet);
        }
        None
    }

    /// Returns whether a candidate's log holds all that this one holds, and whether this replica may judge that: one that
    /// knows no voters votes in the election that founds the cluster, and later only if it did so then.
    fn may_support(&self, cx: &RaftContext<'_>, last: LogPosition) -> bool {
        let own = self.last_position();
        let is_up_to_date = if cx.planted.has(Planted::B26) {
            last.epoch >= own.epoch
        } else {
            last >= own
        };
        let is_founding = last == LogPosition::default();
        let is_entitled = self.has_voters || is_founding || self.ballot.latest().is_founder;
        is_up_to_date && is_entitled
    }

    /// Returns whether a candidate would get the vote. A follower that hears its leader says no, so that nobody is disturbed
    /// by a replica that only it cannot hear.
    fn would_vote(&self, cx: &RaftContext<'_>, request: &VoteRequest) -> bool {
        let may_leave = match &self.role {
            Role::Unattached { .. }
            | Role::Prospective { .. }
            | Role::Candidate { .. }
            | Role::Resigned => true,
            Role::Follower { .. } => !self.following.has_fetched,
            Role::Leader(_) | Role::Observer { .. } => false,
        };
        may_leave && self.may_support(cx, request.last)
    }

    /// Returns whether a candidate gets the vote of an epoch.
    fn votes(&self, cx: &RaftContext<'_>, request: &VoteRequest, state: &ElectionState) -> bool {
        if !self.is_voter() {
            return false;
        }
        match state.voted {
            Some(voted) => voted == request.candidate,
            None => state.leader.is_none() && self.may_support(cx, request.last),
        }
    }

    /// Answers for the votes that are durable by now, and so is the folder that they are in.
    pub(super) fn release_votes(&mut self) {
        if self.root_sync.is_some() {
            return;
        }
        for parked in std::mem::take(&mut self.parked_votes) {
            if self.ballot.holds(&parked.vote) {
                self.replies.push_back((parked.ticket, parked.reply));
            } else {
                self.parked_votes.push(parked);
            }
        }
    }

    /// Counts the answer of a voter. The call was made in this very election: others are forgotten.
    pub(super) fn on_vote_reply(
        &mut self,
        cx: &mut RaftContext<'_>,
        from: NodeId,
        error: ErrorCode,
        granted: bool,
    ) -> Result<(), Refusal> {
        let Some(voter) = self.voters.get(from).map(super::voters::Voter::key) else {
            return Ok(());
        };
        let is_answer = match error {
            ErrorCode::None => true,
            ErrorCode::InvalidVoterKey
            | ErrorCode::InconsistentVoterSet
            | ErrorCode::InconsistentClusterId => {
                self.warn_of(from, error);
                true
            }
            _ => false,
        };
        let (Role::Prospective { votes, .. } | Role::Candidate { votes }) = &mut self.role else {
            return Ok(());
        };
        if !is_answer {
            self.retry_later(cx, from);
            return Ok(());
        }
        if error == ErrorCode::None && granted {
            votes.grant(&self.voters, voter);
        } else {
            votes.reject(from);
        }
        if votes.are_lost(&self.voters) {
            self.on_election_lost(cx);
            return Ok(());
        }
        let is_won = votes.are_enough_of(&self.voters);
        match &self.role {
            Role::Prospective { .. } if is_won => self.stand_for_election(cx),
            Role::Candidate { .. } => self.maybe_lead(cx),
            Role::Prospective { .. }
            | Role::Unattached { .. }
            | Role::Follower { .. }
            | Role::Leader(_)
            | Role::Resigned
            | Role::Observer { .. } => Ok(()),
        }
    }
}
