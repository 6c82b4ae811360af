//! The clients' side.

use std::collections::BTreeMap;

use super::{Cluster, Happening};
use crate::{
    checker::{Cause, Seen},
    client::{Client, ClientInput, ClientLink, ClientOutput},
    clock::Clock,
    history::Note,
    network::{End, LinkId, Parcel, Side, Stamp},
    time::SimTime,
    trace::What,
};

/// A client of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClientId(pub usize);

#[derive(Debug)]
pub(super) struct Visitor {
    machine: Box<dyn Client>,
    clock: Clock,
    links: BTreeMap<ClientLink, LinkId>,
    armed: Option<SimTime>,
    /// The node whose frame is being handled, and when the frame left.
    cause: Option<(usize, Stamp)>,
}

impl Cluster {
    /// Adds a client, which starts at once.
    pub fn add_client(&mut self, machine: Box<dyn Client>) -> ClientId {
        let client = self.visitors.len();
        self.visitors.push(Visitor {
            machine,
            clock: Clock::new(0),
            links: BTreeMap::new(),
            armed: None,
            cause: None,
        });
        self.tell(client, ClientInput::Start);
        ClientId(client)
    }

    /// Asks all clients to begin nothing new.
    pub fn wind_down(&mut self) {
        for client in 0..self.visitors.len() {
            self.tell(client, ClientInput::WindDown);
        }
    }

    /// Whether a client has nothing under way.
    #[must_use]
    pub fn is_idle(&self, client: ClientId) -> bool {
        self.visitors[client.0].machine.is_idle()
    }

    /// Whether no client has anything under way.
    #[must_use]
    pub fn all_idle(&self) -> bool {
        self.visitors
            .iter()
            .all(|visitor| visitor.machine.is_idle())
    }

    /// Says what clients still have under way.
    #[must_use]
    pub fn client_status(&self) -> String {
        let busy = self.visitors.iter().enumerate();
        let busy = busy.filter(|(_, visitor)| !visitor.machine.is_idle());
        let lines =
            busy.map(|(client, visitor)| format!("client {client}: {}", visitor.machine.status()));
        lines.collect::<Vec<_>>().join("; ")
    }

    pub(super) fn client_timer(&mut self, client: usize) {
        let now = self.engine.now();
        let visitor = &mut self.visitors[client];
        if visitor.armed != Some(now) {
            return;
        }
        visitor.armed = None;
        let due = visitor
            .machine
            .deadline()
            .is_some_and(|deadline| deadline <= visitor.clock.read(now).instant);
        if due {
            self.tell(client, ClientInput::Timeout);
        } else {
            self.arm_client(client);
        }
    }

    pub(super) fn visit(&mut self, client: usize, link: LinkId, parcel: Parcel) {
        let Some((_, own)) = self.links_of_clients.get(&link).copied() else {
            return;
        };
        let input = match parcel {
            Parcel::Opened => ClientInput::Opened(own),
            Parcel::Frame(bytes, stamp) => {
                if let Some([_, End::Node(node)]) = self.network.ends(link) {
                    self.visitors[client].cause = Some((node, stamp));
                }
                ClientInput::Frame(own, bytes)
            }
            Parcel::Closed => {
                self.links_of_clients.remove(&link);
                self.visitors[client].links.remove(&own);
                ClientInput::Closed(own)
            }
            Parcel::Knock(_) => return,
        };
        self.tell(client, input);
        self.visitors[client].cause = None;
    }

    fn tell(&mut self, client: usize, input: ClientInput) {
        let now = self.engine.now();
        self.engine
            .fold(u64::try_from(client).unwrap_or(u64::MAX) | CLIENT_MARK);
        let visitor = &mut self.visitors[client];
        let local = visitor.clock.read(now);
        visitor.machine.handle(local, input);
        while let Some(output) = self.visitors[client].machine.poll_output() {
            self.obey(client, output);
        }
        self.arm_client(client);
    }

    fn obey(&mut self, client: usize, output: ClientOutput) {
        let now = self.engine.now();
        match output {
            ClientOutput::Dial(own, node) => {
                let from = End::Client(client);
                let (link, knock) = self.network.dial(now, from, End::Node(node), 0);
                self.links_of_clients.insert(link, (client, own));
                self.visitors[client].links.insert(own, link);
                if let Some((at, arrival)) = knock {
                    self.schedule_arrival(at, arrival);
                }
            }
            ClientOutput::Send(own, frame) => {
                let Some(link) = self.visitors[client].links.get(&own).copied() else {
                    return;
                };
                self.engine.fold_bytes(&frame);
                let parcel = Parcel::Frame(frame.slice(4.min(frame.len())..), Stamp::default());
                if let Some((_, Some((at, arrival)))) =
                    self.network.send(now, link, Side::Acceptor, parcel)
                {
                    self.schedule_arrival(at, arrival);
                }
            }
            ClientOutput::Close(own) => {
                let Some(link) = self.visitors[client].links.remove(&own) else {
                    return;
                };
                self.links_of_clients.remove(&link);
                if let Some((at, arrival)) = self.network.close(now, link, Side::Dialer) {
                    self.schedule_arrival(at, arrival);
                }
            }
            ClientOutput::Note(note) => self.note(client, &note),
        }
    }

    fn note(&mut self, client: usize, note: &Note) {
        self.trace_line(|| match note {
            Note::Polled {
                place,
                from,
                records,
                high_watermark,
                ..
            } => What::Read(client, place.0, *from, records.len(), *high_watermark),
            other => What::Note(client, Box::new(other.clone())),
        });
        match note {
            Note::Transmitted { .. } => self.writes_under_way += 1,
            Note::Answered { outcome, .. } => {
                self.writes_under_way = self.writes_under_way.saturating_sub(1);
                let is_ok = matches!(outcome, crate::history::Outcome::Ok(_));
                self.tally.acknowledged += u64::from(is_ok);
            }
            Note::TopicsReady => self.tally.topics_ready = true,
            _ => {}
        }
        if self.watched {
            let moment = self.moment();
            let cause = self.visitors[client].cause.map(|(node, stamp)| Cause {
                node,
                left: stamp.at,
                step: stamp.step,
                disk: &self.hosts[node].device.disk,
            });
            let seen = Seen::Note {
                client,
                note,
                cause,
            };
            self.jury.see(moment, &seen);
        }
    }

    fn arm_client(&mut self, client: usize) {
        let now = self.engine.now();
        let visitor = &mut self.visitors[client];
        let Some(deadline) = visitor.machine.deadline() else {
            return;
        };
        let at = visitor.clock.when(deadline).max(now.plus_nanos(1));
        if visitor.armed.is_none_or(|armed| at < armed || armed < now) {
            visitor.armed = Some(at);
            self.engine.schedule(at, Happening::ClientTimer { client });
        }
    }
}

const CLIENT_MARK: u64 = 1 << 40;
