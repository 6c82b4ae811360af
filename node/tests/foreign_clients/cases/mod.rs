//! Edges that clients show, most of them known from public reports against other brokers.

mod reading;
mod records;
mod retention;
mod topics;
mod wire;

use crate::{client::Client, suite::Suite};

type Verdict = Result<String, String>;
type Case = fn(&mut Suite) -> Verdict;

/// Runs the cases that are wanted.
pub(crate) fn run(suite: &mut Suite, wanted: &dyn Fn(&str) -> bool) {
    let cases: [(&str, Case); 18] = [
        (
            "newer_api_versions_is_answered_in_the_oldest_form",
            wire::newer_api_versions,
        ),
        (
            "recompressed_batches_are_readable_by_all",
            records::recompressed,
        ),
        (
            "unknown_codec_refuses_its_partition_alone",
            wire::unknown_codec,
        ),
        ("idle_consumer_waits_at_the_broker", reading::idle_consumers),
        (
            "record_above_fetch_limits_is_delivered",
            reading::large_record,
        ),
        (
            "end_is_empty_and_beyond_it_is_out_of_range",
            wire::edges_of_the_log,
        ),
        (
            "out_of_range_is_told_to_the_application",
            reading::out_of_range,
        ),
        (
            "time_after_all_records_has_no_offset",
            reading::nothing_that_late,
        ),
        (
            "timestamps_of_any_age_come_back_after_a_kill",
            records::wild_timestamps,
        ),
        ("internal_records_take_no_offsets", reading::dense_offsets),
        ("colliding_and_illegal_names_are_refused", topics::names),
        ("first_use_creates_the_topic", topics::first_use),
        ("just_created_topic_takes_records", wire::created_then_used),
        ("unacknowledged_records_arrive", records::without_acks),
        ("null_header_values_stay_null", records::null_headers),
        (
            "described_configs_can_be_written_back",
            topics::configs_round_trip,
        ),
        ("far_future_is_refused_or_replaced", retention::far_future),
        (
            "earliest_stays_readable_under_retention",
            retention::retention,
        ),
    ];
    for (name, case) in cases {
        if wanted(name) {
            suite.check(name, case);
        }
    }
}

/// Runs a step with each client in turn, and gathers what failed.
fn each(
    suite: &mut Suite,
    mut step: impl FnMut(&Suite, &mut dyn Client) -> Result<(), String>,
) -> Verdict {
    let mut clients = std::mem::take(&mut suite.clients);
    let mut names = Vec::new();
    let mut wrong = Vec::new();
    for client in &mut clients {
        match step(suite, client.as_mut()) {
            Ok(()) => names.push(client.name()),
            Err(said) => wrong.push(format!("{}: {said}", client.name())),
        }
    }
    suite.clients = clients;
    if wrong.is_empty() {
        Ok(names.join(" "))
    } else {
        Err(wrong.join("; "))
    }
}

fn told(error: impl ToString) -> String {
    error.to_string()
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, got: &T, wanted: &T) -> Result<(), String> {
    if got == wanted {
        Ok(())
    } else {
        Err(format!("{what}: {got:?} instead of {wanted:?}"))
    }
}
