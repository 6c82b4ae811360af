//! Which node leads what, and a connection to each: requests go to leaders, as Kafka's clients send them.
//!
//! With a single node there is nothing to find out, and nothing is asked.

use std::{collections::VecDeque, fmt};

use bytes::Bytes;
use seedlog_core::time::{Instant, Now};

use super::{
    session::{News as SessionNews, Session},
    wire::{Described, Found, Target, Versions},
};
use crate::{
    client::{ClientInput, ClientLink, ClientOutput},
    history::Note,
    random::Stream,
};

/// Connections to all nodes, and who leads what.
#[derive(Debug)]
pub(super) struct Router<T> {
    targets: Vec<Target>,
    versions: Versions,
    /// By node; those of nodes that nobody needed yet have not begun.
    sessions: Vec<Session<Ask<T>>>,
    home: usize,
    known: Vec<Option<Found>>,
    brokers: usize,
    /// Something of what is known is wrong or missing.
    is_stale: bool,
    is_asking: bool,
    ask_at: Instant,
    /// Requests of the workload under way.
    working: usize,
    out: VecDeque<ClientOutput>,
    stream: Stream,
}

/// What a request on a session is for.
enum Ask<T> {
    Metadata,
    Work(T),
}

impl<T: fmt::Debug> fmt::Debug for Ask<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Metadata => f.write_str("Metadata"),
            Self::Work(work) => work.fmt(f),
        }
    }
}

/// News of the workload's requests.
#[derive(Debug)]
pub(super) enum News<T> {
    /// A request was answered.
    Answer(T, Bytes),
    /// The connection is gone: nobody knows whether the request was executed.
    Lost(T),
}

impl<T: fmt::Debug> Router<T> {
    pub(super) fn new(
        nodes: usize,
        home: usize,
        targets: Vec<Target>,
        versions: Versions,
        stream: Stream,
    ) -> Self {
        let alone = (nodes == 1).then_some(Found::ALONE);
        Self {
            known: vec![alone; targets.len()],
            targets,
            versions,
            sessions: (0..nodes).map(Session::new).collect(),
            home: home % nodes.max(1),
            brokers: usize::from(nodes == 1),
            is_stale: nodes > 1,
            is_asking: false,
            ask_at: Instant::ORIGIN,
            working: 0,
            out: VecDeque::new(),
            stream,
        }
    }

    pub(super) const fn stream(&mut self) -> &mut Stream {
        &mut self.stream
    }

    pub(super) fn target(&self, target: usize) -> &Target {
        &self.targets[target]
    }

    pub(super) const fn targets(&self) -> usize {
        self.targets.len()
    }

    pub(super) const fn nodes(&self) -> usize {
        self.sessions.len()
    }

    /// Returns how many brokers the last answer named.
    pub(super) const fn brokers(&self) -> usize {
        self.brokers
    }

    pub(super) fn found(&self, target: usize) -> Option<Found> {
        self.known[target]
    }

    /// Returns the leader of a target, as far as it is known.
    pub(super) fn leader(&self, target: usize) -> Option<usize> {
        self.known[target]?.leader
    }

    /// Returns how many requests of the workload are under way.
    pub(super) const fn working(&self) -> usize {
        self.working
    }

    pub(super) fn in_flight(&self, node: usize) -> usize {
        self.sessions.get(node).map_or(0, Session::in_flight)
    }

    pub(super) fn is_open(&self, node: usize) -> bool {
        self.sessions.get(node).is_some_and(Session::is_open)
    }

    /// Returns a node that can be asked what any node answers.
    pub(super) fn anyone(&self) -> Option<usize> {
        let from_home = (self.home..self.nodes()).chain(0..self.home);
        from_home.into_iter().find(|node| self.is_open(*node))
    }

    /// Whether requests for a target can be sent to its leader.
    pub(super) fn is_ready(&self, target: usize) -> bool {
        self.leader(target).is_some_and(|node| self.is_open(node))
    }

    pub(super) fn note(&mut self, note: Note) {
        self.out.push_back(ClientOutput::Note(note));
    }

    pub(super) fn poll_output(&mut self) -> Option<ClientOutput> {
        self.out.pop_front()
    }

    /// A node said that it does not lead a target, or does not know it: somebody is asked soon.
    pub(super) fn misled(&mut self, now: Now) {
        if self.nodes() > 1 && !self.is_stale {
            self.is_stale = true;
            let pause = self.stream.within(10..=100);
            self.ask_at = self.ask_at.max(now.instant.plus_millis(pause));
        }
    }

    /// Begins a connection to a node, if there was none so far.
    pub(super) fn begin(&mut self, now: Now, node: usize) {
        let session = &mut self.sessions[node];
        if !session.has_begun() {
            session.begin(now);
            self.collect(node);
        }
    }

