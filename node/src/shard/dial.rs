//! Connections to other nodes, made because the machine asked for them.

use std::{
    cell::RefCell,
    collections::{HashMap, VecDeque},
    future::poll_fn,
    io,
    rc::Rc,
    task::{Context, Poll, Waker},
};

use seedlog_core::{broker::Input, ids::ConnectionId};
use tokio::{
    net::TcpStream,
    task::{AbortHandle, spawn_local},
};

use super::{Shard, connection::Connection};
use crate::machine::Machine;

/// A connection that the machine wants.
#[derive(Debug)]
struct Order {
    id: ConnectionId,
    host: String,
    port: u16,
    frame_bytes_max: usize,
}

/// Connections that are not there yet.
#[derive(Debug, Default)]
pub(super) struct Dials {
    orders: VecDeque<Order>,
    under_way: HashMap<ConnectionId, AbortHandle>,
    waker: Option<Waker>,
}

/// Makes the connections that the machine asks for, each in a task of its own that goes on to serve it.
///
/// How long one may take is the machine's to say: it closes what takes too long.
pub(super) async fn dial<M: Machine + 'static>(shard: Rc<RefCell<Shard<M>>>) {
    loop {
        let order = poll_fn(|context| shard.borrow_mut().dials.poll_order(context)).await;
        let id = order.id;
        let task = spawn_local(connect(Rc::clone(&shard), order));
        let mut shard = shard.borrow_mut();
        shard.dials.under_way.insert(id, task.abort_handle());
    }
}

async fn connect<M: Machine + 'static>(shard: Rc<RefCell<Shard<M>>>, order: Order) {
    let id = order.id;
    let connected = TcpStream::connect((order.host.as_str(), order.port)).await;
    let admitted = connected.and_then(|stream| admit(&shard, stream, &order));
    let mut read = match admitted {
        Ok(read) => read,
        Err(error) => {
            tracing::debug!(%error, host = order.host, port = order.port, "cannot reach a node");
            let mut shard = shard.borrow_mut();
            if shard.dials.under_way.remove(&id).is_some() {
                shard.turn(|shard| shard.feed(Input::Closed { connection: id }));
            }
            return;
        }
    };
    poll_fn(|context| shard.borrow_mut().poll_connection(id, &mut read, context)).await;
}

fn admit<M: Machine + 'static>(
    shard: &Rc<RefCell<Shard<M>>>,
    stream: TcpStream,
    order: &Order,
) -> io::Result<tokio::net::tcp::OwnedReadHalf> {
    stream.set_nodelay(true)?;
    let peer = stream.peer_addr()?;
    let (read, write) = stream.into_split();
    let id = order.id;
    shard.borrow_mut().turn(|shard| {
        shard.dials.under_way.remove(&id);
        let now = shard.now.instant;
        let connection = Connection::dialled(write, peer, now, order.frame_bytes_max);
        shard.connections.insert(id, connection);
        shard.feed(Input::Dialled { connection: id });
    });
    Ok(read)
}

impl Dials {
    fn poll_order(&mut self, context: &Context<'_>) -> Poll<Order> {
        if let Some(order) = self.orders.pop_front() {
            return Poll::Ready(order);
        }
        self.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl<M: Machine> Shard<M> {
    /// Takes a wish for a connection.
    pub(super) fn on_dial(
        &mut self,
        id: ConnectionId,
        host: String,
        port: u16,
        frame_bytes_max: usize,
    ) {
        self.dials.orders.push_back(Order {
            id,
            host,
            port,
            frame_bytes_max,
        });
        if let Some(waker) = self.dials.waker.take() {
            waker.wake();
        }
    }

    /// Gives up a connection that is not there yet; `false` if it is none of those.
    pub(super) fn stop_dialling(&mut self, id: ConnectionId) -> bool {
        if let Some(task) = self.dials.under_way.remove(&id) {
            task.abort();
            return true;
        }
        let before = self.dials.orders.len();
        self.dials.orders.retain(|order| order.id != id);
        self.dials.orders.len() < before
    }
}
