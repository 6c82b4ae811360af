//! `CreatePartitions`, versions 0 to 3.

use std::collections::BTreeSet;

use rand::Rng;

use super::{
    ApiError, Decision, RECORDS_PER_REQUEST_MAX,
    partitions::{check_assignment, partition_record},
    placement::Placer,
};
use crate::{
    controller::{
        image::{MetadataImage, TopicImage},
        messages::{
            CreatePartitionsRequestData, CreatePartitionsResponseData, CreatePartitionsTopic,
            CreatePartitionsTopicResult, ErrorCode, wire_string,
        },
        records::Record,
    },
    ids::NodeId,
};

/// Decides on more partitions for topics that there are; each topic succeeds or fails by itself.
pub fn create_partitions(
    image: &MetadataImage,
    rng: &mut dyn Rng,
    request: &CreatePartitionsRequestData,
) -> Decision<CreatePartitionsResponseData> {
    let mut seen = BTreeSet::new();
    let mut duplicated = BTreeSet::new();
    for topic in &request.topics {
        if !seen.insert(topic.name.as_str()) {
            duplicated.insert(topic.name.as_str());
        }
    }
    let mut results = Vec::with_capacity(request.topics.len());
    let mut records = Vec::new();
    for name in &duplicated {
        let error = ApiError::new(ErrorCode::InvalidRequest, "Duplicate topic name.");
        results.push(result(name, Err(error)));
    }
    if request.timeout_ms <= 0 && seen.len() > duplicated.len() {
        let timed_out = || Err(ApiError::bare(ErrorCode::RequestTimedOut));
        let topics = request.topics.iter();
        let results = topics
            .map(|topic| result(topic.name.as_str(), timed_out()))
            .collect();
        return Decision::answer(CreatePartitionsResponseData {
            results,
            ..CreatePartitionsResponseData::default()
        });
    }
    for topic in request
        .topics
        .iter()
        .filter(|topic| !duplicated.contains(topic.name.as_str()))
    {
        let room = RECORDS_PER_REQUEST_MAX.saturating_sub(records.len());
        let added = add_partitions(image, rng, topic, room).map(|added| records.extend(added));
        results.push(result(topic.name.as_str(), added));
    }
    let reply = CreatePartitionsResponseData {
        results,
        ..CreatePartitionsResponseData::default()
    };
    Decision { records, reply }.unless(request.validate_only)
}

fn result(name: &str, outcome: Result<(), ApiError>) -> CreatePartitionsTopicResult {
    let error = outcome.err();
    CreatePartitionsTopicResult {
        name: wire_string(name),
        error_code: error.as_ref().map_or(0, |error| error.code.code()),
        error_message: error.as_ref().and_then(ApiError::wire_message),
        ..CreatePartitionsTopicResult::default()
    }
}

fn add_partitions(
    image: &MetadataImage,
    rng: &mut dyn Rng,
    request: &CreatePartitionsTopic,
    room: usize,
) -> Result<Vec<Record>, ApiError> {
    let topic = image
        .topic(request.name.as_str())
        .ok_or(ApiError::bare(ErrorCode::UnknownTopicOrPartition))?;
    let additional = additional(topic, request)?;
    if let Some(assignments) = &request.assignments
        && i32::try_from(assignments.len()) != Ok(additional)
    {
        let message = format!(
            "Attempted to add {additional} additional partition(s), but only {} assignment(s) were specified.",
            assignments.len()
        );
        return Err(ApiError::new(ErrorCode::InvalidReplicaAssignment, message));
    }
    // Kafka fails with nothing but this code once its batch is full.
    if usize::try_from(additional).unwrap_or(usize::MAX) > room {
        return Err(ApiError::bare(ErrorCode::UnknownServerError));
    }
    let factor = topic
        .partitions()
        .first()
        .map_or(0, |partition| partition.replicas.len());
    let first = topic.partition_count();
    let numbers = first..first.saturating_add(additional);
    match &request.assignments {
        Some(assignments) => numbers
            .zip(assignments)
            .map(|(number, assignment)| {
                let replicas = check_assignment(image, &assignment.broker_ids, Some(factor))?;
                record(image, topic, number, replicas).ok_or_else(|| {
                    let message = format!(
                        "All brokers specified in the manual partition assignment for partition {number} are fenced \
                         or in controlled shutdown."
                    );
                    ApiError::new(ErrorCode::InvalidReplicaAssignment, message)
                })
            })
            .collect(),
        None => {
            let mut placer = Placer::new(image, rng);
            let replicas = placer.check(i16::try_from(factor).unwrap_or(i16::MAX))?;
            numbers
                .map(|number| {
                    record(image, topic, number, placer.place(replicas, rng)).ok_or_else(|| {
                        let message = format!(
                            "Unable to replicate the partition {factor} time(s): All brokers are currently fenced or \
                             in controlled shutdown."
                        );
                        ApiError::new(ErrorCode::InvalidReplicationFactor, message)
                    })
                })
                .collect()
        }
    }
}

fn record(
    image: &MetadataImage,
    topic: &TopicImage,
    number: i32,
    replicas: Vec<NodeId>,
) -> Option<Record> {
    partition_record(image, topic.id(), number, replicas)
}

fn additional(topic: &TopicImage, request: &CreatePartitionsTopic) -> Result<i32, ApiError> {
    let (now, asked) = (topic.partition_count(), request.count);
    let message = match asked.cmp(&now) {
        std::cmp::Ordering::Greater => return Ok(asked.saturating_sub(now)),
        std::cmp::Ordering::Equal => format!("Topic already has {now} partition(s)."),
        std::cmp::Ordering::Less => format!(
            "The topic {} currently has {now} partition(s); {asked} would not be an increase.",
            topic.name()
        ),
    };
    Err(ApiError::new(ErrorCode::InvalidPartitions, message))
}
