//! Work whose cost grows with partitions: done in slices, a slice a turn, so that no request waits for all of it.

use std::collections::VecDeque;

use super::Controller;
use crate::{
    config::BrokerSettings,
    controller::{
        decide::{SLICE_PARTITIONS_MAX, Sweep, fence_broker, sweep_slice},
        image::{MetadataImage, NO_LEADER},
        messages::BrokerRegistrationRequestData,
        request::Ticket,
        sessions::Sessions,
    },
    ids::Uuid,
    time::Instant,
};

/// Something to do in slices.
#[derive(Debug)]
pub(super) enum Work {
    /// Look at partitions, from one on.
    Sweep {
        sweep: Sweep,
        after: Option<(Uuid, i32)>,
    },
    /// Register a broker; what its earlier incarnation was part of comes first.
    Register {
        ticket: Ticket,
        request: Box<BrokerRegistrationRequestData>,
    },
}

/// What is left to do, and what is due from time to time.
#[derive(Debug, Default)]
pub(super) struct WorkQueue {
    queue: VecDeque<Work>,
    /// When this turn ended; what is left in the queue has been due since.
    since: Instant,
    balance: Option<Periodic>,
    unclean: Option<Periodic>,
}

#[derive(Clone, Copy, Debug)]
struct Periodic {
    due: Instant,
    interval_ms: u64,
}

impl Periodic {
    fn new(now: Instant, interval_ms: i64) -> Self {
        let interval_ms = u64::try_from(interval_ms).unwrap_or(1).max(1);
        Self {
            due: now.plus_millis(interval_ms),
            interval_ms,
        }
    }

    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.due <= now;
        if is_due {
            self.due = now.plus_millis(self.interval_ms);
        }
        is_due
    }
}

impl WorkQueue {
    /// Begins with what an earlier controller may have left undone.
    pub(super) fn begin(now: Instant, image: &MetadataImage, settings: &BrokerSettings) -> Self {
        let mut work = Self {
            since: now,
            balance: settings.auto_leader_rebalance_enable.then(|| {
                let seconds = settings.leader_imbalance_check_interval_seconds;
                Periodic::new(now, seconds.saturating_mul(1000))
            }),
            unclean: Some(Periodic::new(
                now,
                settings.unclean_leader_election_interval_ms,
            )),
            ..Self::default()
        };
        let brokers = || image.brokers().values();
        for broker in brokers().filter(|broker| !broker.is_active()) {
            work.sweep(Sweep::Unfit(broker.id));
        }
        if image.partitions_in_sync_with(NO_LEADER).next().is_some() {
            work.sweep(Sweep::Leaderless);
        }
        for broker in brokers().filter(|broker| broker.is_active()) {
            work.sweep(Sweep::Unfit(broker.id));
        }
        work
    }

    /// Adds a sweep, unless one that has not begun yet will do.
    pub(super) fn sweep(&mut self, wanted: Sweep) {
        let will_do =
            |work: &Work| matches!(work, Work::Sweep { sweep, after: None } if *sweep == wanted);
        if !self.queue.iter().any(will_do) {
            self.queue.push_back(Work::Sweep {
                sweep: wanted,
                after: None,
            });
        }
    }

    pub(super) fn register(&mut self, ticket: Ticket, request: BrokerRegistrationRequestData) {
        self.queue.push_back(Work::Register {
            ticket,
            request: Box::new(request),
        });
    }

    /// Returns when something is due; in the past while something is left to do.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let left = (!self.queue.is_empty()).then_some(self.since);
        let periodic = [self.balance, self.unclean].into_iter().flatten();
        periodic.map(|periodic| periodic.due).chain(left).min()
    }

    /// Returns who waits for work that is not done.
    pub(super) fn into_tickets(self) -> impl Iterator<Item = Ticket> {
        self.queue.into_iter().filter_map(|work| match work {
            Work::Register { ticket, .. } => Some(ticket),
            Work::Sweep { .. } => None,
        })
    }

    fn begin_periodic(&mut self, now: Instant) {
        if self.balance.as_mut().is_some_and(|it| it.is_due(now)) {
            self.sweep(Sweep::Preferred);
        }
        if self.unclean.as_mut().is_some_and(|it| it.is_due(now)) {
            self.sweep(Sweep::Leaderless);
        }
    }
}

