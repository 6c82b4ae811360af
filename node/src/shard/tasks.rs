//! What runs beside the connections: the timer, the ends of work that blocked, the sweep, the stop.

use std::{
    cell::RefCell,
    future::{Future, poll_fn},
    io,
    net::TcpListener,
    pin::pin,
    rc::Rc,
    task::{Context, Poll},
    time::Duration,
};

use seedlog_core::{broker::Input, ids::ConnectionId, time::Instant};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc::UnboundedReceiver,
    task::spawn_local,
    time::{Sleep, sleep_until},
};

use super::{Shard, accept::accept, dial::dial};
use crate::{files::Done, machine::Machine};

/// Where the wish to stop comes from. The first asks for an orderly stop, the second ends it at once.
#[derive(Debug, Default)]
pub enum Stop {
    /// SIGTERM and SIGINT.
    #[default]
    Signals,
    /// Messages of this channel.
    Channel(UnboundedReceiver<()>),
}

/// How a shard ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    /// In good order.
    Clean,
    /// The machine could not go on, and said why.
    Fatal(String),
    /// At once, because stopping was asked for a second time.
    Forced,
}

type Shared<M> = Rc<RefCell<Shard<M>>>;

/// Runs everything until the machine has stopped.
pub(super) async fn run<M: Machine + 'static>(
    shard: Shared<M>,
    listeners: Vec<TcpListener>,
    done: UnboundedReceiver<Done>,
    stop: Stop,
) -> io::Result<Exit> {
    let mut stop = Wishes::listen(stop)?;
    let mut accepting = Vec::with_capacity(listeners.len());
    for (number, listener) in listeners.into_iter().enumerate() {
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let number = u16::try_from(number).unwrap_or(u16::MAX);
        accepting.push(spawn_local(accept(Rc::clone(&shard), listener, number)));
    }
    spawn_local(completions(Rc::clone(&shard), done));
    spawn_local(timer(Rc::clone(&shard)));
    spawn_local(dial(Rc::clone(&shard)));
    spawn_local(sweep(Rc::clone(&shard)));
    shard.borrow_mut().turn(Shard::carry_out);

    let mut asked = false;
    loop {
        let wish = poll_fn(|context| poll_end(&shard, &mut stop, context)).await;
        match wish {
            End::Stopped => break,
            End::Wish if asked => {
                tracing::warn!(
                    "stopping at once, asked a second time; what was not flushed is recovered at the next start"
                );
                return Ok(Exit::Forced);
            }
            End::Wish => {
                asked = true;
                tracing::info!("stopping; ask again to stop at once");
                accepting.drain(..).for_each(|task| task.abort());
                shard.borrow_mut().turn(|shard| shard.feed(Input::Stop));
            }
        }
    }
    drain(&shard).await;
    let longest_turn = shard.borrow().longest_turn;
    tracing::debug!(?longest_turn, "stopped");
    Ok(match shard.borrow_mut().fatal.take() {
        Some(message) => Exit::Fatal(message),
        None if asked => Exit::Clean,
        None => Exit::Fatal("the broker stopped by itself".to_owned()),
    })
}

enum End {
    Stopped,
    Wish,
}

fn poll_end<M: Machine>(
    shard: &Shared<M>,
    stop: &mut Wishes,
    context: &mut Context<'_>,
) -> Poll<End> {
    let mut shard = shard.borrow_mut();
    if shard.stopped {
        return Poll::Ready(End::Stopped);
    }
    shard.main = Some(context.waker().clone());
    stop.poll(context).map(|()| End::Wish)
}

/// Gives the last answers some time to leave.
async fn drain<M: Machine>(shard: &Shared<M>) {
    for _ in 0..DRAIN_STEPS {
        if shard.borrow().is_drained() {
            return;
        }
        tokio::time::sleep(DRAIN_STEP).await;
    }
}

/// Wishes to stop, whatever they come from.
enum Wishes {
    Signals(Signal, Signal),
    Channel(UnboundedReceiver<()>),
}

