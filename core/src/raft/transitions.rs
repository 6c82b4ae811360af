//! From one role to the next, and what each role does when its time has come.

use std::mem;

use crate::{
    ids::{Epoch, NodeId},
    time::Instant,
};

use super::{
    Raft,
    config::RaftContext,
    event::RaftEvent,
    follow::Following,
    quorum_state::ElectionState,
    refusal::Refusal,
    role::{Role, Votes},
};

impl Raft {
    /// Takes a role. Calls of the old one answer nothing any more, and whoever waits for a leader here is told that there is
    /// none.
    pub(super) fn enter(&mut self, cx: &RaftContext<'_>, role: Role) {
        self.calls.forget();
        self.following = Following::default();
        if !matches!(role, Role::Resigned) {
            self.ending = None;
        }
        if matches!(role, Role::Leader(_) | Role::Follower { .. }) {
            self.elections_lost = 0;
        }
        let was = mem::replace(&mut self.role, role);
        if matches!(was, Role::Leader(_)) {
            self.refuse_parked();
            if let Some(epoch) = self.announced.take() {
                self.events.push_back(RaftEvent::LostLeadership { epoch });
            }
        }
        self.role_until = self.patience(cx.now.instant);
        self.tell_leader();
    }

    /// Returns when a role has waited long enough.
    fn patience(&mut self, now: Instant) -> Option<Instant> {
        if self.is_only_voter() {
            return None;
        }
        match &self.role {
            Role::Unattached { .. }
            | Role::Prospective { .. }
            | Role::Candidate { .. }
            | Role::Resigned => Some(self.timing.election_end(now)),
            Role::Follower { .. } | Role::Observer { leader: Some(_) } => {
                Some(self.timing.fetch_end(now))
            }
            Role::Observer { leader: None } | Role::Leader(_) => None,
        }
    }

    /// Says who leads when that changed; of its own leadership the host hears once it counts.
    fn tell_leader(&mut self) {
        let leader = self.leader_id().filter(|id| *id != self.local.key.id);
        let told = leader.map(|leader| (self.epoch, leader));
        if told != self.told_leader {
            self.told_leader = told;
            self.events.push_back(RaftEvent::LeaderChanged {
                epoch: self.epoch,
                leader,
            });
        }
    }

    pub(super) fn is_only_voter(&self) -> bool {
        self.voters.len() == 1 && self.voters.contains(self.local.key)
    }

    pub(super) fn is_voter(&self) -> bool {
        self.voters.contains(self.local.key)
    }

    /// Makes the state that follows in an epoch out of what is known of it.
    pub(super) fn next_state(&self, epoch: Epoch) -> ElectionState {
        let last = *self.ballot.latest();
        // Once the voters are durable here, an empty log would be a loss.
        let is_founder = last.is_founder && self.is_empty();
        if last.epoch == epoch {
            return ElectionState { is_founder, ..last };
        }
        ElectionState {
            epoch,
            leader: None,
            voted: None,
            is_founder,
        }
    }

    /// Returns whether nothing that was ever committed or promised can be here.
    pub(super) fn is_empty(&self) -> bool {
        self.log.end() == 0 && self.snapshots.latest().is_none()
    }

    /// Decides the state of an epoch, which then is the present one.
    pub(super) fn decide(&mut self, cx: &mut RaftContext<'_>, state: ElectionState) {
        let path = self.state_path();
        let decided = (state, self.founding.is_some());
        self.ballot
            .decide(cx.storage, self.local.owner, path, decided);
        self.epoch = state.epoch;
    }

    /// Takes note of an epoch, and of its leader, that a peer told.
    pub(super) fn learn(&mut self, cx: &mut RaftContext<'_>, epoch: Epoch, leader: Option<NodeId>) {
        let local = self.local.key.id;
        let leader = leader.filter(|id| *id != local && self.voters.get(*id).is_some());
        if epoch > self.epoch {
            match leader {
                Some(leader) => self.become_follower(cx, epoch, leader),
                None => self.become_unattached(cx, epoch),
            }
        } else if epoch == self.epoch
            && self.ended != Some(epoch)
            && let Some(leader) = leader
            && self.role.may_follow()
            && self
                .ballot
                .latest()
                .leader
                .is_none_or(|known| known == leader)
        {
            self.become_follower(cx, epoch, leader);
        }
    }

    /// Waits for a leader of an epoch.
    pub(super) fn become_unattached(&mut self, cx: &mut RaftContext<'_>, epoch: Epoch) {
        if epoch > self.epoch {
            let state = self.next_state(epoch);
            self.decide(cx, state);
        }
        let role = self.waiting_role();
        self.enter(cx, role);
    }