    /// Sends a request to a node; `frame` writes it under a correlation id. `purpose` is `None` where no answer comes.
    pub(super) fn send(
        &mut self,
        now: Now,
        node: usize,
        limit_ms: u64,
        purpose: Option<T>,
        frame: impl FnOnce(i32) -> Bytes,
    ) {
        if !self.is_open(node) {
            return;
        }
        self.working += usize::from(purpose.is_some());
        let purpose = purpose.map(Ask::Work);
        self.sessions[node].send(now, limit_ms, purpose, frame);
        self.collect(node);
    }

    /// Takes what happened to a connection.
    pub(super) fn handle(&mut self, now: Now, input: ClientInput) -> Vec<News<T>> {
        let mut news = Vec::new();
        match &input {
            ClientInput::Start => self.begin(now, self.home),
            ClientInput::Opened(link) | ClientInput::Frame(link, _) | ClientInput::Closed(link) => {
                let node = node_of(*link);
                if node < self.nodes() {
                    self.step(now, node, input, &mut news);
                }
            }
            ClientInput::Timeout => {
                for node in 0..self.nodes() {
                    let due = self.sessions[node].deadline();
                    if due.is_some_and(|due| due <= now.instant) {
                        self.step(now, node, ClientInput::Timeout, &mut news);
                    }
                }
            }
            ClientInput::WindDown => {}
        }
        self.refresh(now);
        news
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        let sessions = self.sessions.iter().filter_map(Session::deadline);
        let ask =
            (self.is_stale && !self.is_asking && self.anyone().is_some()).then_some(self.ask_at);
        sessions.chain(ask).min()
    }

    fn step(&mut self, now: Now, node: usize, input: ClientInput, news: &mut Vec<News<T>>) {
        let failures = self.sessions[node].losses();
        let all = self.sessions[node].handle(now, input, &mut self.stream);
        self.collect(node);
        for one in all {
            match one {
                SessionNews::Open => {}
                SessionNews::Answer(Ask::Metadata, bytes) => self.learn(now, &bytes),
                SessionNews::Lost(Ask::Metadata) => self.is_asking = false,
                SessionNews::Answer(Ask::Work(work), bytes) => {
                    self.working -= 1;
                    news.push(News::Answer(work, bytes));
                }
                SessionNews::Lost(Ask::Work(work)) => {
                    self.working -= 1;
                    news.push(News::Lost(work));
                }
            }
        }
        if self.sessions[node].losses() > failures {
            self.misled(now);
        }
    }

    /// Asks who leads what, if that is to be asked.
    pub(super) fn refresh(&mut self, now: Now) {
        if !self.is_stale || self.is_asking || self.ask_at > now.instant {
            return;
        }
        let open: Vec<usize> = (0..self.nodes())
            .filter(|node| self.is_open(*node))
            .collect();
        if open.is_empty() {
            for node in 0..self.nodes() {
                self.begin(now, node);
            }
            return;
        }
        let node = *self.stream.pick(&open);
        let (versions, targets) = (self.versions, &self.targets);
        self.is_asking = true;
        self.sessions[node].send(now, METADATA_LIMIT_MS, Some(Ask::Metadata), |id| {
            versions.metadata(id, targets)
        });
        self.collect(node);
    }

    fn learn(&mut self, now: Now, bytes: &Bytes) {
        self.is_asking = false;
        let pause = self.stream.within(50..=150);
        self.ask_at = now.instant.plus_millis(pause);
        let Described { brokers, found } = match self.versions.described(bytes, &self.targets) {
            Ok(described) => described,
            Err(what) => {
                self.note(Note::Garbled { what });
                return;
            }
        };
        self.brokers = brokers.len();
        for (known, found) in self.known.iter_mut().zip(found) {
            let Some(found) = found else {
                continue;
            };
            // A node that lags behind tells old news (KIP-320), unless the topic was made again.
            let is_old = known
                .is_some_and(|known| known.epoch > found.epoch && known.topic_id == found.topic_id);
            if !is_old {
                *known = Some(found);
            }
        }
        let nodes = self.nodes();
        self.is_stale = (0..self.targets.len()).any(|target| self.leader(target).is_none());
        let leaders: Vec<usize> = (0..self.targets.len())
            .filter_map(|target| self.leader(target))
            .filter(|node| *node < nodes)
            .collect();
        for node in leaders {
            self.begin(now, node);
        }
    }

    /// Takes what a session wants done.
    fn collect(&mut self, node: usize) {
        while let Some(output) = self.sessions[node].poll_output() {
            self.out.push_back(output);
        }
    }
}

/// How many links one session may make over a run.
const LINKS_BITS: u32 = 24;
const METADATA_LIMIT_MS: u64 = 5_000;

/// Returns the number of a session's first link.
pub(super) fn links_of(node: usize) -> u32 {
    u32::try_from(node).unwrap_or_default() << LINKS_BITS
}

fn node_of(link: ClientLink) -> usize {
    usize::try_from(link.0 >> LINKS_BITS).unwrap_or(usize::MAX)
}
