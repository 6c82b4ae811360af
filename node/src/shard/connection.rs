//! One connection: its turn, and what its socket holds back.

use std::{
    future::Future,
    net::SocketAddr,
    pin::pin,
    task::{Context, Poll, Waker},
};

use bytes::BufMut;
use seedlog_core::{
    broker::Input,
    ids::ConnectionId,
    protocol::FrameStage,
    storage::{FileId, Frame, StorageFault},
    time::Instant,
};
use tokio::{
    io::AsyncReadExt,
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
};

use super::{
    Shard,
    buffers::READ_BYTES,
    inbound::{Expected, Inbound, Next},
    outbound::{Flushed, Outbound},
};
use crate::machine::Machine;

/// What the shard knows about a connection. The half of the socket that reads belongs to the connection's task.
pub(super) struct Connection {
    pub(super) write: OwnedWriteHalf,
    peer: SocketAddr,
    pub(super) inbound: Inbound,
    pub(super) outbound: Outbound,
    /// The machine's budget for it is used up.
    pub(super) paused: bool,
    /// The machine closed it; what was promised before is still sent.
    pub(super) closing: bool,
    /// The machine has answered something: whoever it is speaks the protocol.
    answered: bool,
    /// It is in the list of those that got something to send.
    dirty: bool,
    /// Its last flush ended because others had to have their turn.
    share_used: bool,
    /// It waits for memory for a large frame.
    short_of_memory: bool,
    /// Its part of [`Shard::partial_bytes`].
    memory: usize,
    waker: Option<Waker>,
    /// When its socket last moved a byte.
    pub(super) active: Instant,
    /// The machine dialled it; no answer may be larger.
    answer_bytes_max: Option<usize>,
}

/// What a connection's task does after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Come back when others have had their turn.
    Again,
    /// Sleep until something happens.
    Wait,
}

impl Connection {
    pub(super) fn new(write: OwnedWriteHalf, peer: SocketAddr, now: Instant) -> Self {
        Self {
            write,
            peer,
            inbound: Inbound::default(),
            outbound: Outbound::default(),
            paused: false,
            closing: false,
            answered: false,
            dirty: false,
            share_used: false,
            short_of_memory: false,
            memory: 0,
            waker: None,
            active: now,
            answer_bytes_max: None,
        }
    }

    /// Makes a connection that the machine dialled, to a peer that it trusts as far as it knows the address.
    pub(super) fn dialled(
        write: OwnedWriteHalf,
        peer: SocketAddr,
        now: Instant,
        answer_bytes_max: usize,
    ) -> Self {
        Self {
            answered: true,
            answer_bytes_max: Some(answer_bytes_max),
            ..Self::new(write, peer, now)
        }
    }

    pub(super) const fn is_dialled(&self) -> bool {
        self.answer_bytes_max.is_some()
    }

    pub(super) const fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Returns whether it holds memory for a frame whose rest is up to the peer.
    pub(super) fn holds_up_others(&self) -> bool {
        self.inbound.is_partial() && !self.short_of_memory
    }

    /// Has the task look at the connection again.
    pub(super) fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Returns whether frames may be taken: nobody who does not read answers gets to ask more.
    fn may_read(&self) -> bool {
        !self.paused && !self.closing && self.outbound.bytes() < UNSENT_BYTES_MAX
    }

    fn socket(&self) -> &TcpStream {
        self.write.as_ref()
    }

    /// Returns whether only the socket's lack of room holds back what is to be sent.
    fn waits_for_socket(&self) -> bool {
        !self.outbound.is_empty() && !self.outbound.is_warming()
    }
}

