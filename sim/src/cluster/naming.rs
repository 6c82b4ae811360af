//! What inputs, operations and events of a machine are called in digests, tallies and plans.

use seedlog_core::{
    broker::Input,
    event::Event,
    storage::{FileOp, StorageOp},
};

use super::{Engine, Happening};
use crate::plan::Decisive;

pub(super) fn fold_input(engine: &mut Engine<Happening>, node: usize, input: &Input) {
    let (kind, detail) = match input {
        Input::Connected { connection, .. } => (1, connection.0),
        Input::Frame { connection, .. } => (2, connection.0),
        Input::Closed { connection } => (3, connection.0),
        Input::Sent { connection } => (4, connection.0),
        Input::Storage(completion) => {
            (5 + u64::from(completion.result.is_err()), completion.id.seq)
        }
        Input::StorageMany(completions) => {
            let last = completions.last().map_or(0, |done| done.id.seq);
            (11, last)
        }
        Input::RangeUnreadable { file, .. } => (7, file.0),
        Input::Timeout => (8, 0),
        Input::Stop => (9, 0),
        Input::Dialled { connection } => (10, connection.0),
    };
    engine.fold(kind << 32 | u64::try_from(node).unwrap_or(u64::MAX));
    engine.fold(detail);
}

pub(super) fn fold_op(engine: &mut Engine<Happening>, node: usize, op: &StorageOp) {
    engine.fold(u64::try_from(node).unwrap_or(u64::MAX));
    engine.fold(op.id.seq);
    if let FileOp::Write { at, data, .. } = &op.op {
        engine.fold(*at);
        engine.fold_bytes(data.head.as_slice());
        engine.fold_bytes(&data.body);
    }
}

pub(super) const fn decisive_of(event: &Event) -> Option<Decisive> {
    match event {
        Event::Ready => Some(Decisive::Ready),
        Event::LogOpened { .. } => Some(Decisive::LogOpened),
        Event::TailCut { .. } => Some(Decisive::TailCut),
        Event::SegmentRolled { .. } => Some(Decisive::SegmentRolled),
        Event::HighWatermark { .. } => Some(Decisive::HighWatermark),
        Event::LogStartMoved { .. } => Some(Decisive::LogStartMoved),
        Event::BecameLeader { .. } => Some(Decisive::BecameLeader),
        _ => None,
    }
}

pub(super) const fn name_of(event: &Event) -> &'static str {
    match event {
        Event::Ready => "ready",
        Event::LogOpened { .. } => "log-opened",
        Event::TailCut { .. } => "tail-cut",
        Event::IndexRebuilt { .. } => "index-rebuilt",
        Event::PartitionOffline { .. } => "partition-offline",
        Event::SegmentRolled { .. } => "segment-rolled",
        Event::LogStartMoved { .. } => "log-start-moved",
        Event::BecameLeader { .. } => "became-leader",
        Event::PartitionChanged { .. } => "partition-changed",
        Event::LeaderElectedUncleanly { .. } => "leader-elected-uncleanly",
        Event::HighWatermark { .. } => "high-watermark",
        Event::LogDirFailed { .. } => "log-dir-failed",
        Event::FutureTimestamp { .. } => "future-timestamp",
        Event::ConnectionRefused { .. } => "connection-refused",
        Event::CleanShutdown { .. } => "clean-shutdown",
        Event::Fatal { .. } => "fatal",
        _ => "other",
    }
}
