//! Cutting the log: its end where it is not the leader's, or all of it where a snapshot takes its place.
//!
//! ```text
//! mark lowered, durably ── log truncated or begun anew ── entries forgotten or the snapshot's state taken
//! ```
//!
//! Nothing is fetched and no election is entered meanwhile. A change of the leader does not stop it: what this leader does not
//! have was never committed.

use crate::{ids::Offset, planted::Planted};

use super::{
    Phase, Raft,
    config::RaftContext,
    control::ControlRecord,
    entry::{Content, Entry},
    event::RaftEvent,
    messages::LogPosition,
    refusal::Refusal,
    snapshot::{Snapshot, SnapshotId},
    voters::VoterSet,
};

/// What is being cut.
#[derive(Debug)]
pub(super) enum Cut {
    /// Everything from an offset on.
    End(Offset),
    /// Everything: the snapshot takes its place.
    All(SnapshotId, Box<Snapshot>),
}

impl Raft {
    /// Cuts off what the leader does not have, given the largest epoch that both know and where that ends at the leader.
    pub(super) fn truncate_to_leader(
        &mut self,
        cx: &mut RaftContext<'_>,
        leader: LogPosition,
    ) -> Result<(), Refusal> {
        let own_end = self
            .log
            .end_of(leader.epoch)
            .map_or_else(|| self.log.end(), |(_, end)| end);
        let shared = own_end.min(leader.end);
        // Batches are cut as a whole.
        let end = self
            .uncommitted
            .iter()
            .find(|entry| entry.next_offset > shared)
            .map_or(shared, |entry| entry.base_offset.min(shared));
        if end < self.high_watermark {
            return Err(Refusal::Diverged {
                committed: self.high_watermark,
                leader: leader.end,
                epoch: leader.epoch,
            });
        }
        if end < self.log.end() {
            self.begin_cut(cx, Cut::End(end));
        }
        Ok(())
    }

    /// A planted bug: forgets what is not known to be committed here.
    pub(super) fn plant_early_truncation(&mut self, cx: &mut RaftContext<'_>) {
        let end = self.high_watermark;
        if cx.planted.has(Planted::B13)
            && self.log.is_open()
            && !self.is_busy()
            && end > 0
            && self.log.end() > end
        {
            self.begin_cut(cx, Cut::End(end));
        }
    }

    pub(super) fn begin_cut(&mut self, cx: &mut RaftContext<'_>, cut: Cut) {
        let kept = match &cut {
            Cut::End(end) => *end,
            Cut::All(..) => 0,
        };
        self.cut = Some(cut);
        self.log.lower_mark(cx, kept);
    }

    /// The mark is lowered: the log may be cut.
    pub(super) fn on_lowered(&mut self, cx: &mut RaftContext<'_>) -> Result<(), Refusal> {
        match &self.cut {
            Some(Cut::End(end)) => self.log.truncate(cx, *end),
            Some(Cut::All(id, _)) => self.log.restart_at(cx, id.end_offset),
            None => return Ok(()),
        }
        self.drain_log(cx)
    }

    /// The log is cut.
    pub(super) fn on_truncated(&mut self, cx: &mut RaftContext<'_>) -> Result<(), Refusal> {
        match self.cut.take() {
            Some(Cut::End(_)) => {
                self.forget_entries();
                Ok(())
            }
            Some(Cut::All(id, snapshot)) => {
                self.installing = None;
                self.adopt(id, *snapshot);
                self.wanted_start = id.end_offset;
                self.snapshots.remove_before(cx.storage, id.end_offset);
                if matches!(self.phase, Phase::Loading(_)) {
                    self.replay_from(cx, id.end_offset)
                } else {
                    Ok(())
                }
            }
            None => Ok(()),
        }
    }

    /// Forgets the entries that are gone, and what only they said.
    fn forget_entries(&mut self) {
        let end = self.log.end();
        while self
            .uncommitted
            .pop_back_if(|entry| entry.next_offset > end)
            .is_some()
        {}
        let last_voters = self.uncommitted.iter().rev().find_map(voters_of);
        let known = last_voters.or_else(|| self.committed_voters.clone());
        self.has_voters = known.is_some();
        self.voters = known.unwrap_or_else(|| self.config.voters.clone());
        let is_data = |entry: &Entry| matches!(entry.content, Content::Data(_));
        self.has_data = self.has_committed_data || self.uncommitted.iter().any(is_data);
    }

    /// Takes the state of a snapshot in place of everything before.
    pub(super) fn adopt(&mut self, id: SnapshotId, snapshot: Snapshot) {
        self.uncommitted.clear();
        self.voters = snapshot.voters.clone();
        self.committed_voters = Some(snapshot.voters);
        self.has_voters = true;
        self.has_data = true;
        self.has_committed_data = true;
        self.high_watermark = id.end_offset;
        self.last_committed = (id.epoch, snapshot.last_timestamp);
        self.snapshots.restarted();
        self.events.push_back(RaftEvent::SnapshotLoaded {
            end_offset: id.end_offset,
            epoch: id.epoch,
            records: snapshot.records,
        });
    }

    /// Refuses voters that show this node to have another disk than its cluster knows, or an emptied one.
    pub(super) fn check_voters(&self, voters: &VoterSet) -> Result<(), Refusal> {
        self.check_first_voters(voters)?;
        let local = self.local.key;
        match voters.get(local.id) {
            Some(voter) if !voter.is(local) => Err(Refusal::OtherDirectory {
                node: local.id,
                recorded: voter.key().directory,
                own: local.directory,
            }),
            None if self.config.voters.get(local.id).is_some() => {
                Err(Refusal::NotAVoter { node: local.id })
            }
            Some(_) | None => Ok(()),
        }
    }
}

fn voters_of(entry: &Entry) -> Option<VoterSet> {
    let Content::Control(records) = &entry.content else {
        return None;
    };
    records.iter().rev().find_map(|record| match record {
        ControlRecord::Voters(voters) => Some(voters.clone()),
        ControlRecord::LeaderChange(_)
        | ControlRecord::SnapshotHeader { .. }
        | ControlRecord::SnapshotFooter
        | ControlRecord::KraftVersion { .. } => None,
    })
}
