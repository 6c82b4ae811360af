//! From an unread directory to a known identity.

use std::collections::BTreeMap;

use bytes::Bytes;
use rand_chacha::rand_core::Rng;

use super::{Broker, Marks, Stage};
use crate::{
    ids::{TopicPartition, Uuid},
    log::checkpoint,
    logdir::{CheckpointKind, Found, files::MetaProperties},
    storage::Completion,
};

impl Broker {
    pub(super) fn on_log_dir_completion(&mut self, completion: Completion) {
        if self.synced_marks.awaits(completion.id) {
            return self.on_synced_marks_completion(completion);
        }
        let Stage::Reading(startup) = &mut self.stage else {
            return self.on_checkpoint_completion(completion);
        };
        match startup.on_completion(&mut self.storage, completion) {
            Ok(None) => {}
            Ok(Some(found)) => self.on_found(found),
            Err(error) => self.fail(format!("the log directory cannot be used: {error}")),
        }
    }

    fn on_found(&mut self, mut found: Found) {
        let marks = |bytes: &Option<Bytes>| match bytes {
            Some(bytes) => checkpoint::parse_offsets(bytes),
            None => Ok(BTreeMap::new()),
        };
        let recovery_points = marks(&found.recovery_points);
        let log_starts = marks(&found.log_starts);
        let (Ok(recovery_points), Ok(log_starts)) = (recovery_points, log_starts) else {
            // Without them nothing tells damage from a torn tail, so nothing may be guessed.
            return self.fail(
                "a checkpoint file of the log directory is damaged: restore recovery-point-offset-checkpoint and \
                 log-start-offset-checkpoint, or remove them to recover every log from its first byte"
                    .to_owned(),
            );
        };
        for (name, offset) in recovery_points {
            self.marks_of(name).recovery_point = offset;
        }
        for (name, offset) in log_starts {
            self.marks_of(name).log_start = offset;
        }
        // Nothing rests on these: a leader finds out anew what its followers hold, only later.
        for (name, offset) in marks(&found.high_watermarks).unwrap_or_default() {
            self.marks_of(name).high_watermark = offset;
        }
        if let Some(synced_marks) = found.synced_marks.take() {
            self.synced_marks.load(&synced_marks);
        }
        found.recovery_points = None;
        found.log_starts = None;
        found.high_watermarks = None;
        let meta = found.meta.clone();
        self.found = found;
        match meta {
            Some(meta) if meta.node_id == self.config.node_id => self.join(&meta, false),
            Some(meta) => self.fail(format!(
                "the log directory belongs to node {}, but node.id is {}: give this node a directory of its own, or \
                 the node.id back",
                meta.node_id, self.config.node_id
            )),
            None => self.identify(),
        }
    }

    fn marks_of(&mut self, name: TopicPartition) -> &mut Marks {
        self.marks.entry(name).or_default()
    }

    /// Gives a new directory its identity. Others may hear of this node before it has promised anything, so theirs must be durable
    /// first; a node that is alone writes it beside all else that founds its cluster.
    fn identify(&mut self) {
        // With other voters the first leader names the cluster; this node learns its name from the log.
        let cluster_id = self.config.is_alone().then(|| self.random_id().to_string());
        let meta = MetaProperties {
            cluster_id,
            node_id: self.config.node_id,
            directory_id: self.random_id(),
        };
        self.found.meta = Some(meta.clone());
        if self.config.is_alone() {
            return self.join(&meta, true);
        }
        self.stage = Stage::Identifying;
        self.write_identity();
    }

    /// Writes `meta.properties`, for the first time.
    pub(super) fn write_identity(&mut self) {
        if let Some(meta) = &self.found.meta {
            let content = meta.encode();
            self.checkpoints.write_identity(&mut self.storage, content);
        }
    }

    /// The identity is durable: of a new directory, or of one whose cluster has a name now.
    pub(super) fn on_identified(&mut self) {
        let now = self.now;
        match (&mut self.cluster, self.found.meta.clone()) {
            (Some(cluster), _) if self.config.is_alone() => {
                cluster.identity_written(now, &mut self.storage);
            }
            (Some(cluster), Some(meta)) => {
                if let Some(cluster_id) = meta.cluster_id {
                    cluster.join(now, cluster_id);
                }
            }
            (None, Some(meta)) => self.join(&meta, false),
            (_, None) => {}
        }
    }

    /// The log names the cluster that this node belongs to: it is bound to it before it takes part.
    pub(super) fn on_founded(&mut self, cluster_id: String) {
        if let Some(meta) = &mut self.found.meta {
            meta.cluster_id = Some(cluster_id);
            let content = meta.encode();
            self.checkpoints
                .write(&mut self.storage, CheckpointKind::MetaProperties, content);
        }
    }

    /// Draws an id that no name generator would confuse with an option: Kafka's ids never start with a dash.
    pub(super) fn random_id(&mut self) -> Uuid {
        loop {
            let mut bytes = [0; 16];
            self.rng.fill_bytes(&mut bytes);
            let id = Uuid::from_random(bytes);
            if !id.to_string().starts_with('-') {
                return id;
            }
        }
    }

    /// Returns what the checkpoints know of a log.
    pub(super) fn marks(&self, name: &TopicPartition) -> Marks {
        self.marks.get(name).copied().unwrap_or_default()
    }
}
