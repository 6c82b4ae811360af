//! What the operating system was asked for, and when, as a tracer saw it.

use std::{fs, path::Path, process::Command, time::Duration};

use crate::{
    client::Client,
    process::{Broker, FlushRule, folder},
};

/// A call that matters here, in the order of its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    /// Bytes went into the page cache of the topic's log.
    Write,
    /// The topic's log was flushed.
    Flush,
    /// Bytes went to a socket.
    Answer,
    /// A thread woke another, or waited to be woken.
    HandOff,
}

fn tracer(output: &Path) -> Option<Command> {
    Command::new("strace").arg("-V").output().ok()?;
    let mut command = Command::new("strace");
    // The tracer stands beside the broker and not above it, so that signals reach the broker.
    command
        .args(["-D", "-f", "-y", "-s", "0", "-o"])
        .arg(output);
    command.args([
        "-e",
        "trace=pwritev,pwrite64,pwritev2,fdatasync,fsync,sendmsg,sendto,write,writev,futex",
    ]);
    Some(command)
}

/// Reads a trace; a call that another thread's line interrupts counts where it resumes, when it has its result.
fn calls(trace: &str) -> Vec<Call> {
    let mut unfinished: Vec<(&str, &str)> = Vec::new();
    let mut calls = Vec::new();
    for line in trace.lines() {
        let Some((thread, text)) = line.split_once(' ') else {
            continue;
        };
        let text = text.trim();
        if text.ends_with("<unfinished ...>") {
            unfinished.push((thread, text));
        } else if text.starts_with("<...") {
            let at = unfinished
                .iter()
                .rposition(|(waiting, _)| *waiting == thread);
            if let Some(at) = at {
                let (_, begun) = unfinished.remove(at);
                calls.extend(call(begun));
            }
        } else {
            calls.extend(call(text));
        }
    }
    calls
}

fn call(text: &str) -> Option<Call> {
    let (name, arguments) = text.split_once('(')?;
    let is_log = arguments.contains("/traced-0/") && arguments.contains(".log>");
    let is_socket = arguments.contains("<TCP") || arguments.contains("<socket:");
    match name {
        "pwritev" | "pwrite64" | "pwritev2" if is_log => Some(Call::Write),
        "fdatasync" | "fsync" if is_log => Some(Call::Flush),
        "sendmsg" | "sendto" | "write" | "writev" if is_socket => Some(Call::Answer),
        "futex" => Some(Call::HandOff),
        "write" if arguments.contains("[eventfd]") => Some(Call::HandOff),
        _ => None,
    }
}

/// Produces one record after the other to a traced broker and returns the calls from the first record's write on.
fn produce_traced(rule: FlushRule, records: usize) -> Option<Vec<Call>> {
    let dir = folder();
    let output = dir.path().join("trace");
    let Some(tracer) = tracer(&output) else {
        eprintln!("strace is not installed: nothing was checked");
        return None;
    };
    let broker = Broker::start_traced(tracer, dir.path(), rule);
    let mut client = Client::connect(broker.address);
    client.await_topic("traced");
    for _ in 0..WARM_UP + records {
        client.produce("traced", b"value").unwrap();
        // What a broker does after an answer must not look like what it does before the next.
        std::thread::sleep(Duration::from_millis(20));
    }
    broker.stop();
    let trace = fs::read_to_string(&output).unwrap();
    let calls = calls(&trace);
    // The first record of a leader's epoch has that epoch written down, which later ones have not.
    let mut writes = calls
        .iter()
        .enumerate()
        .filter(|(_, call)| **call == Call::Write);
    let (first, _) = writes.nth(WARM_UP).expect("the log was written to");
    Some(calls[first..].to_vec())
}

const WARM_UP: usize = 2;

#[test]
fn every_durable_answer_follows_the_flush_of_its_bytes() {
    let Some(calls) = produce_traced(FlushRule::Durable, 20) else {
        return;
    };
    let mut answers = 0;
    let mut written = false;
    let mut flushed = true;
    for call in calls {
        match call {
            Call::Write => (written, flushed) = (true, false),
            Call::Flush => flushed = true,
            Call::Answer if written => {
                assert!(
                    flushed,
                    "answer {answers} left before its bytes were flushed"
                );
                answers += 1;
                written = false;
            }
            Call::Answer | Call::HandOff => {}
        }
    }
    assert_eq!(answers, 20);
}

#[test]
fn a_replicated_answer_needs_no_flush_and_no_other_thread() {
    let Some(calls) = produce_traced(FlushRule::Replicated, 20) else {
        return;
    };
    let mut answers = 0;
    let mut since_write: Option<Vec<Call>> = None;
    for call in calls {
        match (call, &mut since_write) {
            (Call::Write, between) => *between = Some(Vec::new()),
            (Call::Answer, Some(between)) => {
                assert_eq!(*between, [], "between the write and answer {answers}");
                answers += 1;
                since_write = None;
            }
            (other, Some(between)) => between.push(other),
            (_, None) => {}
        }
    }
    assert_eq!(answers, 20);
}
