//! The client commands against a broker of the same binary, as a shell runs them.

#![expect(
    clippy::unwrap_used,
    reason = "what these helpers cannot get is the failure of the test that asked"
)]

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, Command, Output, Stdio},
    thread,
};

use tempfile::TempDir;

/// `seedlog dev` on a free port and a fresh folder.
struct Broker {
    process: Child,
    address: String,
    _data: TempDir,
}

impl Broker {
    fn start() -> Self {
        let data = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let mut process = Command::new(env!("CARGO_BIN_EXE_seedlog"))
            .args(["dev", "--listen", "127.0.0.1:0", "--data"])
            .arg(data.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        let mut lines = BufReader::new(process.stdout.take().unwrap());
        lines.read_line(&mut ready).unwrap();
        let address = ready.trim().strip_prefix("ready bootstrap=").unwrap();
        Self {
            process,
            address: address.to_owned(),
            _data: data,
        }
    }

    /// Runs a command to its end.
    fn run(&self, line: &str, input: &[u8]) -> Output {
        let mut process = Command::new(env!("CARGO_BIN_EXE_seedlog"))
            .args(line.split(' '))
            .args(["--bootstrap-server", &self.address])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = process.stdin.take().unwrap();
        let input = input.to_vec();
        // A command may end without reading everything.
        let writer = thread::spawn(move || drop(stdin.write_all(&input)));
        let output = process.wait_with_output().unwrap();
        writer.join().unwrap();
        output
    }

    /// Runs a command that must succeed; returns what it printed.
    fn ok(&self, line: &str, input: &[u8]) -> String {
        let output = self.run(line, input);
        assert!(output.status.success(), "{line}: {}", errors(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a command that must fail; returns its code and what it complained about.
    fn fails(&self, line: &str, input: &[u8]) -> (i32, String) {
        let output = self.run(line, input);
        (output.status.code().unwrap(), errors(&output))
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn numbers(to: usize) -> String {
    (1..=to).map(|number| format!("{number}\n")).collect()
}

#[test]
fn every_line_comes_back_in_order_with_every_codec() {
    let broker = Broker::start();
    let input = numbers(20_000);
    for codec in ["none", "gzip", "snappy", "lz4", "zstd"] {
        let line = format!("produce -t {codec} --partition 0 --compression-type {codec}");
        broker.ok(&format!("topic create {codec} --partitions 2"), b"");
        broker.ok(&line, input.as_bytes());
        let output = broker.ok(&format!("consume -t {codec} --from-beginning -e"), b"");
        assert!(output == input, "{codec} changed what was written");
    }
}

#[test]
fn keys_headers_offsets_and_times_are_printed_as_kafka_prints_them() {
    let broker = Broker::start();
    broker.ok("topic create t --partitions 1", b"");
    broker.ok(
        "produce -t t --key-separator : -H a=1 -H b=2",
        b"k:v:w\n:\n",
    );
    let line = "consume -t t -p 0 -o 0 -n 2 --print-key --print-headers --print-offset \
                --print-partition";
    assert_eq!(
        broker.ok(line, b""),
        "Partition:0\tOffset:0\ta:1,b:2\tk\tv:w\nPartition:0\tOffset:1\ta:1,b:2\t\t\n"
    );
    let time = broker.ok("consume -t t -p 0 -o 1 -n 1 --print-timestamp", b"");
    let time = time.strip_prefix("CreateTime:").unwrap();
    let (millis, _) = time.split_once('\t').unwrap();
    let line = format!("consume -t t --timestamp {millis} -e");
    assert!(!broker.ok(&line, b"").is_empty());
    let line = "consume -t t --timestamp 99999999999999 -e";
    assert_eq!(broker.ok(line, b""), "", "no record is that young");
}

#[test]
fn unacknowledged_lines_have_left_when_the_command_ends() {
    let broker = Broker::start();
    broker.ok("topic create t --partitions 1", b"");
    let input = numbers(100_000);
    broker.ok("produce -t t --acks 0", input.as_bytes());
    // The broker reads them after the command has ended.
    let line = "consume -t t --from-beginning -n 100000";
    assert!(broker.ok(line, b"") == input, "lines are missing");
}

#[test]
fn topics_are_created_described_and_deleted() {
    let broker = Broker::start();
    let line = "topic create orders --partitions 3 --config retention.ms=1000000";
    assert_eq!(broker.ok(line, b""), "Created topic orders.\n");
    assert_eq!(broker.ok("topic list", b""), "orders\n");
    let described = broker.ok("topic describe --topic orders", b"");
    assert!(described.starts_with("Topic: orders\tTopicId: "));
    assert!(described.contains("\tPartitionCount: 3\tReplicationFactor: 1\t"));
    assert!(described.contains("Configs: retention.ms=1000000"));
    assert!(described.contains("\tTopic: orders\tPartition: 2\tLeader: 1\tReplicas: 1\tIsr: 1"));
    assert_eq!(described.lines().count(), 4);
    let (code, text) = broker.fails("topic create orders", b"");
    assert!(code == 1 && text.contains("--if-not-exists"), "{text}");
    broker.ok("topic create orders --if-not-exists", b"");
    assert_eq!(
        broker.ok("topic delete orders", b""),
        "Deleted topic orders.\n"
    );
    assert_eq!(broker.ok("topic list", b""), "");
    let (code, text) = broker.fails("topic delete orders", b"");
    assert!(code == 1 && text.contains("--if-exists"), "{text}");
}

#[test]
fn failures_say_what_to_do_next() {
    let broker = Broker::start();
    broker.ok("topic create t --partitions 2", b"");
    let cases: [(&str, &[u8], i32, &str); 7] = [
        ("consume -t none", b"", 1, "seedlog topic create none"),
        ("consume -t t -p 5", b"", 1, "it has 2, numbered from 0"),
        ("consume -t t -p 0 -o 9", b"", 1, "does not hold"),
        ("consume -t t -o 9", b"", 2, "--partition"),
        ("topic create a/b", b"", 1, "INVALID_TOPIC_EXCEPTION"),
        ("topic create x --config a=b", b"", 1, "INVALID_CONFIG"),
        ("produce -t t --key-separator :", b"a:b\nc\n", 1, "line 2"),
    ];
    for (line, input, expected, part) in cases {
        let (code, text) = broker.fails(line, input);
        assert_eq!(code, expected, "{line}: {text}");
        assert!(text.contains(part), "{line}: {text}");
    }
    let before = broker.ok("consume -t t --from-beginning -e --print-key", b"");
    assert_eq!(before, "a\tb\n", "what came before the bad line was sent");
}

#[test]
fn nobody_answering_is_said_within_the_timeout() {
    let output = Command::new(env!("CARGO_BIN_EXE_seedlog"))
        .args(["topic", "list", "-b", "127.0.0.1:1", "--timeout-ms", "300"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let text = errors(&output);
    assert!(
        text.contains("seedlog dev") && text.contains("refused"),
        "{text}"
    );
}
