//! One shard: a thread that owns a machine and all its sockets.
//!
//! A turn reads what a socket has, feeds the machine whole frames, performs the file operations that do not block, and writes
//! the answers, without handing anything to another thread: waking one costs more than all the work on a request. Each
//! connection is a task of the thread's own event loop that borrows the shard for its turn and never across a suspension.

use std::{
    cell::RefCell, collections::HashMap, io, net::TcpListener, path::PathBuf, rc::Rc, task::Waker,
    time::Duration,
};

use seedlog_core::{
    broker::{Input, Output},
    event::Event,
    ids::ConnectionId,
    protocol::FrameLimits,
    storage::Completion,
    time::{Instant, Now},
};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::{
    clock::Clock,
    files::{Done, Files, LogDirError, descriptors_max},
    machine::Machine,
};

mod accept;
mod buffers;
mod connection;
mod dial;
mod glance;
mod inbound;
mod outbound;
mod tasks;

pub(crate) use buffers::{Buffers, READ_BYTES};
use connection::Connection;
use dial::Dials;
pub use tasks::{Exit, Stop};

/// What a shard needs to know before its machine runs.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The largest frames that are accepted.
    pub frames: FrameLimits,
    /// How many connections are held at once (`max.connections`).
    pub connections_max: usize,
    /// How many connections of one address are held at once (`max.connections.per.ip`).
    pub connections_per_address_max: usize,
    /// How long a connection may be silent (`connections.max.idle.ms`).
    pub idle_max: Option<Duration>,
    /// How much memory frames that have not arrived in full may hold together.
    pub partial_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            frames: FrameLimits::default(),
            connections_max: usize::MAX,
            connections_per_address_max: usize::MAX,
            idle_max: Some(Duration::from_secs(600)),
            partial_bytes_max: 128 * 1024 * 1024,
        }
    }
}

/// Log directories that are locked, and sockets that are bound: what can fail before a machine is made.
#[derive(Debug)]
pub struct Ground {
    files: Files,
    done: UnboundedReceiver<Done>,
    listeners: Vec<TcpListener>,
    descriptors_max: usize,
}

impl Ground {
    /// Locks the log directories, creating missing ones.
    ///
    /// # Errors
    ///
    /// When a log directory cannot be created, or another process uses it.
    pub fn prepare(log_dirs: &[PathBuf], listeners: Vec<TcpListener>) -> Result<Self, LogDirError> {
        Self::prepare_beside(log_dirs, listeners, 1)
    }

    /// As [`Self::prepare`], for one of several nodes of a process: each gets its share of the file descriptors.
    pub(crate) fn prepare_beside(
        log_dirs: &[PathBuf],
        listeners: Vec<TcpListener>,
        nodes: usize,
    ) -> Result<Self, LogDirError> {
        let descriptors_max = descriptors_max() / nodes.max(1);
        let (sender, done) = unbounded_channel();
        // Sockets get the other half: neither may starve the other.
        let files = Files::open(log_dirs, descriptors_max / 2, sender)?;
        Ok(Self {
            files,
            done,
            listeners,
            descriptors_max,
        })
    }
}

/// Sees the events of a machine: logs, and the line that says that clients can connect.
pub type Observer = Box<dyn FnMut(&Event)>;

/// Runs a machine until it has stopped.
///
/// # Errors
///
/// When the event loop cannot be made or a socket cannot be registered with it.
pub fn serve<M: Machine + 'static>(
    ground: Ground,
    limits: Limits,
    clock: Clock,
    machine: M,
    observer: Observer,
    stop: Stop,
) -> io::Result<Exit> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .build()?;
    let Ground {
        files,
        done,
        listeners,
        descriptors_max,
    } = ground;
    let connections_max = limits.connections_max.min(descriptors_max / 2);
    let shard = Shard {
        clock,
        now: clock.now(),
        machine,
        files,
        limits: Limits {
            connections_max,
            ..limits
        },
        connections: HashMap::new(),
        addresses: HashMap::new(),
        next_connection: 0,
        dials: Dials::default(),
        buffers: Buffers::default(),
        glance: Vec::new(),
        partial_bytes: 0,
        short_of_memory: Vec::new(),
        dirty: Vec::new(),
        current: None,
        mover: None,
        movers_changed: Instant::default(),
        completed: Vec::new(),
        observer,
        stopped: false,
        fatal: None,
        timer: None,
        armed: Instant::NEVER,
        main: None,
        longest_turn: Duration::ZERO,
        refusals: Throttle::default(),
    };
    let shard = Rc::new(RefCell::new(shard));
    let tasks = tokio::task::LocalSet::new();
    tasks.block_on(&runtime, tasks::run(shard, listeners, done, stop))
}