    /// Returns the role of a replica that knows no leader.
    pub(super) fn waiting_role(&self) -> Role {
        if self.is_voter() {
            Role::Unattached { leader: None }
        } else {
            Role::Observer { leader: None }
        }
    }

    fn become_follower(&mut self, cx: &mut RaftContext<'_>, epoch: Epoch, leader: NodeId) {
        let state = ElectionState {
            leader: Some(leader),
            ..self.next_state(epoch)
        };
        self.decide(cx, state);
        let role = if self.is_voter() {
            Role::Follower { leader }
        } else {
            Role::Observer {
                leader: Some(leader),
            }
        };
        self.enter(cx, role);
        self.plant_early_truncation(cx);
    }

    /// Does what a role does at the end of its patience.
    pub(super) fn on_role_timeout(&mut self, cx: &mut RaftContext<'_>) -> Result<(), Refusal> {
        let now = cx.now.instant;
        if let Role::Leader(_) = &self.role {
            self.maybe_resign(cx);
            return Ok(());
        }
        if self.role_until.is_none_or(|until| now < until) {
            return Ok(());
        }
        match &self.role {
            Role::Unattached { .. } | Role::Follower { .. } | Role::Resigned if self.is_busy() => {
                // What is being cut off must not be counted in an election.
                self.role_until = Some(now.plus_millis(self.config.retry_backoff_ms.max(1)));
                Ok(())
            }
            Role::Unattached { .. } | Role::Follower { .. } | Role::Resigned => {
                self.become_prospective(cx)
            }
            Role::Candidate { .. } => {
                self.elections_lost = self.elections_lost.saturating_add(1);
                self.become_prospective(cx)
            }
            Role::Prospective { leader, .. } => {
                let role = match leader {
                    Some(leader) => Role::Follower { leader: *leader },
                    None => Role::Unattached { leader: None },
                };
                self.enter(cx, role);
                Ok(())
            }
            Role::Observer { .. } => {
                self.enter(cx, Role::Observer { leader: None });
                Ok(())
            }
            Role::Leader(_) => Ok(()),
        }
    }

    /// Takes notice that an election cannot be won any more.
    pub(super) fn on_election_lost(&mut self, cx: &RaftContext<'_>) {
        let now = cx.now.instant;
        match &self.role {
            Role::Prospective { leader, .. } => {
                let role = match leader {
                    Some(leader) => Role::Follower { leader: *leader },
                    None => Role::Unattached { leader: None },
                };
                self.enter(cx, role);
            }
            Role::Candidate { .. } => {
                let lost = self.elections_lost.saturating_add(1);
                self.role_until = Some(self.timing.next_election(now, lost));
            }
            Role::Unattached { .. }
            | Role::Follower { .. }
            | Role::Leader(_)
            | Role::Resigned
            | Role::Observer { .. } => {}
        }
    }

    /// Makes the calls that the role wants to make now.
    pub(super) fn call_peers(&mut self, cx: &mut RaftContext<'_>) {
        match &self.role {
            Role::Prospective { votes, .. } => {
                let votes = votes.clone();
                self.ask_for_votes(cx, &votes, true);
            }
            Role::Candidate { votes } if self.may_campaign(cx) => {
                let votes = votes.clone();
                self.ask_for_votes(cx, &votes, false);
            }
            Role::Leader(_) => self.remind_voters(cx),
            Role::Resigned => self.tell_end(cx),
            Role::Follower { leader } => {
                let leader = *leader;
                self.maybe_fetch(cx, leader);
            }
            Role::Observer {
                leader: Some(leader),
            } => {
                let leader = *leader;
                self.maybe_fetch(cx, leader);
            }
            Role::Observer { leader: None } => self.look_for_leader(cx),
            Role::Candidate { .. } | Role::Unattached { .. } => {}
        }
        if !self.is_closing {
            self.maybe_install(cx);
        }
    }

    fn ask_for_votes(&mut self, cx: &RaftContext<'_>, votes: &Votes, is_pre_vote: bool) {
        let now = cx.now.instant;
        let asked: Vec<NodeId> = self
            .voters
            .iter()
            .map(|voter| voter.id)
            .filter(|id| votes.is_open(*id) && self.calls.may_call(*id, now))
            .collect();
        for voter in asked {
            self.ask_for_vote(cx, voter, is_pre_vote);
        }
    }
}
