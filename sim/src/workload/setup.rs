//! Makes the topics of a scenario and waits until each partition answers.

use seedlog_core::time::{Instant, Now};

use super::{
    reader::LATEST,
    router::{News, Router},
    wire::{Target, Versions, is_misled},
};
use crate::{
    client::{Client, ClientInput, ClientOutput},
    history::Note,
    random::Stream,
};

/// A topic to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicPlan {
    /// Its name.
    pub name: String,
    /// How many partitions.
    pub partitions: i32,
    /// How many copies.
    pub replication_factor: i16,
    /// `min.insync.replicas`, as its configuration says.
    pub min_isr: usize,
    /// Its configuration, by Kafka's names.
    pub configs: Vec<(String, String)>,
}

/// The client that makes the topics, once all brokers are registered, and waits until all their copies are in sync.
#[derive(Debug)]
pub struct SetUp {
    topics: Vec<TopicPlan>,
    targets: Vec<Target>,
    versions: Versions,
    router: Router<Job>,
    /// Topics exist; so many partitions answered.
    answered: Option<usize>,
    next_at: Instant,
}

#[derive(Clone, Copy, Debug)]
enum Job {
    Create,
    Probe,
}

impl SetUp {
    /// Makes the client.
    #[must_use]
    pub fn new(
        nodes: usize,
        topics: Vec<TopicPlan>,
        targets: Vec<Target>,
        mut stream: Stream,
    ) -> Self {
        let versions = Versions::for_nodes(nodes, &mut stream);
        Self {
            versions,
            router: Router::new(nodes, 0, targets.clone(), versions, stream),
            topics,
            targets,
            answered: None,
            next_at: Instant::ORIGIN,
        }
    }

    fn on_answer(&mut self, now: Now, job: Job, bytes: &bytes::Bytes) -> Result<(), String> {
        let refused = match (job, self.answered) {
            (Job::Create, _) => {
                let code = self.versions.created(bytes)?;
                if code.is_none() {
                    self.answered = Some(0);
                }
                code
            }
            (Job::Probe, Some(answered)) => {
                match self.versions.listed(bytes, &self.targets[answered])? {
                    Ok(_) => {
                        self.answered = Some(answered + 1);
                        if answered + 1 == self.targets.len() {
                            self.router.note(Note::TopicsReady);
                        }
                        None
                    }
                    Err(code) => Some(code),
                }
            }
            (Job::Probe, None) => None,
        };
        if let Some(code) = refused {
            self.next_at = now.instant.plus_millis(50);
            if is_misled(code) {
                self.router.misled(now);
            }
        }
        Ok(())
    }

    /// Returns the node to ask next, if anything can be asked.
    fn next_node(&self) -> Option<usize> {
        if self.router.working() > 0 || self.is_idle() {
            return None;
        }
        let node = match self.answered {
            // A topic wants so many copies as there are brokers only when all are known.
            None if self.router.brokers() < self.router.nodes() => None,
            None => self.router.anyone(),
            Some(answered) => {
                let found = self.router.found(answered);
                let is_whole = found.is_some_and(|found| found.in_sync == found.replicas);
                self.router.leader(answered).filter(|_| is_whole)
            }
        };
        node.filter(|node| self.router.is_open(*node))
    }

    /// What is missing is known only by asking again.
    fn waits_for_news(&self) -> bool {
        let is_short = self.router.brokers() < self.router.nodes();
        let is_lagging = |target| {
            let found = self.router.found(target);
            found.is_none_or(|found| found.in_sync < found.replicas)
        };
        !self.is_idle() && (is_short || self.answered.is_some_and(is_lagging))
    }

    fn go_on(&mut self, now: Now) {
        if self.waits_for_news() {
            self.router.misled(now);
        }
        let Some(node) = self.next_node().filter(|_| self.next_at <= now.instant) else {
            return;
        };
        let versions = self.versions;
        match self.answered {
            None => {
                let topics = self.topics.clone();
                self.router
                    .send(now, node, LIMIT_MS, Some(Job::Create), |id| {
                        versions.create_topics(id, &topics, 5_000)
                    });
            }
            Some(answered) => {
                let target = self.targets[answered].clone();
                let found = self.router.found(answered);
                self.router
                    .send(now, node, LIMIT_MS, Some(Job::Probe), |id| {
                        versions.list_offsets(id, &target, found, LATEST)
                    });
            }
        }
    }
}

impl Client for SetUp {
    fn handle(&mut self, now: Now, input: ClientInput) {
        for news in self.router.handle(now, input) {
            if let News::Answer(job, bytes) = news
                && let Err(what) = self.on_answer(now, job, &bytes)
            {
                self.router.note(Note::Garbled { what });
            }
        }
        self.go_on(now);
        self.router.refresh(now);
    }

    fn poll_output(&mut self) -> Option<ClientOutput> {
        self.router.poll_output()
    }

    fn deadline(&self) -> Option<Instant> {
        if self.is_idle() {
            return None;
        }
        let next = self.next_node().map(|_| self.next_at);
        self.router.deadline().into_iter().chain(next).min()
    }

    fn is_idle(&self) -> bool {
        self.answered == Some(self.targets.len())
    }

    fn status(&self) -> String {
        match self.answered {
            None => format!(
                "topics not made yet, {} of {} brokers known",
                self.router.brokers(),
                self.router.nodes()
            ),
            Some(answered) => format!("{answered} of {} partitions answer", self.targets.len()),
        }
    }
}

const LIMIT_MS: u64 = 8_000;
