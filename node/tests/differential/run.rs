//! One case against one broker: sends requests, keeps a normalised transcript of what came back.

use std::{
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{
    batch::Batch,
    connection::{Connection, Reply, framed},
    normalise::Names,
    schema::Schemas,
    target::Target,
    wire,
};

/// How long an answer may take at all.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long an answer may take to a request that may get none.
const PATIENCE_FOR_ODDITIES: Duration = Duration::from_secs(3);
/// How long a broker is watched before it counts as silent.
const SILENCE: Duration = Duration::from_millis(500);
/// How long set-up waits for a change to reach the broker's own view.
const PROPAGATION: Duration = Duration::from_secs(10);

/// A case in progress.
pub(crate) struct Run<'a> {
    schemas: &'a Schemas,
    target: &'a dyn Target,
    names: Names,
    connection: Option<Connection>,
    correlation: i32,
    transcript: Vec<Value>,
}

impl<'a> Run<'a> {
    /// `prefix` keeps the topics of this case apart from all others.
    pub(crate) fn new(schemas: &'a Schemas, target: &'a dyn Target, prefix: &str) -> Self {
        let names = Names::new(prefix, target.address());
        Self {
            schemas,
            target,
            names,
            connection: None,
            correlation: 0,
            transcript: Vec::new(),
        }
    }

    /// What the broker did, step by step.
    pub(crate) fn into_transcript(self) -> Vec<Value> {
        self.transcript
    }

    /// The name that this case gives to its topic `label`.
    pub(crate) fn topic(&self, label: &str) -> String {
        format!("{}{label}", self.names.prefix())
    }

    /// Sends a request and records the answer, which is returned as it came.
    pub(crate) fn send(&mut self, api: &str, version: i16, body: Value) -> Value {
        let outcome = self.exchange(api, version, &body);
        self.record(api, version, &body, &outcome, None);
        outcome.body
    }

    /// Like `send`, and records whether the answer came at once or when `max_wait_ms` was over.
    pub(crate) fn send_timed(
        &mut self,
        api: &str,
        version: i16,
        body: Value,
        max_wait_ms: u64,
    ) -> Value {
        let started = Instant::now();
        let outcome = self.exchange(api, version, &body);
        let elapsed = started.elapsed();
        let wait = Duration::from_millis(max_wait_ms);
        let class = if elapsed < wait / 2 {
            "at once"
        } else if elapsed + Duration::from_millis(20) < wait {
            "in between"
        } else {
            "after the wait"
        };
        self.record(api, version, &body, &outcome, Some(class));
        outcome.body
    }

    /// Like `send_timed`, with another request sent over a connection of its own while the first one waits.
    pub(crate) fn send_timed_beside(
        &mut self,
        api: &str,
        version: i16,
        body: Value,
        max_wait_ms: u64,
        (beside, beside_version, beside_body): (&str, i16, Value),
    ) {
        let beside = framed(&self.frame(beside, beside_version, &beside_body));
        let address = self.target.address();
        let second = thread::spawn(move || {
            thread::sleep(Duration::from_millis(max_wait_ms / 6));
            if let Ok(mut connection) = Connection::open(address) {
                connection.send(&beside);
                connection.receive(PATIENCE);
            }
        });
        self.send_timed(api, version, body, max_wait_ms);
        let _nothing_to_learn = second.join();
    }

    /// Sends a request without recording anything.
    pub(crate) fn quietly(&mut self, api: &str, version: i16, body: Value) -> Value {
        let body = self.exchange(api, version, &body).body;
        self.names.learn(&body);
        body
    }

    /// Repeats a request until its answer is as wanted (or patience ends), then records that answer.
    pub(crate) fn send_until(
        &mut self,
        api: &str,
        version: i16,
        body: Value,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        let outcome = self.exchange_until(api, version, &body, wanted);
        self.record(api, version, &body, &outcome, None);
        outcome.body
    }

