//! An operator: has preferred leaders elected and changes harmless settings while everything else goes on.

use seedlog_core::time::{Instant, Now};

use super::{
    router::{News, Router},
    wire::{Target, Versions},
};
use crate::{
    client::{Client, ClientInput, ClientOutput},
    history::Note,
    random::Stream,
};

/// The operator's client. It asks any node: what only the controller decides is forwarded to it.
#[derive(Debug)]
pub struct Operator {
    versions: Versions,
    router: Router<Job>,
    next_at: Instant,
    winding_down: bool,
}

#[derive(Clone, Copy, Debug)]
enum Job {
    Elect,
    Configure,
}

impl Operator {
    /// Makes an operator; `number` decides which of the nodes it asks first.
    #[must_use]
    pub fn new(number: usize, nodes: usize, targets: Vec<Target>, mut stream: Stream) -> Self {
        let versions = Versions::for_nodes(nodes, &mut stream);
        Self {
            versions,
            router: Router::new(nodes, number, targets, versions, stream),
            next_at: Instant::ORIGIN,
            winding_down: false,
        }
    }

    fn on_news(&mut self, news: News<Job>) {
        let News::Answer(job, bytes) = news else {
            return;
        };
        // Whether it worked out shows in what leaders do; what counts here is that the answer can be read.
        let read = match job {
            Job::Elect => self.versions.elected(&bytes),
            Job::Configure => self.versions.configured(&bytes),
        };
        if let Err(what) = read {
            self.router.note(Note::Garbled { what });
        }
    }

    fn next_node(&self) -> Option<usize> {
        let may_ask = !self.winding_down && self.router.working() == 0;
        self.router.anyone().filter(|_| may_ask)
    }

    fn go_on(&mut self, now: Now) {
        let Some(node) = self.next_node().filter(|_| self.next_at <= now.instant) else {
            return;
        };
        let pause = self.router.stream().magnitude(200..=15_000);
        self.next_at = now.instant.plus_millis(pause);
        let count = self.router.targets();
        let target = self.router.stream().index(count);
        let versions = self.versions;
        let target = self.router.target(target).clone();
        if self.router.stream().permille(700) {
            self.router
                .send(now, node, LIMIT_MS, Some(Job::Elect), |id| {
                    versions.elect(id, &target)
                });
        } else {
            let bytes = self.router.stream().magnitude(1..=4_096);
            self.router
                .send(now, node, LIMIT_MS, Some(Job::Configure), |id| {
                    versions.configure(id, &target, "index.interval.bytes", &bytes.to_string())
                });
        }
    }
}

impl Client for Operator {
    fn handle(&mut self, now: Now, input: ClientInput) {
        if matches!(input, ClientInput::WindDown) {
            self.winding_down = true;
        }
        for news in self.router.handle(now, input) {
            self.on_news(news);
        }
        self.go_on(now);
        self.router.refresh(now);
    }

    fn poll_output(&mut self) -> Option<ClientOutput> {
        self.router.poll_output()
    }

    fn deadline(&self) -> Option<Instant> {
        let next = self.next_node().map(|_| self.next_at);
        self.router.deadline().into_iter().chain(next).min()
    }

    fn is_idle(&self) -> bool {
        self.winding_down && self.router.working() == 0
    }

    fn status(&self) -> String {
        format!("operator with {} requests in flight", self.router.working())
    }
}

/// An operator's patience (`request.timeout.ms` of its tools).
const LIMIT_MS: u64 = 30_000;
