//! Listeners: where sockets are bound, and what clients are told.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener},
};

use seedlog_core::{config::StaticConfig, protocol};

use super::{
    Problems,
    address::{is_wildcard, reachable_host},
    items,
    quorum::Roles,
};

/// A listener: for clients and other brokers, or for the controller quorum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerConfig {
    /// Its name.
    pub name: String,
    /// The host to bind; empty for all addresses.
    pub host: String,
    /// The port to bind; 0 lets the system choose.
    pub port: u16,
    /// The host that clients are told.
    pub advertised_host: String,
    /// The port that clients are told; 0 for the one that was bound.
    pub advertised_port: u16,
    /// Whom it serves.
    pub kind: protocol::Listener,
}

/// An address cannot be bound.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} (listener {name}): {cause}{}", hint(.cause))]
pub struct BindError {
    /// The listener.
    pub name: String,
    /// The address.
    pub address: String,
    /// Why.
    #[source]
    pub cause: io::Error,
}

fn hint(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::AddrInUse => {
            "; another process listens there, maybe a broker that still runs: stop it, or choose another port (0 lets the system choose)"
        }
        io::ErrorKind::AddrNotAvailable => {
            "; no network of this machine has that address: use one it has, or leave the host out to listen on all"
        }
        io::ErrorKind::PermissionDenied => {
            "; ports below 1024 need privileges: choose a higher one"
        }
        _ => "",
    }
}

impl ListenerConfig {
    /// Returns whether it is one of the controller quorum.
    pub(super) fn is_controller(&self) -> bool {
        self.kind == protocol::Listener::Controller
    }

    /// Binds the socket.
    pub(super) fn bind(&self) -> Result<TcpListener, BindError> {
        let bound = if self.host.is_empty() {
            // One socket for both families where the system has IPv6, as Java does.
            TcpListener::bind((IpAddr::from(Ipv6Addr::UNSPECIFIED), self.port))
                .or_else(|_| TcpListener::bind((IpAddr::from(Ipv4Addr::UNSPECIFIED), self.port)))
        } else {
            TcpListener::bind((unbracketed(&self.host), self.port))
        };
        let listening = bound.and_then(|listener| {
            // Said again with a longer queue: when many clients reconnect at once, the default loses some for seconds.
            rustix::net::listen(&listener, BACKLOG)?;
            Ok(listener)
        });
        listening.map_err(|cause| BindError {
            name: self.name.clone(),
            address: format!("{}:{}", self.host, self.port),
            cause,
        })
    }
}

/// One entry of `listeners` or `advertised.listeners`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Endpoint {
    name: String,
    host: String,
    port: u16,
}

/// Reads the listeners, those for clients first.
pub(super) fn read(
    settings: &StaticConfig,
    roles: Roles,
    has_peers: bool,
    problems: &mut Problems,
    notes: &mut Vec<String>,
) -> Vec<ListenerConfig> {
    let text = settings.text("listeners").unwrap_or(LISTENERS);
    let bound = read_endpoints("listeners", text, problems);
    let advertised_text = settings.text("advertised.listeners");
    let advertised =
        advertised_text.map(|text| read_endpoints("advertised.listeners", text, problems));
    let names: Vec<String> = items(settings.text("controller.listener.names").unwrap_or(""))
        .map(str::to_ascii_uppercase)
        .collect();
    check_protocols(settings, &bound, &names, problems);
    for endpoint in advertised.iter().flatten() {
        if !is_named(&bound, &endpoint.name) {
            problems.add(format!(
                "advertised.listeners: {} is not among listeners; every advertised listener must also be listened on",
                endpoint.name
            ));
        }
    }
    let any = items(text).next().is_some();
    let (controllers, clients): (Vec<Endpoint>, Vec<Endpoint>) = bound
        .into_iter()
        .partition(|endpoint| names.contains(&endpoint.name));
    check_controllers(roles, &controllers, &names, has_peers, problems);
    if roles.broker {
        if clients.is_empty() && (!controllers.is_empty() || !any) {
            problems
                .add("listeners names no listener for clients; add for example PLAINTEXT://:9092");
        }
        check_inter_broker(settings, &clients, problems);
    } else if let Some(other) = clients.first() {
        problems.add(format!(
            "process.roles=controller: the listener {} is none of controller.listener.names, but this node serves no clients; \
             take it out of listeners, or add broker to process.roles",
            other.name
        ));
    }
    let advertised = advertised.as_deref();
    let mut listeners: Vec<ListenerConfig> = clients
        .into_iter()
        .filter_map(|endpoint| advertise(endpoint, advertised, problems, notes))
        .collect();
    if roles.controller {
        let of_quorum = controllers.into_iter();
        listeners.extend(of_quorum.map(|endpoint| advertise_in_quorum(endpoint, advertised)));
    }
    listeners
}

