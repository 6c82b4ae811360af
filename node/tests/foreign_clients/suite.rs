//! What all checks share: the broker, the proxy in front of it, the clients, and the count of what held.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use crate::{
    broker::{Process, Site},
    client::Client,
    kcat::Kcat,
    program::Program,
    proxy::Proxy,
    raw::Connection,
};

/// A running broker with everything that is pointed at it.
pub(crate) struct Suite {
    pub(crate) clients: Vec<Box<dyn Client>>,
    pub(crate) proxy: Proxy,
    site: Site,
    kafka: Option<PathBuf>,
    process: Option<Process>,
    passed: u32,
    failed: Vec<String>,
}

impl Suite {
    /// Starts the broker behind a proxy, Apache Kafka when a distribution is given, and all clients in front of it.
    pub(crate) fn start(work: &Path, tools: &Path, kafka: Option<PathBuf>) -> Self {
        let proxy = Proxy::listen().expect("a free port");
        let site = Site::new(&work.join("broker"), Some(proxy.address()), OFTEN);
        proxy.lead_to(site.address());
        let bootstrap = proxy.address().to_string();
        let mut clients: Vec<Box<dyn Client>> = vec![Box::new(Kcat::new(&bootstrap))];
        for program in Program::all(tools, &bootstrap, work) {
            clients.push(Box::new(program));
        }
        let mut suite = Self {
            clients,
            proxy,
            site,
            kafka,
            process: None,
            passed: 0,
            failed: Vec::new(),
        };
        suite.process = Some(suite.run_broker());
        suite
    }

    fn run_broker(&self) -> Process {
        match &self.kafka {
            None => self.site.start(),
            Some(distribution) => self.site.start_kafka(distribution),
        }
    }

    /// Kills the broker and starts it again on its folder.
    pub(crate) fn restart_after_kill(&mut self) {
        self.process.take().expect("the broker runs").kill();
        self.process = Some(self.run_broker());
    }

    /// A connection that passes the proxy by.
    pub(crate) fn raw(&self) -> Connection {
        Connection::open(self.address()).expect("the broker accepts connections")
    }

    /// Where the broker listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.site.address()
    }

    /// Creates a topic without any client's help.
    pub(crate) fn topic(&self, topic: &str, partitions: i32, configs: &[(&str, &str)]) {
        let error = self
            .raw()
            .create_topic(topic, partitions, configs)
            .expect("the broker answers");
        assert_eq!(error, 0, "creating {topic}");
        self.await_leaders(topic, partitions);
    }

    /// Kafka may not yet lead a partition when it answers that it made it, or after a start; Seedlog must.
    pub(crate) fn await_leaders(&self, topic: &str, partitions: i32) {
        let led = |partition| {
            self.raw()
                .offset_at(topic, partition, -1)
                .is_ok_and(|(error, ..)| error == 0)
        };
        while self.is_kafka() && !(0..partitions).all(led) {
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Whether Apache Kafka stands in for our broker.
    pub(crate) fn is_kafka(&self) -> bool {
        self.kafka.is_some()
    }

    /// Runs a check, which says in its result what held or what did not.
    pub(crate) fn check(
        &mut self,
        name: &str,
        check: impl FnOnce(&mut Self) -> Result<String, String>,
    ) {
        let from = Instant::now();
        let said = check(self);
        let seconds = from.elapsed().as_secs_f32();
        match said {
            Ok(said) => {
                self.passed += 1;
                println!("ok    {name:<44} {said} ({seconds:.1}s)");
            }
            Err(said) => {
                println!("WRONG {name:<44} {said}");
                self.failed.push(name.to_owned());
            }
        }
        if !self.process.as_mut().is_some_and(Process::alive) {
            println!(
                "WRONG the broker ended during {name}; see {}",
                self.site.log().display()
            );
            self.failed.push(format!("{name}: the broker ended"));
            self.process = Some(self.run_broker());
        }
    }

    /// Prints the closing line; whether all held.
    pub(crate) fn finish(&self) -> bool {
        for name in &self.failed {
            println!("failed: {name}");
        }
        println!("{} passed, {} failed", self.passed, self.failed.len());
        self.failed.is_empty() && self.passed > 0
    }
}

/// Retention is looked after twice a second, from the start on.
const OFTEN: &str = "log.retention.check.interval.ms=500\nlog.initial.task.delay.ms=500\n";

/// The wall clock in milliseconds, as records have it.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("the clock is past 1970");
    i64::try_from(since.as_millis()).expect("the clock is before the year 292 million")
}