impl Wishes {
    fn listen(stop: Stop) -> io::Result<Self> {
        Ok(match stop {
            Stop::Signals => Self::Signals(
                signal(SignalKind::terminate())?,
                signal(SignalKind::interrupt())?,
            ),
            Stop::Channel(channel) => Self::Channel(channel),
        })
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Signals(terminate, interrupt) => {
                if let Poll::Ready(Some(())) = terminate.poll_recv(context) {
                    return Poll::Ready(());
                }
                if let Poll::Ready(Some(())) = interrupt.poll_recv(context) {
                    return Poll::Ready(());
                }
                Poll::Pending
            }
            Self::Channel(channel) => match channel.poll_recv(context) {
                Poll::Ready(Some(())) => Poll::Ready(()),
                // Nobody is left who could wish anything.
                Poll::Ready(None) | Poll::Pending => Poll::Pending,
            },
        }
    }
}

/// Feeds the ends of work that blocked.
async fn completions<M: Machine>(shard: Shared<M>, mut done: UnboundedReceiver<Done>) {
    while let Some(first) = done.recv().await {
        shard.borrow_mut().turn(|shard| {
            shard.on_done(first);
            while let Ok(next) = done.try_recv() {
                shard.on_done(next);
            }
        });
    }
}

/// Feeds timeouts. The clock decides whether one is due, the sleep only when to look.
async fn timer<M: Machine>(shard: Shared<M>) {
    let far = shard.borrow().clock.to_std(Instant::NEVER);
    let mut sleep = pin!(sleep_until(far.into()));
    poll_fn(|context| -> Poll<()> {
        let mut shard = shard.borrow_mut();
        for _ in 0..TIMEOUTS_MAX {
            let due = shard.machine.deadline().unwrap_or(Instant::NEVER);
            if due <= shard.clock.instant() {
                shard.turn(Shard::on_timeout);
                continue;
            }
            let at = shard.clock.to_std(due);
            Sleep::reset(sleep.as_mut(), at.into());
            shard.armed = due;
            if sleep.as_mut().poll(context).is_pending() {
                shard.timer = Some(context.waker().clone());
                return Poll::Pending;
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Looks now and then for connections that are silent, and for memory that nobody uses.
async fn sweep<M: Machine>(shard: Shared<M>) {
    for round in 1_u64.. {
        tokio::time::sleep(SWEEP).await;
        let mut shard = shard.borrow_mut();
        if round.is_multiple_of(SHRINK_ROUNDS) {
            shard.buffers.shrink();
            shard.files.shrink();
        }
        shard.turn(Shard::drop_silent);
    }
}

impl<M: Machine> Shard<M> {
    fn is_drained(&self) -> bool {
        self.connections
            .values()
            .all(|connection| connection.outbound.is_empty())
    }

    fn drop_silent(&mut self) {
        let idle_max = self.limits.idle_max.unwrap_or(Duration::MAX);
        let short = !self.short_of_memory.is_empty();
        let mut silent: Vec<ConnectionId> = self
            .connections
            .iter()
            .filter(|(_, connection)| {
                let silence = self.now.instant.since(connection.active);
                // What the machine dialled is its own to close.
                (silence > idle_max && !connection.is_dialled())
                    || (connection.closing && silence > LINGER)
                    || (short && connection.holds_up_others() && silence > STALL)
            })
            .map(|(id, _)| *id)
            .collect();
        // In the order of their arrival: what the machine sees does not hang on a table's inner order.
        silent.sort_unstable();
        for id in silent {
            if let Some(connection) = self.connections.get(&id) {
                tracing::info!(peer = %connection.peer(), "closed a silent connection");
            }
            self.drop_connection(id);
        }
    }
}

/// So many timeouts are fed in one go before others have their turn.
const TIMEOUTS_MAX: u32 = 16;

/// How often silent connections are looked for.
const SWEEP: Duration = Duration::from_secs(1);

/// Every so many sweeps, buffers kept for the next large frame are given back.
const SHRINK_ROUNDS: u64 = 10;

/// How long a connection that is closed may leave its last answer unread.
const LINGER: Duration = Duration::from_secs(10);

/// How long a frame may stop arriving while others wait for the memory that it holds.
const STALL: Duration = Duration::from_secs(5);

/// How long and how often to look whether the last answers have left.
const DRAIN_STEPS: u32 = 200;
const DRAIN_STEP: Duration = Duration::from_millis(5);