impl Controller {
    /// Fences brokers whose session is over, and goes on with what is left to do.
    pub fn on_timeout(&mut self, now: Instant) {
        self.fence_the_silent(now);
        if let Some(leading) = &mut self.leading {
            leading.work.begin_periodic(now);
        }
        self.work(now);
    }

    /// Fences brokers whose session is over.
    fn fence_the_silent(&mut self, now: Instant) {
        let sessions = self.leading.as_ref().map(|leading| &leading.sessions);
        let Some(over) = sessions
            .and_then(Sessions::deadline)
            .filter(|over| *over <= now)
        else {
            return;
        };
        let grace = u64::try_from(self.settings().broker_heartbeat_interval_ms).unwrap_or(0);
        if let Some(leading) = &mut self.leading {
            // This late, this node must have slept, and whatever brokers sent meanwhile lies unread before it.
            if over.plus_millis(grace) < now {
                leading.sessions.extend(now, now.plus_millis(grace));
            }
            while let Some(broker) = leading.sessions.expired(now) {
                leading.sessions.forget(broker);
                if let Some(record) = fence_broker(&leading.speculative, broker) {
                    leading.append(vec![record], &mut self.outputs);
                    leading.work.sweep(Sweep::Unfit(broker));
                }
            }
        }
    }

    /// Does one slice of what is left to do, and ends the turn.
    pub(super) fn work(&mut self, now: Instant) {
        let mut budget = SLICE_PARTITIONS_MAX;
        while budget > 0
            && let Some(work) = self
                .leading
                .as_mut()
                .and_then(|leading| leading.work.queue.pop_front())
        {
            let spent = match work {
                Work::Sweep { sweep, after } => self.sweep(sweep, after, budget),
                Work::Register { ticket, request } => self.register(now, ticket, request),
            };
            budget = budget.saturating_sub(spent.max(1));
        }
        if let Some(leading) = &mut self.leading {
            leading.work.since = now;
            leading.hand_out(&mut self.outputs);
            leading.release(self.committed_end, &mut self.outputs);
        }
    }

    /// Does the next slice of a sweep; returns how many partitions were looked at.
    fn sweep(&mut self, sweep: Sweep, after: Option<(Uuid, i32)>, limit: usize) -> usize {
        let context = self.context();
        let Some(leading) = &self.leading else {
            return 0;
        };
        let slice = sweep_slice(&leading.speculative, &context, sweep, after, limit);
        let Some(leading) = &mut self.leading else {
            return 0;
        };
        leading.append(slice.records, &mut self.outputs);
        if slice.after.is_some() {
            let after = slice.after;
            leading.work.queue.push_front(Work::Sweep { sweep, after });
        } else if let Sweep::Unfit(broker) = sweep {
            let image = &leading.speculative;
            let is_leaving = image
                .broker(broker)
                .is_some_and(|broker| broker.in_controlled_shutdown);
            if is_leaving && image.partitions_in_sync_with(broker).next().is_none() {
                // What the others must have read before it may stop.
                let last = leading.log_end.saturating_sub(1);
                leading.sessions.shuts_down(broker, last);
            }
        }
        slice.seen
    }

    /// Does the next step of a registration; returns what it cost in partitions.
    fn register(
        &mut self,
        now: Instant,
        ticket: Ticket,
        request: Box<BrokerRegistrationRequestData>,
    ) -> usize {
        let Some(records) = self.registration_step(now, ticket, &request) else {
            return 1;
        };
        let spent = records.len();
        if let Some(leading) = &mut self.leading {
            leading.append(records, &mut self.outputs);
            let work = Work::Register { ticket, request };
            leading.work.queue.push_front(work);
        }
        spent
    }
}
