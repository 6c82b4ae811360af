//! New connections.

use std::{cell::RefCell, future::poll_fn, io, net::SocketAddr, rc::Rc, time::Duration};

use seedlog_core::{broker::Input, ids::ConnectionId};
use tokio::net::{TcpListener, TcpStream};

use super::{Shard, connection::Connection};
use crate::machine::Machine;

/// Accepts connections of one listener for ever.
pub(super) async fn accept<M: Machine + 'static>(
    shard: Rc<RefCell<Shard<M>>>,
    listener: TcpListener,
    number: u16,
) {
    loop {
        // The system's queue holds them meanwhile, as Kafka's does.
        while shard.borrow().is_full() {
            tokio::time::sleep(WAIT).await;
        }
        match listener.accept().await {
            Ok((stream, peer)) => {
                // A socket for both families shows old addresses in the new form; one peer is one peer.
                let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
                admit(&shard, stream, peer, number);
            }
            Err(error) if is_of_peer(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection; trying again");
                tokio::time::sleep(WAIT).await;
            }
        }
    }
}

fn admit<M: Machine + 'static>(
    shard: &Rc<RefCell<Shard<M>>>,
    stream: TcpStream,
    peer: SocketAddr,
    listener: u16,
) {
    if !shard.borrow().has_place_for(peer) {
        shard.borrow_mut().refuse(peer);
        return;
    }
    // Answers are whole when they are written; waiting for more would only delay them.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, %peer, "a connection was gone at once");
        return;
    }
    let (mut read, write) = stream.into_split();
    let id = shard.borrow_mut().turn(|shard| {
        let id = ConnectionId(shard.next_connection);
        shard.next_connection += 1;
        let now = shard.now.instant;
        *shard.addresses.entry(peer.ip()).or_default() += 1;
        shard
            .connections
            .insert(id, Connection::new(write, peer, now));
        shard.feed(Input::Connected {
            connection: id,
            peer,
            listener,
        });
        id
    });
    let shard = Rc::clone(shard);
    tokio::task::spawn_local(async move {
        poll_fn(|context| shard.borrow_mut().poll_connection(id, &mut read, context)).await;
    });
}

impl<M: Machine> Shard<M> {
    fn is_full(&self) -> bool {
        self.connections.len() >= self.limits.connections_max
    }

    fn refuse(&mut self, peer: SocketAddr) {
        let now = self.clock.instant();
        if let Some(more) = self.refusals.admit(now) {
            tracing::warn!(%peer, more, "refused a connection: max.connections.per.ip is reached");
        }
    }

    fn has_place_for(&self, peer: SocketAddr) -> bool {
        let held = self.addresses.get(&peer.ip()).copied().unwrap_or_default();
        held < self.limits.connections_per_address_max
    }
}

/// Tells a connection that failed before it was accepted from a shortage on this side.
fn is_of_peer(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
            | io::ErrorKind::WouldBlock
    )
}

/// How long to wait when no connection can be taken.
const WAIT: Duration = Duration::from_millis(50);