/// The state of the thread.
struct Shard<M> {
    clock: Clock,
    /// Both clocks at the start of the turn.
    now: Now,
    machine: M,
    files: Files,
    limits: Limits,
    connections: HashMap<ConnectionId, Connection>,
    /// Connections held per address.
    addresses: HashMap<std::net::IpAddr, usize>,
    next_connection: u64,
    /// Connections that the machine asked for and that are not there yet.
    dials: Dials,
    buffers: Buffers,
    /// Where bytes land that are looked for outside the event loop.
    glance: Vec<u8>,
    /// Memory held by frames that have not arrived in full.
    partial_bytes: usize,
    /// Connections that wait for such memory.
    short_of_memory: Vec<ConnectionId>,
    /// Connections that got something to send in this turn.
    dirty: Vec<ConnectionId>,
    /// The connection whose task runs; it needs no waking.
    current: Option<ConnectionId>,
    /// The connection that moved bytes last, and when that had been another one.
    mover: Option<ConnectionId>,
    movers_changed: Instant,
    completed: Vec<Completion>,
    observer: Observer,
    stopped: bool,
    fatal: Option<String>,
    timer: Option<Waker>,
    /// When the timer's task will next look at the clock by itself.
    armed: Instant,
    main: Option<Waker>,
    longest_turn: Duration,
    /// Holds back log lines that strangers could otherwise fill a disk with.
    refusals: Throttle,
}

/// Lets one log line a second through, and counts the others.
#[derive(Debug, Default)]
struct Throttle {
    next: Instant,
    held_back: u64,
}

impl Throttle {
    /// Returns how many lines were held back before this one, `None` to hold back this one too.
    fn admit(&mut self, now: Instant) -> Option<u64> {
        if now < self.next {
            self.held_back += 1;
            return None;
        }
        self.next = now.plus_millis(1000);
        Some(std::mem::take(&mut self.held_back))
    }
}

impl<M: Machine> Shard<M> {
    /// Runs one turn: `act` feeds the machine, then everything that came of it is sent.
    fn turn<T>(&mut self, act: impl FnOnce(&mut Self) -> T) -> T {
        self.now = self.clock.now();
        let begin = self.now.instant;
        self.files.be_alone(self.is_alone());
        let result = act(self);
        self.settle();
        self.wake_timer();
        let took = self.clock.instant().since(begin);
        if took > self.longest_turn {
            self.longest_turn = took;
            if took >= SLOW_TURN {
                tracing::warn!(
                    took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
                    "a turn of the event loop was slow; the longest so far"
                );
            }
        }
        result
    }

    /// Notes that a connection moved bytes.
    fn note_moved(&mut self, id: ConnectionId) {
        if self.mover != Some(id) {
            self.mover = Some(id);
            self.movers_changed = self.now.instant;
            self.files.be_alone(self.is_alone());
        }
    }

    /// Returns whether only one connection has moved bytes for a while: what is open beside it and silent, as the connection
    /// is by which a client learned of the cluster, has nothing that a sync could hold up.
    fn is_alone(&self) -> bool {
        let unchanged = self.now.instant.since(self.movers_changed);
        self.connections.len() <= 1 || unchanged >= SILENT_AFTER
    }

