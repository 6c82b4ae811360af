//! From answers to what a caller is told.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::{
    Admin, AdminAnswer, AdminCall, ApiError, Asked, CallId, ConfigEntry, ConfigResource,
    CreatedTopic, Unit, ask::TOPIC_RESOURCE, describe,
};
use crate::{
    client::{Address, network::Peer, offsets},
    ids::{NodeId, TopicName, TopicPartition, Uuid},
    protocol::{
        ApiKey, ErrorCode,
        messages::{
            CreatePartitionsRequestData, CreatePartitionsResponseData, CreateTopicsRequestData,
            CreateTopicsResponseData, DeleteRecordsRequestData, DeleteRecordsResponseData,
            DeleteTopicsRequestData, DeleteTopicsResponseData, DescribeClusterRequestData,
            DescribeClusterResponseData, DescribeConfigsRequestData, DescribeConfigsResponseData,
            DescribeQuorumRequestData, IncrementalAlterConfigsRequestData,
            IncrementalAlterConfigsResponseData, ListOffsetsRequestData, ListOffsetsResponseData,
            MetadataRequestData, MetadataResponseData,
        },
    },
};

/// What one answer says, unit by unit; the error is what a retry is decided by.
pub(super) type Told = Vec<(Unit, ErrorCode, Write)>;

/// Writes what an answer says about a unit where the caller will find it.
pub(super) type Write = Box<dyn FnOnce(&mut AdminAnswer)>;

impl Admin {
    pub(super) fn on_answer(&mut self, peer: Peer, asked: Asked, version: i16, frame: &Bytes) {
        let now = self.now;
        macro_rules! told {
            ($request:ty, $read:expr) => {
                self.network
                    .decode::<$request>(now, peer, version, frame)
                    .map($read)
            };
        }
        let told: Option<Told> = match asked.api {
            ApiKey::CreateTopics => told!(CreateTopicsRequestData, created),
            ApiKey::DeleteTopics => told!(DeleteTopicsRequestData, deleted),
            ApiKey::CreatePartitions => told!(CreatePartitionsRequestData, grown),
            ApiKey::DescribeConfigs => told!(DescribeConfigsRequestData, configs),
            ApiKey::IncrementalAlterConfigs => {
                told!(IncrementalAlterConfigsRequestData, altered)
            }
            ApiKey::DeleteRecords => told!(DeleteRecordsRequestData, records_deleted),
            ApiKey::ListOffsets => told!(ListOffsetsRequestData, listed),
            ApiKey::DescribeCluster if self.wants_brokers(asked.call) => {
                told!(DescribeClusterRequestData, |answer| describe::brokers(
                    answer, version
                ))
            }
            ApiKey::DescribeCluster => told!(DescribeClusterRequestData, cluster),
            ApiKey::DescribeQuorum => told!(DescribeQuorumRequestData, describe::quorum),
            ApiKey::Metadata => told!(MetadataRequestData, metadata),
            ApiKey::Produce
            | ApiKey::Fetch
            | ApiKey::ApiVersions
            | ApiKey::FindCoordinator
            | ApiKey::ElectLeaders
            | ApiKey::OffsetForLeaderEpoch
            | ApiKey::AlterPartition
            | ApiKey::BrokerRegistration
            | ApiKey::BrokerHeartbeat
            | ApiKey::Vote
            | ApiKey::BeginQuorumEpoch
            | ApiKey::EndQuorumEpoch
            | ApiKey::Envelope
            | ApiKey::FetchSnapshot => None,
        };
        match told {
            Some(told) => self.take(asked, told),
            None => self.on_lost(asked),
        }
    }

    fn take(&mut self, asked: Asked, told: Told) {
        let Some(open) = self.calls.get_mut(&asked.call) else {
            return;
        };
        let mut again: BTreeSet<Unit> = asked.units;
        let mut error = None;
        for (unit, code, write) in told {
            if !open.in_flight.contains(&unit) || !again.contains(&unit) {
                continue;
            }
            if asks_again(asked.api, code) {
                error = Some(code);
                continue;
            }
            again.remove(&unit);
            open.in_flight.remove(&unit);
            write(&mut open.answer);
        }
        if !again.is_empty() {
            // What an answer leaves out was not answered.
            open.last_error = error.unwrap_or(ErrorCode::UnknownServerError);
            self.again(asked.call, again);
        }
        self.conclude(asked.call);
    }

    fn wants_brokers(&self, id: CallId) -> bool {
        let open = self.calls.get(&id);
        open.is_some_and(|open| open.call == AdminCall::DescribeBrokers)
    }

    fn conclude(&mut self, id: CallId) {
        let over = self
            .calls
            .get(&id)
            .is_some_and(|open| open.left.is_empty() && open.in_flight.is_empty());
        if over {
            self.finish(id, None);
        }
    }
}

/// Says whether an error is no answer but a request to ask elsewhere or later.
fn asks_again(api: ApiKey, error: ErrorCode) -> bool {
    match api {
        ApiKey::ListOffsets | ApiKey::DeleteRecords => error.is_retriable(),
        // A broker that does not hand the question on to the leader leaves it to the caller to find it.
        ApiKey::DescribeQuorum => error.is_retriable(),
        _ => matches!(
            error,
            ErrorCode::NotController
                | ErrorCode::ThrottlingQuotaExceeded
                | ErrorCode::CoordinatorLoadInProgress
        ),
    }
}

fn code(number: i16) -> ErrorCode {
    ErrorCode::from_code(number).unwrap_or(ErrorCode::UnknownServerError)
}

