//! The election: from a replica without a leader to the leader's first entries.

use crate::{
    ids::{Epoch, NodeId},
    planted::Planted,
    storage::{Completion, FilePath},
};

use super::{
    Raft,
    config::RaftContext,
    control::{ControlRecord, LeaderChange},
    entry::Content,
    leader::Leader,
    quorum_state::{self, ElectionState},
    refusal::Refusal,
    role::{Role, Votes},
    voters::ReplicaKey,
};

impl Raft {
    /// Refuses to take part with another disk than the one that the quorum knows, or without being known at all.
    pub(super) fn check_identity(&self, voted: Option<ReplicaKey>) -> Result<(), Refusal> {
        let local = self.local.key;
        let node = local.id;
        let recorded = match (self.voters.get(node), voted) {
            (Some(voter), _) if !voter.is(local) => voter.directory,
            // The vote in the file was given to this node under another directory id: the file is not this disk's.
            (_, Some(voted)) if voted.id == node && voted != local => Some(voted.directory),
            (None, _) if self.config.voters.get(node).is_some() => {
                return Err(Refusal::NotAVoter { node });
            }
            (Some(_) | None, _) => None,
        };
        recorded.map_or(Ok(()), |recorded| {
            Err(Refusal::OtherDirectory {
                node,
                recorded,
                own: local.directory,
            })
        })
    }

    /// Starts an election at once where this replica is the only voter: nobody else could lead, and nobody is disturbed.
    pub(super) fn maybe_elect(&mut self, cx: &mut RaftContext<'_>) -> Result<(), Refusal> {
        let is_only_voter = self.voters.len() == 1 && self.voters.contains(self.local.key);
        match &self.role {
            Role::Unattached { .. } | Role::Follower { .. } | Role::Resigned if is_only_voter => {
                self.become_prospective(cx)
            }
            Role::Unattached { .. }
            | Role::Follower { .. }
            | Role::Resigned
            | Role::Prospective { .. }
            | Role::Candidate { .. }
            | Role::Leader(_)
            | Role::Observer { .. } => Ok(()),
        }
    }

    fn become_prospective(&mut self, cx: &mut RaftContext<'_>) -> Result<(), Refusal> {
        let leader = self.role.leader(self.local.key.id);
        let mut votes = Votes::default();
        votes.grant(&self.voters, self.local.key);
        let could_win = votes.are_majority_of(&self.voters);
        self.role = Role::Prospective { leader, votes };
        if could_win {
            self.stand_for_election(cx)
        } else {
            Ok(())
        }
    }

    /// Writes the vote for itself in the next epoch; the replica is a candidate once that is durable.
    fn stand_for_election(&mut self, cx: &mut RaftContext<'_>) -> Result<(), Refusal> {
        let last = self.ballot.durable().epoch;
        let epoch = last
            .0
            .checked_add(1)
            .map(Epoch)
            .ok_or(Refusal::NoMoreEpochs { epoch: last })?;
        let vote = ElectionState::with_vote(epoch, self.local.key);
        let path = self.state_path();
        self.ballot.save(cx.storage, self.local.owner, path, vote);
        if cx.planted.has(Planted::B34) {
            return self.become_candidate(cx, epoch);
        }
        Ok(())
    }

    /// Takes a completion of the saving of a vote.
    pub(super) fn on_ballot(
        &mut self,
        cx: &mut RaftContext<'_>,
        completion: Completion,
    ) -> Result<(), Refusal> {
        let path = self.state_path();
        let is_durable = self
            .ballot
            .on_completion(cx.storage, completion)
            .map_err(|fault| Refusal::Storage { path, fault })?;
        let state = *self.ballot.durable();
        let is_new = state.epoch > self.epoch && state.voted == Some(self.local.key);
        if is_durable && is_new {
            self.become_candidate(cx, state.epoch)
        } else {
            Ok(())
        }
    }

    fn become_candidate(&mut self, cx: &mut RaftContext<'_>, epoch: Epoch) -> Result<(), Refusal> {
        let mut votes = Votes::default();
        votes.grant(&self.voters, self.local.key);
        self.epoch = epoch;
        self.role = Role::Candidate { votes };
        self.maybe_lead(cx)
    }

    /// Becomes the leader once elected, as soon as there is a log to write to and the folder that holds all of it is
    /// durable.
    pub(super) fn maybe_lead(&mut self, cx: &mut RaftContext<'_>) -> Result<(), Refusal> {
        let Role::Candidate { votes } = &self.role else {
            return Ok(());
        };
        let is_elected = votes.are_majority_of(&self.voters);
        if !is_elected || !self.log.is_open() || self.root_sync.is_some() {
            return Ok(());
        }
        let granting_voters = votes.granted();
        let leader = Leader::new(self.log.end());
        self.role = Role::Leader(leader);
        self.append_first_entries(cx, granting_voters)
    }

    /// Appends what an epoch starts with; in a new cluster also who votes and the host's first records.
    fn append_first_entries(
        &mut self,
        cx: &mut RaftContext<'_>,
        granting_voters: Vec<NodeId>,
    ) -> Result<(), Refusal> {
        let change = LeaderChange {
            leader: self.local.key.id,
            voters: self.voters.iter().map(|voter| voter.id).collect(),
            granting_voters,
        };
        let mut control = vec![ControlRecord::LeaderChange(change)];
        if !self.has_voters {
            self.voters = self.voters.clone().with_directory_of(self.local.key);
            assert!(
                self.voters.all_directories_known(),
                "a voter of unknown directory has elected this replica"
            );
            control.push(ControlRecord::current_kraft_version());
            control.push(ControlRecord::Voters(self.voters.clone()));
            self.has_voters = true;
        }
        self.append_content(cx, Content::Control(control))?;
        if !self.has_data && !self.config.bootstrap_records.is_empty() {
            let records = self.config.bootstrap_records.clone();
            self.has_data = true;
            self.append_content(cx, Content::Data(records))?;
        }
        self.announce_from = self.log.end();
        self.log.flush_together();
        Ok(())
    }

    /// Returns the file that holds the election state.
    pub(super) fn state_path(&self) -> FilePath {
        self.folder.join(quorum_state::FILE_NAME)
    }
}
