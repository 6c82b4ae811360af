//! A client library behind one of our programs, which take jobs as lines of JSON (see `clients/README.md`).

use std::{
    fs::File,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};

use crate::client::{Client, Consume, Failure, Produce, Record, Start};

/// A running program.
#[derive(Debug)]
pub(crate) struct Program {
    name: &'static str,
    bootstrap: String,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Program {
    /// Starts all programs; what they print for people goes to files in `logs`.
    pub(crate) fn all(tools: &Path, bootstrap: &str, logs: &Path) -> Vec<Self> {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients");
        let python = |program: &str| {
            let mut command = Command::new(tools.join("python/bin/python"));
            command
                .arg(sources.join("python").join(program))
                .env("PYTHONDONTWRITEBYTECODE", "1");
            command
        };
        let mut java = Command::new("java");
        java.args([
            "-Xmx256m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-cp",
        ]);
        java.arg(format!(
            "{}:{}",
            tools.join("java").display(),
            tools.join("jars/*").display()
        ))
        .arg("Client");
        let commands = [
            ("kafka-python", python("kafka_python_client.py")),
            ("confluent-kafka", python("confluent_client.py")),
            ("java", java),
            ("franz-go", Command::new(tools.join("go-client"))),
        ];
        commands
            .into_iter()
            .map(|(name, command)| Self::start(name, command, bootstrap, logs))
            .collect()
    }

    fn start(name: &'static str, mut command: Command, bootstrap: &str, logs: &Path) -> Self {
        let log = File::create(logs.join(format!("{name}.log")))
            .expect("a file below target/ can be made");
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log);
        let mut child = command
            .spawn()
            .unwrap_or_else(|e| panic!("{name} does not start: {e}"));
        let input = child.stdin.take().expect("standard input is a pipe");
        let output = BufReader::new(child.stdout.take().expect("standard output is a pipe"));
        Self {
            name,
            bootstrap: bootstrap.to_owned(),
            child,
            input,
            output,
        }
    }

    fn send(&mut self, job: &Produce<'_>, pace: Option<Duration>) -> Result<Vec<i64>, Failure> {
        let records: Vec<Value> = job.records.iter().map(Record::to_json).collect();
        let mut line = json!({
            "do": "produce", "topic": job.topic, "codec": job.codec, "acks": job.acks, "records": records,
        });
        if let Some(pace) = pace {
            line["pace_ms"] = json!(u64::try_from(pace.as_millis()).unwrap_or(u64::MAX));
        }
        let answer = self.ask(line)?;
        let offsets = answer["offsets"]
            .as_array()
            .into_iter()
            .flatten()
            .map(Value::as_i64);
        offsets
            .collect::<Option<_>>()
            .ok_or_else(|| format!("no offsets: {answer}").into())
    }

    fn ask(&mut self, mut job: Value) -> Result<Value, Failure> {
        job["bootstrap"] = json!(self.bootstrap);
        writeln!(self.input, "{job}").map_err(|e| format!("the program ended: {e}"))?;
        let mut line = String::new();
        self.output
            .read_line(&mut line)
            .map_err(|e| format!("the program ended: {e}"))?;
        let answer: Value =
            serde_json::from_str(&line).map_err(|e| format!("the program said {line:?}: {e}"))?;
        match answer.get("error") {
            Some(error) => Err(Failure {
                code: answer["code"].as_i64(),
                said: error.to_string(),
            }),
            None => Ok(answer),
        }
    }
}

impl Client for Program {
    fn name(&self) -> &'static str {
        self.name
    }

    fn produce(&mut self, job: Produce<'_>) -> Result<Vec<i64>, Failure> {
        self.send(&job, None)
    }

    fn keep_producing(&mut self, job: Produce<'_>, pace: Duration) -> Result<Vec<i64>, Failure> {
        self.send(&job, Some(pace))
    }

    fn consume(&mut self, job: &Consume<'_>) -> Result<Vec<Record>, Failure> {
        let mut line = json!({
            "do": "consume", "topic": job.topic, "partition": job.partition, "count": job.count,
            "patience_ms": job.patience_ms,
        });
        match job.start {
            Start::Offset(offset) => line["offset"] = json!(offset),
            Start::Time(time) => line["time"] = json!(time),
            Start::Beginning => line["at"] = json!("beginning"),
        }
        if let Some(bytes) = job.fetch_bytes {
            line["fetch_bytes"] = json!(bytes);
        }
        let answer = self.ask(line)?;
        let records = answer["records"]
            .as_array()
            .into_iter()
            .flatten()
            .map(Record::from_json);
        records
            .collect::<Option<_>>()
            .ok_or_else(|| format!("no records: {answer}").into())
    }

    fn offset_for_time(
        &mut self,
        topic: &str,
        partition: i32,
        time: i64,
    ) -> Result<Option<i64>, Failure> {
        let answer = self.ask(json!({
            "do": "offset_for_time", "topic": topic, "partition": partition, "time": time,
        }))?;
        Ok(answer["offset"].as_i64())
    }

    fn configs_round_trip(&mut self, topic: &str) -> Result<Option<(u64, Vec<String>)>, Failure> {
        if !["java", "confluent-kafka"].contains(&self.name) {
            return Ok(None);
        }
        let answer = self.ask(json!({ "do": "configs_round_trip", "topic": topic }))?;
        let changed = answer["changed"]
            .as_array()
            .into_iter()
            .flatten()
            .map(Value::to_string);
        Ok(Some((
            answer["written"].as_u64().unwrap_or(0),
            changed.collect(),
        )))
    }

    fn create_topic(&mut self, topic: &str) -> Result<(), Failure> {
        self.ask(json!({ "do": "create_topic", "topic": topic, "partitions": 1, "configs": {} }))
            .map(|_| ())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _already_gone = self.child.kill();
        let _already_gone = self.child.wait();
    }
}