    /// Sends a request that must have no answer, and a second one that shows whether there was one.
    pub(crate) fn send_unanswered(&mut self, api: &str, version: i16, body: Value) {
        let frame = self.frame(api, version, &body);
        let correlation = self.correlation;
        self.write(&framed(&frame));
        let probe = self.frame("ApiVersions", 0, &json!({}));
        self.write(&framed(&probe));
        let seen = match self.read(PATIENCE_FOR_ODDITIES) {
            Reply::Frame(frame) if frame.starts_with(&self.correlation.to_be_bytes()) => {
                json!("none")
            }
            Reply::Frame(frame) if frame.starts_with(&correlation.to_be_bytes()) => {
                let answer = self.open_answer(api, version, correlation, &frame);
                self.read(PATIENCE);
                answer.unwrap_or_else(Value::from)
            }
            Reply::Frame(frame) => wire::hex(&frame).into(),
            Reply::Closed => json!("closed"),
            Reply::Silence => {
                self.connection = None;
                json!("silence")
            }
        };
        self.push(format!("{api} v{version}"), json!({ "answer": seen }));
    }

    /// Sends a request that may get no answer at all.
    pub(crate) fn send_oddity(&mut self, api: &str, version: i16, body: &Value) {
        let frame = self.frame(api, version, body);
        self.bytes_as(api, version, &format!("{api} v{version}"), &framed(&frame));
    }

    /// The bytes of a request, header included, for cases that damage or cut them.
    pub(crate) fn frame(&mut self, api: &str, version: i16, body: &Value) -> Vec<u8> {
        self.correlation += 1;
        let api = self.schemas.api(api);
        let mut frame = Vec::new();
        frame.extend(api.key.to_be_bytes());
        frame.extend(version.to_be_bytes());
        frame.extend(self.correlation.to_be_bytes());
        frame.extend(4_u16.to_be_bytes());
        frame.extend(b"diff");
        if api.request.flexible.contains(version) {
            frame.push(0);
        }
        frame.extend(wire::encode(&api.request, version, body));
        frame
    }

    /// Sends a frame as it is and records the answer's bytes, its silence, or that the connection closed.
    pub(crate) fn raw(&mut self, label: &str, frame: &[u8]) {
        self.bytes(label, &framed(frame));
    }

    /// Sends bytes without a size in front.
    pub(crate) fn bytes(&mut self, label: &str, bytes: &[u8]) {
        self.write(bytes);
        let seen = match self.read(SILENCE) {
            Reply::Frame(frame) => wire::hex(&frame),
            Reply::Closed => "closed".to_owned(),
            Reply::Silence => "silence".to_owned(),
        };
        self.push(label.to_owned(), json!({ "answer": seen }));
    }

    /// Sends a frame as it is and records the answer as one of `api` at `version`.
    pub(crate) fn raw_as(&mut self, api: &str, version: i16, label: &str, frame: &[u8]) {
        if let Some(correlation) = frame.get(4..8).and_then(|c| c.try_into().ok()) {
            self.correlation = i32::from_be_bytes(correlation);
        }
        self.bytes_as(api, version, label, &framed(frame));
    }

    /// Sends the last bytes of a frame and records the answer as one of `api` at `version`.
    pub(crate) fn bytes_as(&mut self, api: &str, version: i16, label: &str, bytes: &[u8]) {
        self.write(bytes);
        let seen = match self.read(PATIENCE_FOR_ODDITIES) {
            Reply::Frame(frame) => {
                let answer = self.open_answer(api, version, self.correlation, &frame);
                answer.map_or_else(Value::from, |body| {
                    self.names.normalise(api, &json!({}), body)
                })
            }
            Reply::Closed => json!("closed"),
            Reply::Silence => json!("silence"),
        };
        self.push(label.to_owned(), json!({ "answer": seen }));
    }

    /// Sends bytes and waits for nothing.
    pub(crate) fn write_bytes(&mut self, bytes: &[u8]) {
        self.write(bytes);
    }

