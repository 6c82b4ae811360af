//! Names of deleted partitions that the disk may still know.
//!
//! Checkpoints name partitions by topic and number. Would a topic be deleted and created anew under its old name, then after a
//! crash the old log's synced mark would speak of the new log and call its missing records damage, and its high watermark would
//! call records committed that are not. So a new partition waits until nothing on disk speaks of the old one: three checkpoints
//! rewritten, the old folder durably renamed.

use std::collections::BTreeMap;

use crate::{
    ids::{TopicPartition, Uuid},
    logdir::CheckpointKind,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trace {
    /// On disk as far as anybody knows.
    There,
    /// A replacement without it is being written.
    Leaving,
    /// Durably gone.
    Gone,
}

#[derive(Debug)]
struct Stale {
    recovery_point: Trace,
    log_start: Trace,
    high_watermark: Trace,
    folder: Trace,
    /// The new partition of that name, if one waits.
    successor: Option<(Uuid, i32)>,
}

/// All stale names.
#[derive(Debug, Default)]
pub(super) struct StaleNames {
    names: BTreeMap<TopicPartition, Stale>,
}

impl StaleNames {
    /// Adds a partition that was deleted just now.
    pub(super) fn add(&mut self, name: TopicPartition) {
        let (there, successor) = (Trace::There, None);
        let stale = Stale {
            recovery_point: there,
            log_start: there,
            high_watermark: there,
            folder: there,
            successor,
        };
        self.names.insert(name, stale);
    }

    /// Lets a new partition wait; returns false if nothing stands against it.
    pub(super) fn hold(&mut self, name: &TopicPartition, successor: (Uuid, i32)) -> bool {
        let Some(stale) = self.names.get_mut(name) else {
            return false;
        };
        stale.successor = Some(successor);
        true
    }

    /// Returns whether a checkpoint should be rewritten for the sake of a name.
    pub(super) fn wants(&self, kind: CheckpointKind) -> bool {
        self.names
            .values()
            .any(|stale| stale.trace(kind) == Some(Trace::There))
    }

    /// Notes that a checkpoint is being rewritten from the partitions of this moment.
    pub(super) fn writing(&mut self, kind: CheckpointKind) {
        for stale in self.names.values_mut() {
            stale.advance(kind, Trace::There, Trace::Leaving);
        }
    }

    /// Notes that the rewritten checkpoint is durable.
    pub(super) fn written(&mut self, kind: CheckpointKind) {
        for stale in self.names.values_mut() {
            stale.advance(kind, Trace::Leaving, Trace::Gone);
        }
    }

    /// Notes that a checkpoint could not be rewritten.
    pub(super) fn failed(&mut self, kind: CheckpointKind) {
        for stale in self.names.values_mut() {
            stale.advance(kind, Trace::Leaving, Trace::There);
        }
    }

    /// Notes that the old folder's name is durably free.
    pub(super) fn unlinked(&mut self, name: &TopicPartition) {
        if let Some(stale) = self.names.get_mut(name) {
            stale.folder = Trace::Gone;
        }
    }

    /// Takes a new partition whose name is free now; forgets names that are free.
    pub(super) fn pop_free(&mut self) -> Option<(Uuid, i32)> {
        loop {
            let name = self
                .names
                .iter()
                .find(|(_, stale)| stale.is_free())?
                .0
                .clone();
            if let Some(successor) = self.names.remove(&name)?.successor {
                return Some(successor);
            }
        }
    }
}

impl Stale {
    const fn trace(&self, kind: CheckpointKind) -> Option<Trace> {
        match kind {
            CheckpointKind::RecoveryPoint => Some(self.recovery_point),
            CheckpointKind::LogStart => Some(self.log_start),
            CheckpointKind::HighWatermark => Some(self.high_watermark),
            CheckpointKind::CleanShutdown | CheckpointKind::MetaProperties => None,
        }
    }

    fn advance(&mut self, kind: CheckpointKind, from: Trace, to: Trace) {
        if self.trace(kind) != Some(from) {
            return;
        }
        match kind {
            CheckpointKind::RecoveryPoint => self.recovery_point = to,
            CheckpointKind::LogStart => self.log_start = to,
            CheckpointKind::HighWatermark => self.high_watermark = to,
            CheckpointKind::CleanShutdown | CheckpointKind::MetaProperties => {}
        }
    }

    fn is_free(&self) -> bool {
        [
            self.recovery_point,
            self.log_start,
            self.high_watermark,
            self.folder,
        ]
        .iter()
        .all(|trace| *trace == Trace::Gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::TopicName;

    #[test]
    fn successor_waits_for_all_checkpoints_and_the_folder() {
        let name = TopicPartition {
            topic: TopicName::new("orders"),
            partition: 0,
        };
        let successor = (Uuid::from_random([3; 16]), 0);
        let mut stale = StaleNames::default();
        assert!(
            !stale.hold(&name, successor),
            "a name that nobody had is free"
        );
        stale.writing(CheckpointKind::RecoveryPoint);
        stale.add(name.clone());
        assert!(stale.hold(&name, successor));
        stale.written(CheckpointKind::RecoveryPoint);
        assert!(
            stale.wants(CheckpointKind::RecoveryPoint),
            "that one began before the deletion"
        );
        for kind in [
            CheckpointKind::RecoveryPoint,
            CheckpointKind::LogStart,
            CheckpointKind::HighWatermark,
        ] {
            stale.writing(kind);
            assert_eq!(stale.pop_free(), None);
            stale.written(kind);
        }
        assert_eq!(stale.pop_free(), None);
        stale.unlinked(&name);
        assert_eq!(stale.pop_free(), Some(successor));
        assert!(!stale.hold(&name, successor));
    }
}
