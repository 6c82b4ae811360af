//! Who this node is, and who votes.

use seedlog_core::{broker::Voter, config::StaticConfig, ids::NodeId};

use super::{Problems, items, listeners::split_host_port};

/// Reads the node's id and the voters; a node that is told neither is number 1 and votes alone.
pub(super) fn read(settings: &StaticConfig, problems: &mut Problems) -> (NodeId, Vec<Voter>) {
    let voters = read_voters(settings, problems);
    let id = settings
        .text("node.id")
        .map(|text| text.trim().parse::<i32>());
    let node_id = match (id, &voters[..]) {
        (Some(Ok(id)), _) if id >= 0 => NodeId(id),
        (Some(_), _) => {
            problems
                .add("node.id must be a number from 0; the first node of a cluster is usually 1");
            NodeId(LONE_NODE)
        }
        (None, [only]) => only.node_id,
        (None, _) => NodeId(LONE_NODE),
    };
    if voters.len() > 1 {
        problems.add(format!(
            "controller.quorum.voters names {} nodes: more than one is not supported in this release; name this node alone",
            voters.len()
        ));
    } else if let [only] = &voters[..]
        && only.node_id != node_id
    {
        problems.add(format!(
            "controller.quorum.voters names node {}, but this is node {node_id}; make node.id and the voter's id the same",
            only.node_id
        ));
    }
    let servers = settings.text("controller.quorum.bootstrap.servers");
    if servers.is_some_and(|servers| items(servers).count() > 1) {
        problems.add(
            "controller.quorum.bootstrap.servers names several nodes: more than one is not supported in this release; \
             name this node alone, or leave it out",
        );
    }
    if voters.is_empty() {
        return (node_id, vec![alone(node_id)]);
    }
    (node_id, voters)
}

/// A voter without peers needs no address: nobody dials it.
fn alone(node_id: NodeId) -> Voter {
    Voter {
        node_id,
        host: "localhost".to_owned(),
        port: 0,
    }
}

fn read_voters(settings: &StaticConfig, problems: &mut Problems) -> Vec<Voter> {
    let mut voters = Vec::new();
    for item in items(settings.text("controller.quorum.voters").unwrap_or("")) {
        match read_voter(item) {
            Some(voter) => voters.push(voter),
            None => problems.add(format!(
                "controller.quorum.voters: {item} is not of the form ID@HOST:PORT, for example 1@localhost:9093"
            )),
        }
    }
    voters
}

fn read_voter(text: &str) -> Option<Voter> {
    let (id, address) = text.split_once('@')?;
    let (host, port) = split_host_port(address)?;
    let id: i32 = id.trim().parse().ok().filter(|id| *id >= 0)?;
    Some(Voter {
        node_id: NodeId(id),
        host: host.to_owned(),
        port,
    })
}

/// The id of a node that was not given one.
const LONE_NODE: i32 = 1;
