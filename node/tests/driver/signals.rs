//! A process of its own: signals, exit codes, the ready line, the lock.

use std::{
    io::{BufRead, BufReader, Read},
    net::SocketAddr,
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use seedlog::{
    config::NodeConfig,
    shard::{Exit, Stop},
};

use crate::toy::{APPEND, APPEND_DURABLY, Client, ECHO, FAIL, Toy};

/// A toy in a process of its own.
struct Process {
    child: Child,
    output: BufReader<ChildStdout>,
    address: SocketAddr,
}

impl Process {
    fn spawn(dir: &Path, stuck: bool) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args([
                "--ignored",
                "--exact",
                "signals::toy_process",
                "--nocapture",
            ])
            .env("TOY_DIR", dir)
            .env("TOY_STUCK", if stuck { "1" } else { "" })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn start(dir: &Path, stuck: bool) -> Self {
        let mut child = Self::spawn(dir, stuck);
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        let address = loop {
            line.clear();
            assert_ne!(
                output.read_line(&mut line).unwrap(),
                0,
                "it ended too early"
            );
            if let Some(address) = line.trim().strip_prefix("ready bootstrap=") {
                break address.parse().unwrap();
            }
        };
        Self {
            child,
            output,
            address,
        }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Returns the exit code and the rest of what was printed.
    fn end(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

#[test]
#[ignore = "the process that the other tests start"]
fn toy_process() {
    let Some(dir) = std::env::var_os("TOY_DIR") else {
        return;
    };
    let stuck = std::env::var_os("TOY_STUCK").is_some_and(|value| !value.is_empty());
    let settings = [
        ("listeners", "PLAINTEXT://127.0.0.1:0"),
        ("log.dirs", dir.to_str().unwrap()),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let config = NodeConfig::from_settings(settings).unwrap();
    let ended = seedlog::run(&config, |_, _, _| Toy::start_stuck(stuck), Stop::Signals);
    std::process::exit(match ended {
        Ok(Exit::Clean) => 0,
        Ok(Exit::Forced) => 130,
        Ok(Exit::Fatal(message)) => {
            eprintln!("{message}");
            1
        }
        Err(error) => {
            eprintln!("{error}");
            2
        }
    });
}

#[test]
fn either_signal_stops_in_good_order() {
    for signal in [Signal::TERM, Signal::INT] {
        let dir = tempfile::tempdir().unwrap();
        let process = Process::start(dir.path(), false);
        let mut client = Client::connect(process.address);
        client.ask(APPEND, b"kept");
        process.signal(signal);
        let (code, rest) = process.end();
        assert_eq!(code, Some(0), "{signal:?}");
        assert!(!rest.contains("ready"), "the ready line is printed once");
        assert!(client.is_closed());
    }
}

#[test]
fn a_second_signal_ends_what_hangs() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start(dir.path(), true);
    let mut client = Client::connect(process.address);
    assert_eq!(client.ask(ECHO, b"there"), b"there");
    process.signal(Signal::TERM);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(client.ask(ECHO, b"still there"), b"still there");
    let begin = Instant::now();
    process.signal(Signal::TERM);
    assert_eq!(process.end().0, Some(130));
    assert!(begin.elapsed() < Duration::from_secs(2));
}

#[test]
fn a_machine_that_cannot_go_on_ends_the_process() {
    let dir = tempfile::tempdir().unwrap();
    let mut process = Process::start(dir.path(), false);
    Client::connect(process.address).send(FAIL, b"");
    let mut errors = process.child.stderr.take().unwrap();
    assert_eq!(process.end().0, Some(1));
    let mut said = String::new();
    errors.read_to_string(&mut said).unwrap();
    assert!(said.contains("get another one"), "{said}");
}

#[test]
fn two_processes_never_share_a_folder() {
    let dir = tempfile::tempdir().unwrap();
    let first = Process::start(dir.path(), false);
    let second = Process::spawn(dir.path(), false)
        .wait_with_output()
        .unwrap();
    assert_eq!(second.status.code(), Some(2));
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(said.contains("in use by another process"), "{said}");
    first.signal(Signal::KILL);
    first.end();
    // The lock ends with the process, however that ended.
    let third = Process::start(dir.path(), false);
    third.signal(Signal::TERM);
    assert_eq!(third.end().0, Some(0));
}

#[test]
fn a_killed_process_keeps_what_it_answered() {
    let dir = tempfile::tempdir().unwrap();
    let process = Process::start(dir.path(), false);
    let mut client = Client::connect(process.address);
    for _ in 0..20 {
        client.ask(APPEND, &[1; 1000]);
        client.ask(APPEND_DURABLY, &[2; 1000]);
    }
    process.signal(Signal::KILL);
    assert_eq!(process.end().0, None);
    let log = std::fs::read(dir.path().join("toy-0/log")).unwrap();
    assert_eq!(log.len(), 40_000);
}