fn created(answer: CreateTopicsResponseData) -> Told {
    let topics = answer.topics.into_iter().map(|topic| {
        let name = TopicName::new(topic.name.as_str());
        let message = topic.error_message.as_ref().map(|text| text.as_str());
        let result = ApiError::of(topic.error_code, message).map(|()| CreatedTopic {
            id: Uuid::from(topic.topic_id),
            partitions: topic.num_partitions,
            replication_factor: topic.replication_factor,
        });
        told(Unit::Topic(name.clone()), topic.error_code, |answer| {
            if let AdminAnswer::Created(map) = answer {
                map.insert(name, result);
            }
        })
    });
    topics.collect()
}

fn deleted(answer: DeleteTopicsResponseData) -> Told {
    let topics = answer.responses.into_iter().filter_map(|topic| {
        let name = TopicName::new(topic.name?.as_str());
        let message = topic.error_message.as_ref().map(|text| text.as_str());
        let result = ApiError::of(topic.error_code, message);
        let unit = Unit::Topic(name.clone());
        Some(told(unit, topic.error_code, |answer| {
            if let AdminAnswer::Deleted(map) = answer {
                map.insert(name, result);
            }
        }))
    });
    topics.collect()
}

fn grown(answer: CreatePartitionsResponseData) -> Told {
    let topics = answer.results.into_iter().map(|topic| {
        let name = TopicName::new(topic.name.as_str());
        let message = topic.error_message.as_ref().map(|text| text.as_str());
        let result = ApiError::of(topic.error_code, message);
        told(Unit::Topic(name.clone()), topic.error_code, |answer| {
            if let AdminAnswer::Grown(map) = answer {
                map.insert(name, result);
            }
        })
    });
    topics.collect()
}

fn configs(answer: DescribeConfigsResponseData) -> Told {
    let results = answer.results.into_iter().filter_map(|result| {
        let resource = resource(result.resource_type, result.resource_name.as_str())?;
        let message = result.error_message.as_ref().map(|text| text.as_str());
        let entries = result.configs.into_iter().map(|entry| ConfigEntry {
            name: entry.name.to_string(),
            value: entry.value.map(|value| value.to_string()),
            source: entry.config_source,
            is_read_only: entry.read_only,
            is_sensitive: entry.is_sensitive,
        });
        let entries: Vec<_> = entries.collect();
        let described = ApiError::of(result.error_code, message).map(|()| entries);
        let unit = Unit::Resource(resource.clone());
        Some(told(unit, result.error_code, |answer| {
            if let AdminAnswer::Configs(map) = answer {
                map.insert(resource, described);
            }
        }))
    });
    results.collect()
}

fn altered(answer: IncrementalAlterConfigsResponseData) -> Told {
    let results = answer.responses.into_iter().filter_map(|result| {
        let resource = resource(result.resource_type, result.resource_name.as_str())?;
        let message = result.error_message.as_ref().map(|text| text.as_str());
        let altered = ApiError::of(result.error_code, message);
        let unit = Unit::Resource(resource.clone());
        Some(told(unit, result.error_code, |answer| {
            if let AdminAnswer::Altered(map) = answer {
                map.insert(resource, altered);
            }
        }))
    });
    results.collect()
}

fn records_deleted(answer: DeleteRecordsResponseData) -> Told {
    let mut all = Told::new();
    for topic in answer.topics {
        let name = TopicName::new(topic.name.as_str());
        for row in topic.partitions {
            let partition = TopicPartition {
                topic: name.clone(),
                partition: row.partition_index,
            };
            let result = match code(row.error_code) {
                ErrorCode::None => Ok(row.low_watermark),
                error => Err(error),
            };
            let unit = Unit::Partition(partition.clone());
            all.push(told(unit, row.error_code, move |answer| {
                if let AdminAnswer::RecordsDeleted(map) = answer {
                    map.insert(partition, result);
                }
            }));
        }
    }
    all
}

fn listed(answer: ListOffsetsResponseData) -> Told {
    let rows = offsets::answers(answer).into_iter();
    rows.map(|(partition, offset)| {
        let unit = Unit::Partition(partition.clone());
        told(unit, offset.error.code(), move |answer| {
            if let AdminAnswer::Offsets(map) = answer {
                map.insert(partition, offset);
            }
        })
    })
    .collect()
}

fn cluster(answer: DescribeClusterResponseData) -> Told {
    let error = answer.error_code;
    vec![told(Unit::Whole, error, move |told| {
        if let AdminAnswer::Cluster(cluster) = told {
            cluster.cluster_id = Some(answer.cluster_id.to_string());
            let brokers = answer.brokers.iter().filter_map(|broker| {
                let port = u16::try_from(broker.port).ok()?;
                Some((
                    NodeId(broker.broker_id),
                    Address::new(broker.host.as_str(), port),
                ))
            });
            cluster.brokers = brokers.collect();
            let controller = NodeId(answer.controller_id);
            cluster.controller = Some(controller).filter(|id| cluster.brokers.contains_key(id));
        }
    })]
}

fn metadata(answer: MetadataResponseData) -> Told {
    vec![told(Unit::Whole, answer.error_code, move |told| {
        if let AdminAnswer::Cluster(cluster) = told {
            cluster.update(answer);
        }
    })]
}

fn told(
    unit: Unit,
    error: i16,
    write: impl FnOnce(&mut AdminAnswer) + 'static,
) -> (Unit, ErrorCode, Write) {
    (unit, code(error), Box::new(write))
}

fn resource(kind: i8, name: &str) -> Option<ConfigResource> {
    if kind == TOPIC_RESOURCE {
        return Some(ConfigResource::Topic(TopicName::new(name)));
    }
    if name.is_empty() {
        return Some(ConfigResource::BrokerDefaults);
    }
    Some(ConfigResource::Broker(NodeId(name.parse().ok()?)))
}
