//! What a broker of the model cluster answers to those that follow it.

use bytes::Bytes;

use crate::{
    ids::Offset,
    log::{FetchSlice, ReadError, ReadId, ReadOutcome, ReadRequest, tests::disk::Disk},
    protocol::ErrorCode,
    replication::{
        EpochEnd, FetchAnswer, FetchAsk, FetchClaim, FetchContext, FetchGrant, FetchRefusal,
        FetchWant, FetchedPartition, FollowerFetch, LeaderOffset, OffsetAsk, ReadPartition, Reader,
        SessionError, SessionRequest, TopicIdPartition,
    },
    storage::Part,
    time::Instant,
};

use super::node::{Broker, KEY, Out, Peer, now};

#[derive(Debug)]
pub(super) struct Serving {
    peer: Peer,
    number: u64,
    context: FetchContext<TopicIdPartition, FetchWant>,
    pub(super) deadline: Instant,
    /// What it says of its sender was noted: once, when it came.
    is_noted: bool,
    reading: Option<(ReadId, FetchedPartition)>,
}

impl Broker {
    pub(super) fn on_fetch(&mut self, ms: u64, disk: &Disk, peer: Peer, ask: &FetchAsk) {
        let instant = now(ms).instant;
        let wanted = ask.wanted.iter().map(|want| (want.partition, *want));
        let request = SessionRequest {
            session_id: ask.session_id,
            session_epoch: ask.session_epoch,
            is_follower: true,
            by_topic_id: true,
            wanted: wanted.collect(),
            forgotten: ask.forgotten.clone(),
        };
        match self.sessions.begin(instant, request) {
            Ok(context) => self.serving.push(Serving {
                peer,
                number: ask.number,
                context,
                deadline: instant.plus_millis(ask.max_wait_ms),
                is_noted: false,
                reading: None,
            }),
            Err(error) => {
                let error = match error {
                    SessionError::NotFound => ErrorCode::FetchSessionIdNotFound,
                    SessionError::InvalidEpoch => ErrorCode::InvalidFetchSessionEpoch,
                    SessionError::TopicId => ErrorCode::FetchSessionTopicIdError,
                };
                let answer = FetchAnswer {
                    error,
                    ..FetchAnswer::default()
                };
                self.out.push(Out::Fetched(peer, ask.number, answer));
            }
        }
        self.serve_waiting(ms, disk);
        self.turn(ms, disk);
    }

    /// Looks at all requests that wait: something about the partition is new.
    pub(super) fn serve_again(&mut self, ms: u64, disk: &Disk) {
        self.sessions.changed(&KEY);
        self.serve_waiting(ms, disk);
    }

    pub(super) fn serve_waiting(&mut self, ms: u64, disk: &Disk) {
        for serving in std::mem::take(&mut self.serving) {
            self.serve(ms, disk, serving);
        }
    }

    fn serve(&mut self, ms: u64, disk: &Disk, mut serving: Serving) {
        if serving.reading.is_some() {
            return self.serving.push(serving);
        }
        let due = self.sessions.due(&serving.context);
        let Some((_, want)) = due.first().copied() else {
            return self.answer_or_wait(ms, serving, None);
        };
        let is_noted = std::mem::replace(&mut serving.is_noted, true);
        let answer = match self.grant(ms, serving.peer, &want, is_noted) {
            Err(error) => FetchedPartition {
                error: error.into(),
                high_watermark: -1,
                log_start: -1,
                ..FetchedPartition::default()
            },
            Ok((answer, None)) => answer,
            Ok((answer, Some(limit))) => {
                self.reads += 1;
                let request = ReadRequest {
                    offset: want.position.offset,
                    max_bytes: 400,
                    min_one_batch: true,
                    limit,
                    settled: Offset::MAX,
                    id: ReadId(self.reads),
                };
                let read = self.step(ms, |partitions, context, slot| {
                    partitions.read(context, slot, request).unwrap()
                });
                match read {
                    ReadOutcome::Pending => {
                        serving.reading = Some((request.id, answer));
                        return self.serving.push(serving);
                    }
                    ReadOutcome::Ready(slice) => filled(answer, disk, Ok(slice)),
                    ReadOutcome::Failed(error) => filled(answer, disk, Err(error)),
                }
            }
        };
        self.answer_or_wait(ms, serving, Some(answer));
    }

