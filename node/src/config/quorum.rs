//! Who this node is, what it does, and who votes.

use std::net::{IpAddr, ToSocketAddrs, UdpSocket};

use seedlog_core::{broker::Voter, config::StaticConfig, ids::NodeId};

use super::{
    ListenerConfig, Problems, items,
    listeners::{split_host_port, unbracketed},
};

/// What a node does in its cluster (`process.roles`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Roles {
    /// It keeps logs and serves clients.
    pub(super) broker: bool,
    /// It votes.
    pub(super) controller: bool,
}

impl Roles {
    /// Reads the roles; a node that is told none has both.
    pub(super) fn read(settings: &StaticConfig) -> Self {
        let Some(roles) = settings.text("process.roles") else {
            return Self {
                broker: true,
                controller: true,
            };
        };
        let has = |role| items(roles).any(|item| item == role);
        Self {
            broker: has("broker"),
            controller: has("controller"),
        }
    }
}

/// Reads the node's id and the voters; a node that is told neither is number 1 and votes alone.
pub(super) fn read(
    settings: &StaticConfig,
    roles: Roles,
    problems: &mut Problems,
) -> (NodeId, Vec<Voter>) {
    let voters = read_voters(settings, problems);
    let id = settings
        .text("node.id")
        .map(|text| text.trim().parse::<i32>());
    let node_id = match (id, &voters[..]) {
        (Some(Ok(id)), _) if id >= 0 => NodeId(id),
        (Some(_), _) => {
            problems
                .add("node.id must be a number from 0; the first node of a cluster is usually 1");
            return (NodeId(LONE_NODE), voters);
        }
        (None, [only]) if roles.controller => only.node_id,
        (None, []) => NodeId(LONE_NODE),
        (None, _) => {
            problems.add(
                "node.id is missing: a node of a cluster with others needs a number of its own, the one that \
                 controller.quorum.voters gives it if it votes",
            );
            return (NodeId(LONE_NODE), voters);
        }
    };
    check_membership(settings, roles, node_id, &voters, problems);
    if voters.is_empty() {
        return (node_id, vec![alone(node_id)]);
    }
    (node_id, voters)
}

/// Kafka's rules on who must be among the voters and who must not.
fn check_membership(
    settings: &StaticConfig,
    roles: Roles,
    node_id: NodeId,
    voters: &[Voter],
    problems: &mut Problems,
) {
    let votes = voters.iter().any(|voter| voter.node_id == node_id);
    if voters.is_empty() && !roles.controller {
        problems.add(
            "process.roles=broker needs controllers elsewhere: name them by \
             controller.quorum.voters=ID@HOST:PORT[,ID@HOST:PORT]…, or give this node the role too \
             (process.roles=broker,controller)",
        );
    } else if votes && !roles.controller {
        problems.add(format!(
            "controller.quorum.voters names node {node_id}, which has not the role: add controller to process.roles, \
             or take the node out of the voters (on every node)"
        ));
    } else if let [only] = voters
        && !votes
        && roles.controller
    {
        problems.add(format!(
            "controller.quorum.voters names node {}, but this is node {node_id}; make node.id and the voter's id the \
             same, or set process.roles=broker",
            only.node_id
        ));
    } else if !voters.is_empty() && !votes && roles.controller {
        let said = settings.text("process.roles").is_some();
        problems.add(format!(
            "node {node_id} is not among controller.quorum.voters: add it there on every node, or {} process.roles=broker",
            if said { "let it be a broker alone by" } else { "set" }
        ));
    }
}

/// Checks `controller.quorum.bootstrap.servers`: it names where voters are asked for, and no voter. Here the voters are
/// settings of every node, so it says something only where a node is its own quorum.
pub(super) fn check_bootstrap(
    settings: &StaticConfig,
    roles: Roles,
    listeners: &[ListenerConfig],
    problems: &mut Problems,
) {
    let is_set = |name| {
        settings
            .text(name)
            .is_some_and(|text| items(text).next().is_some())
    };
    if is_set("controller.quorum.voters") || !roles.controller {
        return;
    }
    let servers = settings.text("controller.quorum.bootstrap.servers");
    let servers: Vec<&str> = items(servers.unwrap_or("")).collect();
    let cure = "a quorum of several is named by controller.quorum.voters=ID@HOST:PORT,…, the same on every node: quorums that \
                change while they run are not supported in this release";
    match servers[..] {
        [] => {}
        [only] if is_here(only, listeners) => {}
        [only] => problems.add(format!(
            "controller.quorum.bootstrap.servers names {only}, which is no controller listener of this node: {cure}; a node \
             that is its own quorum leaves the setting out"
        )),
        _ => problems.add(format!(
            "controller.quorum.bootstrap.servers names several nodes: {cure}"
        )),
    }
}

/// Returns whether an address is that of a controller listener of this node.
fn is_here(server: &str, listeners: &[ListenerConfig]) -> bool {
    let Some((host, port)) = split_host_port(server) else {
        return false;
    };
    let host = unbracketed(host);
    listeners
        .iter()
        .filter(|listener| listener.is_controller())
        .any(|listener| {
            let advertised = (listener.advertised_host.as_str(), listener.advertised_port);
            let bound = (unbracketed(&listener.host), listener.port);
            (host, port) == advertised
                || (host, port) == bound
                || (port == listener.port || port == listener.advertised_port)
                    && is_of_this_machine(host)
        })
}

/// Returns whether a host has an address of this machine: only such a one can be bound.
fn is_of_this_machine(host: &str) -> bool {
    let found = (host, 0).to_socket_addrs();
    let mut addresses = found.into_iter().flatten().map(|found| found.ip());
    addresses.any(|address: IpAddr| UdpSocket::bind((address, 0)).is_ok())
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
    let mut voters: Vec<Voter> = Vec::new();
    let list: Vec<&str> = items(settings.text("controller.quorum.voters").unwrap_or("")).collect();
    for item in &list {
        let Some(voter) = read_voter(item) else {
            problems.add(format!(
                "controller.quorum.voters: {item} is not of the form ID@HOST:PORT, for example 1@localhost:9093"
            ));
            continue;
        };
        if voter.port == 0 && list.len() > 1 {
            problems.add(format!(
                "controller.quorum.voters: {item} has no port that others could connect to; name that of the node's \
                 controller listener"
            ));
        }
        let id = voter.node_id;
        let address = |voter: &Voter| (voter.host.clone(), voter.port);
        if voters.iter().any(|other| other.node_id == id) {
            problems.add(format!(
                "controller.quorum.voters names node {id} twice; every voter has a number of its own"
            ));
        } else if let Some(other) = voters
            .iter()
            .find(|other| voter.port != 0 && address(other) == address(&voter))
        {
            problems.add(format!(
                "controller.quorum.voters gives the nodes {} and {id} the same address; each needs its own",
                other.node_id
            ));
        } else {
            voters.push(voter);
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
        host: unbracketed(host).to_owned(),
        port,
    })
}

/// The id of a node that was not given one.
const LONE_NODE: i32 = 1;
