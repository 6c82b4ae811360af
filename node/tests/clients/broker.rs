//! A broker process under test: started on a folder, ended politely or not, started again.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::raw::Connection;

/// A folder with settings and data on which a broker runs again and again.
#[derive(Debug)]
pub(crate) struct Site {
    folder: PathBuf,
    address: SocketAddr,
}

impl Site {
    /// Empties the folder and writes settings for a broker there. What is advertised may be a proxy's address.
    pub(crate) fn new(folder: &Path, advertised: Option<SocketAddr>, more: &str) -> Self {
        if folder.exists() {
            fs::remove_dir_all(folder).expect("the folder of an earlier run can be removed");
        }
        fs::create_dir_all(folder.join("data")).expect("a folder below target/ can be made");
        let [address, controller] = free_ports();
        let advertised = advertised.unwrap_or(address);
        let settings = format!(
            "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n\
             listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
             controller.quorum.voters=1@{controller}\nlisteners=PLAINTEXT://{address},CONTROLLER://{controller}\n\
             advertised.listeners=PLAINTEXT://{advertised}\nlog.dirs={}\n\
             offsets.topic.replication.factor=1\ntransaction.state.log.replication.factor=1\n\
             transaction.state.log.min.isr=1\n{more}",
            folder.join("data").display()
        );
        fs::write(folder.join("server.properties"), settings)
            .expect("a file below target/ can be written");
        Self {
            folder: folder.to_owned(),
            address,
        }
    }

    /// Empties the folder and writes these settings there, for a node that listens at an address.
    pub(crate) fn with(folder: &Path, address: SocketAddr, settings: &str) -> Self {
        if folder.exists() {
            fs::remove_dir_all(folder).expect("the folder of an earlier run can be removed");
        }
        fs::create_dir_all(folder.join("data")).expect("a folder below target/ can be made");
        let data = folder.join("data");
        let settings = format!("{settings}\nlog.dirs={}\n", data.display());
        fs::write(folder.join("server.properties"), settings)
            .expect("a file below target/ can be written");
        Self {
            folder: folder.to_owned(),
            address,
        }
    }

    /// Where the broker listens, whatever it advertises.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where the broker keeps a partition.
    pub(crate) fn partition(&self, topic: &str, partition: i32) -> PathBuf {
        self.folder
            .join("data")
            .join(format!("{topic}-{partition}"))
    }

    /// Starts Seedlog and waits until it is ready.
    pub(crate) fn start(&self) -> Process {
        self.start_under(&[])
    }

    /// Starts Seedlog as the last argument of another command, which stays in between.
    pub(crate) fn start_under(&self, wrapper: &[&str]) -> Process {
        let mut process = self.launch_under(wrapper);
        assert!(
            process.ready(Duration::from_secs(60)),
            "no ready line within a minute; the broker's log is {}",
            self.log().display()
        );
        if !wrapper.is_empty() {
            process.broker = only_child(process.broker);
        }
        process
    }

    /// Starts Seedlog and does not wait: one node of several may need the others.
    pub(crate) fn launch(&self) -> Process {
        self.launch_under(&[])
    }

