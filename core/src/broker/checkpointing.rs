//! Checkpoints, log starts and retention: what is written about logs, and when.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::Broker;
use crate::{
    ids::{Offset, TopicName, TopicPartition},
    log::checkpoint,
    logdir::CheckpointKind,
    replication::{Partition, PartitionState, SlotId},
    storage::{Completion, FaultKind, StorageFault},
};

impl Broker {
    /// Takes a completion of a checkpoint's replacement.
    pub(super) fn on_checkpoint_completion(&mut self, completion: Completion) {
        match self
            .checkpoints
            .on_completion(&mut self.storage, completion)
        {
            Ok(None) => {}
            Ok(Some(CheckpointKind::LogStart)) => {
                self.stale_names.written(CheckpointKind::LogStart);
                self.on_log_starts_durable();
            }
            Ok(Some(CheckpointKind::RecoveryPoint)) => {
                self.stale_names.written(CheckpointKind::RecoveryPoint);
                self.cuts.written();
                self.on_stop_file_written(CheckpointKind::RecoveryPoint);
            }
            Ok(Some(CheckpointKind::HighWatermark)) => {
                self.stale_names.written(CheckpointKind::HighWatermark);
                self.on_stop_file_written(CheckpointKind::HighWatermark);
            }
            Ok(Some(CheckpointKind::MetaProperties)) => self.on_identified(),
            Ok(Some(kind)) => self.on_stop_file_written(kind),
            Err((kind, fault)) => self.on_checkpoint_failed(kind, fault),
        }
    }

    fn on_checkpoint_failed(&mut self, kind: CheckpointKind, fault: StorageFault) {
        let path = self.root.join(kind.file_name());
        // A full disk costs nothing but a later recovery; anything else is the device.
        let is_harmless = fault.kind == FaultKind::NoSpace
            && !matches!(
                kind,
                CheckpointKind::MetaProperties | CheckpointKind::CleanShutdown
            );
        if !is_harmless {
            return self.give_up_log_dir(path, fault);
        }
        self.stale_names.failed(kind);
        if kind == CheckpointKind::RecoveryPoint {
            self.cuts.failed(self.now.instant);
        }
        if kind == CheckpointKind::LogStart {
            self.new_starts.failed(self.now.instant);
            for slot in self.log_starts.finish().into_keys() {
                self.with_frontend(|frontend, services| {
                    frontend.on_start_moved(services, slot, None);
                });
            }
        }
        self.on_stop_file_written(kind);
    }

    /// Clears the traces of deleted partitions, and takes up new ones of their names.
    pub(super) fn free_stale_names(&mut self) {
        let kind = CheckpointKind::RecoveryPoint;
        if self.stale_names.wants(kind) && !self.checkpoints.is_writing(kind) {
            self.checkpoint_recovery_points();
        }
        if self.stale_names.wants(CheckpointKind::HighWatermark) {
            self.write_high_watermarks();
        }
        while let Some((topic_id, partition_id)) = self.stale_names.pop_free() {
            self.add_partition(topic_id, partition_id, true, true);
        }
    }

    /// Starts to make wanted log starts durable.
    pub(super) fn write_log_starts(&mut self) {
        let kind = CheckpointKind::LogStart;
        let is_due = self.log_starts.is_due()
            || self.stale_names.wants(kind)
            || self.new_starts.is_due(self.now.instant);
        if !is_due || self.checkpoints.is_writing(kind) {
            return;
        }
        self.stale_names.writing(kind);
        self.log_starts.begin();
        self.new_starts.begin();
        let content = self.log_start_checkpoint();
        self.checkpoints
            .write(&mut self.storage, CheckpointKind::LogStart, content);
    }

    fn on_log_starts_durable(&mut self) {
        for (slot, start) in self.log_starts.finish() {
            let (partitions, mut context) = self.context();
            partitions.with(&mut context, slot, |partition, log, effects| {
                partition.delete_before(log, start, effects);
            });
            self.with_frontend(|frontend, services| {
                frontend.on_start_moved(services, slot, Some(start));
            });
        }
        for slot in self.new_starts.finish() {
            let (partitions, mut context) = self.context();
            partitions.with(&mut context, slot, |partition, log, effects| {
                partition.start_is_durable(log, effects);
            });
        }
        self.on_stop_file_written(CheckpointKind::LogStart);
    }