    /// The correlation id of the next answer.
    pub(crate) fn next_correlation(&mut self) -> i32 {
        match self.read(PATIENCE) {
            Reply::Frame(frame) => frame
                .get(..4)
                .and_then(|c| c.try_into().ok())
                .map_or(-1, i32::from_be_bytes),
            Reply::Closed | Reply::Silence => -1,
        }
    }

    /// Says that no more bytes will come, and records what the broker makes of it.
    pub(crate) fn finish_sending(&mut self, label: &str) {
        if let Some(connection) = &self.connection {
            connection.finish_sending();
        }
        self.bytes(label, &[]);
        self.reconnect();
    }

    /// Goes on over a new connection.
    pub(crate) fn reconnect(&mut self) {
        self.connection = None;
    }

    /// Records a value of the case's own making.
    pub(crate) fn note(&mut self, label: &str, value: Value) {
        self.push(label.to_owned(), json!({ "answer": value }));
    }

    /// Records an answer that the case has cut down to what matters.
    pub(crate) fn note_answer(&mut self, api: &str, answer: Value) {
        let answer = self.names.normalise(api, &json!({}), answer);
        self.push(api.to_owned(), json!({ "answer": answer }));
    }

    /// Set-up: a topic with default configs, usable when this returns. Gives its full name.
    pub(crate) fn create_topic(&mut self, label: &str, partitions: i32) -> String {
        self.create_topic_with(label, partitions, &[])
    }

    /// Set-up: a topic with configs.
    pub(crate) fn create_topic_with(
        &mut self,
        label: &str,
        partitions: i32,
        configs: &[(&str, &str)],
    ) -> String {
        let name = self.topic(label);
        let configs: Vec<_> = configs
            .iter()
            .map(|(name, value)| json!({ "name": name, "value": value }))
            .collect();
        let topic = json!({ "name": name, "numPartitions": partitions, "replicationFactor": 1, "configs": configs });
        let answer = self.quietly(
            "CreateTopics",
            5,
            json!({ "topics": [topic], "timeoutMs": 10_000 }),
        );
        if answer["topics"][0]["errorCode"] != 0 {
            self.note(
                &format!("set-up: create {label}"),
                answer["topics"][0]["errorCode"].clone(),
            );
        }
        self.await_topic(&name, partitions);
        name
    }

    /// Set-up: waits until a topic has leaders for all partitions and serves them.
    pub(crate) fn await_topic(&mut self, name: &str, partitions: i32) {
        let body = json!({ "topics": [{ "name": name }], "allowAutoTopicCreation": false });
        let led = |partition: &Value| partition["errorCode"] == 0 && partition["leaderId"] != -1;
        let metadata = self.exchange_until("Metadata", 10, &body, |answer| {
            let led = answer["topics"][0]["partitions"]
                .as_array()
                .map_or(0, |all| all.iter().filter(|p| led(p)).count());
            i64::try_from(led) == Ok(i64::from(partitions))
        });
        self.names.learn(&metadata.body);
        let wanted: Vec<_> = (0..partitions)
            .map(|p| json!({ "partitionIndex": p, "timestamp": -1 }))
            .collect();
        let body = json!({ "replicaId": -1, "topics": [{ "name": name, "partitions": wanted }] });
        self.exchange_until("ListOffsets", 1, &body, |answer| {
            let served = answer["topics"][0]["partitions"].as_array();
            served.is_some_and(|all| all.iter().all(|partition| partition["errorCode"] == 0))
        });
    }

    /// Set-up: appends a batch.
    pub(crate) fn produce(&mut self, topic: &str, partition: i32, batch: &Batch) {
        let data = json!({ "index": partition, "records": batch.hex() });
        let body = json!({ "acks": -1, "timeoutMs": 10_000, "topicData": [{ "name": topic, "partitionData": [data] }] });
        let answer = self.quietly("Produce", 9, body);
        let code = &answer["responses"][0]["partitionResponses"][0]["errorCode"];
        if *code != 0 {
            self.note("set-up: produce", code.clone());
        }
    }

