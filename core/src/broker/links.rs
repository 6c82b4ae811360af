//! Links to other nodes: which call an answer belongs to, and who is reachable where.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::{Broker, Output};
use crate::{
    client::Address,
    cluster::{Asked, ErrandId},
    ids::{ConnectionId, NodeId},
    peer::{Answer, Call, CallError, CallId, Lane, PeerConfig, PeerOutput, Peers},
    raft,
    storage::Frame,
    time::Instant,
};

/// Who made a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// The replica of the metadata log.
    Replica(raft::CallId, Asked),
    /// Somebody who wants something of the active controller.
    Errand(ErrandId),
    /// The fetcher of the leader that is called, by the number of the fetch.
    Fetch(u64),
    /// The same, by the number of the question.
    Offset(u64),
}

/// The links, and the calls that are not answered.
#[derive(Debug)]
pub(super) struct Links {
    peers: Peers,
    callers: BTreeMap<CallId, Caller>,
    next: u64,
}

impl Links {
    pub(super) fn new(node: NodeId, seed: u64) -> Self {
        Self {
            peers: Peers::new(PeerConfig::new(&format!("broker-{node}")), seed, 0),
            callers: BTreeMap::new(),
            next: 0,
        }
    }

    /// Calls a node.
    pub(super) fn call(
        &mut self,
        now: Instant,
        (node, lane): (NodeId, Lane),
        caller: Caller,
        call: Call,
    ) {
        self.next += 1;
        let id = CallId(self.next);
        self.callers.insert(id, caller);
        self.peers.call(now, node, lane, id, call);
    }

    /// Says how to reach a node on a lane.
    pub(super) fn set_address(
        &mut self,
        now: Instant,
        node: NodeId,
        lane: Lane,
        address: Option<Address>,
    ) {
        self.peers.set_address(now, node, lane, address);
    }

    /// Returns who made the next call that has ended, whom it went to, and how it ended.
    fn poll_answer(&mut self) -> Option<(Caller, NodeId, Result<Bytes, CallError>)> {
        loop {
            let Answer { id, node, outcome } = self.peers.poll_answer()?;
            if let Some(caller) = self.callers.remove(&id) {
                return Some((caller, node, outcome));
            }
        }
    }

    pub(super) fn on_dialled(&mut self, now: Instant, connection: ConnectionId) {
        self.peers.on_dialled(now, connection);
    }

    pub(super) fn on_frame(&mut self, now: Instant, connection: ConnectionId, frame: &Bytes) {
        self.peers.on_frame(now, connection, frame);
    }

    pub(super) fn on_closed(&mut self, now: Instant, connection: ConnectionId) {
        self.peers.on_closed(now, connection);
    }

    pub(super) fn on_timeout(&mut self, now: Instant) {
        self.peers.on_timeout(now);
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.peers.deadline()
    }
}

impl Broker {
    /// Says where the other voters listen.
    pub(super) fn address_voters(&mut self) {
        let now = self.now.instant;
        let own = self.config.node_id;
        for voter in self
            .config
            .voters
            .iter()
            .filter(|voter| voter.node_id != own)
        {
            for lane in [Lane::Quorum, Lane::Controller] {
                let address = Address::new(&voter.host, voter.port);
                self.links
                    .set_address(now, voter.node_id, lane, Some(address));
            }
        }
    }

    /// Takes what came over links, and hands out what is to go over them.
    pub(super) fn settle_links(&mut self) -> bool {
        let mut busy = false;
        while let Some((caller, node, outcome)) = self.links.poll_answer() {
            busy = true;
            match caller {
                Caller::Replica(id, asked) => {
                    if let Some(cluster) = &mut self.cluster {
                        let call = (id, asked);
                        cluster.on_peer_answer(self.now, &mut self.storage, node, call, outcome);
                    }
                }
                Caller::Fetch(number) => self.on_fetch_answer(node, number, outcome),
                Caller::Offset(number) => self.on_offset_answer(node, number, outcome),
                Caller::Errand(id) => {
                    if let Some(cluster) = &mut self.cluster {
                        cluster.on_controller_answer(self.now, id, outcome);
                    }
                }
            }
        }
        while let Some(output) = self.links.peers.poll_output() {
            self.outputs.push_back(match output {
                PeerOutput::Dial {
                    connection,
                    host,
                    port,
                    frame_bytes_max,
                } => Output::Dial {
                    connection,
                    host,
                    port,
                    frame_bytes_max,
                },
                PeerOutput::Send { connection, frame } => Output::Send {
                    connection,
                    frame: Frame::Whole(frame),
                },
                PeerOutput::Close { connection } => Output::Close { connection },
            });
        }
        busy
    }
}