    /// Decides on a fetch; with a limit, it is to be read up to there.
    fn grant(
        &mut self,
        ms: u64,
        peer: Peer,
        want: &FetchWant,
        is_noted: bool,
    ) -> Result<(FetchedPartition, Option<Offset>), FetchRefusal> {
        let position = &want.position;
        let claim = FetchClaim {
            reader: Reader::Follower(peer.node),
            current_leader_epoch: Some(position.leader_epoch),
            fetch_offset: position.offset,
            last_fetched_epoch: position.last_fetched_epoch,
        };
        let grant = self.partition().check_fetch(&claim, self.planted)?;
        let limit = match grant {
            FetchGrant::Diverging(_) => None,
            FetchGrant::Read { limit } if is_noted => Some(limit),
            FetchGrant::Read { limit } => {
                let fetch = FollowerFetch {
                    node: peer.node,
                    broker_epoch: peer.broker_epoch,
                    fetch_offset: position.offset,
                    log_start: position.log_start,
                };
                self.note(ms, format!("{fetch:?} in {:?}", position.leader_epoch));
                self.step(ms, |partitions, context, slot| {
                    partitions.note_fetch(context, slot, &fetch).unwrap()
                })?;
                Some(limit)
            }
        };
        let diverging: Option<EpochEnd> = match grant {
            FetchGrant::Diverging(end) => Some(end),
            FetchGrant::Read { .. } => None,
        };
        let partition = self.partition();
        let answer = FetchedPartition {
            error: ErrorCode::None,
            high_watermark: partition.high_watermark(),
            log_start: partition.log().start(),
            diverging,
            records: Bytes::new(),
        };
        Ok((answer, limit))
    }

    pub(super) fn on_read(
        &mut self,
        ms: u64,
        disk: &Disk,
        id: ReadId,
        read: Result<FetchSlice, ReadError>,
    ) {
        let is_it = |serving: &Serving| {
            serving
                .reading
                .as_ref()
                .is_some_and(|(reading, _)| *reading == id)
        };
        let Some(at) = self.serving.iter().position(is_it) else {
            return;
        };
        let mut serving = self.serving.remove(at);
        let (_, answer) = serving.reading.take().unwrap();
        let answer = filled(answer, disk, read);
        self.answer_or_wait(ms, serving, Some(answer));
    }

    fn answer_or_wait(&mut self, ms: u64, serving: Serving, answer: Option<FetchedPartition>) {
        let instant = now(ms).instant;
        let is_full = !matches!(serving.context, FetchContext::Incremental { .. });
        let is_telling =
            |answer: &FetchedPartition| answer.error.is_error() || answer.diverging.is_some();
        let is_enough = answer
            .as_ref()
            .is_some_and(|answer| !answer.records.is_empty() || is_telling(answer));
        if !is_enough && instant < serving.deadline && !is_full {
            return self.serving.push(serving);
        }
        let read = answer.as_ref().map(|answer| ReadPartition {
            high_watermark: answer.high_watermark,
            log_start: answer.log_start,
            has_records: !answer.records.is_empty(),
            is_telling: is_telling(answer),
        });
        let read: Vec<_> = read.into_iter().map(|read| (KEY, read)).collect();
        let draws = &mut self.draws;
        let ended = self.sessions.finish(instant, serving.context, &read, || {
            i32::try_from(draws.next() & 0xffff).unwrap()
        });
        let mut partitions = Vec::new();
        if let (Some(answer), Some(true)) = (answer, ended.included.first()) {
            partitions.push((KEY, answer));
        }
        let answer = FetchAnswer {
            error: ErrorCode::None,
            session_id: ended.session_id,
            partitions,
        };
        self.out
            .push(Out::Fetched(serving.peer, serving.number, answer));
    }

    pub(super) fn on_offset(&self, ask: &OffsetAsk) -> Result<Offset, ErrorCode> {
        let partition = self.partition();
        let known = Some(ask.question.leader_epoch);
        match ask.question.which {
            LeaderOffset::End => partition
                .latest_offset(known, false, self.planted)
                .map_err(ErrorCode::from),
            LeaderOffset::Start => {
                partition
                    .check_epoch(known, true)
                    .map_err(ErrorCode::from)?;
                Ok(partition.log().start())
            }
        }
    }
}

fn filled(
    mut answer: FetchedPartition,
    disk: &Disk,
    read: Result<FetchSlice, ReadError>,
) -> FetchedPartition {
    match read {
        Ok(slice) => {
            let mut bytes = Vec::new();
            for part in &slice.parts {
                match part {
                    Part::Bytes(part) => bytes.extend_from_slice(part),
                    Part::File(range) => bytes.extend(disk.range(range.file, range.at, range.len)),
                }
            }
            answer.records = bytes.into();
        }
        Err(ReadError::OutOfRange { .. }) => answer.error = ErrorCode::OffsetOutOfRange,
        Err(ReadError::NotOpen) => answer.error = ErrorCode::NotLeaderOrFollower,
        Err(ReadError::Offline | ReadError::Unreadable) => {
            answer.error = ErrorCode::KafkaStorageError;
        }
    }
    answer
}
