//! Faults aimed at whoever has a role when their moment comes.

use serde::{Deserialize, Serialize};

use crate::{network::Ends, plan::Fault};

/// A role that a node has at some moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Aim {
    /// It leads the controller quorum.
    Controller,
    /// It leads a partition.
    Leader {
        /// The partition, by its place in the scenario; counted over again past the last one.
        place: usize,
    },
}

impl Fault {
    /// Makes the same fault happen to another node.
    #[must_use]
    pub fn moved_to(mut self, to: usize) -> Self {
        match &mut self {
            Self::Crash { node, .. }
            | Self::PowerLoss { node, .. }
            | Self::Pause { node, .. }
            | Self::CleanStop { node, .. }
            | Self::Wipe { node, .. }
            | Self::Damage { node, .. }
            | Self::Disk { node, .. }
            | Self::Clock { node, .. }
            | Self::Link { node, .. } => *node = to,
            Self::Cut { cut, .. } => {
                for ends in [&mut cut.from, &mut cut.to] {
                    if let Ends::Node(node) = ends {
                        *node = to;
                    }
                }
            }
            Self::PowerLossAll { .. } | Self::Aimed { .. } => {}
        }
        self
    }
}
