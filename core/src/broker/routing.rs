//! Inputs to machines, and what machines say to one another.

use super::{Broker, FLUSHER, Input, LOG_DIR, RAFT, Stage, housekeeping::Chore};
use crate::{
    event::Event,
    protocol::Listener,
    replication::{Outcome, SlotId},
    storage::{Completion, Owner, StorageFault},
};

impl Broker {
    pub(super) fn route(&mut self, input: Input) {
        match input {
            Input::Connected {
                connection,
                listener,
                ..
            } => {
                self.frontend.on_connected(connection, listener);
            }
            Input::Frame { connection, bytes } if connection.is_dialled() => {
                self.links.on_frame(self.now.instant, connection, &bytes);
            }
            Input::Frame { connection, bytes } => {
                self.frontend.on_frame(connection, bytes, &mut self.outputs);
            }
            Input::Closed { connection } if connection.is_dialled() => {
                self.links.on_closed(self.now.instant, connection);
            }
            Input::Closed { connection } => {
                self.frontend.on_closed(connection, &mut self.outputs);
            }
            Input::Dialled { connection } => {
                self.links.on_dialled(self.now.instant, connection);
            }
            // Back-pressure towards a slow reader is the driver's: it stops reading what it cannot answer.
            Input::Sent { .. } => {}
            Input::Storage(completion) => self.route_completion(completion),
            Input::StorageMany(completions) => {
                for completion in completions {
                    if matches!(self.stage, Stage::Failed) {
                        return;
                    }
                    self.route_completion(completion);
                }
            }
            Input::RangeUnreadable { file, fault } => {
                self.tell(Event::RangeUnreadable { file, fault });
            }
            Input::Timeout => self.on_timeout(),
            Input::Stop => self.stop(),
        }
    }

    fn route_completion(&mut self, completion: Completion) {
        match completion.id.owner {
            Owner::NOBODY => {}
            RAFT => self.on_raft_completion(completion),
            LOG_DIR => self.on_log_dir_completion(completion),
            FLUSHER => self.on_flushed(completion),
            owner => {
                if let Some(slot) = SlotId::of(owner) {
                    let (partitions, mut context) = self.context();
                    partitions.on_completion(&mut context, slot, completion);
                }
            }
        }
    }

    fn on_flushed(&mut self, completion: Completion) {
        let result = completion.result.map(|_| ());
        let (partitions, mut context) = self.context();
        if let Err(fault) = partitions.on_flushed(&mut context, completion.id, result) {
            let path = self.root.clone();
            self.give_up_log_dir(path, fault);
        }
    }

    /// A failed sync, or a device that fails: which bytes are durable is unknown from now on.
    pub(super) fn give_up_log_dir(&mut self, path: crate::storage::FilePath, fault: StorageFault) {
        let message = format!(
            "the log directory failed ({path}: {fault}); which bytes written since the last sync are on disk is unknown, \
             records of topics with flush.messages=1 were not acknowledged without one; check the disk and start again"
        );
        self.tell(Event::LogDirFailed { path, fault });
        self.fail(message);
    }

    fn on_timeout(&mut self) {
        let (partitions, mut context) = self.context();
        partitions.on_timeout(&mut context);
        self.with_frontend(|frontend, services| frontend.on_timeout(services));
        let now = self.now.instant;
        self.links.on_timeout(now);
        self.on_raft_timeout();
        self.synced_marks.on_timeout(&mut self.storage, now);
        while let Some(chore) = self
            .housekeeping
            .as_mut()
            .and_then(|chores| chores.pop(now))
        {
            match chore {
                Chore::Retention => self.apply_retention(),
                Chore::RecoveryPoints => self.checkpoint_recovery_points(),
                Chore::HighWatermarks => self.checkpoint_high_watermarks(),
            }
        }
    }

    /// Hands outcomes of partitions to the requests that wait for them.
    pub(super) fn settle_partitions(&mut self) -> bool {
        let mut busy = false;
        while let Some(outcome) = self.partitions.poll_outcome() {
            busy = true;
            match outcome {
                Outcome::SyncFailed(path, fault) => return self.give_up(path, fault),
                Outcome::RetentionDue(slot, start) => self.log_starts.want(slot, start),
                Outcome::Unlinked(name) => self.stale_names.unlinked(&name),
                Outcome::Closed(slot) => self.on_log_closed(slot),
                Outcome::Opened(slot) => {
                    self.opener.finished(slot);
                    self.with_frontend(|frontend, services| frontend.on_outcome(services, outcome));
                    self.on_opened_late(slot);
                }
                Outcome::Moved(_) => {
                    self.watermarks_moved = true;
                    self.with_frontend(|frontend, services| frontend.on_outcome(services, outcome));
                }
                Outcome::Told(event) => self.tell(event),
                outcome => {
                    self.with_frontend(|frontend, services| frontend.on_outcome(services, outcome));
                }
            }
        }
        busy
    }

    fn give_up(&mut self, path: crate::storage::FilePath, fault: StorageFault) -> bool {
        self.give_up_log_dir(path, fault);
        false
    }

    /// Carries what other replicas of the metadata log ask to this node's, and its answers back.
    pub(super) fn settle_peers(&mut self) -> bool {
        let Some(cluster) = self.cluster.as_deref_mut() else {
            return false;
        };
        let mut busy = false;
        while let Some((ticket, request)) = self.frontend.poll_peer_request() {
            busy = true;
            cluster.on_peer_request(self.now, &mut self.storage, ticket, request);
        }
        while let Some((ticket, reply)) = cluster.poll_peer_reply() {
            busy = true;
            self.frontend
                .on_peer_reply(&mut self.outputs, ticket, &reply);
        }
        busy
    }

    /// Starts requests that may start: those of the quorum once its log is being read, those of clients when this broker serves.
    pub(super) fn run_requests(&mut self) -> bool {
        let may_run = [
            (Listener::Controller, self.cluster.is_some()),
            (Listener::Broker, matches!(self.stage, Stage::Running)),
        ];
        let mut busy = false;
        for (kind, may_run) in may_run {
            if may_run && self.frontend.is_runnable(kind) {
                self.with_frontend(|frontend, services| frontend.run(services, kind));
                busy = true;
            }
        }
        busy
    }

    /// Opens logs that nobody waits for, a few at a time.
    pub(super) fn open_more(&mut self) {
        if matches!(self.stage, Stage::Stopping(_)) {
            return;
        }
        while let Some(slot) = self.opener.next() {
            let (partitions, mut context) = self.context();
            if partitions.open(&mut context, slot) {
                self.opener.started(slot);
            }
        }
    }
}
