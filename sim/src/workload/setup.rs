//! Makes the topics of a scenario and waits until each partition answers.

use seedlog_core::time::{Instant, Now};

use super::{
    reader::LATEST,
    session::{News, Session},
    wire::{Target, Versions},
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
    /// Its configuration, by Kafka's names.
    pub configs: Vec<(String, String)>,
}

/// The client that makes the topics.
#[derive(Debug)]
pub struct SetUp {
    topics: Vec<TopicPlan>,
    targets: Vec<Target>,
    versions: Versions,
    session: Session<Job>,
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
        node: usize,
        topics: Vec<TopicPlan>,
        targets: Vec<Target>,
        mut stream: Stream,
    ) -> Self {
        Self {
            versions: Versions::draw(&mut stream),
            session: Session::new(node, stream),
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
                            self.session.note(Note::TopicsReady);
                        }
                        None
                    }
                    Err(code) => Some(code),
                }
            }
            (Job::Probe, None) => None,
        };
        if refused.is_some() {
            self.next_at = now.instant.plus_millis(50);
        }
        Ok(())
    }

    fn go_on(&mut self, now: Now) {
        let idle = self.session.is_open() && self.session.in_flight() == 0;
        if !idle || self.next_at > now.instant || self.is_idle() {
            return;
        }
        let versions = self.versions;
        match self.answered {
            None => {
                let topics = self.topics.clone();
                self.session.send(now, LIMIT_MS, Some(Job::Create), |id| {
                    versions.create_topics(id, &topics, 5_000)
                });
            }
            Some(answered) => {
                let target = self.targets[answered].clone();
                self.session.send(now, LIMIT_MS, Some(Job::Probe), |id| {
                    versions.list_offsets(id, &target, LATEST)
                });
            }
        }
    }
}

impl Client for SetUp {
    fn handle(&mut self, now: Now, input: ClientInput) {
        for news in self.session.handle(now, input) {
            if let News::Answer(job, bytes) = news
                && let Err(what) = self.on_answer(now, job, &bytes)
            {
                self.session.note(Note::Garbled { what });
            }
        }
        self.go_on(now);
    }

    fn poll_output(&mut self) -> Option<ClientOutput> {
        self.session.poll_output()
    }

    fn deadline(&self) -> Option<Instant> {
        if self.is_idle() {
            return None;
        }
        let idle = self.session.is_open() && self.session.in_flight() == 0;
        let next = idle.then_some(self.next_at);
        self.session.deadline().into_iter().chain(next).min()
    }

    fn is_idle(&self) -> bool {
        self.answered == Some(self.targets.len())
    }

    fn status(&self) -> String {
        match self.answered {
            None => "topics not made yet".to_owned(),
            Some(answered) => format!("{answered} of {} partitions answer", self.targets.len()),
        }
    }
}

const LIMIT_MS: u64 = 8_000;
