//! Connections that a machine dials, over real sockets.

use std::{io::Read, net::TcpListener};

use crate::toy::{ANSWER_BYTES_MAX, APPEND, CLOSE, Client, DIAL, ECHO, Server, ZEROS, frame};

fn ask_over(client: &mut Client, port: u16, command: u8, argument: &[u8]) -> Vec<u8> {
    let question = [&port.to_be_bytes()[..], &frame(command, argument)[4..]].concat();
    client.ask(DIAL, &question)
}

#[test]
fn a_dialled_node_is_asked_and_answers() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [asking, asked] = dirs.each_ref().map(|dir| Server::start(dir.path()));
    let mut client = asking.connect();
    let port = asked.address.port();
    assert_eq!(
        ask_over(&mut client, port, ECHO, b"over two hops"),
        b"over two hops"
    );
    for round in 1..=50_u64 {
        let end = ask_over(&mut client, port, APPEND, b"0123456789");
        assert_eq!(end, (round * 10).to_be_bytes());
    }
    let large = vec![7; 50_000];
    assert_eq!(ask_over(&mut client, port, ECHO, &large), large);
}

#[test]
fn two_nodes_may_dial_each_other_at_once() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let servers = dirs.each_ref().map(|dir| Server::start(dir.path()));
    let ports = servers.each_ref().map(|server| server.address.port());
    std::thread::scope(|scope| {
        for (server, other) in servers.iter().zip([ports[1], ports[0]]) {
            scope.spawn(move || {
                let mut client = server.connect();
                for number in 0..200_u32 {
                    let number = number.to_be_bytes();
                    assert_eq!(ask_over(&mut client, other, ECHO, &number), number);
                }
            });
        }
    });
}

#[test]
fn a_node_that_is_not_there_is_told_as_closed() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let mut client = server.connect();
    // Bound and let go: nobody listens there any more.
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    assert_eq!(ask_over(&mut client, port, ECHO, b"hello"), b"");
    assert_eq!(client.ask(ECHO, b"still here"), b"still here");
}

#[test]
fn a_dialled_node_that_hangs_up_is_told_as_closed() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [asking, asked] = dirs.each_ref().map(|dir| Server::start(dir.path()));
    let mut client = asking.connect();
    let port = asked.address.port();
    assert_eq!(ask_over(&mut client, port, CLOSE, b""), b"");
    assert_eq!(ask_over(&mut client, port, ECHO, b"again"), b"again");
}

#[test]
fn an_answer_beyond_its_limit_ends_the_dialled_connection() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let [asking, asked] = dirs.each_ref().map(|dir| Server::start(dir.path()));
    let mut client = asking.connect();
    let port = asked.address.port();
    let fitting = u32::try_from(ANSWER_BYTES_MAX).unwrap();
    let answer = ask_over(&mut client, port, ZEROS, &fitting.to_be_bytes());
    assert_eq!(answer.len(), ANSWER_BYTES_MAX);
    let beyond = (fitting + 1).to_be_bytes();
    assert_eq!(ask_over(&mut client, port, ZEROS, &beyond), b"");
}

#[test]
fn a_node_that_accepts_and_says_nothing_holds_up_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let mute = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = mute.local_addr().unwrap().port();
    let mut waiting = server.connect();
    waiting.send(
        DIAL,
        &[&port.to_be_bytes()[..], b"eis anybody there"].concat(),
    );
    let (mut accepted, _) = mute.accept().unwrap();
    let mut question = [0; 21];
    accepted.read_exact(&mut question).unwrap();
    assert_eq!(&question[4..], b"eis anybody there");
    assert_eq!(server.connect().ask(ECHO, b"me first"), b"me first");
    drop(accepted);
    assert_eq!(waiting.receive().unwrap(), b"");
}
