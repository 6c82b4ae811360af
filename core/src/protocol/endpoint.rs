//! Where a partition's leader is (KIP-951), as Produce and Fetch answers say it.

use kacrab_protocol::KafkaString;

use super::{EncodeError, sink::Sink};

/// The leader of a partition, in tagged fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderIdAndEpoch {
    /// The leader's node id, or -1.
    pub leader_id: i32,
    /// Its epoch, or -1.
    pub leader_epoch: i32,
}

impl Default for LeaderIdAndEpoch {
    fn default() -> Self {
        Self {
            leader_id: -1,
            leader_epoch: -1,
        }
    }
}

impl LeaderIdAndEpoch {
    pub(super) fn write(self, sink: &mut dyn Sink) {
        sink.i32(self.leader_id);
        sink.i32(self.leader_epoch);
        sink.no_tags();
    }
}

/// How to reach a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeEndpoint {
    /// Its node id.
    pub node_id: i32,
    /// Its host name.
    pub host: KafkaString,
    /// Its port.
    pub port: i32,
    /// Its rack.
    pub rack: Option<KafkaString>,
}

impl NodeEndpoint {
    /// Writes an array of endpoints, as tagged fields hold it.
    pub(super) fn write_all(nodes: &[Self], sink: &mut dyn Sink) -> Result<(), EncodeError> {
        sink.length("NodeEndpoints", Some(nodes.len()))?;
        for node in nodes {
            sink.i32(node.node_id);
            sink.string("Host", &node.host)?;
            sink.i32(node.port);
            sink.nullable_string("Rack", node.rack.as_ref())?;
            sink.no_tags();
        }
        Ok(())
    }
}