/// Checks that a controller can be reached by the others, and that a broker alone does not pretend to be one.
fn check_controllers(
    roles: Roles,
    controllers: &[Endpoint],
    names: &[String],
    has_peers: bool,
    problems: &mut Problems,
) {
    match (roles.controller, controllers) {
        (true, []) if !names.is_empty() => problems.add(format!(
            "controller.listener.names: {} is not among listeners; add for example {}://localhost:9093 there",
            names.join(", "),
            names[0]
        )),
        (true, []) if has_peers || !roles.broker => problems.add(
            "controller.listener.names is missing: the other nodes reach this controller by a listener of its own; add for \
             example CONTROLLER://:9093 to listeners, and set controller.listener.names=CONTROLLER",
        ),
        (false, [first, ..]) => problems.add(format!(
            "process.roles=broker: the listener {} is one of controller.listener.names, but this node is no controller; \
             take it out of listeners, or add controller to process.roles",
            first.name
        )),
        _ => {}
    }
}

/// Tells other controllers where one listens. They connect to what `controller.quorum.voters` says: this is only shown.
fn advertise_in_quorum(bound: Endpoint, advertised: Option<&[Endpoint]>) -> ListenerConfig {
    let mut advertised = advertised.unwrap_or(&[]).iter();
    let told = advertised
        .find(|endpoint| endpoint.name == bound.name)
        .unwrap_or(&bound);
    let host = match is_wildcard(&told.host) {
        true => reachable_host(),
        false => told.host.clone(),
    };
    ListenerConfig {
        advertised_host: unbracketed(&host).to_owned(),
        advertised_port: told.port,
        name: bound.name,
        host: bound.host,
        port: bound.port,
        kind: protocol::Listener::Controller,
    }
}

fn is_named(endpoints: &[Endpoint], name: &str) -> bool {
    endpoints.iter().any(|endpoint| endpoint.name == name)
}

/// Decides what clients are told about a listener: never an address that stands for all.
fn advertise(
    bound: Endpoint,
    advertised: Option<&[Endpoint]>,
    problems: &mut Problems,
    notes: &mut Vec<String>,
) -> Option<ListenerConfig> {
    let told = match advertised {
        None => &bound,
        Some(advertised) => {
            match advertised
                .iter()
                .find(|endpoint| endpoint.name == bound.name)
            {
                Some(endpoint) => endpoint,
                None => {
                    problems.add(format!(
                        "advertised.listeners lacks {}, which listeners has; add for example {}://localhost:{}",
                        bound.name, bound.name, bound.port
                    ));
                    return None;
                }
            }
        }
    };
    let advertised_host = if !is_wildcard(&told.host) {
        told.host.clone()
    } else if advertised.is_some() && !told.host.is_empty() {
        problems.add(format!(
            "advertised.listeners tells clients to connect to {}, which is no address; \
             set it to a host that they can reach, for example {}://localhost:{}",
            told.host, told.name, told.port
        ));
        return None;
    } else {
        let host = reachable_host();
        notes.push(format!(
            "clients of listener {} are told to connect to {host}; if they cannot reach that, \
             set advertised.listeners={}://HOST:PORT to what they can reach",
            bound.name, bound.name
        ));
        host
    };
    Some(ListenerConfig {
        advertised_host: unbracketed(&advertised_host).to_owned(),
        advertised_port: told.port,
        name: bound.name,
        host: bound.host,
        port: bound.port,
        kind: protocol::Listener::Broker,
    })
}

fn read_endpoints(setting: &str, text: &str, problems: &mut Problems) -> Vec<Endpoint> {
    let mut endpoints: Vec<Endpoint> = Vec::new();
    for item in items(text) {
        let Some(endpoint) = read_endpoint(item) else {
            problems.add(format!(
                "{setting}: {item} is not of the form NAME://HOST:PORT, for example PLAINTEXT://localhost:9092"
            ));
            continue;
        };
        if is_named(&endpoints, &endpoint.name) {
            problems.add(format!(
                "{setting}: {} is there twice; give each listener its own name, and map the names by \
                 listener.security.protocol.map",
                endpoint.name
            ));
            continue;
        }
        if let Some(other) = endpoints
            .iter()
            .find(|other| setting == "listeners" && clash(other, &endpoint))
        {
            problems.add(format!(
                "{setting}: {} and {} share port {}; give each its own",
                other.name, endpoint.name, endpoint.port
            ));
        }
        endpoints.push(endpoint);
    }
    endpoints
}