    /// Performs the writes that waited for the end of the turn, and sends what came of everything.
    fn settle(&mut self) {
        loop {
            // Answers first: what is still to be written is not what they rest on.
            self.flush_dirty();
            self.files.write_pending(&mut self.completed);
            if !self.completed.is_empty() {
                self.feed_completions();
                self.carry_out();
            } else if self.dirty.is_empty() && !self.files.sync_waiting(&mut self.completed) {
                return;
            }
        }
    }

    /// Feeds one input and carries out what it brings about.
    fn feed(&mut self, input: Input) {
        self.machine.handle(self.now, input);
        self.carry_out();
    }

    /// Carries out the machine's outputs, feeding back at once what does not block.
    fn carry_out(&mut self) {
        while let Some(output) = self.machine.poll_output() {
            match output {
                Output::Send { connection, frame } => self.on_send(connection, frame),
                Output::Storage(op) => {
                    self.files.submit(op, &mut self.completed);
                    self.feed_completions();
                }
                Output::Close { connection } => self.on_close(connection),
                Output::Dial {
                    connection,
                    host,
                    port,
                    frame_bytes_max,
                } => self.on_dial(connection, host, port, frame_bytes_max),
                Output::PauseReading { connection } => {
                    if let Some(connection) = self.connections.get_mut(&connection) {
                        connection.paused = true;
                    }
                }
                Output::ResumeReading { connection: id } => {
                    if let Some(connection) = self.connections.get_mut(&id) {
                        connection.paused = false;
                        self.wake(id);
                    }
                }
                Output::Event(event) => self.on_event(&event),
                Output::Stopped => {
                    self.stopped = true;
                    self.wake_main();
                }
            }
        }
    }

    fn feed_completions(&mut self) {
        // Together: what one sync can cover should not be asked for one by one.
        let input = match self.completed.len() {
            0 => return,
            1 => self.completed.pop().map(Input::Storage),
            _ => Some(Input::StorageMany(std::mem::take(&mut self.completed))),
        };
        if let Some(input) = input {
            self.machine.handle(self.now, input);
        }
    }

    /// Takes the end of work that a worker did.
    fn on_done(&mut self, done: Done) {
        match done {
            Done::Storage(completion, file) => {
                self.files.on_done(completion, file, &mut self.completed);
                self.feed_completions();
                self.carry_out();
            }
            Done::Warmed(id, result) => {
                let Some(connection) = self.connections.get_mut(&id) else {
                    return;
                };
                match result {
                    Ok(()) => {
                        connection.outbound.on_warm();
                        self.mark_dirty(id);
                    }
                    Err(fault) => {
                        if let Some(file) = connection.outbound.first_file() {
                            self.on_unreadable(id, file, fault);
                            self.carry_out();
                        }
                    }
                }
            }
        }
    }

    fn on_event(&mut self, event: &Event) {
        if let Event::Fatal { message } = event {
            self.fatal.get_or_insert_with(|| message.clone());
        }
        if *event == Event::Ready {
            self.files.begin_service();
        }
        (self.observer)(event);
    }

    fn on_timeout(&mut self) {
        self.feed(Input::Timeout);
    }

    /// Wakes the timer's task when the deadline has come nearer than what it sleeps until.
    fn wake_timer(&mut self) {
        if self.machine.deadline().is_some_and(|due| due < self.armed)
            && let Some(waker) = self.timer.take()
        {
            waker.wake();
        }
    }

    fn wake_main(&mut self) {
        if let Some(waker) = self.main.take() {
            waker.wake();
        }
    }

    /// Has a connection's task look at it again.
    fn wake(&mut self, id: ConnectionId) {
        if self.current != Some(id)
            && let Some(connection) = self.connections.get_mut(&id)
        {
            connection.wake();
        }
    }
}

/// A connection that moved no byte for so long is not one whose requests come one after the other.
const SILENT_AFTER: Duration = Duration::from_secs(1);

/// A turn this long delays everybody else noticeably.
const SLOW_TURN: Duration = Duration::from_millis(50);
