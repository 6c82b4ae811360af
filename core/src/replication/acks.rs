//! Produces that wait for their copies to count.

use std::collections::VecDeque;

use crate::ids::Offset;

/// Which partition of which Produce request waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AckToken {
    /// The request.
    pub request: u64,
    /// The topic's place in the request.
    pub topic: u32,
    /// The partition's place in the topic.
    pub partition: u32,
}

/// What an append waits for before it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acks {
    /// acks=0: nothing.
    None,
    /// acks=1: the leader's own copy counts.
    Leader,
    /// acks=-1: the high watermark has passed it.
    All,
}

impl Acks {
    /// Reads the wire's value.
    #[must_use]
    pub const fn from_wire(acks: i16) -> Option<Self> {
        match acks {
            0 => Some(Self::None),
            1 => Some(Self::Leader),
            -1 => Some(Self::All),
            _ => None,
        }
    }
}

/// An append that was accepted; what its answer will say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Offset of the batch's first record.
    pub base_offset: Offset,
    /// Offset of its last record.
    pub last_offset: Offset,
    /// The time the broker stamped, -1 with CreateTime.
    pub log_append_time: i64,
}

/// Waiting appends of one partition, in offset order.
#[derive(Debug, Default)]
pub struct ParkedAcks {
    leader: VecDeque<(Accepted, AckToken)>,
    all: VecDeque<(Accepted, AckToken)>,
}

impl ParkedAcks {
    /// Parks an append; nothing happens for acks=0.
    pub fn park(&mut self, acks: Acks, accepted: Accepted, token: AckToken) {
        match acks {
            Acks::None => {}
            Acks::Leader => self.leader.push_back((accepted, token)),
            Acks::All => self.all.push_back((accepted, token)),
        }
    }

    /// Takes the oldest append whose wait is over: `counted` is where the leader's own copy counts up to.
    pub fn pop_done(
        &mut self,
        counted: Offset,
        high_watermark: Offset,
    ) -> Option<(Accepted, AckToken)> {
        let pop = |queue: &mut VecDeque<(Accepted, AckToken)>, up_to: Offset| {
            queue
                .front()
                .is_some_and(|(accepted, _)| accepted.last_offset < up_to)
                .then(|| queue.pop_front())?
        };
        pop(&mut self.leader, counted).or_else(|| pop(&mut self.all, high_watermark))
    }

    /// Takes the newest append that reaches to or past `offset`: it was undone.
    pub fn pop_undone(&mut self, offset: Offset) -> Option<AckToken> {
        let pop = |queue: &mut VecDeque<(Accepted, AckToken)>| {
            queue
                .back()
                .is_some_and(|(accepted, _)| accepted.last_offset >= offset)
                .then(|| queue.pop_back())?
        };
        pop(&mut self.leader)
            .or_else(|| pop(&mut self.all))
            .map(|(_, token)| token)
    }

    /// Returns how many appends wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.leader.len() + self.all.len()
    }

    /// Returns whether no append waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(base_offset: Offset, last_offset: Offset) -> Accepted {
        Accepted {
            base_offset,
            last_offset,
            log_append_time: -1,
        }
    }

    fn token(request: u64) -> AckToken {
        AckToken {
            request,
            topic: 0,
            partition: 0,
        }
    }

    #[test]
    fn leader_acks_follow_the_local_copy_and_all_acks_the_high_watermark() {
        let mut parked = ParkedAcks::default();
        parked.park(Acks::Leader, accepted(0, 4), token(1));
        parked.park(Acks::All, accepted(5, 9), token(2));
        parked.park(Acks::None, accepted(10, 10), token(3));
        assert_eq!(parked.len(), 2);
        assert_eq!(
            parked.pop_done(4, 0),
            None,
            "offset 4 itself does not count yet"
        );
        assert_eq!(parked.pop_done(11, 5), Some((accepted(0, 4), token(1))));
        assert_eq!(parked.pop_done(11, 9), None);
        assert_eq!(parked.pop_done(11, 10), Some((accepted(5, 9), token(2))));
        assert!(parked.is_empty());
    }

    #[test]
    fn undone_appends_come_back_and_older_ones_stay() {
        let mut parked = ParkedAcks::default();
        parked.park(Acks::Leader, accepted(0, 4), token(1));
        parked.park(Acks::Leader, accepted(5, 9), token(2));
        parked.park(Acks::All, accepted(10, 12), token(3));
        assert_eq!(parked.pop_undone(5), Some(token(2)));
        assert_eq!(parked.pop_undone(5), Some(token(3)));
        assert_eq!(parked.pop_undone(5), None);
        assert_eq!(parked.len(), 1);
    }
}
