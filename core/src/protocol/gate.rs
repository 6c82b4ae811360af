//! Fields that a version lacks, set to what means "not there".
//!
//! The wire crate refuses to write a message with such a field set, where Kafka marks it as not
//! ignorable. A handler fills its answer for the newest version; this makes it fit the one asked.

use kacrab_protocol::KafkaUuid;

use super::messages::{
    AlterPartitionResponseData, ApiVersionsResponseData, BeginQuorumEpochResponseData,
    BrokerHeartbeatResponseData, BrokerRegistrationResponseData, CreatePartitionsResponseData,
    CreateTopicsResponseData, DeleteRecordsResponseData, DeleteTopicsResponseData,
    DescribeClusterResponseData, DescribeConfigsResponseData, DescribeQuorumResponseData,
    ElectLeadersResponseData, EndQuorumEpochResponseData, EnvelopeResponseData,
    FetchSnapshotResponseData, FindCoordinatorResponseData, IncrementalAlterConfigsResponseData,
    ListOffsetsResponseData, MetadataResponseData, OffsetForLeaderEpochResponseData,
    VoteResponseData,
};

/// A response that can be fitted to a version.
pub(super) trait Gate {
    /// Unsets what `version` cannot say.
    fn gate(&mut self, _version: i16) {}
}

/// Kafka's "authorized operations were not asked for".
const OPERATIONS_UNKNOWN: i32 = i32::MIN;
/// Kafka's endpoint type of brokers.
const ENDPOINT_BROKERS: i8 = 1;

impl Gate for ListOffsetsResponseData {
    fn gate(&mut self, version: i16) {
        if version < 4 {
            for partition in self
                .topics
                .iter_mut()
                .flat_map(|topic| &mut topic.partitions)
            {
                partition.leader_epoch = -1;
            }
        }
    }
}

impl Gate for MetadataResponseData {
    fn gate(&mut self, version: i16) {
        if !(8..=10).contains(&version) {
            self.cluster_authorized_operations = OPERATIONS_UNKNOWN;
        }
        if version < 8 {
            for topic in &mut self.topics {
                topic.topic_authorized_operations = OPERATIONS_UNKNOWN;
            }
        }
    }
}

impl Gate for ApiVersionsResponseData {
    fn gate(&mut self, version: i16) {
        if version < 4 {
            // Older readers fail on a range that starts at 0 (KAFKA-17011), so Kafka leaves the
            // feature out.
            self.supported_features
                .retain(|feature| feature.min_version != 0);
        }
    }
}

impl Gate for DescribeClusterResponseData {
    fn gate(&mut self, version: i16) {
        if version < 1 {
            self.endpoint_type = ENDPOINT_BROKERS;
        }
        if version < 2 {
            for broker in &mut self.brokers {
                broker.is_fenced = false;
            }
        }
    }
}

impl Gate for FindCoordinatorResponseData {
    fn gate(&mut self, version: i16) {
        if version < 4
            && let Some(first) = self.coordinators.drain(..).next()
        {
            self.error_code = first.error_code;
            self.error_message = first.error_message;
            self.node_id = first.node_id;
            self.host = first.host;
            self.port = first.port;
        }
    }
}

impl Gate for ElectLeadersResponseData {
    fn gate(&mut self, version: i16) {
        if version < 1 {
            self.error_code = 0;
        }
    }
}

impl Gate for DescribeQuorumResponseData {
    fn gate(&mut self, version: i16) {
        if version >= 2 {
            return;
        }
        self.error_message = None;
        self.nodes.clear();
        let partitions = self.topics.iter_mut();
        for partition in partitions.flat_map(|topic| &mut topic.partitions) {
            partition.error_message = None;
            let voters = partition.current_voters.iter_mut();
            for replica in voters.chain(&mut partition.observers) {
                replica.replica_directory_id = KafkaUuid::ZERO;
                if version < 1 {
                    replica.last_fetch_timestamp = -1;
                    replica.last_caught_up_timestamp = -1;
                }
            }
        }
    }
}

impl Gate for VoteResponseData {}
impl Gate for BeginQuorumEpochResponseData {}
impl Gate for EndQuorumEpochResponseData {}
impl Gate for EnvelopeResponseData {}
impl Gate for FetchSnapshotResponseData {}
impl Gate for AlterPartitionResponseData {}
impl Gate for BrokerHeartbeatResponseData {}
impl Gate for BrokerRegistrationResponseData {}
impl Gate for CreateTopicsResponseData {}
impl Gate for DeleteTopicsResponseData {}
impl Gate for DeleteRecordsResponseData {}
impl Gate for OffsetForLeaderEpochResponseData {}
impl Gate for DescribeConfigsResponseData {}
impl Gate for CreatePartitionsResponseData {}
impl Gate for IncrementalAlterConfigsResponseData {}