/// Returns whether two listeners cannot both be bound.
fn clash(a: &Endpoint, b: &Endpoint) -> bool {
    let same_host = a.host == b.host || is_wildcard(&a.host) || is_wildcard(&b.host);
    a.port != 0 && a.port == b.port && same_host
}

fn read_endpoint(text: &str) -> Option<Endpoint> {
    let (name, address) = text.split_once("://")?;
    let (host, port) = split_host_port(address)?;
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if name.is_empty() || !name.bytes().all(is_word) {
        return None;
    }
    Some(Endpoint {
        // Kafka's names of listeners are the same in any case.
        name: name.to_ascii_uppercase(),
        host: host.to_owned(),
        port,
    })
}

/// Splits `HOST:PORT`; an IPv6 address stands in brackets, the host may be empty.
pub(crate) fn split_host_port(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.trim().rsplit_once(':')?;
    let is_bracketed = host.starts_with('[') && host.ends_with(']');
    if host.contains(':') && !is_bracketed {
        return None;
    }
    Some((host, port.parse().ok()?))
}

pub(super) fn unbracketed(host: &str) -> &str {
    host.strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host)
}

/// Refuses listeners whose security protocol this release does not speak, or that have none; a broker alone binds none of the
/// controllers' listeners, but connects to them.
fn check_protocols(
    settings: &StaticConfig,
    bound: &[Endpoint],
    controller: &[String],
    problems: &mut Problems,
) {
    let map: Option<BTreeMap<String, String>> =
        settings.text("listener.security.protocol.map").map(|text| {
            items(text)
                .filter_map(|item| item.split_once(':'))
                .map(|(name, protocol)| {
                    let name = name.trim().to_ascii_uppercase();
                    (name, protocol.trim().to_ascii_uppercase())
                })
                .collect()
        });
    let elsewhere = controller.iter().filter(|name| !is_named(bound, name));
    let names = bound.iter().map(|endpoint| &endpoint.name);
    for name in names.chain(elsewhere).map(String::as_str) {
        let mapped = map.as_ref().map(|map| map.get(name).map(String::as_str));
        let protocol = match mapped {
            Some(protocol) => protocol,
            None if PROTOCOLS.contains(&name) => Some(name),
            // As in Kafka, a controller listener needs no entry while the map is left at its default.
            None if controller.iter().any(|listener| listener == name) => Some(PLAINTEXT),
            None => None,
        };
        match protocol {
            Some(PLAINTEXT) => {}
            Some(other) if PROTOCOLS.contains(&other) => problems.add(format!(
                "listener {name} wants {other}: TLS and SASL are not supported in this release; \
                 use PLAINTEXT, and keep the port inside a network you trust"
            )),
            Some(other) => problems.add(format!(
                "listener.security.protocol.map gives {name} the protocol {other}, which does not exist; \
                 the known ones are {}",
                PROTOCOLS.join(", ")
            )),
            None => problems.add(format!(
                "listener {name} has no security protocol; add {name}:PLAINTEXT to listener.security.protocol.map"
            )),
        }
    }
}

fn check_inter_broker(settings: &StaticConfig, clients: &[Endpoint], problems: &mut Problems) {
    let Some(name) = settings.text("inter.broker.listener.name") else {
        return;
    };
    if settings.text("security.inter.broker.protocol").is_some() {
        problems.add(
            "inter.broker.listener.name and security.inter.broker.protocol exclude each other; remove the second",
        );
    }
    let name = name.trim().to_ascii_uppercase();
    if !is_named(clients, &name) {
        problems.add(format!(
            "inter.broker.listener.name: {name} is not a listener for brokers; name one of listeners that is not in \
             controller.listener.names"
        ));
    }
}

/// How many connections may wait to be accepted; the system may allow fewer.
const BACKLOG: i32 = 1024;

/// Kafka's default of `listeners`.
const LISTENERS: &str = "PLAINTEXT://:9092";

const PLAINTEXT: &str = "PLAINTEXT";

const PROTOCOLS: [&str; 4] = [PLAINTEXT, "SSL", "SASL_PLAINTEXT", "SASL_SSL"];
