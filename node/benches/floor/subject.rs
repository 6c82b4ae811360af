//! The processes that are compared.

use std::{
    io::{BufRead, BufReader},
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
};

use crate::{Work, batch::Request, driver, floor};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The broker that does nothing; it reads a log by `sendfile`.
    Floor,
    /// The broker that does nothing, reading a log into a buffer.
    Copying,
    /// The node's loop around a machine that decides nothing.
    Driver,
    /// The broker.
    Seedlog,
}

impl Subject {
    /// Returns who does some work; the floor is the first.
    pub(crate) fn of(work: Work) -> Vec<Self> {
        match work {
            Work::Produce => vec![Self::Floor, Self::Driver, Self::Seedlog],
            Work::Durable { .. } => vec![Self::Floor, Self::Seedlog],
            Work::Fetch { .. } => vec![Self::Floor, Self::Copying, Self::Seedlog],
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Copying => "copying",
            Self::Driver => "driver",
            Self::Seedlog => "seedlog",
        }
    }

    /// Starts the process and waits until it accepts connections.
    pub(crate) fn start(self, work: Work, request: &Request, dir: &Path) -> (Child, SocketAddr) {
        let mut command = match self {
            Self::Seedlog => seedlog(work, dir),
            Self::Floor | Self::Copying | Self::Driver => {
                let mut command = Command::new(std::env::current_exe().unwrap());
                let work = match work {
                    Work::Produce => "produce",
                    Work::Durable { .. } => "durable",
                    Work::Fetch { .. } => "fetch",
                };
                command
                    .env(SUBJECT, self.name())
                    .env(WORK, work)
                    .env(DIR, dir)
                    .env(REQUEST_BYTES, request.bytes.len().to_string())
                    .env(BATCH_AT, request.batch_at.to_string());
                command
            }
        };
        if let Work::Durable { partitions } = work {
            command.env(PARTITIONS, partitions.to_string());
        }
        await_ready(command)
    }
}

/// Starts a process and waits for its ready line.
pub(crate) fn await_ready(mut command: Command) -> (Child, SocketAddr) {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("ready bootstrap=");
    let address = address.unwrap_or_else(|| panic!("{command:?} said: {line}"));
    (child, address.parse().unwrap())
}

/// The broker's own binary.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_seedlog");

fn seedlog(work: Work, dir: &Path) -> Command {
    let file = dir.join("server.properties");
    let data = dir.join("data");
    let flush_messages = match work {
        Work::Durable { .. } => 1,
        // Kafka's own value: answered when written.
        Work::Produce | Work::Fetch { .. } => i64::MAX,
    };
    let text = format!(
        "listeners=PLAINTEXT://127.0.0.1:0\nlog.dirs={}\nlog.flush.interval.messages={flush_messages}\n",
        data.display(),
    );
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(BINARY);
    command.arg("start").arg("--config").arg(file);
    command.env("SEEDLOG_LOG", "error");
    command
}

/// Runs as a subject, if this process was started as one.
pub(crate) fn run_as_subject() -> Option<ExitCode> {
    let subject = std::env::var(SUBJECT).ok()?;
    let text = |name: &str| std::env::var(name).unwrap();
    let number = |name: &str| -> usize { text(name).parse().unwrap() };
    let dir = PathBuf::from(text(DIR));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    println!("ready bootstrap={}", listener.local_addr().unwrap());
    let (request_bytes, batch_at) = (number(REQUEST_BYTES), number(BATCH_AT));
    if subject == Subject::Driver.name() {
        driver::serve(listener, &dir, batch_at);
        return Some(ExitCode::SUCCESS);
    }
    let (stream, _) = listener.accept().unwrap();
    stream.set_nodelay(true).unwrap();
    match text(WORK).as_str() {
        "produce" => floor::produce(stream, &dir, request_bytes, batch_at),
        "durable" => floor::durable(stream, &dir, request_bytes, batch_at, number(PARTITIONS)),
        _ => floor::fetch(stream, &dir, subject == Subject::Floor.name()),
    }
    Some(ExitCode::SUCCESS)
}

const SUBJECT: &str = "SEEDLOG_BENCH_SUBJECT";
const WORK: &str = "SEEDLOG_BENCH_WORK";
const DIR: &str = "SEEDLOG_BENCH_DIR";
const REQUEST_BYTES: &str = "SEEDLOG_BENCH_REQUEST_BYTES";
const BATCH_AT: &str = "SEEDLOG_BENCH_BATCH_AT";
const PARTITIONS: &str = "SEEDLOG_BENCH_PARTITIONS";