    fn launch_under(&self, wrapper: &[&str]) -> Process {
        let binary =
            std::env::var_os("SEEDLOG_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_seedlog").into());
        let mut command = match wrapper {
            [] => Command::new(binary),
            [first, rest @ ..] => {
                let mut command = Command::new(first);
                command.args(rest).arg(binary);
                command
            }
        };
        command
            .args(["start", "--config"])
            .arg(self.folder.join("server.properties"));
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(self.log_file());
        let child = command.spawn().expect("the broker's binary starts");
        Process {
            broker: child.id(),
            child,
        }
    }

    /// Starts Apache Kafka from its jars instead: the programs and checks themselves can be checked against it.
    pub(crate) fn start_kafka(&self, distribution: &Path) -> Process {
        let java = || {
            let mut command = Command::new("java");
            command.args([
                "-Xmx512m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-cp",
            ]);
            command
                .arg(distribution.join("jars/*"))
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(self.log_file());
            command
        };
        let settings = self.folder.join("server.properties");
        if !self.folder.join("data/meta.properties").exists() {
            let mut format = java();
            format
                .args([
                    "kafka.tools.StorageTool",
                    "format",
                    "-t",
                    "MkU3OEVBNTcwNTJENDM2Qg",
                    "-c",
                ])
                .arg(&settings);
            assert!(
                format.status().expect("java starts").success(),
                "see {}",
                self.log().display()
            );
        }
        let mut start = java();
        start.arg("kafka.Kafka").arg(&settings);
        let child = start.spawn().expect("java starts");
        let process = Process {
            broker: child.id(),
            child,
        };
        let deadline = Instant::now() + Duration::from_mins(2);
        while !Connection::open(self.address).is_ok_and(|mut connection| connection.has_broker()) {
            assert!(
                Instant::now() < deadline,
                "Kafka did not start; see {}",
                self.log().display()
            );
            thread::sleep(Duration::from_millis(200));
        }
        process
    }

    /// Where the broker's log of all its runs is.
    pub(crate) fn log(&self) -> PathBuf {
        self.folder.join("broker.log")
    }

    fn log_file(&self) -> File {
        File::options()
            .create(true)
            .append(true)
            .open(self.log())
            .expect("a file below target/ can be opened")
    }
}

/// Addresses that nobody listens at.
pub(crate) fn free_ports<const N: usize>() -> [SocketAddr; N] {
    let held = [(); N].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port"));
    held.map(|listener| {
        listener
            .local_addr()
            .expect("a bound socket has an address")
    })
}

/// A running broker, killed when dropped.
#[derive(Debug)]
pub(crate) struct Process {
    /// The broker, or the wrapper in front of it.
    child: Child,
    /// The broker itself.
    broker: u32,
}

impl Process {
    /// Whether it still runs.
    pub(crate) fn alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Ends it as `kill -9` does: nothing in the process runs any more.
    pub(crate) fn kill(mut self) {
        signal(self.broker, Signal::KILL).expect("the broker ran until now");
        self.child.wait().expect("a killed child can be waited for");
    }

    /// Stops it as a frozen machine does (SIGSTOP): it keeps its connections and answers nothing.
    pub(crate) fn pause(&self) {
        signal(self.broker, Signal::STOP).expect("the broker runs");
    }

    /// Lets it go on.
    pub(crate) fn resume(&self) {
        signal(self.broker, Signal::CONT).expect("the broker is there");
    }

    /// Asks it to end (SIGTERM) and waits for that.
    pub(crate) fn stop(mut self) -> ExitStatus {
        signal(self.broker, Signal::TERM).expect("the broker ran until now");
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            match self.child.try_wait().expect("a child can be waited for") {
                Some(status) => return status,
                None => assert!(
                    Instant::now() < deadline,
                    "the broker did not end within a minute of SIGTERM"
                ),
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for its ready line, once.
    pub(crate) fn ready(&mut self, patience: Duration) -> bool {
        let stdout = self.child.stdout.take().expect("standard output is a pipe");
        let (sender, receiver) = mpsc::channel();
        // Reads to the end, so that the broker never waits for a reader.
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if line.starts_with("ready ") {
                    let _nobody_waits = sender.send(());
                }
            }
        });
        receiver.recv_timeout(patience).is_ok()
    }
}

fn signal(process: u32, signal: Signal) -> rustix::io::Result<()> {
    let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
    kill_process(pid.expect("a process id"), signal)
}

/// The process that a wrapper started.
fn only_child(wrapper: u32) -> u32 {
    let children = fs::read_to_string(format!("/proc/{wrapper}/task/{wrapper}/children"));
    let children = children.expect("the wrapper runs");
    children.trim().parse().expect("the wrapper has one child")
}

impl Drop for Process {
    fn drop(&mut self) {
        // The broker first: a wrapper that is gone would leave it behind. A child that was waited for has no number any more.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _already_gone = signal(self.broker, Signal::KILL);
            let _already_gone = self.child.kill();
            let _already_gone = self.child.wait();
        }
    }
}
