//! A last look at a socket before the thread waits for a sync.
//!
//! A client that keeps a few requests under way sends them one behind the other, and the first wakes this thread. What comes
//! while that one is checked and written would have to wait for its sync, and then for one of its own.

use rustix::net::RecvFlags;
use seedlog_core::ids::ConnectionId;

use super::{Shard, buffers::READ_BYTES};
use crate::machine::Machine;

impl<M: Machine> Shard<M> {
    /// Looks once more for what this thread would otherwise find only behind the sync that it is about to wait for; `true` if
    /// there was something.
    ///
    /// The event loop need not know: what came and was taken before it looks is no news to it.
    pub(super) fn look_again(&mut self, id: ConnectionId, total: usize) -> bool {
        if !self.files.gathers() {
            return false;
        }
        // First the work that takes its time anyway.
        self.files.write_early();
        if total > READ_BYTES || !self.has_memory(id, total) {
            return false;
        }
        let Some(connection) = self.connections.get_mut(&id) else {
            return false;
        };
        self.glance.resize(READ_BYTES, 0);
        let inbound = &mut connection.inbound;
        let room = inbound.make_room(&mut self.buffers, total, false);
        let target = &mut self.glance[..room.min(READ_BYTES)];
        let seen = rustix::net::recv(connection.write.as_ref(), target, RecvFlags::DONTWAIT);
        // An end or an error is there for the next turn as well.
        let count = seen.map_or(0, |(count, _)| count);
        inbound.buffer().extend_from_slice(&self.glance[..count]);
        if count > 0 {
            connection.active = self.now.instant;
        } else {
            inbound.rest(&mut self.buffers, false);
        }
        self.account(id);
        count > 0
    }
}
