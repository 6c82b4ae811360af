//! Where the replicas of new partitions go: round robin over racks and within racks, leaders on live brokers only.
//!
//! The rules are those of Kafka's striped placer: no two replicas of a partition on one broker; the first replica, the
//! leader, on a broker that is not fenced; racks in turn, starting one further with each partition; within a rack the
//! live brokers before the fenced ones. Where to begin is drawn once per request. One thing is done better: where the
//! number of racks divides that of a rack's brokers, Kafka's stripes give the same few brokers all leaders.

use rand::Rng;

use super::{ApiError, ErrorCode};
use crate::{controller::image::MetadataImage, ids::NodeId};

/// Brokers that are handed out in turn, each at most once a round.
#[derive(Debug, Default)]
struct Ring {
    brokers: Vec<NodeId>,
    /// Where the next round begins in which the first broker leads. Counted apart from the other rounds, so that
    /// leaders are even whatever the numbers of racks and brokers are.
    leading: usize,
    /// Where the next other round begins.
    following: usize,
    start: usize,
    index: usize,
    round: Option<usize>,
}

impl Ring {
    fn next(&mut self, round: usize, leads: bool) -> Option<NodeId> {
        if self.round != Some(round) {
            self.round = Some(round);
            self.index = 0;
            let turn = if leads {
                &mut self.leading
            } else {
                &mut self.following
            };
            self.start = *turn;
            *turn += 1;
        }
        if self.index >= self.brokers.len() {
            return None;
        }
        let at = (self.index + self.start) % self.brokers.len();
        self.index += 1;
        self.brokers.get(at).copied()
    }
}

#[derive(Debug, Default)]
struct Rack {
    name: Option<String>,
    live: Ring,
    fenced: Ring,
}

/// Places the replicas of one request's partitions.
#[derive(Debug)]
pub(super) struct Placer {
    racks: Vec<Rack>,
    brokers: usize,
    live: usize,
    offset: usize,
    round: usize,
}

impl Placer {
    /// Looks at the brokers that may be placed upon and draws where to begin.
    pub(super) fn new(image: &MetadataImage, rng: &mut dyn Rng) -> Self {
        let mut racks: Vec<Rack> = Vec::new();
        let (mut brokers, mut live) = (0, 0);
        for broker in image
            .brokers()
            .values()
            .filter(|broker| !broker.in_controlled_shutdown)
        {
            let at = racks
                .iter()
                .position(|rack| rack.name == broker.rack)
                .unwrap_or_else(|| {
                    racks.push(Rack {
                        name: broker.rack.clone(),
                        ..Rack::default()
                    });
                    racks.len() - 1
                });
            let Some(rack) = racks.get_mut(at) else {
                continue;
            };
            brokers += 1;
            if broker.fenced {
                rack.fenced.brokers.push(broker.id);
            } else {
                live += 1;
                rack.live.brokers.push(broker.id);
            }
        }
        racks.sort_by(|a, b| a.name.cmp(&b.name));
        for ring in racks
            .iter_mut()
            .flat_map(|rack| [&mut rack.fenced, &mut rack.live])
        {
            ring.leading = below(rng, ring.brokers.len());
            ring.following = below(rng, ring.brokers.len());
        }
        let offset = below(rng, racks.len());
        Self {
            racks,
            brokers,
            live,
            offset,
            round: 0,
        }
    }

    /// Checks that partitions with so many replicas can be placed at all.
    pub(super) fn check(&self, replication_factor: i16) -> Result<usize, ApiError> {
        let refuse =
            |message: String| Err(ApiError::new(ErrorCode::InvalidReplicationFactor, message));
        let wanted = usize::try_from(replication_factor).unwrap_or(0);
        if wanted == 0 {
            return refuse(format!(
                "Invalid replication factor {replication_factor}: the replication factor must be positive."
            ));
        }
        if self.live == 0 {
            return refuse(
                "All brokers are currently fenced, or have all their log directories cordoned."
                    .to_owned(),
            );
        }
        if wanted > self.brokers {
            return refuse(format!(
                "The target replication factor of {replication_factor} cannot be reached because only {} broker(s) \
                 are registered or some brokers have all their log directories cordoned.",
                self.brokers
            ));
        }
        Ok(wanted)
    }

    /// Places the next partition; `replicas` has passed [`Self::check`].
    pub(super) fn place(&mut self, replicas: usize, rng: &mut dyn Rng) -> Vec<NodeId> {
        // Every live broker has led once: draw anew, so that the same sets do not come again and again.
        if self.live > 1 && self.round > 0 && self.round.is_multiple_of(self.live) {
            self.shuffle(rng);
        }
        let racks = self.racks.len();
        self.offset %= racks.max(1);
        let mut placed = Vec::with_capacity(replicas);
        let order = (0..racks).map(|step| (self.offset + step) % racks);
        let mut first_rack = None;
        for at in order {
            let leader = self
                .racks
                .get_mut(at)
                .and_then(|rack| rack.live.next(self.round, true));
            if let Some(leader) = leader {
                placed.push(leader);
                first_rack = Some(at);
                break;
            }
        }
        // The leader's rack has given one already: it is passed over once. Each sweep over all racks places at least
        // one more replica, or there is none left.
        let mut at = self.offset;
        let mut misses = 0;
        while placed.len() < replicas && misses <= racks {
            let broker = if first_rack == Some(at) {
                first_rack = None;
                None
            } else {
                self.racks.get_mut(at).and_then(|rack| {
                    rack.live
                        .next(self.round, false)
                        .or_else(|| rack.fenced.next(self.round, false))
                })
            };
            match broker {
                Some(broker) => {
                    placed.push(broker);
                    misses = 0;
                }
                None => misses += 1,
            }
            at = (at + 1) % racks.max(1);
        }
        self.round += 1;
        self.offset += 1;
        placed
    }

    fn shuffle(&mut self, rng: &mut dyn Rng) {
        shuffle(&mut self.racks, rng);
        for ring in self
            .racks
            .iter_mut()
            .flat_map(|rack| [&mut rack.fenced, &mut rack.live])
        {
            shuffle(&mut ring.brokers, rng);
        }
    }
}

/// Draws a number below `bound`; 0 if there is none.
///
/// Not the generator library's own sampling, whose stream may change between releases.
pub(super) fn below(rng: &mut dyn Rng, bound: usize) -> usize {
    let wide = u128::from(rng.next_u64()) * u128::try_from(bound).unwrap_or(0);
    usize::try_from(wide >> 64).unwrap_or(0)
}

fn shuffle<T>(items: &mut [T], rng: &mut dyn Rng) {
    for last in (1..items.len()).rev() {
        items.swap(last, below(rng, last + 1));
    }
}
