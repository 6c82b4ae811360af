//! `ElectLeaders`, versions 0 to 2: an operator asks for preferred leaders, or for any leader at all (KIP-460).

use std::collections::BTreeSet;

use super::{
    ApiError, Decision, DecisionContext, RECORDS_PER_REQUEST_MAX,
    election::{Election, Proposal},
    topic_rules::{RuleReader, may_lead},
};
use crate::{
    controller::{
        image::{MetadataImage, NO_LEADER, TopicImage},
        messages::{
            ElectLeadersRequestData, ElectLeadersResponseData, ErrorCode, PartitionElectionResult,
            ReplicaElectionResult, wire_string,
        },
        records::Record,
    },
    ids::Uuid,
};

/// Decides on elections; each partition succeeds or fails by itself.
///
/// Without a list of topics all partitions are meant, and those that need no election are left out of the answer.
pub fn elect_leaders(
    image: &MetadataImage,
    context: &DecisionContext<'_>,
    request: &ElectLeadersRequestData,
) -> Decision<ElectLeadersResponseData> {
    let election = match request.election_type {
        0 => Election::Preferred,
        1 => Election::Unclean,
        other => {
            let message = format!("Unknown election type {other}");
            return refuse_all(request, &ApiError::new(ErrorCode::InvalidRequest, message));
        }
    };
    let mut electing = Electing {
        image,
        context,
        election,
        rules: RuleReader::new(image, context),
        records: Vec::new(),
        elected: BTreeSet::new(),
    };
    let results = match &request.topic_partitions {
        Some(topics) => topics
            .iter()
            .map(|topic| {
                let name = topic.topic.as_str();
                let elect = |id: &i32| result(*id, electing.elect(name, *id));
                let partitions = topic.partitions.iter().map(elect).collect();
                of_topic(name, partitions)
            })
            .collect(),
        None => image
            .topics()
            .map(|topic| electing.elect_all(topic))
            .collect(),
    };
    if electing.records.len() > RECORDS_PER_REQUEST_MAX {
        let message = "Unable to perform excessively large batch operation.";
        return refuse_all(request, &ApiError::new(ErrorCode::PolicyViolation, message));
    }
    let reply = ElectLeadersResponseData {
        replica_election_results: results,
        ..ElectLeadersResponseData::default()
    };
    Decision {
        records: electing.records,
        reply,
    }
}

struct Electing<'image> {
    image: &'image MetadataImage,
    context: &'image DecisionContext<'image>,
    election: Election,
    rules: RuleReader<'image>,
    records: Vec<Record>,
    elected: BTreeSet<(Uuid, i32)>,
}

impl Electing<'_> {
    fn elect_all(&mut self, topic: &TopicImage) -> ReplicaElectionResult {
        let numbers = 0..topic.partition_count();
        let results = numbers.filter_map(|number| {
            let outcome = self.elect_in(topic, number);
            let is_needed =
                !matches!(&outcome, Err(error) if error.code == ErrorCode::ElectionNotNeeded);
            is_needed.then(|| result(number, outcome))
        });
        let results = results.collect();
        of_topic(topic.name().as_str(), results)
    }

    fn elect(&mut self, name: &str, partition_id: i32) -> Result<(), ApiError> {
        let unknown = |what: String| ApiError::new(ErrorCode::UnknownTopicOrPartition, what);
        let topic = self
            .image
            .topic(name)
            .ok_or_else(|| unknown(format!("No such topic as {name}")))?;
        if topic.partition(partition_id).is_none() {
            return Err(unknown(format!(
                "No such partition as {name}-{partition_id}"
            )));
        }
        self.elect_in(topic, partition_id)
    }

    fn elect_in(&mut self, topic: &TopicImage, partition_id: i32) -> Result<(), ApiError> {
        let partition = topic
            .partition(partition_id)
            .ok_or(ApiError::bare(ErrorCode::UnknownTopicOrPartition))?;
        let is_done = match self.election {
            Election::Unclean => partition.leader != NO_LEADER,
            Election::Online | Election::Preferred => partition.has_preferred_leader(),
        };
        // Named twice, it has been elected already.
        if is_done || !self.elected.insert((topic.id(), partition_id)) {
            let message = "Leader election not needed for topic partition.";
            return Err(ApiError::new(ErrorCode::ElectionNotNeeded, message));
        }
        let may_lead = |id| may_lead(self.image, self.context, partition, id);
        let proposal = Proposal {
            election: self.election,
            ..Proposal::new(partition, self.rules.of(topic), &may_lead)
        };
        let change = proposal
            .decide(topic.id(), partition_id)
            .ok_or_else(|| self.unavailable())?;
        self.records.push(change.into());
        Ok(())
    }

    fn unavailable(&self) -> ApiError {
        match self.election {
            Election::Unclean => ApiError::new(
                ErrorCode::EligibleLeadersNotAvailable,
                "Eligible topic partition leaders are not available.",
            ),
            Election::Online | Election::Preferred => ApiError::new(
                ErrorCode::PreferredLeaderNotAvailable,
                "The preferred leader was not available.",
            ),
        }
    }
}

fn of_topic(name: &str, partition_result: Vec<PartitionElectionResult>) -> ReplicaElectionResult {
    ReplicaElectionResult {
        topic: wire_string(name),
        partition_result,
        ..ReplicaElectionResult::default()
    }
}

fn result(partition_id: i32, outcome: Result<(), ApiError>) -> PartitionElectionResult {
    let error = outcome.err();
    PartitionElectionResult {
        partition_id,
        error_code: error.as_ref().map_or(0, |error| error.code.code()),
        error_message: error.as_ref().and_then(ApiError::wire_message),
        ..PartitionElectionResult::default()
    }
}

fn refuse_all(
    request: &ElectLeadersRequestData,
    error: &ApiError,
) -> Decision<ElectLeadersResponseData> {
    let topics = request.topic_partitions.iter().flatten();
    let results = topics.map(|topic| {
        let refused = |id: &i32| result(*id, Err(error.clone()));
        of_topic(
            topic.topic.as_str(),
            topic.partitions.iter().map(refused).collect(),
        )
    });
    Decision::answer(ElectLeadersResponseData {
        error_code: error.code.code(),
        replica_election_results: results.collect(),
        ..ElectLeadersResponseData::default()
    })
}
