//! Connections: delay per direction, order within a connection, bandwidth, reset, refused, hanging and half-open, and cuts
//! that let nothing through in one direction.
//!
//! Frames travel whole. The network decides when they arrive, never what they say; who is alive is the cluster's knowledge.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use crate::{random::Stream, time::SimTime};

mod cuts;

pub use cuts::{Cut, Ends};

use cuts::Cuts;

/// A connection, unique in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u64);

/// Where a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// A broker.
    Node(usize),
    /// A client machine.
    Client(usize),
}

/// One of the two ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Who opened it.
    Dialer,
    /// Who accepted it.
    Acceptor,
}

impl Side {
    /// Returns the other end.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Dialer => Self::Acceptor,
            Self::Acceptor => Self::Dialer,
        }
    }

    const fn index(self) -> usize {
        match self {
            Self::Dialer => 0,
            Self::Acceptor => 1,
        }
    }
}

/// Something on its way to one end of a connection.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// The connection.
    pub link: LinkId,
    /// The end it travels to.
    pub to: Side,
    /// What it is.
    pub what: Parcel,
}

/// What travels over a connection.
#[derive(Clone, Debug)]
pub enum Parcel {
    /// The dialer knocks, at this listener.
    Knock(u16),
    /// The acceptor answered.
    Opened,
    /// A frame, without its length prefix, and when it left.
    Frame(Bytes, Stamp),
    /// The end of the stream, or a reset.
    Closed,
}

/// When a frame left its sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Simulated time.
    pub at: SimTime,
    /// The step of the sender's disk.
    pub step: u64,
}

/// Delays and rates, in nanoseconds and bytes.
#[derive(Clone, Debug)]
pub struct LinkProfile {
    /// Shortest and longest usual delay of one direction.
    pub delay: (u64, u64),
    /// How many in a thousand parcels take longer …
    pub slow_permille: u32,
    /// … by at most this.
    pub slow_nanos: u64,
    /// Bytes per millisecond.
    pub bandwidth: u64,
}

