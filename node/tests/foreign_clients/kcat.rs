//! kcat, the command-line tool, run once for each job.

use std::{
    io::{self, Write as _},
    process::{ChildStdin, Command, Output, Stdio},
    thread,
    time::Duration,
};

use serde_json::Value;

use crate::client::{Client, Consume, Failure, Produce, Record, Start};

/// kcat with a broker's address.
#[derive(Debug)]
pub(crate) struct Kcat {
    bootstrap: String,
}

impl Kcat {
    pub(crate) fn new(bootstrap: &str) -> Self {
        Self {
            bootstrap: bootstrap.to_owned(),
        }
    }

    /// Runs kcat for at most `seconds`, with lines for its input.
    fn run(&self, seconds: u64, arguments: &[&str], input: Lines) -> Result<Output, String> {
        let mut command = Command::new("timeout");
        command
            .args([&seconds.to_string(), "kcat", "-b", &self.bootstrap])
            .args(arguments);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command
            .spawn()
            .map_err(|e| format!("kcat does not start: {e}"))?;
        let stdin = child.stdin.take().expect("standard input is a pipe");
        let writer = thread::spawn(move || _ = input.write(stdin));
        let output = child.wait_with_output().map_err(|e| e.to_string())?;
        writer.join().expect("writing does not panic");
        Ok(output)
    }

    /// kcat writes to one partition a run, so offsets come back by partition; and headers are those of its command line.
    fn send(&self, job: &Produce<'_>, pace: Option<Duration>) -> Result<Vec<i64>, Failure> {
        let mut offsets = vec![-1; job.records.len()];
        let mut partitions: Vec<i32> = job.records.iter().map(|record| record.partition).collect();
        partitions.sort_unstable();
        partitions.dedup();
        for partition in partitions {
            let chosen = || {
                job.records
                    .iter()
                    .enumerate()
                    .filter(|(_, record)| record.partition == partition)
            };
            let lines: Vec<String> = chosen().map(|(_, record)| line(record)).collect();
            let headers = chosen()
                .next()
                .into_iter()
                .flat_map(|(_, record)| &record.headers);
            let headers: Vec<String> = headers
                .map(|(name, value)| format!("{name}={}", value.as_deref().unwrap_or_default()))
                .collect();
            let (partition, acks) = (partition.to_string(), format!("acks={}", job.acks));
            let mut arguments = vec![
                "-P", "-t", job.topic, "-p", &partition, "-z", job.codec, "-K", "\t", "-Z", "-vvv",
            ];
            arguments.extend([
                "-X",
                &acks,
                "-X",
                "enable.idempotence=false",
                "-X",
                // One request at a time keeps the order of reports where something is sent again.
                pace.map_or("retries=0", |_| "max.in.flight.requests.per.connection=1"),
                "-X",
                "linger.ms=100",
            ]);
            headers
                .iter()
                .for_each(|header| arguments.extend(["-H", header]));
            if pace.is_some() {
                // Outlasts that no broker answers for a while.
                arguments.push("-E");
            }
            let pace = pace.unwrap_or_default();
            let lines_max = u32::try_from(lines.len()).unwrap_or(u32::MAX);
            let seconds = 60 + pace.saturating_mul(lines_max).as_secs();
            let output = self.run(seconds, &arguments, Lines { lines, pace })?;
            let said = String::from_utf8_lossy(&output.stderr);
            // What was delivered in spite of errors is delivered.
            if !output.status.success() || pace.is_zero() && said.contains("ERROR") {
                return Err(format!("{}: {said}", output.status).into());
            }
            let delivered = said.lines().filter_map(|line| {
                line.strip_prefix("% Message delivered to partition ")?
                    .split_once("(offset ")?
                    .1
                    .split(')')
                    .next()?
                    .parse()
                    .ok()
            });
            for ((number, _), offset) in chosen().zip(delivered) {
                offsets[number] = offset;
            }
        }
        Ok(offsets)
    }
}

