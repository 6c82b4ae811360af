//! The election: from a replica without a leader to the leader's first entries.

use crate::{
    ids::Epoch,
    ids::NodeId,
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
    voters::{ReplicaKey, VoterSet},
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

    /// Refuses what a peer's first entries or snapshot show: that the cluster knows this node with another disk, or with this
    /// one, which then once held votes and entries and holds none of them any more.
    pub(super) fn check_first_voters(&self, voters: &VoterSet) -> Result<(), Refusal> {
        let local = self.local.key;
        if self.has_voters {
            return Ok(());
        }
        if voters.contains(local) && !self.ballot.latest().is_founder {
            return Err(Refusal::Emptied {
                node: local.id,
                directory: local.directory,
            });
        }
        Ok(())
    }

    /// Starts an election at once where this replica is the only voter: nobody else could lead, and nobody is disturbed.
    /// Others give a leader the time to be heard of.
    pub(super) fn maybe_elect(&mut self, cx: &mut RaftContext<'_>) -> Result<(), Refusal> {
        match &self.role {
            Role::Unattached { .. } | Role::Follower { .. } | Role::Resigned
                if self.is_only_voter() =>
            {
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

    /// Begins the count of an election. A cluster without voters in the log is founded by all of them.
    fn new_votes(&self) -> Votes {
        Votes::new(!self.has_voters)
    }

    pub(super) fn become_prospective(&mut self, cx: &mut RaftContext<'_>) -> Result<(), Refusal> {
        let leader = self.role.leader(self.local.key.id);
        if cx.planted.has(Planted::B24) {
            let forgotten = ElectionState {
                voted: None,
                ..self.next_state(self.epoch)
            };
            self.decide(cx, forgotten);
        }
        let mut votes = self.new_votes();
        votes.grant(&self.voters, self.local.key);
        let could_win = votes.are_enough_of(&self.voters);
        self.enter(cx, Role::Prospective { leader, votes });
        if could_win {
            self.stand_for_election(cx)
        } else {
            Ok(())
        }
    }

    /// Begins the next epoch as its candidate. The vote for itself counts, and others are asked, once it is durable.
    pub(super) fn stand_for_election(&mut self, cx: &mut RaftContext<'_>) -> Result<(), Refusal> {
        let last = self.epoch;
        let epoch = last
            .0
            .checked_add(1)
            .map(Epoch)
            .ok_or(Refusal::NoMoreEpochs { epoch: last })?;
        let state = ElectionState {
            voted: Some(self.local.key),
            is_founder: !self.has_voters && self.voters.len() > 1,
            ..self.next_state(epoch)
        };
        self.decide(cx, state);
        let votes = self.new_votes();
        self.enter(cx, Role::Candidate { votes });
        self.count_own_vote(cx)
    }

    /// Returns whether a candidate's vote for itself is safe.
    pub(super) fn may_campaign(&self, cx: &RaftContext<'_>) -> bool {
        let is_rooted = self.root_sync.is_none();
        cx.planted.has(Planted::B34)
            || self.founding.is_some()
            || (self.ballot.has_own_vote(self.local.key) && (is_rooted || self.is_only_voter()))
    }

    /// Counts a candidate's vote for itself, once.
    pub(super) fn count_own_vote(&mut self, cx: &mut RaftContext<'_>) -> Result<(), Refusal> {
        if !self.may_campaign(cx) {
            return Ok(());
        }
        if let Role::Candidate { votes } = &mut self.role
            && votes.is_open(self.local.key.id)
        {
            votes.grant(&self.voters, self.local.key);
            // The others get their whole time, however long the disk took.
            let until = self.timing.election_end(cx.now.instant);
            self.role_until = self.role_until.map(|_| until);
        }
        self.maybe_lead(cx)
    }

    /// Takes a completion of the saving of the election state.
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
        if is_durable {
            self.count_own_vote(cx)?;
            self.release_votes();
            self.maybe_found(cx);
        }
        Ok(())
    }

    /// Becomes the leader once elected, as soon as there is a log to write to and the folder that holds all of it is
    /// durable.
    pub(super) fn maybe_lead(&mut self, cx: &mut RaftContext<'_>) -> Result<(), Refusal> {
        let Role::Candidate { votes } = &self.role else {
            return Ok(());
        };
        let is_elected = votes.are_enough_of(&self.voters);
        let is_rooted = self.root_sync.is_none() || self.founding.is_some();
        if !is_elected || !self.log.is_appendable() || !is_rooted {
            return Ok(());
        }
        let mut leader = Leader::new(self.log.end(), cx.now.instant);
        leader.granting_voters = votes.granted();
        self.enter(cx, Role::Leader(leader));
        self.maybe_begin(cx)
    }

    /// Appends what an epoch starts with; in a new cluster also who votes and the host's first records, for which every
    /// voter must have told its directory.
    pub(super) fn maybe_begin(&mut self, cx: &mut RaftContext<'_>) -> Result<(), Refusal> {
        let Role::Leader(leader) = &self.role else {
            return Ok(());
        };
        if leader.has_begun {
            return Ok(());
        }
        let founding = if self.has_voters {
            None
        } else {
            let mut voters = self.voters.clone().with_directory_of(self.local.key);
            for voter in self.voters.iter() {
                if let Some(directory) = leader.directory_of(voter.id) {
                    let id = voter.id;
                    voters = voters.with_directory_of(ReplicaKey { id, directory });
                }
            }
            if !voters.all_directories_known() {
                return Ok(());
            }
            Some(voters)
        };
        let granting_voters = leader.granting_voters.clone();
        self.append_first_entries(cx, granting_voters, founding)?;
        if let Role::Leader(leader) = &mut self.role {
            leader.has_begun = true;
        }
        Ok(())
    }

    fn append_first_entries(
        &mut self,
        cx: &mut RaftContext<'_>,
        granting_voters: Vec<NodeId>,
        founding: Option<VoterSet>,
    ) -> Result<(), Refusal> {
        let change = LeaderChange {
            leader: self.local.key.id,
            voters: self.voters.iter().map(|voter| voter.id).collect(),
            granting_voters,
        };
        let mut control = vec![ControlRecord::LeaderChange(change)];
        if let Some(voters) = founding {
            control.push(ControlRecord::current_kraft_version());
            control.push(ControlRecord::Voters(voters.clone()));
            self.voters = voters;
            self.has_voters = true;
        }
        self.append_content(cx, Content::Control(control))?;
        if !self.has_data && !self.config.bootstrap_records.is_empty() {
            let records = self.config.bootstrap_records.clone();
            self.has_data = true;
            self.append_content(cx, Content::Data(records))?;
        }
        self.announce_from = self.log.end();
        if self.founding.is_some() && !self.has_data {
            // Nothing was committed before that the host would have to know: what it writes first shares the founding's sync.
            self.announce();
        }
        self.wake_parked(cx);
        Ok(())
    }

    /// Returns the file that holds the election state.
    pub(super) fn state_path(&self) -> FilePath {
        self.folder.join(quorum_state::FILE_NAME)
    }
}
