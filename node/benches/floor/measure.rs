//! One run of one subject, and what the system says that it cost.

use std::{
    fmt,
    fs::{self, File},
    io::{BufWriter, Write},
    net::TcpStream,
    path::Path,
    time::{Duration, Instant},
};

use crate::{Plan, Work, batch::Request, client::Client, floor::FETCHED, subject::Subject};

/// What one run cost.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
    pub(crate) elapsed: Duration,
    /// Processor time of the subject's process, all threads.
    pub(crate) cpu: Duration,
    /// How often its threads went to sleep.
    pub(crate) sleeps: u64,
    /// Memory in use at the end.
    pub(crate) rss_kib: u64,
    pub(crate) threads: usize,
}

impl Sample {
    /// What so many requests and bytes cost between two readings.
    pub(crate) fn between(
        before: &Usage,
        after: &Usage,
        elapsed: Duration,
        (requests, bytes): (u64, u64),
    ) -> Self {
        Self {
            requests,
            bytes,
            elapsed,
            cpu: after.cpu.saturating_sub(before.cpu),
            sleeps: after.sleeps.saturating_sub(before.sleeps),
            rss_kib: after.rss_kib,
            threads: after.threads,
        }
    }

    /// Seconds of processor time per gigabyte.
    pub(crate) fn cpu_per_gb(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e9 / self.bytes as f64
    }

    /// Megabytes per second.
    pub(crate) fn rate(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.elapsed.as_secs_f64()
    }

    pub(crate) fn sleeps_per_request(&self) -> f64 {
        self.sleeps as f64 / self.requests as f64
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.3} CPU-s/GB, {:.0} MB/s, {:.3} sleeps per request, {:.1} MiB, {} threads",
            self.cpu_per_gb(),
            self.rate(),
            self.sleeps_per_request(),
            self.rss_kib as f64 / 1024.0,
            self.threads
        )
    }
}

/// Starts a subject in an empty folder, warms it up, and measures it.
pub(crate) fn run(subject: Subject, work: Work, plan: &Plan, scratch: &Path) -> Sample {
    let dir = scratch.join(format!("floor-{}", std::process::id()));
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).unwrap();
    let requests: Vec<Request> = (0..work.partitions())
        .map(|partition| Request::new(plan.request_bytes, partition, 1))
        .collect();
    let is_kafka = subject == Subject::Seedlog;
    if !is_kafka && matches!(work, Work::Fetch { .. }) {
        write_fetched(&dir, &requests[0], plan.bytes);
    }
    let (mut child, address) = subject.start(work, &requests[0], &dir);
    let mut client = Client::connect(address);
    let idle = (0..plan.idle).map(|_| TcpStream::connect(address).unwrap());
    let idle: Vec<TcpStream> = idle.collect();
    if is_kafka {
        client.create_topic(work.partitions());
        if matches!(work, Work::Fetch { .. }) {
            client.produce(&requests, plan.bytes, 5, true);
        }
    }
    let mut load = |bytes: u64| match work {
        Work::Produce | Work::Durable { .. } => {
            let count = client.produce(&requests, bytes, work.in_flight(), is_kafka);
            (count, count * requests[0].bytes.len() as u64)
        }
        Work::Fetch { chunk } if is_kafka => client.fetch(bytes, chunk),
        Work::Fetch { chunk } => client.fetch_from_floor(bytes, chunk, plan.bytes),
    };
    // Every partition's log is open and has its epoch written down before the clock starts.
    let twice_around = work.partitions() * plan.request_bytes * 2;
    load((work.bytes(plan) / 8).max(twice_around as u64));
    let before = Usage::of(child.id());
    let begin = Instant::now();
    let (requests_done, bytes) = load(work.bytes(plan));
    let elapsed = begin.elapsed();
    let after = Usage::of(child.id());

    child.kill().unwrap();
    child.wait().unwrap();
    drop(idle);
    fs::remove_dir_all(&dir).unwrap();
    Sample::between(&before, &after, elapsed, (requests_done, bytes))
}

/// Writes the log that is fetched from a floor.
fn write_fetched(dir: &Path, request: &Request, bytes: u64) {
    let mut log = BufWriter::new(File::create(dir.join(FETCHED)).unwrap());
    let mut left = bytes;
    while left > 0 {
        let part = left.min(request.bytes.len() as u64);
        log.write_all(&request.bytes[..part as usize]).unwrap();
        left -= part;
    }
    log.flush().unwrap();
}

/// What a process has used so far.
pub(crate) struct Usage {
    pub(crate) cpu: Duration,
    pub(crate) sleeps: u64,
    pub(crate) rss_kib: u64,
    threads: usize,
}

impl Usage {
    /// Reads the system's account of all threads of a process; a thread that has ended no longer counts.
    pub(crate) fn of(pid: u32) -> Self {
        let mut usage = Self {
            cpu: Duration::ZERO,
            sleeps: 0,
            rss_kib: number(
                &fs::read_to_string(format!("/proc/{pid}/status")).unwrap(),
                "VmRSS:",
            ),
            threads: 0,
        };
        for thread in fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
            let thread = thread.unwrap().path();
            let schedule = fs::read_to_string(thread.join("schedstat")).unwrap();
            let nanos = schedule.split_whitespace().next().unwrap();
            usage.cpu += Duration::from_nanos(nanos.parse().unwrap());
            let status = fs::read_to_string(thread.join("status")).unwrap();
            usage.sleeps += number(&status, "voluntary_ctxt_switches:");
            usage.threads += 1;
        }
        usage
    }
}

impl Usage {
    /// What both processes have used.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            cpu: self.cpu + other.cpu,
            sleeps: self.sleeps + other.sleeps,
            rss_kib: self.rss_kib + other.rss_kib,
            threads: self.threads + other.threads,
        }
    }
}

/// Finds the number behind a name at the beginning of a line.
fn number(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let word = line.and_then(|rest| rest.split_whitespace().next());
    word.and_then(|word| word.parse().ok()).unwrap_or_default()
}
