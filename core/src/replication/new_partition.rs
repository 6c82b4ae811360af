//! What the table needs to know of a partition that is added to it.

use std::sync::Arc;

use super::{LeaderAssignment, TopicSettings};
use crate::{
    ids::{TopicPartition, Uuid},
    log::OpenHint,
    storage::FilePath,
};

/// A partition to be added.
#[derive(Debug)]
pub struct NewPartition {
    /// Its name.
    pub name: TopicPartition,
    /// Its topic's id.
    pub topic_id: Uuid,
    /// The log directory.
    pub root: FilePath,
    /// What checkpoints know of it.
    pub hint: OpenHint,
    /// Its settings.
    pub settings: Arc<TopicSettings>,
    /// Who leads it.
    pub assignment: LeaderAssignment,
    /// Whether a clean stop may vouch for it without opening it.
    pub vouched: bool,
}
