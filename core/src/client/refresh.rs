//! When metadata is asked for, and what an answer changes.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::{
    backoff::Backoff,
    link::Link,
    network::{Loss, Network, Peer, Tag},
};
use crate::{
    ids::TopicName,
    protocol::{
        ApiKey, KafkaString,
        messages::{MetadataRequestData, MetadataRequestTopic},
    },
    time::Instant,
};

/// What metadata is wanted and when it is next asked for.
#[derive(Clone, Debug)]
pub(super) struct Refresh {
    topics: BTreeSet<TopicName>,
    needed: bool,
    in_flight: bool,
    failures: u32,
    /// Not earlier, so that brokers are not flooded.
    not_before: Instant,
    /// When the last answer is too old.
    stale_at: Instant,
}

impl Refresh {
    pub(super) const fn new() -> Self {
        Self {
            topics: BTreeSet::new(),
            needed: false,
            in_flight: false,
            failures: 0,
            not_before: Instant::ORIGIN,
            stale_at: Instant::NEVER,
        }
    }

    /// Wants fresh metadata soon.
    pub(super) const fn request(&mut self) {
        self.needed = true;
    }

    /// Wants to know about a topic from now on.
    pub(super) fn want(&mut self, topic: &TopicName) {
        if !self.topics.contains(topic) {
            self.topics.insert(topic.clone());
            self.needed = true;
        }
    }

    /// Does not want to know about a topic any more.
    pub(super) fn forget(&mut self, topic: &TopicName) {
        self.topics.remove(topic);
    }

    /// Returns when metadata is next to be asked for.
    pub(super) fn due(&self) -> Option<Instant> {
        if self.in_flight {
            None
        } else if self.needed {
            Some(self.not_before)
        } else {
            Some(self.stale_at.max(self.not_before)).filter(|at| *at != Instant::NEVER)
        }
    }
}

impl<T> Network<T> {
    /// Asks for metadata if it is time and a broker is ready to be asked.
    pub(super) fn refresh_metadata(&mut self, now: Instant) {
        if self.refresh.due().is_none_or(|at| at > now) {
            return;
        }
        let Some(peer) = self.any_peer(now) else {
            return;
        };
        let Some(version) = self.version(peer, ApiKey::Metadata, i16::MAX) else {
            self.close(now, peer, Loss::Malformed);
            return;
        };
        let topic = |name: &TopicName| MetadataRequestTopic {
            name: Some(KafkaString::from(name.as_str().to_owned())),
            ..Default::default()
        };
        let request = MetadataRequestData {
            topics: Some(self.refresh.topics.iter().map(topic).collect()),
            allow_auto_topic_creation: self.config.allow_auto_create_topics,
            ..Default::default()
        };
        self.refresh.needed = false;
        self.refresh.in_flight = true;
        let sent = self.transmit(now, peer, version, &request, Tag::Metadata);
        if sent.is_err() {
            self.metadata_failed(now);
        }
    }

    pub(super) fn metadata_failed(&mut self, now: Instant) {
        let backoff = self.retry_backoff();
        let refresh = &mut self.refresh;
        refresh.in_flight = false;
        refresh.needed = true;
        refresh.failures = refresh.failures.saturating_add(1);
        let wait = backoff.wait_ms(refresh.failures, &mut self.rng);
        refresh.not_before = now.plus_millis(wait);
    }

    pub(super) fn on_metadata(&mut self, now: Instant, peer: Peer, version: i16, frame: &Bytes) {
        let answer = self.decode::<MetadataRequestData>(now, peer, version, frame);
        // Without a broker there is nobody to talk to: a broker that has only just started.
        let Some(mut answer) = answer.filter(|answer| !answer.brokers.is_empty()) else {
            self.metadata_failed(now);
            return;
        };
        let wanted = &self.refresh.topics;
        answer.topics.retain(|topic| {
            let name = topic.name.as_ref();
            name.is_some_and(|name| wanted.contains(name.as_str()))
        });
        self.cluster.update(answer);
        self.cluster.topics.retain(|name, _| wanted.contains(name));
        self.refresh.in_flight = false;
        self.refresh.failures = 0;
        let wait = self.retry_backoff().wait_ms(1, &mut self.rng);
        self.refresh.not_before = now.plus_millis(wait);
        self.refresh.stale_at = now.plus_millis(self.config.metadata_max_age_ms);
        self.follow_brokers(now);
    }

    pub(super) const fn retry_backoff(&self) -> Backoff {
        Backoff {
            first_ms: self.config.retry_backoff_ms,
            max_ms: self.config.retry_backoff_max_ms,
        }
    }

    /// Makes the links those of the brokers in the metadata.
    fn follow_brokers(&mut self, now: Instant) {
        let brokers = self.cluster.brokers.clone();
        for (id, address) in &brokers {
            let peer = Peer::Broker(*id);
            if self.links.get(&peer).map(|link| &link.address) == Some(address) {
                continue;
            }
            self.close(now, peer, Loss::Disconnected);
            let same = |(peer, link): (&Peer, &Link<Tag<T>>)| {
                let bootstrap = matches!(peer, Peer::Bootstrap(_));
                (bootstrap && link.is_ready() && link.address == *address).then_some(*peer)
            };
            match self.links.iter().find_map(same) {
                Some(bootstrap) => self.rename(bootstrap, peer),
                None => {
                    self.links.insert(peer, Link::new(address.clone()));
                }
            }
        }
        let stays = |peer: &Peer, link: &Link<Tag<T>>| match peer {
            Peer::Broker(id) => brokers.contains_key(id),
            // The bootstrap list is for when no broker can be reached.
            Peer::Bootstrap(_) => link.connection().is_none() || link.in_flight() > 0,
        };
        let go: Vec<Peer> = self
            .links
            .iter()
            .filter(|(peer, link)| !stays(peer, link))
            .map(|(peer, _)| *peer)
            .collect();
        for peer in go {
            self.close(now, peer, Loss::Disconnected);
            if matches!(peer, Peer::Broker(_)) {
                self.links.remove(&peer);
            }
        }
    }
}