    /// The id of a topic of this case; zero if the broker does not know it.
    pub(crate) fn topic_id(&mut self, name: &str) -> Value {
        let body = json!({ "topics": [{ "name": name }], "allowAutoTopicCreation": false });
        let answer = self.quietly("Metadata", 10, body);
        let id = answer["topics"][0]["topicId"].clone();
        if id.is_string() {
            id
        } else {
            json!("00000000-0000-0000-0000-000000000000")
        }
    }

    /// Lets real time pass.
    pub(crate) fn pause(&self, duration: Duration) {
        thread::sleep(duration);
    }

    fn exchange_until(
        &mut self,
        api: &str,
        version: i16,
        body: &Value,
        wanted: impl Fn(&Value) -> bool,
    ) -> Outcome {
        let deadline = Instant::now() + PROPAGATION;
        loop {
            let outcome = self.exchange(api, version, body);
            if wanted(&outcome.body) || !outcome.trouble.is_null() || Instant::now() > deadline {
                return outcome;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    fn exchange(&mut self, api: &str, version: i16, body: &Value) -> Outcome {
        let frame = self.frame(api, version, body);
        let correlation = self.correlation;
        self.write(&framed(&frame));
        let trouble = match self.read(PATIENCE) {
            Reply::Frame(frame) => match self.open_answer(api, version, correlation, &frame) {
                Ok(body) => {
                    return Outcome {
                        body,
                        trouble: Value::Null,
                    };
                }
                Err(reason) => reason.into(),
            },
            Reply::Closed => json!("closed"),
            Reply::Silence => {
                self.connection = None;
                json!("silence")
            }
        };
        Outcome {
            body: Value::Null,
            trouble,
        }
    }

    /// Checks an answer's header and decodes its body.
    fn open_answer(
        &self,
        api: &str,
        version: i16,
        correlation: i32,
        frame: &[u8],
    ) -> Result<Value, String> {
        let schema = self.schemas.api(api);
        let wrong = |what: String| format!("undecodable ({what}): {}", wire::hex(frame));
        let mut input = wire::Input { rest: frame };
        let echoed = i32::from_be_bytes(input.array().map_err(wrong)?);
        if echoed != correlation {
            return Err(wrong(format!("correlation id {echoed} for {correlation}")));
        }
        // The header of an ApiVersions answer never has tagged fields, so that any client can read it.
        if schema.response.flexible.contains(version)
            && api != "ApiVersions"
            && input.uvarint().map_err(wrong)? != 0
        {
            return Err(wrong("tagged fields in the header".to_owned()));
        }
        wire::decode(&schema.response, version, input.rest).map_err(wrong)
    }

    fn record(
        &mut self,
        api: &str,
        version: i16,
        request: &Value,
        outcome: &Outcome,
        timing: Option<&str>,
    ) {
        let answer = if outcome.trouble.is_null() {
            self.names.normalise(api, request, outcome.body.clone())
        } else {
            outcome.trouble.clone()
        };
        let mut step = json!({ "answer": answer });
        if let Some(class) = timing {
            step["timing"] = class.into();
        }
        self.push(format!("{api} v{version}"), step);
    }

    fn push(&mut self, label: String, mut step: Value) {
        step["step"] = label.into();
        self.transcript.push(step);
    }

    fn write(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        if self.connection.is_none() {
            self.connection = Connection::open(self.target.address()).ok();
        }
        if let Some(connection) = &mut self.connection {
            connection.send(bytes);
        }
    }

    fn read(&mut self, patience: Duration) -> Reply {
        let reply = self
            .connection
            .as_mut()
            .map_or(Reply::Closed, |connection| connection.receive(patience));
        if matches!(reply, Reply::Closed) {
            self.connection = None;
        }
        reply
    }
}

struct Outcome {
    /// The decoded body, null if there is none.
    body: Value,
    /// Why there is none.
    trouble: Value,
}
