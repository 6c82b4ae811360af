//! A controller that cannot fail: one partition, its brokers, and the metadata log that everybody reads at their own pace.

use std::collections::BTreeMap;

use crate::{
    ids::{Epoch, NodeId},
    protocol::ErrorCode,
    replication::{AlterPartitionAsk, PartitionAltered},
};

use super::node::KEY;

/// One record of the metadata log.
#[derive(Clone, Debug)]
pub(super) enum Record {
    Partition(Assigned),
    Broker {
        node: NodeId,
        epoch: i64,
        is_active: bool,
    },
}

/// The partition as committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Assigned {
    pub(super) leader: Option<NodeId>,
    pub(super) epoch: Epoch,
    pub(super) partition_epoch: i32,
    pub(super) isr: Vec<NodeId>,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    epoch: i64,
    is_active: bool,
    heard: u64,
}

pub(super) struct Controller {
    pub(super) log: Vec<Record>,
    pub(super) partition: Assigned,
    pub(super) elr: Vec<NodeId>,
    members: BTreeMap<NodeId, Member>,
    replicas: Vec<NodeId>,
    min_isr: usize,
}

/// How long a broker may be silent.
const SESSION_MS: u64 = 1_200;

impl Controller {
    pub(super) fn new(replicas: &[NodeId], min_isr: usize) -> Self {
        let partition = Assigned {
            leader: None,
            epoch: Epoch(0),
            partition_epoch: 0,
            isr: replicas.to_vec(),
        };
        Self {
            log: vec![Record::Partition(partition.clone())],
            partition,
            elr: Vec::new(),
            members: BTreeMap::new(),
            replicas: replicas.to_vec(),
            min_isr,
        }
    }

    pub(super) fn replicas(&self) -> &[NodeId] {
        &self.replicas
    }

    /// A broker has started: its earlier incarnation is over. Returns the new epoch, and where in the log it stands.
    pub(super) fn register(&mut self, node: NodeId, now: u64) -> (i64, usize) {
        let epoch = i64::try_from(self.log.len()).unwrap();
        self.members.insert(
            node,
            Member {
                epoch,
                is_active: false,
                heard: now,
            },
        );
        self.log.push(Record::Broker {
            node,
            epoch,
            is_active: false,
        });
        self.fenced(node);
        (epoch, self.log.len())
    }

    /// A broker is alive; one that has caught up with its registration may serve.
    pub(super) fn heartbeat(&mut self, node: NodeId, epoch: i64, applied: usize, now: u64) {
        let Some(member) = self.members.get_mut(&node) else {
            return;
        };
        if member.epoch != epoch {
            return;
        }
        member.heard = now;
        if !member.is_active && applied >= self.log.len() {
            member.is_active = true;
            self.log.push(Record::Broker {
                node,
                epoch,
                is_active: true,
            });
            self.elect();
        }
    }

    /// Fences whoever was silent for too long.
    pub(super) fn check_sessions(&mut self, now: u64) {
        for node in self.replicas.clone() {
            let late = |member: &Member| member.is_active && member.heard + SESSION_MS < now;
            if self.members.get(&node).is_some_and(late) {
                let member = self.members.get_mut(&node).unwrap();
                member.is_active = false;
                let epoch = member.epoch;
                self.log.push(Record::Broker {
                    node,
                    epoch,
                    is_active: false,
                });
                self.fenced(node);
            }
        }
    }

    /// Moves the leadership to another member of the ISR.
    pub(super) fn transfer(&mut self, choice: u64) {
        let others: Vec<NodeId> = self
            .active(&self.partition.isr)
            .filter(|node| Some(*node) != self.partition.leader)
            .collect();
        if let (Some(_), false) = (self.partition.leader, others.is_empty()) {
            let at = usize::try_from(choice).unwrap() % others.len();
            self.commit(self.partition.isr.clone(), Some(Some(others[at])));
        }
    }

