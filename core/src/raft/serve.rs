//! What a leader answers to those who fetch: entries, where their copy diverges, or which snapshot they need.
//!
//! A fetch offset is a promise: the copy before it is durable. It counts once the leader has seen that this copy is its own, and
//! for this epoch only.

use bytes::Bytes;

use crate::{
    ids::Offset,
    log::{FetchSlice, ReadError, ReadId, ReadOutcome},
    planted::Planted,
    protocol::ErrorCode,
    storage::{Completion, FileOp, OpId, Owner, Part},
    time::Instant,
};

use super::{
    Raft,
    config::RaftContext,
    messages::{
        FetchLogReply, FetchLogRequest, FetchNews, FetchSnapshotRequest, LogPosition, PeerTicket,
        ReplyBody, SnapshotPiece,
    },
    refusal::Refusal,
    role::Role,
    snapshot::SnapshotId,
};

/// No answer is larger; Kafka's limit for fetches of the quorum.
const ANSWER_BYTES_MAX: u32 = 8 * 1024 * 1024;

/// A fetch that waits for news.
#[derive(Debug)]
pub(super) struct ParkedFetch {
    ticket: PeerTicket,
    request: FetchLogRequest,
    due: Instant,
}

/// A fetch that waits for the disk.
#[derive(Debug)]
pub(super) struct Reading {
    id: ReadId,
    fetch: ParkedFetch,
}

/// A piece of a snapshot that is being read.
#[derive(Debug)]
pub(super) struct PieceRead {
    open: OpId,
    read: OpId,
    ticket: PeerTicket,
    piece: SnapshotPiece,
}

impl Raft {
    /// Returns why a request that only the leader of its epoch can answer is refused.
    fn refuse_follower(&self, epoch: crate::ids::Epoch) -> Option<ErrorCode> {
        if epoch < self.epoch {
            Some(ErrorCode::FencedLeaderEpoch)
        } else if epoch > self.epoch {
            Some(ErrorCode::UnknownLeaderEpoch)
        } else if !matches!(self.role, Role::Leader(_)) {
            Some(ErrorCode::NotLeaderOrFollower)
        } else {
            None
        }
    }

    pub(super) fn on_fetch_request(
        &mut self,
        cx: &mut RaftContext<'_>,
        ticket: PeerTicket,
        request: FetchLogRequest,
    ) -> Result<(), Refusal> {
        let error = self
            .refuse_follower(request.epoch)
            .or_else(|| (request.fetch.end < 0).then_some(ErrorCode::InvalidRequest));
        let news = self.compare(request.fetch);
        let log_end = self.log.end();
        let Role::Leader(leader) = &mut self.role else {
            let error = error.unwrap_or(ErrorCode::NotLeaderOrFollower);
            self.answer_fetch(ticket, error, FetchNews::default());
            return Ok(());
        };
        if let Some(error) = error {
            self.answer_fetch(ticket, error, FetchNews::default());
            return Ok(());
        }
        let now = cx.now.instant;
        leader.on_heard(&self.voters, request.replica, now);
        let counts = news.is_none() || cx.planted.has(Planted::B30);
        if counts {
            let (replica, end) = (request.replica, request.fetch.end);
            leader.on_durable(&self.voters, replica, end);
            leader.on_fetched(replica, end, log_end, (now, cx.now.wall));
        }
        self.commit_by_majority(cx);
        if let Some(news) = news {
            self.answer_fetch(ticket, ErrorCode::None, news);
            return Ok(());
        }
        self.maybe_begin(cx)?;
        let due = now.plus_millis(request.max_wait_ms);
        self.drop_older_fetch(&request);
        self.serve(
            cx,
            ParkedFetch {
                ticket,
                request,
                due,
            },
        );
        Ok(())
    }

