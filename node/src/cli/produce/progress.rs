//! What is said on standard error while records are sent, and in the end.

use std::{
    io::{self, IsTerminal},
    time::{Duration, Instant},
};

use seedlog_core::{
    client::{Address, DeliveryReport, Outcome},
    ids::TopicName,
};

/// Counts, and what was said already.
#[derive(Debug)]
pub(super) struct Progress {
    quiet: bool,
    lively: bool,
    started: Instant,
    delivered: u64,
    unacknowledged: u64,
    failed: u64,
    unknown: u64,
    repeated: u64,
    told: u32,
    last: Option<(Address, io::Error)>,
}

impl Progress {
    pub(super) fn new(quiet: bool) -> Self {
        Self {
            quiet,
            lively: !quiet && io::stderr().is_terminal(),
            started: Instant::now(),
            delivered: 0,
            unacknowledged: 0,
            failed: 0,
            unknown: 0,
            repeated: 0,
            told: 0,
            last: None,
        }
    }

    pub(super) const fn has_failures(&self) -> bool {
        self.failed + self.unknown > 0
    }

    pub(super) fn last_trouble(&mut self) -> Option<io::Error> {
        self.last.take().map(|(_, error)| error)
    }

    /// Says once per broker and reason that it cannot be reached.
    pub(super) fn trouble(&mut self, to: &Address, error: &io::Error) {
        let known = self.last.as_ref();
        let told = known.is_some_and(|(at, last)| at == to && last.kind() == error.kind());
        if !told {
            self.erase();
            eprintln!("seedlog: cannot connect to {to}: {error}; trying again");
        }
        self.last = Some((to.clone(), io::Error::new(error.kind(), error.to_string())));
    }

    pub(super) fn report(&mut self, report: &DeliveryReport) {
        let count = u64::try_from(report.records.len()).unwrap_or(u64::MAX);
        if report.transmissions > 1 {
            self.repeated += count;
        }
        match report.outcome {
            Outcome::Delivered { .. } => self.delivered += count,
            Outcome::Unacknowledged => self.unacknowledged += count,
            Outcome::Failed(failure) => {
                self.failed += count;
                self.complain(report, "not written", &failure);
            }
            Outcome::Unknown(failure) => {
                self.unknown += count;
                self.complain(report, "perhaps written, perhaps not", &failure);
            }
        }
    }

    fn complain(&mut self, report: &DeliveryReport, what: &str, why: &impl std::fmt::Display) {
        self.told += 1;
        if self.told > COMPLAINTS_MAX {
            return;
        }
        self.erase();
        let lines = (report.records.first(), report.records.last());
        if let (Some(first), Some(last)) = lines {
            let (first, last) = (first.token, last.token);
            let partition = report.partition.as_ref();
            let at = partition.map_or_else(String::new, |at| format!(" for {at}"));
            eprintln!("seedlog: lines {first} to {last}{at} {what}: {why}");
        }
        if self.told == COMPLAINTS_MAX {
            eprintln!("seedlog: further errors are only counted");
        }
    }

    /// Shows how far it has come, on a terminal.
    pub(super) fn show(&self) {
        let done = self.delivered + self.unacknowledged;
        if self.lively && done > 0 {
            let rate = rate(done, self.started.elapsed());
            eprint!("\r{done} records sent, {rate} per second ");
        }
    }

    fn erase(&self) {
        if self.lively {
            eprint!("\r\x1b[K");
        }
    }

    /// Says what came of it all.
    pub(super) fn summary(&self, topic: &TopicName) {
        if self.quiet {
            return;
        }
        self.erase();
        let took = self.started.elapsed();
        let sent = self.delivered + self.unacknowledged;
        let mut text = format!(
            "{sent} records sent to {topic} in {:.1} s",
            took.as_secs_f64()
        );
        for (count, what) in [
            (self.unacknowledged, "not confirmed (acks=0)"),
            (self.failed, "not written"),
            (self.unknown, "perhaps written"),
            (self.repeated, "sent more than once"),
        ] {
            if count > 0 {
                text.push_str(&format!(", {count} {what}"));
            }
        }
        eprintln!("{text}");
    }
}

fn rate(count: u64, time: Duration) -> u64 {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1);
    count.saturating_mul(1_000) / millis
}

/// How often progress is shown.
pub(super) const INTERVAL: Duration = Duration::from_millis(500);

/// Errors that are told one by one.
const COMPLAINTS_MAX: u32 = 10;