impl<M: Machine> Shard<M> {
    /// Runs the turn of a connection's task; ready when the connection is no more.
    pub(super) fn poll_connection(
        &mut self,
        id: ConnectionId,
        read: &mut OwnedReadHalf,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        self.current = Some(id);
        let step = self.turn(|shard| shard.step(id, read, context));
        self.current = None;
        let Some(connection) = self.connections.get_mut(&id) else {
            return Poll::Ready(());
        };
        match &mut connection.waker {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        let mut again = std::mem::take(&mut connection.share_used);
        if connection.waits_for_socket() {
            // Room that appeared since the flush is news as well: the next turn uses it, or learns that the peer is gone.
            again |= connection.socket().poll_write_ready(context).is_ready();
        }
        again |= step == Step::Again && connection.may_read();
        if again {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Sends what waits, then reads and feeds frames up to one share.
    fn step(
        &mut self,
        id: ConnectionId,
        read: &mut OwnedReadHalf,
        context: &mut Context<'_>,
    ) -> Step {
        let waits = self.connections.get(&id);
        if waits.is_some_and(Connection::waits_for_socket) {
            self.flush(id);
        }
        let mut frames = 0;
        let mut received = 0;
        loop {
            let Some(connection) = self.connections.get_mut(&id) else {
                return Step::Wait;
            };
            if !connection.may_read() {
                return Step::Again;
            }
            let expected = match connection.answer_bytes_max {
                Some(bytes_max) => Expected::Answers { bytes_max },
                None if connection.answered => {
                    Expected::Requests(&self.limits.frames, FrameStage::Established)
                }
                None => Expected::Requests(&self.limits.frames, FrameStage::First),
            };
            let total = match connection.inbound.next(&expected) {
                Next::Frame(bytes) => {
                    frames += 1;
                    self.feed(Input::Frame {
                        connection: id,
                        bytes,
                    });
                    if frames == FRAMES_MAX {
                        return Step::Again;
                    }
                    continue;
                }
                Next::Invalid(error) => {
                    if let Some(more) = self.refusals.admit(self.now.instant) {
                        tracing::warn!(
                            peer = %connection.peer, more,
                            "closed a connection that sent what is no frame: {error}"
                        );
                    }
                    self.drop_connection(id);
                    return Step::Wait;
                }
                Next::More { total } => total,
            };
            // The last read filled its buffer, so there is more; but answers should not wait for it, nor should others. Where
            // all that has arrived will share a sync, answers come sooner with it.
            let is_enough = frames > 0 && !self.files.gathers();
            if received > 0 && (is_enough || received >= SHARE_BYTES) {
                return Step::Again;
            }
            match self.receive(id, total, read, context) {
                Poll::Pending if self.look_again(id, total) => {}
                Poll::Pending => return Step::Wait,
                Poll::Ready(Received::All) => received = 0,
                Poll::Ready(Received::Some(count)) => received += count,
            }
        }
    }

    /// Reads once.
    fn receive(
        &mut self,
        id: ConnectionId,
        total: usize,
        read: &mut OwnedReadHalf,
        context: &mut Context<'_>,
    ) -> Poll<Received> {
        let Some(connection) = self.connections.get_mut(&id) else {
            return Poll::Pending;
        };
        // Asked first, so that a connection with nothing to read needs no buffer.
        if read.as_ref().poll_read_ready(context).is_pending() {
            let scarce = self.partial_bytes > self.limits.partial_bytes_max / 2;
            connection.inbound.rest(&mut self.buffers, scarce);
            self.account(id);
            return Poll::Pending;
        }
        if !self.has_memory(id, total) {
            return Poll::Pending;
        }
        let Some(connection) = self.connections.get_mut(&id) else {
            return Poll::Pending;
        };
        let trusted = connection.answered;
        let room = connection
            .inbound
            .make_room(&mut self.buffers, total, trusted);
        let mut target = connection.inbound.buffer().limit(room);
        let polled = pin!(read.read_buf(&mut target)).poll(context);
        self.account(id);
        match polled {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Ok(0)) => {
                // Who sends a request and ends its side at once still gets the answer that is ready.
                self.flush(id);
                self.drop_connection(id);
                Poll::Pending
            }
            Poll::Ready(Ok(count)) => {
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.active = self.now.instant;
                }
                self.note_moved(id);
                // A short read has emptied the socket, and the event loop knows it.
                Poll::Ready(if count < room {
                    Received::All
                } else {
                    Received::Some(count)
                })
            }
            Poll::Ready(Err(error)) => {
                tracing::debug!(%error, connection = id.0, "a connection failed");
                self.drop_connection(id);
                Poll::Pending
            }
        }
    }

    /// Returns whether there is memory for a frame of `total` bytes; else the connection waits for some.
    pub(super) fn has_memory(&mut self, id: ConnectionId, total: usize) -> bool {
        let Some(connection) = self.connections.get_mut(&id) else {
            return false;
        };
        let others = self.partial_bytes.saturating_sub(connection.memory);
        let fits = others.saturating_add(total) <= self.limits.partial_bytes_max;
        // Whatever one frame may need is granted to somebody, or nobody would ever finish.
        if fits || others == 0 || total <= READ_BYTES {
            return true;
        }
        if !connection.short_of_memory {
            connection.short_of_memory = true;
            self.short_of_memory.push(id);
        }
        false
    }

    /// Notes how much memory a connection holds now; those that wait for some try again when it became less.
    pub(super) fn account(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let memory = connection.inbound.memory();
        let before = std::mem::replace(&mut connection.memory, memory);
        self.partial_bytes = (self.partial_bytes + memory).saturating_sub(before);
        if memory < before {
            self.wake_short_of_memory();
        }
    }

    fn wake_short_of_memory(&mut self) {
        for id in std::mem::take(&mut self.short_of_memory) {
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.short_of_memory = false;
                self.wake(id);
            }
        }
    }