    /// Compares a copy with the log; none when it is the log's own beginning.
    fn compare(&self, fetch: LogPosition) -> Option<FetchNews> {
        let (start, end) = (self.known_start(), self.log.end());
        let is_whole_snapshot = self
            .snapshots
            .len_of(SnapshotId {
                end_offset: fetch.end,
                epoch: fetch.epoch,
            })
            .is_some();
        if fetch.end == start && (start == 0 || is_whole_snapshot) {
            return None;
        }
        if fetch.end <= start
            && let Some(latest) = self.snapshots.latest()
        {
            return Some(FetchNews::Snapshot(latest));
        }
        let own = self.log.end_of(fetch.epoch).map_or_else(
            || self.last_position(),
            |(epoch, end)| LogPosition { epoch, end },
        );
        let is_same = own.epoch == fetch.epoch && fetch.end <= own.end && fetch.end <= end;
        (!is_same).then_some(FetchNews::Diverging(own))
    }

    /// Returns the offset from which on the log knows the epochs of its entries. After a restart it may hold entries before
    /// that, in a segment that was not wholly behind the log start; of those only a snapshot speaks.
    fn known_start(&self) -> Offset {
        // No entry is of epoch 0: it ends where the first known one begins.
        let first = self.log.end_of(crate::ids::Epoch(0));
        let first = first.map_or_else(|| self.log.end(), |(_, first)| first);
        first.max(self.log.start())
    }

    /// A replica has one fetch at a time: an older one is of a link that is gone, or was given up.
    fn drop_older_fetch(&mut self, request: &FetchLogRequest) {
        let is_older = |parked: &ParkedFetch| parked.request.replica == request.replica;
        while let Some(at) = self.parked_fetches.iter().position(is_older) {
            let older = self.parked_fetches.swap_remove(at);
            self.answer_fetch(older.ticket, ErrorCode::None, FetchNews::default());
        }
    }

    /// Answers a fetch if there is news, or else lets it wait.
    fn serve(&mut self, cx: &mut RaftContext<'_>, fetch: ParkedFetch) {
        let request = &fetch.request;
        if self.log.written_end() > request.fetch.end {
            let max_bytes = request.max_bytes.min(ANSWER_BYTES_MAX);
            let (id, outcome) = self.log.serve(cx, request.fetch.end, max_bytes);
            match outcome {
                ReadOutcome::Ready(slice) => self.answer_slice(&fetch, Ok(slice)),
                ReadOutcome::Failed(error) => self.answer_slice(&fetch, Err(error)),
                ReadOutcome::Pending => self.reading.push(Reading { id, fetch }),
            }
            return;
        }
        let is_behind = request
            .high_watermark
            .is_some_and(|known| self.high_watermark > known);
        if is_behind || fetch.due <= cx.now.instant {
            self.answer_fetch(fetch.ticket, ErrorCode::None, FetchNews::default());
        } else {
            self.parked_fetches.push(fetch);
        }
    }

    /// Looks again at the fetches that wait.
    pub(super) fn wake_parked(&mut self, cx: &mut RaftContext<'_>) {
        for fetch in std::mem::take(&mut self.parked_fetches) {
            self.serve(cx, fetch);
        }
    }

    /// Tells those who wait that nobody leads here any more.
    pub(super) fn refuse_parked(&mut self) {
        let parked = std::mem::take(&mut self.parked_fetches);
        let reading = std::mem::take(&mut self.reading);
        let waiting = parked
            .into_iter()
            .chain(reading.into_iter().map(|reading| reading.fetch));
        for fetch in waiting {
            self.answer_fetch(
                fetch.ticket,
                ErrorCode::NotLeaderOrFollower,
                FetchNews::default(),
            );
        }
    }

    /// Returns when a fetch has waited long enough.
    pub(super) fn fetches_due(&self) -> Option<Instant> {
        self.parked_fetches.iter().map(|fetch| fetch.due).min()
    }

    /// Takes what was read for a fetch.
    pub(super) fn on_served(&mut self, id: ReadId, result: Result<FetchSlice, ReadError>) {
        if let Some(at) = self.reading.iter().position(|reading| reading.id == id) {
            let reading = self.reading.swap_remove(at);
            self.answer_slice(&reading.fetch, result);
        }
    }

    fn answer_slice(&mut self, fetch: &ParkedFetch, result: Result<FetchSlice, ReadError>) {
        let (error, news) = match result {
            Ok(slice) => (ErrorCode::None, FetchNews::Records(slice.parts)),
            // The log start has moved meanwhile.
            Err(ReadError::OutOfRange { .. }) => (
                ErrorCode::None,
                self.compare(fetch.request.fetch).unwrap_or_default(),
            ),
            Err(ReadError::NotOpen | ReadError::Offline | ReadError::Unreadable) => {
                (ErrorCode::KafkaStorageError, FetchNews::default())
            }
        };
        self.answer_fetch(fetch.ticket, error, news);
    }