    /// Lets every open log say what retention no longer covers, and opens those that were not looked at yet.
    pub(super) fn apply_retention(&mut self) {
        let now = self.now.wall;
        let slots: Vec<SlotId> = self.partitions.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            let (partitions, mut context) = self.context();
            let closed = partitions.with(&mut context, slot, |partition, log, effects| {
                partition.apply_retention(log, now, effects);
                partition.state() == PartitionState::Closed
            });
            if closed == Some(true) {
                self.opener.push(slot);
            }
        }
    }

    pub(super) fn checkpoint_recovery_points(&mut self) {
        let slots: Vec<SlotId> = self.partitions.iter().map(|(slot, _)| slot).collect();
        for slot in slots {
            let (partitions, mut context) = self.context();
            partitions.with(&mut context, slot, |partition, log, effects| {
                partition.write_indexes(log, effects);
            });
        }
        if !self.checkpoints.is_writing(CheckpointKind::RecoveryPoint) {
            self.write_recovery_points();
        }
    }

    /// Starts to replace the recovery-point checkpoint; no replacement may be under way.
    pub(super) fn write_recovery_points(&mut self) {
        self.stale_names.writing(CheckpointKind::RecoveryPoint);
        self.cuts.writing();
        let content = self.recovery_point_checkpoint();
        self.checkpoints
            .write(&mut self.storage, CheckpointKind::RecoveryPoint, content);
    }

    /// Writes down how far logs were synced: right behind the group commit that did it, with nobody waiting.
    pub(super) fn write_synced_marks(&mut self) {
        for slot in self.partitions.take_synced() {
            let partition = self.partitions.get(slot);
            if let Some(partition) =
                partition.filter(|partition| partition.state() == PartitionState::Open)
            {
                let synced = partition.synced_mark();
                self.synced_marks
                    .advance(partition.topic_id(), partition.name().partition, synced);
            }
        }
        self.synced_marks.write(&mut self.storage);
    }

    pub(super) fn on_synced_marks_completion(&mut self, completion: Completion) {
        let answer = self
            .synced_marks
            .on_completion(self.now.instant, completion);
        if let Err(fault) = answer {
            let path = self.synced_marks.path().clone();
            self.give_up_log_dir(path, fault);
        }
    }

    pub(super) fn checkpoint_high_watermarks(&mut self) {
        if self.watermarks_moved {
            self.write_high_watermarks();
        }
    }

    /// Starts to replace the high-watermark checkpoint, unless a replacement is under way.
    fn write_high_watermarks(&mut self) {
        let kind = CheckpointKind::HighWatermark;
        if self.checkpoints.is_writing(kind) {
            return;
        }
        self.watermarks_moved = false;
        self.stale_names.writing(kind);
        let content = self.high_watermark_checkpoint();
        self.checkpoints.write(&mut self.storage, kind, content);
    }

    pub(super) fn recovery_point_checkpoint(&self) -> Bytes {
        let mut entries = self.offsets(|_, partition| partition.recovery_point());
        let metadata = self
            .cluster
            .as_ref()
            .map_or(0, |cluster| cluster.recovery_point());
        if metadata > 0 {
            entries.insert(metadata_log(), metadata);
        }
        Bytes::from(checkpoint::encode_offsets(&entries))
    }

    pub(super) fn high_watermark_checkpoint(&self) -> Bytes {
        let entries = self.offsets(|_, partition| partition.high_watermark_mark());
        Bytes::from(checkpoint::encode_offsets(&entries))
    }

    pub(super) fn log_start_checkpoint(&self) -> Bytes {
        let entries = self.offsets(|slot, partition| {
            let start = partition.log_start_mark();
            self.log_starts
                .moved(slot)
                .map_or(start, |moved| moved.max(start))
        });
        Bytes::from(checkpoint::encode_offsets(&entries))
    }

    /// Gathers an offset of every partition; 0 says nothing and is left out.
    fn offsets(
        &self,
        offset: impl Fn(SlotId, &Partition) -> Offset,
    ) -> BTreeMap<TopicPartition, Offset> {
        self.partitions
            .iter()
            .filter(|(_, partition)| partition.state() != PartitionState::Deleted)
            .map(|(slot, partition)| (partition.name().clone(), offset(slot, partition)))
            .filter(|(_, offset)| *offset > 0)
            .collect()
    }
}

/// Returns the name under which the metadata log stands in checkpoints.
pub(super) fn metadata_log() -> TopicPartition {
    TopicPartition {
        topic: TopicName::new(super::joining::METADATA_TOPIC),
        partition: 0,
    }
}
