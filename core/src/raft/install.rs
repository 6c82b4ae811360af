//! Catching up from a snapshot (KIP-630): fetched in pieces, checked as a whole, made durable, and only then put in the log's
//! place.

use bytes::{Bytes, BytesMut};

use crate::{ids::NodeId, protocol::ErrorCode};

use super::{
    Raft,
    config::RaftContext,
    follow::{FETCH_BYTES, gather},
    messages::{FetchSnapshotRequest, PeerRequest, SnapshotPiece},
    refusal::Refusal,
    snapshot::{Snapshot, SnapshotId},
    truncate::Cut,
};

/// A snapshot being fetched. Its bytes are gathered in memory, where the metadata will be anyway.
#[derive(Debug)]
pub(super) struct Download {
    id: SnapshotId,
    size: Option<u64>,
    bytes: BytesMut,
}

/// A snapshot that was fetched whole.
#[derive(Debug)]
pub(super) enum Installing {
    /// It waits for another one's writing to end.
    Waiting(SnapshotId, Box<Snapshot>, Bytes),
    /// It is being written.
    Writing(SnapshotId, Box<Snapshot>),
    /// It is durable, and the log is being cut.
    Durable,
}

impl Download {
    pub(super) fn new(id: SnapshotId) -> Self {
        Self {
            id,
            size: None,
            bytes: BytesMut::new(),
        }
    }

    fn position(&self) -> u64 {
        u64::try_from(self.bytes.len()).unwrap_or(u64::MAX)
    }

    pub(super) fn next_piece(&self, raft: &Raft) -> PeerRequest {
        PeerRequest::FetchSnapshot(FetchSnapshotRequest {
            cluster_id: raft.cluster_id.clone(),
            replica: raft.local.key,
            epoch: raft.epoch,
            snapshot: self.id,
            position: self.position(),
            max_bytes: FETCH_BYTES,
        })
    }

    /// Adds the next piece; false when it is not that.
    fn add(&mut self, piece: SnapshotPiece) -> bool {
        let fits = piece.snapshot == self.id
            && piece.position == self.position()
            && self.size.is_none_or(|size| size == piece.size);
        let bytes = gather(piece.bytes);
        let end = self
            .position()
            .saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        if !fits || bytes.is_empty() || end > piece.size {
            return false;
        }
        self.size = Some(piece.size);
        self.bytes.extend_from_slice(&bytes);
        true
    }

    fn is_complete(&self) -> bool {
        self.size == Some(self.position())
    }
}

impl Raft {
    /// Takes a piece of the snapshot being fetched. What does not fit ends the attempt; the next fetch of the log says what is
    /// needed now.
    pub(super) fn on_snapshot_piece(
        &mut self,
        cx: &mut RaftContext<'_>,
        from: NodeId,
        error: ErrorCode,
        piece: SnapshotPiece,
    ) -> Result<(), Refusal> {
        if self.leader_id() != Some(from) {
            return Ok(());
        }
        if error == ErrorCode::NotLeaderOrFollower {
            self.leave_leader(cx, self.epoch, 1);
            return Ok(());
        }
        let Some(download) = &mut self.following.download else {
            return Ok(());
        };
        if error != ErrorCode::None || !download.add(piece) {
            self.following.download = None;
            self.retry_later(cx, from);
            return Ok(());
        }
        self.following.has_fetched = true;
        self.role_until = Some(self.timing.fetch_end(cx.now.instant));
        let whole = self
            .following
            .download
            .take_if(|download| download.is_complete());
        let Some(Download { id, bytes, .. }) = whole else {
            return Ok(());
        };
        let bytes = bytes.freeze();
        let Ok(snapshot) = Snapshot::decode(id, &bytes) else {
            self.retry_later(cx, from);
            return Ok(());
        };
        if id.end_offset <= self.high_watermark {
            return Ok(());
        }
        self.check_voters(&snapshot.voters)?;
        self.check_records(&snapshot.records)?;
        self.installing = Some(Installing::Waiting(id, Box::new(snapshot), bytes));
        Ok(())
    }

    /// Begins to write the snapshot that was fetched, as soon as no other is being written.
    pub(super) fn maybe_install(&mut self, cx: &mut RaftContext<'_>) {
        if self.snapshots.is_writing() {
            return;
        }
        match self.installing.take() {
            Some(Installing::Waiting(id, snapshot, bytes)) => {
                let named = (id, snapshot.last_timestamp);
                self.snapshots.write_fetched(cx.storage, named, bytes);
                self.installing = Some(Installing::Writing(id, snapshot));
            }
            other => self.installing = other,
        }
    }

    /// The snapshot that was being written is durable: if it was fetched, it takes the log's place.
    pub(super) fn maybe_replace_log(&mut self, cx: &mut RaftContext<'_>) -> bool {
        match self.installing.take() {
            Some(Installing::Writing(id, snapshot)) => {
                self.installing = Some(Installing::Durable);
                self.begin_cut(cx, Cut::All(id, snapshot));
                true
            }
            other => {
                self.installing = other;
                false
            }
        }
    }
}
