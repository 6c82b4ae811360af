//! The image as records, and as one number.

use super::MetadataImage;
use crate::controller::records::{
    ClusterIdV1, ConfigV1, FeatureLevelV1, METADATA_VERSION, Record, TopicV1, VotersV1,
};

impl MetadataImage {
    /// Returns the shortest list of records that builds this image from nothing, in an order fixed by names.
    #[must_use]
    pub fn to_snapshot_records(&self) -> Vec<Record> {
        let mut records = Vec::new();
        self.for_each_record(&mut |record| records.push(record));
        records
    }

    /// Returns a number that is the same for equal images on every node, in every run and in every build that writes
    /// the same record versions.
    #[must_use]
    pub fn state_hash(&self) -> u64 {
        // FNV-1a: nobody attacks it, and it needs no table, no seed and no crate.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        self.for_each_record(&mut |record| {
            for byte in record.encode().unwrap_or_default() {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        });
        hash
    }

    fn for_each_record(&self, emit: &mut dyn FnMut(Record)) {
        // The level first: it says which records may follow.
        let first = self.features.get_key_value(METADATA_VERSION);
        let rest = self
            .features
            .iter()
            .filter(|(name, _)| *name != METADATA_VERSION);
        for (name, level) in first.into_iter().chain(rest) {
            emit(
                FeatureLevelV1 {
                    name: name.clone(),
                    level: *level,
                }
                .into(),
            );
        }
        if let Some(cluster_id) = &self.cluster_id {
            emit(
                ClusterIdV1 {
                    cluster_id: cluster_id.clone(),
                }
                .into(),
            );
        }
        if !self.voters.is_empty() {
            emit(
                VotersV1 {
                    voters: self.voters.clone(),
                }
                .into(),
            );
        }
        for broker in self.brokers.all().values() {
            emit(broker.to_record().into());
        }
        for topic in self.topics.by_name() {
            let name = topic.name().as_str().to_owned();
            emit(
                TopicV1 {
                    topic_id: topic.id(),
                    name,
                }
                .into(),
            );
            for (number, partition) in (0..).zip(topic.partitions()) {
                emit(partition.to_record(topic.id(), number).into());
            }
        }
        for (resource, configs) in self.configs.all() {
            for (name, value) in configs {
                emit(
                    ConfigV1 {
                        resource_type: resource.kind.code(),
                        resource_name: resource.name.clone(),
                        name: name.clone(),
                        value: Some(value.clone()),
                    }
                    .into(),
                );
            }
        }
    }
}