impl Client for Kcat {
    fn name(&self) -> &'static str {
        "kcat"
    }

    fn is_library(&self) -> bool {
        false
    }

    fn produce(&mut self, job: Produce<'_>) -> Result<Vec<i64>, Failure> {
        self.send(&job, None)
    }

    fn keep_producing(&mut self, job: Produce<'_>, pace: Duration) -> Result<Vec<i64>, Failure> {
        self.send(&job, Some(pace))
    }

    fn consume(&mut self, job: &Consume<'_>) -> Result<Vec<Record>, Failure> {
        let (partition, count) = (job.partition.to_string(), job.count.to_string());
        let start = match job.start {
            Start::Offset(offset) => offset.to_string(),
            Start::Time(time) => format!("s@{time}"),
            Start::Beginning => "beginning".to_owned(),
        };
        let mut arguments = vec![
            "-C", "-t", job.topic, "-p", &partition, "-o", &start, "-c", &count, "-J", "-q",
        ];
        let limits = job.fetch_bytes.map(|bytes| {
            [
                "fetch.max.bytes",
                "max.partition.fetch.bytes",
                "message.max.bytes",
            ]
            .map(|name| format!("{name}={bytes}"))
        });
        limits
            .iter()
            .flatten()
            .for_each(|limit| arguments.extend(["-X", limit]));
        let output = self.run(job.patience_ms.div_ceil(1000), &arguments, Lines::default())?;
        let said = String::from_utf8_lossy(&output.stderr);
        // `timeout` ends with 124: patience ended, which is no failure of kcat.
        if !output.status.success() && output.status.code() != Some(124) {
            return Err(format!("{}: {said}", output.status).into());
        }
        let records = output
            .stdout
            .split(|&byte| byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(record);
        records
            .collect::<Option<_>>()
            .ok_or_else(|| String::from_utf8_lossy(&output.stdout).into_owned().into())
    }

    fn offset_for_time(
        &mut self,
        topic: &str,
        partition: i32,
        time: i64,
    ) -> Result<Option<i64>, Failure> {
        let output = self.run(
            30,
            &["-Q", "-t", &format!("{topic}:{partition}:{time}")],
            Lines::default(),
        )?;
        let said = String::from_utf8_lossy(&output.stdout);
        let offset: Option<i64> = said
            .trim()
            .rsplit(' ')
            .next()
            .and_then(|word| word.parse().ok());
        let offset =
            offset.ok_or_else(|| format!("{said}{}", String::from_utf8_lossy(&output.stderr)))?;
        Ok((offset >= 0).then_some(offset))
    }

    fn configs_round_trip(&mut self, _topic: &str) -> Result<Option<(u64, Vec<String>)>, Failure> {
        Ok(None)
    }

    fn create_topic(&mut self, _topic: &str) -> Result<(), Failure> {
        Err("kcat creates topics only by using them".to_owned().into())
    }
}

/// What kcat reads, and how long it waits for each next line.
#[derive(Debug, Default)]
struct Lines {
    lines: Vec<String>,
    pace: Duration,
}

impl Lines {
    fn write(self, mut stdin: ChildStdin) -> io::Result<()> {
        if self.pace.is_zero() {
            return stdin.write_all(self.lines.concat().as_bytes());
        }
        for line in self.lines {
            stdin.write_all(line.as_bytes())?;
            thread::sleep(self.pace);
        }
        Ok(())
    }
}

/// A line of kcat's input: the key ends at a tab; what is empty counts as null.
fn line(record: &Record) -> String {
    let key = record.key.as_ref().map(|key| format!("{key}\t"));
    format!(
        "{}{}\n",
        key.unwrap_or_default(),
        record.value.as_deref().unwrap_or_default()
    )
}

/// A line of kcat's output.
fn record(line: &[u8]) -> Option<Record> {
    let json: Value = serde_json::from_slice(line).ok()?;
    let text = |value: &Value| value.as_str().map(ToOwned::to_owned);
    let headers = json["headers"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    Some(Record {
        partition: i32::try_from(json["partition"].as_i64()?).ok()?,
        offset: Some(json["offset"].as_i64()?),
        timestamp: Some(json["ts"].as_i64()?),
        key: text(&json["key"]),
        value: text(&json["payload"]),
        headers: headers
            .chunks(2)
            .map(|pair| Some((text(&pair[0])?, text(&pair[1]))))
            .collect::<Option<_>>()?,
    })
}
