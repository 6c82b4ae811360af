//! The brokers under comparison: Apache Kafka from its jars, Seedlog's binary, or one that already runs.

use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use crate::connection::{Connection, Reply, framed};

/// A broker that answers on one address.
pub(crate) trait Target {
    /// What reports call it.
    fn name(&self) -> &str;
    /// Where clients connect.
    fn address(&self) -> SocketAddr;
    /// Whether its process still runs.
    fn alive(&mut self) -> bool;
}

/// Settings that both brokers get: what a single node needs, and what makes the defaults of the two equal.
const SETTINGS: &str = "\
process.roles=broker,controller
node.id=1
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.flush.interval.messages=1
num.partitions=2
auto.create.topics.enable=true
";

/// Settings for Kafka alone: less memory for what no case uses.
const KAFKA_SETTINGS: &str = "log.cleaner.dedupe.buffer.size=4194304\n";

/// Apache Kafka as a single node with both roles.
#[derive(Debug)]
pub(crate) struct Kafka {
    process: Process,
    address: SocketAddr,
}

impl Kafka {
    /// Formats a fresh folder and starts the broker on it.
    pub(crate) fn start(distribution: &Path, work: &Path) -> Result<Self, String> {
        let properties = prepare(work, KAFKA_SETTINGS)?;
        let mut format = java(distribution);
        format
            .args([
                "kafka.tools.StorageTool",
                "format",
                "-t",
                "MkU3OEVBNTcwNTJENDM2Qg",
                "-c",
            ])
            .arg(&properties.file);
        let formatted = format
            .output()
            .map_err(|e| format!("java does not start: {e}"))?;
        if !formatted.status.success() {
            return Err(format!(
                "formatting failed: {}",
                String::from_utf8_lossy(&formatted.stderr)
            ));
        }
        let log = File::create(work.join("broker.log")).map_err(|e| e.to_string())?;
        let mut start = java(distribution);
        start
            .arg("kafka.Kafka")
            .arg(&properties.file)
            .stdin(Stdio::null());
        start
            .stdout(log.try_clone().map_err(|e| e.to_string())?)
            .stderr(log);
        let mut process = Process::spawn(start)?;
        let deadline = Instant::now() + Duration::from_secs(120);
        while !answers(properties.address) {
            if !process.alive() || Instant::now() > deadline {
                return Err(format!(
                    "Kafka did not start; see {}",
                    work.join("broker.log").display()
                ));
            }
            thread::sleep(Duration::from_millis(200));
        }
        Ok(Self {
            process,
            address: properties.address,
        })
    }
}

impl Target for Kafka {
    fn name(&self) -> &'static str {
        "Kafka"
    }

    fn address(&self) -> SocketAddr {
        self.address
    }

    fn alive(&mut self) -> bool {
        self.process.alive()
    }
}

/// Seedlog's own binary.
#[derive(Debug)]
pub(crate) struct Seedlog {
    process: Process,
    address: SocketAddr,
}

impl Seedlog {
    /// Starts the binary on a fresh folder and waits for its ready line.
    pub(crate) fn start(binary: &Path, work: &Path) -> Result<Self, String> {
        let properties = prepare(work, "")?;
        let log = File::create(work.join("broker.log")).map_err(|e| e.to_string())?;
        let mut start = Command::new(binary);
        start.args(["start", "--config"]).arg(&properties.file);
        start
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log);
        let mut process = Process::spawn(start)?;
        let address = process.ready(Duration::from_secs(30)).ok_or_else(|| {
            format!(
                "{} printed no ready line; see {}",
                binary.display(),
                work.join("broker.log").display()
            )
        })?;
        Ok(Self { process, address })
    }
}

impl Target for Seedlog {
    fn name(&self) -> &'static str {
        "Seedlog"
    }

    fn address(&self) -> SocketAddr {
        self.address
    }

    fn alive(&mut self) -> bool {
        self.process.alive()
    }
}

/// A broker that somebody else started.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) name: String,
    pub(crate) address: SocketAddr,
}

impl Target for Running {
    fn name(&self) -> &str {
        &self.name
    }

    fn address(&self) -> SocketAddr {
        self.address
    }

    fn alive(&mut self) -> bool {
        true
    }
}

struct Properties {
    file: PathBuf,
    address: SocketAddr,
}

/// Writes the settings of a broker with an empty data folder and free ports.
fn prepare(work: &Path, more: &str) -> Result<Properties, String> {
    if work.exists() {
        fs::remove_dir_all(work).map_err(|e| format!("{}: {e}", work.display()))?;
    }
    let data = work.join("data");
    fs::create_dir_all(&data).map_err(|e| format!("{}: {e}", data.display()))?;
    let (client, controller) = free_ports().map_err(|e| format!("no free port: {e}"))?;
    let text = format!(
        "{SETTINGS}{more}controller.quorum.voters=1@{controller}\nlisteners=PLAINTEXT://{client},CONTROLLER://{controller}\n\
         advertised.listeners=PLAINTEXT://{client}\nlog.dirs={}\n",
        data.display()
    );
    let file = work.join("server.properties");
    fs::write(&file, text).map_err(|e| format!("{}: {e}", file.display()))?;
    Ok(Properties {
        file,
        address: client,
    })
}

fn free_ports() -> std::io::Result<(SocketAddr, SocketAddr)> {
    let first = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let second = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok((first.local_addr()?, second.local_addr()?))
}

fn java(distribution: &Path) -> Command {
    let mut command = Command::new("java");
    command.args([
        "-Xmx512m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-cp",
    ]);
    command.arg(distribution.join("jars").join("*"));
    command
}

/// Whether a broker answers a Metadata request with itself as a usable broker.
fn answers(address: SocketAddr) -> bool {
    let Ok(mut connection) = Connection::open(address) else {
        return false;
    };
    // Metadata v1: no topics; correlation id 1; no client id.
    connection.send(&framed(&[0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 0, 0]));
    match connection.receive(Duration::from_secs(2)) {
        Reply::Frame(frame) => frame.get(4..8).is_some_and(|count| count != [0; 4]),
        Reply::Closed | Reply::Silence => false,
    }
}

/// A child process that ends with its owner.
#[derive(Debug)]
struct Process {
    child: Child,
}

impl Process {
    fn spawn(mut command: Command) -> Result<Self, String> {
        let child = command
            .spawn()
            .map_err(|e| format!("{:?} does not start: {e}", command.get_program()))?;
        Ok(Self { child })
    }

    fn alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// The address of the line `ready bootstrap=HOST:PORT`; later output is read and dropped.
    fn ready(&mut self, patience: Duration) -> Option<SocketAddr> {
        let stdout = self.child.stdout.take()?;
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let bootstrap = line
                    .strip_prefix("ready bootstrap=")
                    .and_then(|address| address.parse().ok());
                if let Some(address) = bootstrap {
                    let _nobody_waits = sender.send(address);
                }
            }
        });
        receiver.recv_timeout(patience).ok()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _already_gone = self.child.kill();
        let _already_gone = self.child.wait();
    }
}
