//! What this node asks the active controller, wherever that is.
//!
//! | an errand | event | leads to |
//! | --- | --- | --- |
//! | waits | a controller is known and the pause is over | asked |
//! | asked | a decision | done |
//! | asked | the other is no controller, or the link is lost | waits, after a pause |
//! | asked of another node | a third one leads now | waits |
//! | either | its time is over | given up |
//!
//! A request whose answer is lost is asked again, as Kafka's brokers do; what it asks for may have been done by then, and
//! the second answer says so.

use std::collections::BTreeMap;

use crate::{
    controller::{ControllerRequest, Ticket},
    ids::NodeId,
    time::Instant,
};

use super::ReplyTo;

/// An errand's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ErrandId(u64);

/// Who wants the answer.
#[derive(Debug)]
pub(super) enum Purpose {
    /// A client.
    Client(ReplyTo),
    /// This broker, to be registered.
    Registration,
    /// This broker, to be heard of.
    Heartbeat,
    /// This broker's leaders, for a change of in-sync sets, by the number of the change.
    InSyncSets(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting {
        from: Instant,
    },
    /// Asked of the controller in this very process.
    Here(Ticket),
    /// Asked of another node.
    There(NodeId),
}

#[derive(Debug)]
struct Errand {
    request: ControllerRequest,
    purpose: Purpose,
    until: Instant,
    state: State,
}

/// All that is asked and not answered.
#[derive(Debug, Default)]
pub(super) struct Errands {
    errands: BTreeMap<ErrandId, Errand>,
    here: BTreeMap<Ticket, ErrandId>,
    next: u64,
}

/// How long an errand rests before it is asked again.
const PAUSE_MS: u64 = 50;

impl Errands {
    /// Takes a request on; it may be asked at once.
    pub(super) fn add(
        &mut self,
        now: Instant,
        request: ControllerRequest,
        purpose: Purpose,
        patience_ms: u64,
    ) -> ErrandId {
        self.next += 1;
        let id = ErrandId(self.next);
        let errand = Errand {
            request,
            purpose,
            until: now.plus_millis(patience_ms),
            state: State::Waiting { from: now },
        };
        self.errands.insert(id, errand);
        id
    }

    /// Returns whether something of a kind is under way.
    pub(super) fn has(&self, kind: impl Fn(&Purpose) -> bool) -> bool {
        self.errands.values().any(|errand| kind(&errand.purpose))
    }

    /// Returns an errand that may be asked now.
    pub(super) fn next_due(&self, now: Instant) -> Option<ErrandId> {
        let is_due =
            |errand: &Errand| matches!(errand.state, State::Waiting { from } if from <= now);
        let mut due = self.errands.iter().filter(|(_, errand)| is_due(errand));
        due.next().map(|(id, _)| *id)
    }

    /// Returns what an errand asks.
    pub(super) fn request(&self, id: ErrandId) -> Option<&ControllerRequest> {
        self.errands.get(&id).map(|errand| &errand.request)
    }

    /// Notes that an errand was asked in this process.
    pub(super) fn asked_here(&mut self, id: ErrandId, ticket: Ticket) {
        if let Some(errand) = self.errands.get_mut(&id) {
            errand.state = State::Here(ticket);
            self.here.insert(ticket, id);
        }
    }

    /// Notes that an errand was sent to another node, and returns until when its answer counts.
    pub(super) fn asked_there(&mut self, id: ErrandId, node: NodeId) -> Option<Instant> {
        let errand = self.errands.get_mut(&id)?;
        errand.state = State::There(node);
        Some(errand.until)
    }

    /// Returns which errand the controller here has answered.
    pub(super) fn answered_here(&mut self, ticket: Ticket) -> Option<ErrandId> {
        self.here.remove(&ticket)
    }

