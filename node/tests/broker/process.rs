//! Starting and ending the command.

use std::{
    io::{BufRead, BufReader, Read},
    net::SocketAddr,
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

/// The flush rule that a broker is started with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FlushRule {
    Durable,
    Replicated,
}

/// A running broker.
pub(crate) struct Broker {
    child: Child,
    output: BufReader<ChildStdout>,
    pub(crate) address: SocketAddr,
}

impl Broker {
    /// Starts a broker on a folder and waits until clients can connect.
    pub(crate) fn start(dir: &Path, rule: FlushRule) -> Self {
        Self::start_by(Command::new(BINARY), dir, rule)
    }

    /// Starts a broker under a tracer, whose own arguments `tracer` has already.
    pub(crate) fn start_traced(mut tracer: Command, dir: &Path, rule: FlushRule) -> Self {
        tracer.arg(BINARY);
        Self::start_by(tracer, dir, rule)
    }

    fn start_by(mut command: Command, dir: &Path, rule: FlushRule) -> Self {
        let flush_messages = match rule {
            FlushRule::Durable => 1,
            FlushRule::Replicated => i64::MAX,
        };
        let file = dir.join("server.properties");
        let text = format!(
            "listeners=PLAINTEXT://127.0.0.1:0\nlog.dirs={}\nlog.flush.interval.messages={flush_messages}\n",
            dir.join("data").display()
        );
        std::fs::write(&file, text).unwrap();
        command.arg("start").arg("--config").arg(&file);
        Self::await_ready(command)
    }

    /// Starts a command and waits for its ready line.
    pub(crate) fn await_ready(mut command: Command) -> Self {
        command.env("SEEDLOG_LOG", "error");
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("ready bootstrap=");
        let address = address.unwrap_or_else(|| panic!("no ready line, but: {line:?}"));
        let address = address.parse().unwrap();
        Self {
            child,
            output,
            address,
        }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Stops the broker in good order and returns its exit code and what else it printed.
    pub(crate) fn stop(self) -> (Option<i32>, String) {
        kill_process(self.pid(), Signal::TERM).unwrap();
        self.end()
    }

    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_seedlog");

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A folder on the disk of the build: in a file system of memory, flushes mean nothing.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}