    /// Queues a frame; it leaves at the end of the turn.
    pub(super) fn on_send(&mut self, id: ConnectionId, frame: Frame) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        connection.answered = true;
        match connection.outbound.push(frame, &mut self.files) {
            Ok(()) => self.mark_dirty(id),
            Err((file, fault)) => self.on_unreadable(id, file, fault),
        }
    }

    /// Closes a connection once everything promised to it is sent.
    pub(super) fn on_close(&mut self, id: ConnectionId) {
        if id.is_dialled() && self.stop_dialling(id) {
            return;
        }
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.closing = true;
            connection.active = self.now.instant;
            self.mark_dirty(id);
        }
    }

    pub(super) fn mark_dirty(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(&id)
            && !std::mem::replace(&mut connection.dirty, true)
        {
            self.dirty.push(id);
        }
    }

    /// Sends what this turn produced.
    pub(super) fn flush_dirty(&mut self) {
        while let Some(id) = self.dirty.pop() {
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.dirty = false;
                self.flush(id);
            }
        }
    }

    fn flush(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let before = connection.outbound.bytes();
        let was_held_up = !connection.may_read();
        let flushed = connection.outbound.flush(connection.write.as_ref());
        let moved = connection.outbound.bytes() != before;
        if moved {
            connection.active = self.now.instant;
        }
        if was_held_up && connection.may_read() && self.current != Some(id) {
            connection.wake();
        }
        let is_closing = connection.closing;
        if moved {
            self.note_moved(id);
        }
        match flushed {
            Flushed::All if is_closing => self.remove_connection(id),
            Flushed::All => self.feed(Input::Sent { connection: id }),
            // The task has to ask for the socket's readiness itself.
            Flushed::Blocked => self.wake(id),
            Flushed::Share => {
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.share_used = true;
                }
                self.wake(id);
            }
            Flushed::Cold { source, at, len } => self.files.warm(id, source, at, len),
            Flushed::Gone(error) => {
                tracing::debug!(%error, connection = id.0, "a connection failed");
                self.drop_connection(id);
            }
            Flushed::Unreadable(file, fault) => {
                self.on_unreadable(id, file, fault);
                self.carry_out();
            }
        }
    }

    /// Gives a connection up because bytes promised to it cannot be had: it would wait for them for ever.
    pub(super) fn on_unreadable(&mut self, id: ConnectionId, file: FileId, fault: StorageFault) {
        tracing::warn!(%fault, connection = id.0, "closed a connection: bytes promised to it cannot be read");
        if self.remove(id) {
            let input = Input::Closed { connection: id };
            self.machine.handle(self.now, input);
        }
        let input = Input::RangeUnreadable { file, fault };
        self.machine.handle(self.now, input);
    }

    /// Notes that the peer is gone, or is not worth talking to.
    pub(super) fn drop_connection(&mut self, id: ConnectionId) {
        if self.remove(id) {
            self.feed(Input::Closed { connection: id });
        }
    }

    /// Ends a connection that the machine closed.
    fn remove_connection(&mut self, id: ConnectionId) {
        self.remove(id);
    }

    /// Forgets a connection; `true` if the machine has not closed it itself.
    fn remove(&mut self, id: ConnectionId) -> bool {
        let Some(mut connection) = self.connections.remove(&id) else {
            return false;
        };
        self.partial_bytes = self.partial_bytes.saturating_sub(connection.memory);
        if !connection.is_dialled()
            && let Some(held) = self.addresses.get_mut(&connection.peer.ip())
        {
            *held -= 1;
            if *held == 0 {
                self.addresses.remove(&connection.peer.ip());
            }
        }
        if connection.memory > 0 {
            self.wake_short_of_memory();
        }
        // Its task sees that it is gone, and closes the socket by dropping the half that reads.
        connection.wake();
        !connection.closing
    }
}

/// How far a read came.
#[derive(Clone, Copy, Debug)]
enum Received {
    /// Everything that the socket had.
    All,
    /// As much as there was room for.
    Some(usize),
}

/// With so much unsent, no more is read.
const UNSENT_BYTES_MAX: usize = 64 * 1024;

/// So many frames are fed in one turn.
const FRAMES_MAX: usize = 64;

/// So much of one large frame is read in one turn.
const SHARE_BYTES: usize = 1024 * 1024;
