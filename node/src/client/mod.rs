//! Drives a client machine with real sockets: the command line's way to a broker.

mod connection;

use std::{collections::BTreeMap, io, time::Duration};

use seedlog_core::{
    client::{Address, ClientInput, ClientMachine, ClientOutput},
    ids::ConnectionId,
    time::{Instant, Now},
};
use tokio::{sync::mpsc, time};

use self::connection::{Connection, News};
use crate::Clock;

/// What a driven client tells.
#[derive(Debug)]
pub enum Happening<E> {
    /// The machine's event.
    Event(E),
    /// A broker could not be connected to; the machine tries again on its own.
    CannotConnect {
        /// Where.
        to: Address,
        /// Why.
        error: io::Error,
    },
}

/// A client machine with its sockets, on the runtime of the current thread.
#[derive(Debug)]
pub struct Driver<M> {
    machine: M,
    clock: Clock,
    connections: BTreeMap<ConnectionId, Connection>,
    news: mpsc::Receiver<News>,
    reporter: mpsc::Sender<News>,
    frame_bytes_max: usize,
}

impl<M: ClientMachine> Driver<M> {
    /// Takes a machine. `frame_bytes_max` bounds the answers that are read.
    #[must_use]
    pub fn new(machine: M, frame_bytes_max: usize) -> Self {
        // Frames wait here at most: who does not take them stops reading from the sockets.
        let (reporter, news) = mpsc::channel(4);
        Self {
            machine,
            clock: Clock::start(),
            connections: BTreeMap::new(),
            news,
            reporter,
            frame_bytes_max,
        }
    }

    /// Returns the machine.
    #[must_use]
    pub const fn machine(&self) -> &M {
        &self.machine
    }

    /// Returns the machine, to be given something to do, and the time to tell it.
    pub fn machine_now(&mut self) -> (&mut M, Now) {
        (&mut self.machine, self.clock.now())
    }

    /// Drives until something happened. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Happening<M::Event> {
        loop {
            while let Some(output) = self.machine.poll_output() {
                if let Some(event) = self.perform(output) {
                    return Happening::Event(event);
                }
            }
            let sleep = self.sleep();
            let input = tokio::select! {
                biased;
                news = self.news.recv() => match news {
                    Some(News::Input(input)) => input,
                    Some(News::CannotConnect { connection, to, error }) => {
                        self.connections.remove(&connection);
                        let input = ClientInput::ConnectFailed { connection };
                        self.machine.handle(self.clock.now(), input);
                        return Happening::CannotConnect { to, error };
                    }
                    // This side keeps a sender, so the channel never closes.
                    None => ClientInput::Timeout,
                },
                () = time::sleep(sleep) => ClientInput::Timeout,
            };
            if let ClientInput::Disconnected { connection } = input {
                self.connections.remove(&connection);
            }
            self.machine.handle(self.clock.now(), input);
        }
    }

    /// Ends all connections once what was sent has left: what nobody answers (acks=0) would be lost else.
    pub async fn finish(mut self, patience: Duration) {
        // Nobody takes news any more, so nobody may wait to tell some.
        self.news.close();
        let connections = std::mem::take(&mut self.connections);
        let all = async {
            for open in connections.into_values() {
                open.finish().await;
            }
        };
        let _ = time::timeout(patience, all).await;
    }

    fn sleep(&self) -> Duration {
        let deadline = self.machine.deadline().unwrap_or(Instant::NEVER);
        deadline.since(self.clock.instant()).min(SLEEP_MAX)
    }

    fn perform(&mut self, output: ClientOutput<M::Event>) -> Option<M::Event> {
        match output {
            ClientOutput::Connect { connection, to } => {
                let reporter = self.reporter.clone();
                let open = Connection::open(connection, to, reporter, self.frame_bytes_max);
                self.connections.insert(connection, open);
            }
            ClientOutput::Send { connection, frame } => {
                if let Some(open) = self.connections.get(&connection) {
                    open.send(frame);
                }
            }
            ClientOutput::Close { connection } => {
                self.connections.remove(&connection);
            }
            ClientOutput::Event(event) => return Some(event),
        }
        None
    }
}

/// The deadline is looked at again at least this often.
const SLEEP_MAX: Duration = Duration::from_secs(3_600);
