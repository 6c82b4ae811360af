//! The follower's loop: fetch what follows the own copy, make it durable, and only then fetch again.

use bytes::{Bytes, BytesMut};

use crate::{
    batch::BatchIter,
    ids::{NodeId, Offset},
    log::AppendBatch,
    planted::Planted,
    protocol::ErrorCode,
    storage::Part,
};

use super::{
    Raft,
    calls::CallKind,
    config::RaftContext,
    control::ControlRecord,
    entry::{BATCH_BYTES_MAX, Content, Entry},
    install::Download,
    messages::{FetchLogReply, FetchLogRequest, FetchNews, PeerRequest},
    refusal::Refusal,
    role::Role,
};

/// How long a fetch waits for news at the leader; Kafka's figure.
const FETCH_WAIT_MS: u64 = 500;
/// How much a fetch takes; Kafka's figure.
pub(super) const FETCH_BYTES: u32 = 8 * 1024 * 1024;

/// What a follower knows of its leader in one epoch.
#[derive(Debug, Default)]
pub(super) struct Following {
    /// Whether the leader has answered a fetch.
    pub(super) has_fetched: bool,
    /// The leader's high watermark, told with an answer that showed this copy to be the leader's.
    high_watermark: Option<Offset>,
    /// The snapshot being fetched.
    pub(super) download: Option<Download>,
}

impl Raft {
    /// Returns whether the log is being cut or replaced.
    pub(super) const fn is_busy(&self) -> bool {
        self.cut.is_some() || self.installing.is_some()
    }

    /// Returns whether a fetch may leave: it promises that all of the log is durable here, and that the epoch is.
    fn may_promise(&self, cx: &RaftContext<'_>) -> bool {
        let durable_end = if cx.planted.has(Planted::B33) {
            self.log.written_end()
        } else {
            self.log.flushed_end()
        };
        self.log.is_appendable()
            && durable_end == self.log.end()
            && self.root_sync.is_none()
            && self.ballot.durable().epoch == self.epoch
    }

    /// Fetches from the leader, unless something else must be done first.
    pub(super) fn maybe_fetch(&mut self, cx: &RaftContext<'_>, leader: NodeId) {
        let may_call = self.calls.may_call(leader, cx.now.instant);
        if self.is_closing || self.is_busy() || !may_call || !self.may_promise(cx) {
            return;
        }
        if let Some(download) = &self.following.download {
            let request = download.next_piece(self);
            return self.send(cx, leader, CallKind::FetchSnapshot, request);
        }
        let wait = FETCH_WAIT_MS.min(self.config.fetch_timeout_ms / 2);
        let request = self.fetch_request(wait);
        self.send(cx, leader, CallKind::Fetch, request);
    }

    /// Asks one voter after another who leads.
    pub(super) fn look_for_leader(&mut self, cx: &RaftContext<'_>) {
        if self.is_closing || self.is_busy() || self.calls.is_waiting() || !self.may_promise(cx) {
            return;
        }
        let local = self.local.key.id;
        let voters: Vec<NodeId> = self
            .voters
            .iter()
            .map(|voter| voter.id)
            .filter(|id| *id != local)
            .collect();
        let Some(next) = self.looked_at.checked_rem(voters.len()) else {
            return;
        };
        let voter = voters[next];
        if self.calls.may_call(voter, cx.now.instant) {
            self.looked_at = next + 1;
            let request = self.fetch_request(0);
            self.send(cx, voter, CallKind::Fetch, request);
        }
    }

    fn fetch_request(&self, max_wait_ms: u64) -> PeerRequest {
        PeerRequest::Fetch(FetchLogRequest {
            cluster_id: self.cluster_id.clone(),
            replica: self.local.key,
            epoch: self.epoch,
            fetch: self.last_position(),
            high_watermark: Some(self.high_watermark),
            max_wait_ms,
            max_bytes: FETCH_BYTES,
        })
    }