impl Default for LinkProfile {
    fn default() -> Self {
        Self {
            delay: (30_000, 300_000),
            slow_permille: 10,
            slow_nanos: 30_000_000,
            bandwidth: 100_000,
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Lane {
    free_at: SimTime,
    last_arrival: SimTime,
    /// What is sent vanishes, without a sign for either end.
    muted: bool,
    /// The receiver does not read: what arrives waits.
    paused: bool,
    held: VecDeque<Parcel>,
    /// What is sent during a cut: the sender's system sends it again and again.
    blocked: VecDeque<Parcel>,
    blocked_since: SimTime,
}

#[derive(Clone, Debug)]
struct Link {
    ends: [End; 2],
    /// Which of the acceptor's listeners it came to.
    listener: u16,
    /// By the side that a lane leads to.
    lanes: [Lane; 2],
    /// An end closed it, or its process or machine is gone.
    gone: [bool; 2],
    /// Reset: nothing but the news of it arrives any more.
    broken: bool,
}

/// All connections of a run.
#[derive(Debug)]
pub struct Network {
    profile: LinkProfile,
    stream: Stream,
    links: BTreeMap<LinkId, Link>,
    next: u64,
    slow_until: BTreeMap<End, (SimTime, u64)>,
    cuts: Cuts,
}

/// What became of a parcel at the end of its way.
#[derive(Debug)]
pub enum Outcome {
    /// Hand it to this end.
    Deliver(End, Parcel),
    /// It waits until the receiver reads on, or nobody is there to take it.
    Nothing,
    /// The receiving process is gone: its machine, if it runs, answers with a reset.
    NobodyThere(End),
}

impl Network {
    /// Makes a network without connections.
    #[must_use]
    pub const fn new(profile: LinkProfile, stream: Stream) -> Self {
        Self {
            profile,
            stream,
            links: BTreeMap::new(),
            next: 0,
            slow_until: BTreeMap::new(),
            cuts: Cuts::new(),
        }
    }

    /// Opens a connection to a listener; the knock is on its way, unless nothing gets through.
    pub fn dial(
        &mut self,
        now: SimTime,
        from: End,
        to: End,
        listener: u16,
    ) -> (LinkId, Option<(SimTime, Arrival)>) {
        self.next += 1;
        let link = LinkId(self.next);
        self.links.insert(
            link,
            Link {
                ends: [from, to],
                listener,
                lanes: [Lane::default(), Lane::default()],
                gone: [false, false],
                broken: false,
            },
        );
        let sent = self.send(now, link, Side::Acceptor, Parcel::Knock(listener));
        (link, sent.and_then(|(_, arrival)| arrival))
    }

    /// Sends a parcel; returns when its last byte leaves and, unless it vanishes, when it arrives.
    pub fn send(
        &mut self,
        now: SimTime,
        link: LinkId,
        to: Side,
        what: Parcel,
    ) -> Option<(SimTime, Option<(SimTime, Arrival)>)> {
        if self.links.get(&link)?.gone[to.other().index()] {
            return None;
        }
        if self.is_blocked(now, link, to) {
            self.block(now, link, to, what);
            return Some((now, None));
        }
        self.send_on(now, link, to, what)
    }

    fn send_on(
        &mut self,
        now: SimTime,
        link: LinkId,
        to: Side,
        what: Parcel,
    ) -> Option<(SimTime, Option<(SimTime, Arrival)>)> {
        let muted = self.links.get(&link)?.lanes[to.index()].muted;
        let size = match &what {
            Parcel::Frame(bytes, _) => bytes.len(),
            Parcel::Knock(_) | Parcel::Opened | Parcel::Closed => 0,
        };
        let at = self.travel(now, link, to, size);
        let left = self.links.get(&link)?.lanes[to.index()].free_at.max(now);
        let arrival = (!muted).then_some((at, Arrival { link, to, what }));
        Some((left, arrival))
    }

    /// Takes a parcel at the end of its way.
    pub fn arrive(&mut self, arrival: Arrival) -> Outcome {
        let Arrival { link, to, what } = arrival;
        let Some(known) = self.links.get_mut(&link) else {
            return Outcome::Nothing;
        };
        let end = known.ends[to.index()];
        if known.broken && !matches!(what, Parcel::Closed) {
            return Outcome::Nothing;
        }
        if known.gone[to.index()] {
            return match what {
                Parcel::Closed => Outcome::Nothing,
                Parcel::Knock(_) | Parcel::Opened | Parcel::Frame(..) => Outcome::NobodyThere(end),
            };
        }
        let lane = &mut known.lanes[to.index()];
        if lane.paused {
            lane.held.push_back(what);
            return Outcome::Nothing;
        }
        if matches!(what, Parcel::Closed) {
            self.forget(link, to);
        }
        Outcome::Deliver(end, what)
    }

    /// The receiver stops reading a connection.
    pub fn pause(&mut self, link: LinkId, receiver: Side) {
        if let Some(link) = self.links.get_mut(&link) {
            link.lanes[receiver.index()].paused = true;
        }
    }

    /// The receiver reads on; returns what waited, to arrive now.
    pub fn resume(&mut self, link: LinkId, receiver: Side) -> Vec<Arrival> {
        let Some(known) = self.links.get_mut(&link) else {
            return Vec::new();
        };
        let lane = &mut known.lanes[receiver.index()];
        lane.paused = false;
        let held = std::mem::take(&mut lane.held);
        held.into_iter()
            .map(|what| Arrival {
                link,
                to: receiver,
                what,
            })
            .collect()
    }

    /// An end closes a connection; returns the news for the other end.
    pub fn close(&mut self, now: SimTime, link: LinkId, by: Side) -> Option<(SimTime, Arrival)> {
        let sent = self.send(now, link, by.other(), Parcel::Closed);
        self.forget(link, by);
        sent.and_then(|(_, arrival)| arrival)
    }

    /// A process or machine is gone with all its connections; returns the news for their peers.
    ///
    /// A dead process is noticed at once, by a reset that may overtake what it had sent; a dead machine only much later,
    /// or when it is up again and answers with a reset.
    pub fn lose(&mut self, now: SimTime, end: End, machine: bool) -> Vec<(SimTime, Arrival)> {
        let mut news = Vec::new();
        for (link, side) in self.sides_of(end) {
            let delay = if machine {
                self.stream.magnitude(1_000_000_000..=60_000_000_000)
            } else {
                self.stream.magnitude(50_000..=20_000_000)
            };
            let to = side.other();
            self.forget(link, side);
            let arrival = Arrival {
                link,
                to,
                what: Parcel::Closed,
            };
            if self.is_blocked(now, link, to) {
                self.block(now, link, to, arrival.what);
            } else {
                news.push((now.plus_nanos(delay), arrival));
            }
        }
        news
    }

    /// Resets all connections of an end: both ends learn it soon, and what is in flight is lost.
    pub fn reset(&mut self, now: SimTime, end: End) -> Vec<(SimTime, Arrival)> {
        let mut news = Vec::new();
        for id in self.links_of(end) {
            let Some(link) = self.links.get_mut(&id) else {
                continue;
            };
            link.broken = true;
            for (side, gone) in [Side::Dialer, Side::Acceptor].into_iter().zip(link.gone) {
                if gone {
                    continue;
                }
                link.lanes[side.index()].held.clear();
                let delay = self.stream.magnitude(1_000..=5_000_000);
                let arrival = Arrival {
                    link: id,
                    to: side,
                    what: Parcel::Closed,
                };
                news.push((now.plus_nanos(delay), arrival));
            }
        }
        news
    }

    /// What an end sends over its present connections vanishes from now on. Returns how many there are.
    pub fn mute(&mut self, end: End) -> usize {
        let links = self.sides_of(end);
        for (id, side) in &links {
            if let Some(link) = self.links.get_mut(id) {
                link.lanes[side.other().index()].muted = true;
            }
        }
        links.len()
    }

    /// Everything to and from an end takes longer for a while.
    pub fn slow(&mut self, end: End, until: SimTime, by_nanos: u64) {
        self.slow_until.insert(end, (until, by_nanos));
    }

    /// Lets nothing through for a while.
    pub fn cut(&mut self, cut: Cut, until: SimTime) {
        self.cuts.add(cut, until);
    }

    /// Sends on what was blocked by cuts that are over.
    ///
    /// When the sender's system tries again depends on how often it has tried in vain: up to as long as the cut lasted.
    pub fn release(&mut self, now: SimTime) -> Vec<(SimTime, Arrival)> {
        self.cuts.expire(now);
        let sides = [Side::Dialer, Side::Acceptor];
        let ids: Vec<LinkId> = self.links.keys().copied().collect();
        let mut arrivals = Vec::new();
        for (link, to) in ids.into_iter().flat_map(|id| sides.map(|to| (id, to))) {
            if self.is_cut(now, link, to) {
                continue;
            }
            let Some(lane) = self.lane(link, to) else {
                continue;
            };
            if lane.blocked.is_empty() {
                continue;
            }
            let blocked = std::mem::take(&mut lane.blocked);
            let since = lane.blocked_since.as_nanos();
            let lasted = now.as_nanos().saturating_sub(since);
            let wait = self.stream.magnitude(1..=lasted.clamp(1, RETRY_NANOS_MAX));
            if let Some(lane) = self.lane(link, to) {
                lane.free_at = lane.free_at.max(now.plus_nanos(wait));
            }
            for what in blocked {
                if let Some((_, Some(arrival))) = self.send_on(now, link, to, what) {
                    arrivals.push(arrival);
                }
            }
        }
        arrivals
    }

    /// Returns whether nothing gets through to an end of a connection.
    #[must_use]
    pub fn is_cut(&self, now: SimTime, link: LinkId, to: Side) -> bool {
        self.links.get(&link).is_some_and(|link| {
            let (from, to) = (link.ends[to.other().index()], link.ends[to.index()]);
            self.cuts.block(now, from, to, link.listener)
        })
    }

    fn is_blocked(&self, now: SimTime, link: LinkId, to: Side) -> bool {
        let waits = |link: &Link| !link.lanes[to.index()].blocked.is_empty();
        self.links.get(&link).is_some_and(waits) || self.is_cut(now, link, to)
    }

    fn block(&mut self, now: SimTime, link: LinkId, to: Side, what: Parcel) {
        if let Some(lane) = self.lane(link, to) {
            if lane.blocked.is_empty() {
                lane.blocked_since = now;
            }
            lane.blocked.push_back(what);
        }
    }

    fn lane(&mut self, link: LinkId, to: Side) -> Option<&mut Lane> {
        Some(&mut self.links.get_mut(&link)?.lanes[to.index()])
    }

    /// Ends what was arranged for a while, and slow parcels.
    pub fn heal(&mut self) {
        self.slow_until.clear();
        self.cuts.clear();
        self.profile.slow_permille = 0;
    }

    /// Returns both ends of a connection.
    #[must_use]
    pub fn ends(&self, link: LinkId) -> Option<[End; 2]> {
        self.links.get(&link).map(|link| link.ends)
    }

    /// Returns whether an end of a connection is still there.
    #[must_use]
    pub fn is_open(&self, link: LinkId, side: Side) -> bool {
        self.links
            .get(&link)
            .is_some_and(|link| !link.gone[side.index()])
    }

    /// Returns when the last byte sent to an end so far leaves.
    #[must_use]
    pub fn busy_until(&self, link: LinkId, to: Side) -> SimTime {
        self.links
            .get(&link)
            .map_or(SimTime::START, |link| link.lanes[to.index()].free_at)
    }

    /// Returns how many connections an end has.
    #[must_use]
    pub fn count(&self, end: End) -> usize {
        self.links_of(end).len()
    }

    /// Returns a digest of all draws.
    #[must_use]
    pub fn draws(&self) -> u64 {
        self.stream.digest()
    }

    fn links_of(&self, end: End) -> Vec<LinkId> {
        self.links
            .iter()
            .filter(|(_, link)| link.ends.contains(&end))
            .map(|(id, _)| *id)
            .collect()
    }

    /// Returns the connections of an end, each with its side of it; one to itself counts twice.
    fn sides_of(&self, end: End) -> Vec<(LinkId, Side)> {
        let sides = |(id, link): (&LinkId, &Link)| {
            let (id, ends) = (*id, link.ends);
            let sides = [Side::Dialer, Side::Acceptor].into_iter();
            sides
                .filter(move |side| ends[side.index()] == end)
                .map(move |side| (id, side))
        };
        self.links.iter().flat_map(sides).collect()
    }

    fn forget(&mut self, link: LinkId, side: Side) {
        if let Some(known) = self.links.get_mut(&link) {
            known.gone[side.index()] = true;
            known.lanes[side.index()].held.clear();
            known.lanes[side.index()].paused = false;
            known.lanes[side.index()].blocked.clear();
            if known.gone == [true, true] {
                self.links.remove(&link);
            }
        }
    }

    /// Draws when a parcel arrives: in order within its direction, at the pace of the link.
    fn travel(&mut self, now: SimTime, link: LinkId, to: Side, size: usize) -> SimTime {
        let (low, high) = self.profile.delay;
        let mut delay = self.stream.within(low..=high);
        if self.stream.permille(self.profile.slow_permille) {
            delay += self.stream.magnitude(1..=self.profile.slow_nanos.max(1));
        }
        let Some(known) = self.links.get_mut(&link) else {
            return now;
        };
        for end in known.ends {
            if let Some((until, by)) = self.slow_until.get(&end)
                && *until > now
            {
                delay += by;
            }
        }
        let lane = &mut known.lanes[to.index()];
        let size = u64::try_from(size).unwrap_or(u64::MAX);
        let busy = size.saturating_mul(1_000_000) / self.profile.bandwidth.max(1);
        lane.free_at = lane.free_at.max(now).plus_nanos(busy);
        lane.last_arrival = lane.last_arrival.max(lane.free_at.plus_nanos(delay));
        lane.last_arrival
    }
}

/// Systems try again at least so often.
const RETRY_NANOS_MAX: u64 = 120_000_000_000;

#[cfg(test)]
mod tests;
