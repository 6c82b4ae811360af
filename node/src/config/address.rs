//! Which address to tell clients when a listener is open on all of them.

use std::net::{IpAddr, Ipv4Addr, ToSocketAddrs, UdpSocket};

use super::listeners::unbracketed;

/// Returns whether a host stands for "all addresses of this machine", which no client can connect to.
pub(super) fn is_wildcard(host: &str) -> bool {
    host.is_empty()
        || unbracketed(host)
            .parse::<IpAddr>()
            .is_ok_and(|address| address.to_canonical().is_unspecified())
}

/// Chooses a host by which this machine can be reached: its own name if the name can be resolved, as Kafka does, else the
/// address it uses towards others, else itself only.
pub(super) fn reachable_host() -> String {
    let uname = rustix::system::uname();
    let name = uname.nodename().to_string_lossy();
    if !name.is_empty()
        && (name.as_ref(), 0)
            .to_socket_addrs()
            .is_ok_and(|mut found| found.next().is_some())
    {
        return name.into_owned();
    }
    outward_address().map_or_else(|| "localhost".to_owned(), |address| address.to_string())
}

/// Asks the routing table which address a packet to the outside would carry; none is sent.
fn outward_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    // An address of the block reserved for documentation: nobody has it.
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_unspecified() && !address.is_loopback()).then_some(address)
}
