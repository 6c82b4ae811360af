//! Starting, stopping, and what the command says.

use std::{
    process::{Command, Output},
    time::{Duration, Instant},
};

use crate::{
    client::{Client, records},
    process::{BINARY, Broker, FlushRule, folder},
};

fn refused(arguments: &[&str]) -> String {
    let Output { status, stderr, .. } = Command::new(BINARY).args(arguments).output().unwrap();
    assert_ne!(status.code(), Some(0));
    String::from_utf8(stderr).unwrap()
}

#[test]
fn dev_needs_nothing_but_a_folder() {
    let dir = folder();
    let mut command = Command::new(BINARY);
    command.args(["dev", "--listen", "127.0.0.1:0", "--data"]);
    command.arg(dir.path().join("a b"));
    let broker = Broker::await_ready(command);
    let mut client = Client::connect(broker.address);
    client.await_topic("quick");
    assert_eq!(client.produce("quick", b"start").unwrap(), 0);
    let (code, rest) = broker.stop();
    assert_eq!(code, Some(0));
    assert_eq!(rest, "", "standard output is for the ready line alone");
    assert!(dir.path().join("a b/quick-0").is_dir());
}

#[test]
fn records_are_there_after_an_orderly_stop() {
    for rule in [FlushRule::Durable, FlushRule::Replicated] {
        let dir = folder();
        let broker = Broker::start(dir.path(), rule);
        let mut client = Client::connect(broker.address);
        client.await_topic("kept");
        for number in 0..100 {
            client.produce("kept", &[number; 100]).unwrap();
        }
        assert_eq!(broker.stop().0, Some(0));
        let broker = Broker::start(dir.path(), rule);
        let batches = Client::connect(broker.address).fetch("kept", 0).unwrap();
        assert_eq!(records(&batches).len(), 100);
        assert_eq!(broker.stop().0, Some(0));
    }
}

#[test]
fn a_stop_is_quick_while_clients_are_connected() {
    let dir = folder();
    let broker = Broker::start(dir.path(), FlushRule::Durable);
    let _idle = Client::connect(broker.address);
    let mut busy = Client::connect(broker.address);
    busy.await_topic("busy");
    let begin = Instant::now();
    assert_eq!(broker.stop().0, Some(0));
    assert!(begin.elapsed() < Duration::from_secs(3));
}

#[test]
fn the_command_says_what_to_do_next() {
    let dir = folder();
    let file = dir.path().join("server.properties");
    let file_text = file.to_str().unwrap();
    let said = refused(&["start", "--config", file_text]);
    assert!(said.contains("cannot read"), "{said}");

    std::fs::write(&file, "listeners=SSL://localhost:9092\n").unwrap();
    let said = refused(&["start", "--config", file_text]);
    assert!(said.contains("TLS"), "{said}");

    let said = refused(&["start", "--config", file_text, "--override", "listeners"]);
    assert!(said.contains("NAME=VALUE"), "{said}");

    let said = refused(&["dev", "--listen", "9092"]);
    assert!(said.contains("HOST:PORT"), "{said}");

    let said = refused(&["dev", "--data", "a,b"]);
    assert!(said.contains("comma"), "{said}");

    let said = refused(&["strat"]);
    assert!(said.contains("start"), "{said}");
}

#[test]
fn a_folder_in_use_is_named() {
    let dir = folder();
    let broker = Broker::start(dir.path(), FlushRule::Durable);
    let data = dir.path().join("data");
    let data = data.to_str().unwrap();
    let said = refused(&["dev", "--listen", "127.0.0.1:0", "--data", data]);
    assert!(said.contains("in use by another process"), "{said}");
    broker.stop();
}
