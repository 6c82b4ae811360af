//! OffsetForLeaderEpoch: where an epoch ends in the leader's log (KIP-101, KIP-279, KIP-320).

use super::{Call, Frontend, Services, TopicRef};
use crate::{
    ids::Epoch,
    protocol::{
        ErrorCode,
        messages::{
            EpochEnd, OffsetForLeaderEpochRequestData, OffsetForLeaderEpochResponseData,
            OffsetForLeaderPartition, OffsetForLeaderTopicResult,
        },
    },
};

/// "There is no such epoch", and likewise its end.
const UNDEFINED: (i32, i64) = (-1, -1);

/// Executes an OffsetForLeaderEpoch request whose partitions' logs are all open, or cannot be opened.
pub(super) fn execute(
    frontend: &mut Frontend,
    services: &mut Services<'_>,
    call: Call,
    request: &OffsetForLeaderEpochRequestData,
) {
    let topics = request.topics.iter().map(|topic| {
        let name = TopicRef::Name(topic.topic.as_str());
        let partitions = topic.partitions.iter();
        OffsetForLeaderTopicResult {
            topic: topic.topic.clone(),
            partitions: partitions
                .map(|wanted| answer(services, &name, wanted))
                .collect(),
            ..OffsetForLeaderTopicResult::default()
        }
    });
    let response = OffsetForLeaderEpochResponseData {
        topics: topics.collect(),
        ..OffsetForLeaderEpochResponseData::default()
    };
    frontend.answer(services, call, response);
}

fn answer(
    services: &Services<'_>,
    topic: &TopicRef<'_>,
    wanted: &OffsetForLeaderPartition,
) -> EpochEnd {
    let (code, (leader_epoch, end_offset)) = match find(services, topic, wanted) {
        Ok(found) => (ErrorCode::None, found),
        Err(code) => (code, UNDEFINED),
    };
    EpochEnd {
        error_code: code.code(),
        partition: wanted.partition,
        leader_epoch,
        end_offset,
        ..EpochEnd::default()
    }
}

fn find(
    services: &Services<'_>,
    topic: &TopicRef<'_>,
    wanted: &OffsetForLeaderPartition,
) -> Result<(i32, i64), ErrorCode> {
    let slot = services.slot(topic, wanted.partition)?;
    let partition = services
        .partitions
        .get(slot)
        .ok_or(ErrorCode::UnknownTopicOrPartition)?;
    let known = (wanted.current_leader_epoch >= 0).then_some(Epoch(wanted.current_leader_epoch));
    let asked = Epoch(wanted.leader_epoch);
    let end = partition.epoch_end(known, asked, services.planted)?;
    Ok(end.map_or(UNDEFINED, |end| (end.epoch.0, end.end_offset)))
}