    /// Lets an errand rest: nobody decided on it.
    pub(super) fn rest(&mut self, now: Instant, id: ErrandId) {
        if let Some(errand) = self.errands.get_mut(&id) {
            errand.state = State::Waiting {
                from: now.plus_millis(PAUSE_MS),
            };
        }
    }

    /// Takes an errand whose answer is here.
    pub(super) fn finish(&mut self, id: ErrandId) -> Option<(ControllerRequest, Purpose)> {
        let errand = self.errands.remove(&id)?;
        if let State::Here(ticket) = errand.state {
            self.here.remove(&ticket);
        }
        Some((errand.request, errand.purpose))
    }

    /// Takes an errand whose time is over.
    pub(super) fn overdue(&mut self, now: Instant) -> Option<(ControllerRequest, Purpose)> {
        let mut overdue = self
            .errands
            .iter()
            .filter(|(_, errand)| errand.until <= now);
        let id = *overdue.next()?.0;
        self.finish(id)
    }

    /// Lets all that rest, or that another node was asked, be asked at once: `controller` is known. A machine that lost its
    /// power closes no connection, so the answer of a controller that is no more may never come.
    pub(super) fn wake(&mut self, now: Instant, controller: NodeId) {
        for errand in self.errands.values_mut() {
            match errand.state {
                State::Waiting { from } => {
                    errand.state = State::Waiting {
                        from: now.min(from),
                    }
                }
                State::There(node) if node != controller => {
                    errand.state = State::Waiting { from: now };
                }
                State::Here(_) | State::There(_) => {}
            }
        }
    }

    /// Returns when an errand is next due; those that wait for a controller to be known are due when it is.
    pub(super) fn deadline(&self, knows_controller: bool) -> Option<Instant> {
        let due = self.errands.values().map(|errand| match errand.state {
            State::Waiting { from } if knows_controller => from.min(errand.until),
            State::Waiting { .. } | State::Here(_) | State::There(_) => errand.until,
        });
        due.min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN.plus_millis(ms)
    }

    fn errands() -> (Errands, ErrandId) {
        let mut errands = Errands::default();
        let request = ControllerRequest::AutoCreateTopics(Vec::new());
        errands.add(at(0), request, Purpose::Registration, 1_000);
        let id = errands.next_due(at(0)).unwrap();
        (errands, id)
    }

    #[test]
    fn errand_that_a_deposed_controller_was_asked_goes_to_the_next_one() {
        let (mut errands, id) = errands();
        errands.asked_there(id, NodeId(2));
        errands.wake(at(10), NodeId(2));
        assert_eq!(errands.next_due(at(10)), None, "it may still answer");
        errands.wake(at(10), NodeId(3));
        assert_eq!(errands.next_due(at(10)), Some(id));
    }

    #[test]
    fn errand_without_a_decision_is_asked_again_after_a_pause() {
        let (mut errands, id) = errands();
        errands.asked_there(id, NodeId(2));
        assert_eq!(errands.next_due(at(10)), None);
        errands.rest(at(10), id);
        assert_eq!(errands.next_due(at(10)), None);
        assert_eq!(errands.deadline(true), Some(at(60)));
        assert_eq!(errands.next_due(at(60)), Some(id));
    }

    #[test]
    fn new_controller_ends_the_pause() {
        let (mut errands, id) = errands();
        errands.rest(at(10), id);
        errands.wake(at(20), NodeId(2));
        assert_eq!(errands.next_due(at(20)), Some(id));
    }

    #[test]
    fn errand_is_given_up_when_its_time_is_over() {
        let (mut errands, id) = errands();
        errands.asked_here(id, Ticket(7));
        assert_eq!(errands.deadline(false), Some(at(1_000)));
        assert!(errands.overdue(at(999)).is_none());
        assert!(matches!(
            errands.overdue(at(1_000)),
            Some((_, Purpose::Registration))
        ));
        assert_eq!(
            errands.answered_here(Ticket(7)),
            None,
            "nobody waits for it"
        );
    }
}