    fn answer_fetch(&mut self, ticket: PeerTicket, error: ErrorCode, news: FetchNews) {
        let is_leader = matches!(self.role, Role::Leader(_));
        let body = FetchLogReply {
            high_watermark: is_leader.then_some(self.high_watermark),
            log_start: self.log.start(),
            news,
        };
        self.answer(ticket, error, ReplyBody::Fetch(body));
    }

    /// Begins to read a piece of a snapshot.
    pub(super) fn on_fetch_snapshot_request(
        &mut self,
        cx: &mut RaftContext<'_>,
        ticket: PeerTicket,
        request: &FetchSnapshotRequest,
    ) {
        let mut piece = SnapshotPiece {
            snapshot: request.snapshot,
            size: 0,
            position: request.position,
            bytes: Vec::new(),
        };
        let size = self.snapshots.len_of(request.snapshot);
        let error = match (self.refuse_follower(request.epoch), size) {
            (Some(error), _) => error,
            (None, None) => ErrorCode::SnapshotNotFound,
            (None, Some(size)) if request.position >= size => ErrorCode::PositionOutOfRange,
            (None, Some(_)) => ErrorCode::None,
        };
        if let (ErrorCode::None, Role::Leader(leader)) = (error, &mut self.role) {
            // Who fetches a snapshot follows too, however long it takes.
            leader.on_heard(&self.voters, request.replica, cx.now.instant);
        }
        let Some(size) = size.filter(|_| error == ErrorCode::None) else {
            return self.answer(ticket, error, ReplyBody::FetchSnapshot(piece));
        };
        piece.size = size;
        let left = u32::try_from(size - request.position).unwrap_or(u32::MAX);
        let len = left.min(request.max_bytes).min(ANSWER_BYTES_MAX);
        let file = cx.storage.new_file();
        let open = FileOp::Open {
            file,
            path: self.folder.join(&request.snapshot.file_name()),
            create: false,
        };
        let read = FileOp::Read {
            file,
            at: request.position,
            len,
        };
        let owner = self.local.owner;
        let open = cx.storage.submit(owner, open);
        let read = cx.storage.submit(owner, read);
        cx.storage.submit(Owner::NOBODY, FileOp::Close { file });
        self.pieces.push(PieceRead {
            open,
            read,
            ticket,
            piece,
        });
    }

    /// Takes a completion of the reading of a piece, or gives it back.
    pub(super) fn on_piece_read(&mut self, completion: Completion) -> Option<Completion> {
        let id = completion.id;
        let Some(at) = self
            .pieces
            .iter()
            .position(|piece| piece.open == id || piece.read == id)
        else {
            return Some(completion);
        };
        let is_open = self.pieces[at].open == id;
        match completion.result {
            Ok(_) if is_open => {}
            Ok(result) => {
                let PieceRead {
                    ticket, mut piece, ..
                } = self.pieces.swap_remove(at);
                piece.bytes = parts(result.into_data());
                self.answer(ticket, ErrorCode::None, ReplyBody::FetchSnapshot(piece));
            }
            Err(_) => {
                // Removed meanwhile, because a later one has taken its place.
                let PieceRead { ticket, piece, .. } = self.pieces.swap_remove(at);
                let body = ReplyBody::FetchSnapshot(piece);
                self.answer(ticket, ErrorCode::SnapshotNotFound, body);
            }
        }
        None
    }

    /// Moves the high watermark to what a majority holds.
    pub(super) fn commit_by_majority(&mut self, cx: &mut RaftContext<'_>) {
        if let Role::Leader(leader) = &self.role {
            let committed: Option<Offset> = if cx.planted.has(Planted::B27) {
                leader.held_by_majority(&self.voters)
            } else {
                leader.committed(&self.voters)
            };
            self.advance(cx, committed);
        }
    }
}

fn parts(bytes: Bytes) -> Vec<Part> {
    vec![Part::Bytes(bytes)]
}
