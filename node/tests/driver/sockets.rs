//! Real sockets against the shard's loop.

use std::{
    io::Write,
    net::Shutdown,
    time::{Duration, Instant},
};

use seedlog::shard::{Exit, Limits};
use seedlog_core::protocol::FrameLimits;

use crate::toy::{
    self, APPEND, APPEND_DURABLY, CLOSE, Client, ECHO, LATER, STALL, SYNCS, Server, TRUNCATE,
    ZEROS, frame,
};

#[test]
fn pipelined_frames_are_answered_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let mut client = server.connect();
    let mut batch = Vec::new();
    for number in 0..5000_u32 {
        batch.extend(frame(ECHO, &number.to_be_bytes()));
    }
    client.stream.write_all(&batch).unwrap();
    for number in 0..5000_u32 {
        assert_eq!(client.receive().unwrap(), number.to_be_bytes());
    }
    assert_eq!(server.stop(), Exit::Clean);
}

#[test]
fn frames_survive_any_cut_of_the_stream() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let mut client = server.connect();
    let body: Vec<u8> = (0..=255).cycle().take(40_000).collect();
    let bytes = [frame(ECHO, b"first"), frame(ECHO, &body), frame(ECHO, b"")].concat();
    for cut in [1, 2, 3, 4, 5, 9, 10, 13, 14, 20_000, 40_013, 40_015] {
        client.stream.write_all(&bytes[..cut]).unwrap();
        std::thread::sleep(Duration::from_millis(3));
        client.stream.write_all(&bytes[cut..]).unwrap();
        assert_eq!(client.receive().unwrap(), b"first");
        assert_eq!(client.receive().unwrap(), body);
        assert_eq!(client.receive().unwrap(), b"");
    }
}

#[test]
fn large_frames_arrive_whole_among_small_ones() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let mut client = server.connect();
    for size in [65_530, 65_531, 65_532, 70_000, 1 << 20, 5 << 20, 100] {
        let body: Vec<u8> = (0..=250).cycle().take(size).collect();
        assert_eq!(client.ask(ECHO, b"small"), b"small");
        let mut sender = client.stream.try_clone().unwrap();
        let bytes = frame(ECHO, &body);
        let sending = std::thread::spawn(move || sender.write_all(&bytes).unwrap());
        assert!(client.receive().unwrap() == body, "{size} bytes differ");
        sending.join().unwrap();
    }
}

#[test]
fn appended_bytes_come_back_as_file_ranges() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let mut client = server.connect();
    let body: Vec<u8> = (0..=250).cycle().take(3_000_000).collect();
    for chunk in body.chunks(50_000) {
        client.ask(APPEND, chunk);
    }
    let on_disk = std::fs::read(dir.path().join("toy-0/log")).unwrap();
    assert!(on_disk == body);
    for (at, len) in [
        (0, 1),
        (10, 1000),
        (5, 40_000),
        (7, 300_000),
        (0, 3_000_000),
    ] {
        let bytes = client.range(at, len).unwrap();
        let at = usize::try_from(at).unwrap();
        assert!(
            bytes == body[at..at + len as usize],
            "{len} bytes at {at} differ"
        );
    }
}

#[test]
fn a_range_beyond_the_end_of_its_file_closes_the_connection() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    for len in [100, 100_000] {
        let mut client = server.connect();
        client.ask(APPEND, b"short");
        assert!(client.range(0, len).is_err());
        assert_eq!(server.connect().ask(ECHO, b"others"), b"others");
    }
}

#[test]
fn a_range_whose_bytes_were_replaced_is_never_sent() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let mut writer = server.connect();
    for _ in 0..200 {
        writer.ask(APPEND, &[b'x'; 100_000]);
    }
    let mut reader = server.connect();
    // More than both sockets hold, so that most of it still waits when the file is cut and written anew.
    let argument = [&0_u64.to_be_bytes()[..], &20_000_000_u32.to_be_bytes()].concat();
    reader.send(toy::RANGE, &argument);
    std::thread::sleep(Duration::from_millis(100));
    // At the end of a page: within one, bytes that are in the sockets already share the page's fate.
    writer.ask(TRUNCATE, &(64 * 4096_u64).to_be_bytes());
    for _ in 0..200 {
        writer.ask(APPEND, &[b'y'; 100_000]);
    }
    let mut seen = Vec::new();
    let ended = std::io::Read::read_to_end(&mut reader.stream, &mut seen);
    assert!(ended.is_err() || seen.len() < 20_000_004, "all was sent");
    assert!(!seen[4.min(seen.len())..].contains(&b'y'));
}

