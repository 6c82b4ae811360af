//! Kafka's protocol by hand, on one blocking socket: independent of the broker's own code, and of any client's.

mod batch;
mod bytes;

use std::{
    collections::BTreeMap,
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use self::bytes::count;
pub(crate) use self::{
    batch::Batch,
    bytes::{Input, Output},
};

/// An answer for one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fetched {
    pub(crate) error: i16,
    pub(crate) high_watermark: i64,
    pub(crate) log_start: i64,
    pub(crate) records: Vec<u8>,
}

/// A connection that sends requests of versions without compact types.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    correlation: i32,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        Ok(Self {
            stream,
            correlation: 0,
        })
    }

    /// The port of this end.
    pub(crate) fn port(&self) -> u16 {
        let address = self.stream.local_addr();
        address.expect("a connected socket has an address").port()
    }

    /// Sends a request and hands back its correlation id.
    pub(crate) fn send(&mut self, api: i16, version: i16, body: &[u8]) -> io::Result<i32> {
        self.correlation += 1;
        let mut frame = Output::default();
        frame
            .i16(api)
            .i16(version)
            .i32(self.correlation)
            .text("raw");
        frame.bytes.extend(body);
        let size = i32::try_from(frame.bytes.len())
            .expect("a small request")
            .to_be_bytes();
        self.stream
            .write_all(&[&size, frame.bytes.as_slice()].concat())?;
        Ok(self.correlation)
    }

    /// Waits for the next answer: its correlation id and body.
    pub(crate) fn receive(&mut self) -> io::Result<(i32, Vec<u8>)> {
        let mut head = [0; 8];
        self.stream.read_exact(&mut head)?;
        let (size, correlation) = head.split_at(4);
        let size = u32::from_be_bytes(size.try_into().expect("four bytes"));
        let mut body = vec![
            0;
            usize::try_from(size)
                .expect("a size")
                .checked_sub(4)
                .expect("room for the id")
        ];
        self.stream.read_exact(&mut body)?;
        Ok((
            i32::from_be_bytes(correlation.try_into().expect("four bytes")),
            body,
        ))
    }

    fn ask(&mut self, api: i16, version: i16, body: &Output) -> io::Result<Vec<u8>> {
        let sent = self.send(api, version, &body.bytes)?;
        let (answered, body) = self.receive()?;
        assert_eq!(answered, sent, "answers keep the order of requests");
        Ok(body)
    }

    /// Whether the broker knows itself yet.
    pub(crate) fn has_broker(&mut self) -> bool {
        self.ask(3, 1, Output::default().i32(0))
            .is_ok_and(|answer| Input::of(&answer).i32() > 0)
    }

    /// The names of all topics.
    pub(crate) fn topics(&mut self) -> io::Result<Vec<String>> {
        let answer = self.ask(3, 1, Output::default().i32(-1))?;
        let mut input = Input::of(&answer);
        for _broker in 0..input.i32() {
            let (_id, _host, _port, _rack) = (input.i32(), input.text(), input.i32(), input.text());
        }
        let _controller = input.i32();
        let mut names = Vec::new();
        for _topic in 0..input.i32() {
            assert_eq!(input.i16(), 0, "each topic has its metadata");
            names.push(input.text().expect("a topic has a name"));
            let _internal = input.take(1);
            for _partition in 0..input.i32() {
                let (_error, _index, _leader) = (input.i16(), input.i32(), input.i32());
                for _list in ["replicas", "in sync"] {
                    let count = input.i32();
                    (0..count).for_each(|_| _ = input.i32());
                }
            }
        }
        Ok(names)
    }

    /// Waits until there is something to read, the end of the connection included.
    pub(crate) fn wait(&self, patience: Duration) -> io::Result<bool> {
        self.stream.set_read_timeout(Some(patience))?;
        let peeked = self.stream.peek(&mut [0]);
        self.stream
            .set_read_timeout(Some(Duration::from_secs(60)))?;
        match peeked {
            Ok(_) => Ok(true),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                ) =>
            {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Asks where the partitions of a topic are; nothing is known of one that does not answer in time.
    pub(crate) fn places(&mut self, topic: &str, patience: Duration) -> io::Result<Places> {
        let sent = self.send(3, 1, &Output::default().i32(1).text(topic).bytes)?;
        if !self.wait(patience)? {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let (answered, body) = self.receive()?;
        assert_eq!(answered, sent, "answers keep the order of requests");
        Ok(Places::read(&body))
    }

    /// Creates a topic; the answer is Kafka's error code.
    pub(crate) fn create_topic(
        &mut self,
        topic: &str,
        partitions: i32,
        configs: &[(&str, &str)],
    ) -> io::Result<i16> {
        self.create_replicated(topic, (partitions, 1), configs)
    }

    /// Creates a topic of so many partitions and replicas.
    pub(crate) fn create_replicated(
        &mut self,
        topic: &str,
        (partitions, replicas): (i32, i16),
        configs: &[(&str, &str)],
    ) -> io::Result<i16> {
        let mut body = Output::default();
        body.i32(1).text(topic).i32(partitions).i16(replicas).i32(0);
        body.i32(count(configs.len()));
        for (name, value) in configs {
            body.text(name).text(value);
        }
        body.i32(30_000).bytes.push(0);
        let answer = self.ask(19, 2, &body)?;
        let mut input = Input::of(&answer);
        let (_throttle, _topics, _name) = (input.i32(), input.i32(), input.text());
        Ok(input.i16())
    }

    /// Sends batches to partitions of a topic, and does not wait.
    pub(crate) fn send_produce(
        &mut self,
        topic: &str,
        acks: i16,
        batches: &[(i32, Vec<u8>)],
    ) -> io::Result<i32> {
        let mut body = Output::default();
        body.i16(-1)
            .i16(acks)
            .i32(30_000)
            .i32(1)
            .text(topic)
            .i32(count(batches.len()));
        for (partition, records) in batches {
            body.i32(*partition)
                .i32(count(records.len()))
                .bytes
                .extend(records);
        }
        self.send(0, 7, &body.bytes)
    }

    /// Sends batches and waits: for each partition its error code and base offset.
    pub(crate) fn produce(
        &mut self,
        topic: &str,
        acks: i16,
        batches: &[(i32, Vec<u8>)],
    ) -> io::Result<Vec<Produced>> {
        let sent = self.send_produce(topic, acks, batches)?;
        let (answered, body) = self.receive()?;
        assert_eq!(answered, sent, "answers keep the order of requests");
        Ok(produced(&body))
    }

    /// Fetches from one partition, without a session.
    pub(crate) fn fetch(
        &mut self,
        topic: &str,
        partition: i32,
        offset: i64,
        max_wait_ms: i32,
    ) -> io::Result<Fetched> {
        let mut body = Output::default();
        body.i32(-1)
            .i32(max_wait_ms)
            .i32(1)
            .i32(FETCH_BYTES)
            .bytes
            .push(0);
        body.i32(0).i32(-1).i32(1).text(topic).i32(1);
        body.i32(partition)
            .i32(-1)
            .i64(offset)
            .i64(-1)
            .i32(FETCH_BYTES);
        body.i32(0).text("");
        let answer = self.ask(1, 11, &body)?;
        let mut input = Input::of(&answer);
        let (_throttle, error, _session) = (input.i32(), input.i16(), input.i32());
        assert_eq!(error, 0, "an error of the whole fetch");
        assert_eq!(input.i32(), 1, "one topic was asked for");
        let (_name, _partitions, index, error) =
            (input.text(), input.i32(), input.i32(), input.i16());
        assert_eq!(index, partition);
        let (high_watermark, _stable, log_start) = (input.i64(), input.i64(), input.i64());
        for _aborted in 0..input.i32() {
            let _producer_and_offset = (input.i64(), input.i64());
        }
        let _preferred = input.i32();
        let size = input.i32();
        let records = input.take(usize::try_from(size).unwrap_or(0)).to_vec();
        Ok(Fetched {
            error,
            high_watermark,
            log_start,
            records,
        })
    }

    /// All batches of a partition from an offset to its high watermark.
    pub(crate) fn read_all(
        &mut self,
        topic: &str,
        partition: i32,
        from: i64,
    ) -> io::Result<Vec<Batch>> {
        let mut batches: Vec<Batch> = Vec::new();
        let mut next = from;
        loop {
            let fetched = self.fetch(topic, partition, next, 0)?;
            assert_eq!(
                fetched.error, 0,
                "{topic}-{partition} is readable at {next}"
            );
            let got = Batch::split(&fetched.records);
            let Some(last) = got.last() else {
                assert_eq!(
                    next, fetched.high_watermark,
                    "{topic}-{partition} has nothing below its high watermark"
                );
                return Ok(batches);
            };
            next = last.next_offset();
            batches.extend(got);
        }
    }

    /// Asks for the offset at a time: error code, timestamp and offset.
    pub(crate) fn offset_at(
        &mut self,
        topic: &str,
        partition: i32,
        time: i64,
    ) -> io::Result<(i16, i64, i64)> {
        let mut body = Output::default();
        body.i32(-1)
            .i32(1)
            .text(topic)
            .i32(1)
            .i32(partition)
            .i64(time);
        let answer = self.ask(2, 1, &body)?;
        let mut input = Input::of(&answer);
        let (_topics, _name, _partitions, _index) =
            (input.i32(), input.text(), input.i32(), input.i32());
        Ok((input.i16(), input.i64(), input.i64()))
    }

    /// Deletes the records below an offset; the answer is the new start and Kafka's error code.
    pub(crate) fn delete_records(
        &mut self,
        topic: &str,
        partition: i32,
        offset: i64,
    ) -> io::Result<(i64, i16)> {
        let mut body = Output::default();
        body.i32(1)
            .text(topic)
            .i32(1)
            .i32(partition)
            .i64(offset)
            .i32(30_000);
        let answer = self.ask(21, 0, &body)?;
        let mut input = Input::of(&answer);
        let (_throttle, _topics, _name, _partitions) =
            (input.i32(), input.i32(), input.text(), input.i32());
        let _index = input.i32();
        Ok((input.i64(), input.i16()))
    }
}

const FETCH_BYTES: i32 = 32 << 20;

/// What a broker said about a produced batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Produced {
    pub(crate) partition: i32,
    pub(crate) error: i16,
    pub(crate) base_offset: i64,
}

/// Reads the body of an answer to [`Connection::send_produce`].
pub(crate) fn produced(body: &[u8]) -> Vec<Produced> {
    let mut input = Input::of(body);
    let mut out = Vec::new();
    for _topic in 0..input.i32() {
        let _name = input.text();
        for _partition in 0..input.i32() {
            out.push(Produced {
                partition: input.i32(),
                error: input.i16(),
                base_offset: input.i64(),
            });
            let _append_time_and_log_start = (input.i64(), input.i64());
        }
    }
    out
}

/// Where the partitions of a topic are, as one broker knows it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Places {
    /// The ports of the brokers that are up.
    pub(crate) brokers: BTreeMap<i32, u16>,
    pub(crate) partitions: BTreeMap<i32, Place>,
}

/// Where one partition is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// Its leader, if it has one.
    pub(crate) leader: Option<i32>,
    pub(crate) replicas: Vec<i32>,
    pub(crate) in_sync: Vec<i32>,
}

impl Places {
    fn read(body: &[u8]) -> Self {
        let mut input = Input::of(body);
        let mut places = Self::default();
        for _broker in 0..input.i32() {
            let (id, _host, port, _rack) = (input.i32(), input.text(), input.i32(), input.text());
            places
                .brokers
                .insert(id, u16::try_from(port).expect("a port"));
        }
        let _controller = input.i32();
        for _topic in 0..input.i32() {
            let (_error, _name, _internal) = (input.i16(), input.text(), input.take(1).len());
            for _partition in 0..input.i32() {
                let (_error, index, leader) = (input.i16(), input.i32(), input.i32());
                let mut list = || {
                    let count = input.i32();
                    (0..count).map(|_| input.i32()).collect()
                };
                let place = Place {
                    leader: (leader >= 0).then_some(leader),
                    replicas: list(),
                    in_sync: list(),
                };
                places.partitions.insert(index, place);
            }
        }
        places
    }
}