    fn active<'a>(&'a self, nodes: &'a [NodeId]) -> impl Iterator<Item = NodeId> + 'a {
        nodes.iter().copied().filter(|node| self.is_active(*node))
    }

    fn is_active(&self, node: NodeId) -> bool {
        self.members
            .get(&node)
            .is_some_and(|member| member.is_active)
    }

    fn fenced(&mut self, node: NodeId) {
        let partition = self.partition.clone();
        let mut isr = partition.isr.clone();
        if isr.len() > 1 {
            isr.retain(|member| *member != node);
        }
        if partition.leader == Some(node) {
            let next = self.active(&isr).find(|next| *next != node);
            self.commit(isr, Some(next));
            self.elect();
        } else if isr != partition.isr {
            self.commit(isr, None);
        }
    }

    /// Elects a leader if there is none: of the ISR, else of the ELR.
    fn elect(&mut self) {
        if self.partition.leader.is_some() {
            return;
        }
        let isr = self.partition.isr.clone();
        let in_sync = self.active(&isr).next();
        let eligible = self.active(&self.elr).next();
        if let Some(next) = in_sync {
            self.commit(isr, Some(Some(next)));
        } else if let Some(next) = eligible {
            // The members of the old ISR are as good as it is, until the new leader commits without them.
            self.commit(vec![next], Some(Some(next)));
        }
    }

    fn commit(&mut self, isr: Vec<NodeId>, leader: Option<Option<NodeId>>) {
        let partition = &mut self.partition;
        let left = partition.isr.iter().filter(|node| !isr.contains(node));
        self.elr.extend(left);
        self.elr.retain(|node| !isr.contains(node));
        if isr.len() >= self.min_isr {
            self.elr.clear();
        }
        partition.isr = isr;
        partition.partition_epoch += 1;
        if let Some(leader) = leader {
            partition.leader = leader;
            partition.epoch = Epoch(partition.epoch.0 + 1);
        }
        self.log.push(Record::Partition(self.partition.clone()));
    }

    /// Answers an AlterPartition request as Kafka's controller does.
    pub(super) fn alter(
        &mut self,
        from: NodeId,
        broker_epoch: i64,
        ask: &AlterPartitionAsk,
    ) -> Result<Vec<PartitionAltered>, ErrorCode> {
        if self.members.get(&from).map(|member| member.epoch) != Some(broker_epoch) {
            return Err(ErrorCode::StaleBrokerEpoch);
        }
        let alterations = ask.alterations.iter();
        Ok(alterations
            .map(|alteration| {
                let error = self.judge(from, alteration);
                if error == ErrorCode::None {
                    let isr = alteration.proposal.isr.iter();
                    let isr: Vec<NodeId> = isr.map(|member| member.node).collect();
                    if isr != self.partition.isr {
                        self.commit(isr, None);
                    }
                }
                PartitionAltered {
                    partition: KEY,
                    error,
                    leader_epoch: self.partition.epoch,
                    partition_epoch: self.partition.partition_epoch,
                }
            })
            .collect())
    }

    fn judge(
        &self,
        from: NodeId,
        alteration: &crate::replication::PartitionAlteration,
    ) -> ErrorCode {
        let proposal = &alteration.proposal;
        if proposal.id.leader_epoch > self.partition.epoch {
            return ErrorCode::NotController;
        }
        if proposal.id.leader_epoch < self.partition.epoch || self.partition.leader != Some(from) {
            return ErrorCode::FencedLeaderEpoch;
        }
        if proposal.partition_epoch != self.partition.partition_epoch {
            return ErrorCode::InvalidUpdateVersion;
        }
        let is_eligible = |member: &crate::replication::IsrMember| {
            let known = self.members.get(&member.node);
            known.is_some_and(|known| {
                known.is_active && (member.broker_epoch == -1 || member.broker_epoch == known.epoch)
            })
        };
        if !proposal.isr.iter().all(is_eligible) {
            return ErrorCode::IneligibleReplica;
        }
        ErrorCode::None
    }
}