#[test]
fn a_reader_that_does_not_read_holds_up_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let mut lazy = server.connect();
    for _ in 0..50 {
        lazy.send(ZEROS, &4_000_000_u32.to_be_bytes());
    }
    let mut quick = server.connect();
    let begin = Instant::now();
    for _ in 0..100 {
        assert_eq!(quick.ask(ECHO, b"quick"), b"quick");
    }
    assert!(begin.elapsed() < Duration::from_secs(5));
    for _ in 0..50 {
        assert_eq!(lazy.receive().unwrap().len(), 4_000_000);
    }
}

#[test]
fn requests_are_not_read_while_answers_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let mut lazy = server.connect();
    lazy.stream
        .set_write_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    let request = frame(ECHO, &[7; 100_000]);
    let stuck = (0..1000).find(|_| lazy.stream.write_all(&request).is_err());
    assert!(stuck.is_some(), "a hundred megabytes were taken in");
}

#[test]
fn oversized_and_negative_frames_close_the_connection_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits {
        frames: FrameLimits {
            request_max: 1000,
            first_max: 100,
            ..FrameLimits::default()
        },
        ..Limits::default()
    };
    let server = Server::start_with(dir.path(), limits);
    let mut first = server.connect();
    first.stream.write_all(&101_u32.to_be_bytes()).unwrap();
    assert!(first.is_closed());

    let mut later = server.connect();
    later.ask(ECHO, b"hello");
    assert_eq!(later.ask(ECHO, &[1; 999]).len(), 999);
    later.stream.write_all(&1001_u32.to_be_bytes()).unwrap();
    assert!(later.is_closed());

    let mut negative = server.connect();
    negative.stream.write_all(&[0xff; 4]).unwrap();
    assert!(negative.is_closed());
    assert_eq!(server.connect().ask(ECHO, b"others"), b"others");
}

#[test]
fn a_close_follows_the_answers_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let mut client = server.connect();
    client.send(ZEROS, &3_000_000_u32.to_be_bytes());
    client.send(CLOSE, b"");
    assert_eq!(client.receive().unwrap().len(), 3_000_000);
    assert!(client.is_closed());
}

#[test]
fn a_client_that_ends_its_side_still_gets_its_answer() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let mut client = server.connect();
    client.send(ECHO, b"last words");
    client.stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.receive().unwrap(), b"last words");
    assert!(client.is_closed());
}

#[test]
fn timeouts_come_when_they_are_due() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let mut long = server.connect();
    let mut short = server.connect();
    let begin = Instant::now();
    long.send(LATER, &400_u64.to_be_bytes());
    short.send(LATER, &50_u64.to_be_bytes());
    assert_eq!(short.receive().unwrap(), b"later");
    let after = begin.elapsed();
    assert!(after >= Duration::from_millis(50), "too early: {after:?}");
    assert!(after < Duration::from_millis(390), "too late: {after:?}");
    assert_eq!(long.receive().unwrap(), b"later");
    assert!(begin.elapsed() >= Duration::from_millis(400));
}

#[test]
fn durable_appends_of_many_connections_are_all_answered() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let address = server.address;
    let clients: Vec<_> = (0..8)
        .map(|_| {
            std::thread::spawn(move || {
                let mut client = Client::connect(address);
                for _ in 0..20 {
                    client.ask(APPEND_DURABLY, &[b'd'; 500]);
                }
            })
        })
        .collect();
    for client in clients {
        client.join().unwrap();
    }
    let on_disk = std::fs::metadata(dir.path().join("toy-0/log")).unwrap();
    assert_eq!(on_disk.len(), 8 * 20 * 500);
}

#[test]
fn what_one_connection_has_sent_shares_a_sync() {
    const ROUNDS: u64 = 20;
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let mut client = server.connect();
    // Who has said nothing for a while is not held up, and does not count.
    let mut silent = server.connect();
    assert_eq!(silent.ask(ECHO, b"for now"), b"for now");
    std::thread::sleep(Duration::from_millis(1100));
    let body: Vec<u8> = (0..=250).cycle().take(16 << 10).collect();
    client.ask(ECHO, b"first");
    std::thread::sleep(Duration::from_millis(1100));
    for _ in 0..10 {
        client.ask(APPEND_DURABLY, &body);
    }
    let count = |client: &mut Client| -> u64 {
        let answer = client.ask(SYNCS, b"");
        u64::from_be_bytes(answer.try_into().unwrap())
    };
    let before = count(&mut client);
    // More than one read takes, all of it there when the thread looks.
    let appends = frame(APPEND_DURABLY, &body).repeat(5);
    for _ in 0..ROUNDS {
        client.send(STALL, &30_u64.to_be_bytes());
        client.stream.write_all(&appends).unwrap();
        for _ in 0..6 {
            client.receive().unwrap();
        }
    }
    let syncs = count(&mut client) - before;
    // The system may deliver some of them in two parts.
    assert!(syncs <= ROUNDS * 3 / 2, "{syncs} syncs in {ROUNDS} rounds");
    let on_disk = std::fs::read(dir.path().join("toy-0/log")).unwrap();
    assert!(on_disk == body.repeat(10 + 5 * 20));
    assert_eq!(silent.ask(ECHO, b"again"), b"again");
}