    pub(super) fn on_fetch_reply(
        &mut self,
        cx: &mut RaftContext<'_>,
        from: NodeId,
        error: ErrorCode,
        reply: FetchLogReply,
    ) -> Result<(), Refusal> {
        let is_leader = self.leader_id() == Some(from);
        match error {
            ErrorCode::None if is_leader && !self.is_busy() => {}
            ErrorCode::InconsistentClusterId => {
                return Err(Refusal::StrangeQuorum {
                    node: from,
                    cluster: self.cluster_id.clone().unwrap_or_default(),
                });
            }
            ErrorCode::NotLeaderOrFollower if is_leader => {
                // It has resigned; who should follow it is not known here.
                self.leave_leader(cx, self.epoch, 1);
                return Ok(());
            }
            _ => {
                self.retry_later(cx, from);
                return Ok(());
            }
        }
        self.following.has_fetched = true;
        self.role_until = Some(self.timing.fetch_end(cx.now.instant));
        if cx.planted.has(Planted::B29) {
            let end = self.log.end();
            let committed = reply.high_watermark.map(|known| known.min(end));
            self.advance(cx, committed);
        }
        match reply.news {
            // Nothing else of such an answer is looked at: it speaks of a log that is not this one.
            FetchNews::Diverging(own) => self.truncate_to_leader(cx, own),
            FetchNews::Snapshot(id) if id.end_offset > self.high_watermark => {
                self.following.download = Some(Download::new(id));
                Ok(())
            }
            FetchNews::Snapshot(_) => {
                self.retry_later(cx, from);
                Ok(())
            }
            FetchNews::Records(parts) => {
                if !self.append_fetched(cx, &gather(parts))? {
                    self.retry_later(cx, from);
                }
                self.following.high_watermark =
                    reply.high_watermark.max(self.following.high_watermark);
                self.follow_commit(cx);
                Ok(())
            }
        }
    }

    /// Appends what a leader sent; false when something in it cannot be what a leader sends.
    fn append_fetched(&mut self, cx: &mut RaftContext<'_>, bytes: &Bytes) -> Result<bool, Refusal> {
        for view in BatchIter::new(bytes, 0).with_size_max(BATCH_BYTES_MAX) {
            let Ok(view) = view else {
                return Ok(false);
            };
            let Ok(entry) = Entry::read(&view, bytes) else {
                return Ok(false);
            };
            let last = self.last_position();
            let fits = entry.base_offset == last.end
                && entry.epoch >= last.epoch
                && entry.epoch <= self.epoch;
            let batch = AppendBatch::split(&bytes.slice_ref(view.bytes()));
            let Some(batch) = batch.filter(|_| fits) else {
                return Ok(false);
            };
            self.check_entry(&entry)?;
            if !self.log.is_appendable() {
                return Ok(false);
            }
            self.log
                .append_fetched(cx, batch)
                .map_err(|error| Refusal::Append { error })?;
            self.take_entry(entry)?;
        }
        Ok(true)
    }

    /// Refuses an entry that shows this node not to be what it takes itself for.
    fn check_entry(&self, entry: &Entry) -> Result<(), Refusal> {
        let Content::Control(records) = &entry.content else {
            return Ok(());
        };
        for record in records {
            if let ControlRecord::Voters(voters) = record {
                self.check_voters(voters)?;
            }
        }
        Ok(())
    }

    /// Moves the high watermark as far as the leader's allows and as this copy is durable.
    pub(super) fn follow_commit(&mut self, cx: &mut RaftContext<'_>) {
        if matches!(self.role, Role::Follower { .. } | Role::Observer { .. }) {
            let durable = self.log.flushed_end();
            let committed = self
                .following
                .high_watermark
                .map(|known| known.min(durable));
            self.advance(cx, committed);
        }
    }
}

/// Puts the parts of a received answer together; what is not bytes was never received.
pub(super) fn gather(parts: Vec<Part>) -> Bytes {
    let mut parts = parts.into_iter().filter_map(|part| match part {
        Part::Bytes(bytes) => Some(bytes),
        Part::File(_) => None,
    });
    let Some(first) = parts.next() else {
        return Bytes::new();
    };
    let Some(second) = parts.next() else {
        return first;
    };
    let mut gathered = BytesMut::from(&first[..]);
    gathered.extend_from_slice(&second);
    for part in parts {
        gathered.extend_from_slice(&part);
    }
    gathered.freeze()
}