#[test]
fn half_sent_frames_hold_no_more_memory_than_their_share() {
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits {
        partial_bytes_max: 4 << 20,
        ..Limits::default()
    };
    let server = Server::start_with(dir.path(), limits);
    let half = &frame(ECHO, &vec![1; 1_500_000])[..1_000_000];
    let mut slow: Vec<Client> = Vec::new();
    for _ in 0..6 {
        let mut client = server.connect();
        client
            .stream
            .set_write_timeout(Some(Duration::from_millis(50)))
            .unwrap();
        // Beyond the share the bytes stay in the sockets, so not all of them are taken.
        let _ = client.stream.write_all(half);
        slow.push(client);
    }
    assert_eq!(server.connect().ask(ECHO, b"others"), b"others");
    // The silent ones give way to somebody who really sends.
    let mut honest = server.connect();
    let body = vec![2; 1_900_000];
    let mut sender = honest.stream.try_clone().unwrap();
    let bytes = frame(ECHO, &body);
    let sending = std::thread::spawn(move || sender.write_all(&bytes));
    honest
        .stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .unwrap();
    assert!(honest.receive().unwrap() == body);
    sending.join().unwrap().unwrap();
}

#[test]
fn connections_beyond_the_limit_wait_for_a_place() {
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits {
        connections_max: 2,
        ..Limits::default()
    };
    let server = Server::start_with(dir.path(), limits);
    let mut first = server.connect();
    let mut second = server.connect();
    assert_eq!(first.ask(ECHO, b"1"), b"1");
    assert_eq!(second.ask(ECHO, b"2"), b"2");
    let mut third = server.connect();
    third.send(ECHO, b"3");
    third
        .stream
        .set_read_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    assert!(third.receive().is_err());
    drop(first);
    third.stream.set_read_timeout(Some(toy::PATIENCE)).unwrap();
    assert_eq!(third.receive().unwrap(), b"3");
}

#[test]
fn ranges_that_miss_the_page_cache_arrive_whole() {
    for (at, len) in [(0, 2_000_000), (1_000_000, 20_000), (3, 500_000)] {
        // A file of its own for each: what was sent once may stay cached for any time, because the kernel gives sent buffers
        // back only when the core that made them next handles packets.
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let server = Server::start(dir.path());
        let mut client = server.connect();
        let body: Vec<u8> = (0..=250).cycle().take(2_000_000).collect();
        client.ask(APPEND_DURABLY, &body);
        let log = std::fs::File::open(dir.path().join("toy-0/log")).unwrap();
        rustix::fs::fadvise(&log, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let mut first = [0];
        let slices = &mut [std::io::IoSliceMut::new(&mut first)];
        let cached = rustix::io::preadv2(&log, slices, at, rustix::io::ReadWriteFlags::NOWAIT);
        assert!(cached.is_err(), "byte {at} is still cached");
        let bytes = client.range(at, len).unwrap();
        let at = usize::try_from(at).unwrap();
        assert!(
            bytes == body[at..at + len as usize],
            "{len} bytes at {at} differ"
        );
    }
}

#[test]
fn connections_of_one_address_are_limited() {
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits {
        connections_per_address_max: 1,
        ..Limits::default()
    };
    let server = Server::start_with(dir.path(), limits);
    let mut first = server.connect();
    assert_eq!(first.ask(ECHO, b"1"), b"1");
    assert!(server.connect().is_closed());
    drop(first);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(server.connect().ask(ECHO, b"2"), b"2");
}

#[test]
fn silent_connections_are_closed() {
    let dir = tempfile::tempdir().unwrap();
    let limits = Limits {
        idle_max: Some(Duration::from_millis(500)),
        ..Limits::default()
    };
    let server = Server::start_with(dir.path(), limits);
    let mut silent = server.connect();
    let mut half = server.connect();
    half.stream.write_all(&frame(ECHO, b"half")[..6]).unwrap();
    assert!(silent.is_closed());
    assert!(half.is_closed());
}

#[test]
fn thousands_of_open_connections_are_served() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let mut clients: Vec<Client> = (0..2000).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.send(ECHO, b"one of many");
    }
    for client in &mut clients {
        assert_eq!(client.receive().unwrap(), b"one of many");
    }
    drop(clients);
    assert_eq!(server.stop(), Exit::Clean);
}
