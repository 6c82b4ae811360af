//! A machine of a few lines, to try the driver without a broker, and a client for it.
//!
//! A frame is a command, then its argument; every command but `Close` is answered in order of arrival.

use std::{
    collections::{HashMap, VecDeque},
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    sync::mpsc,
    thread::JoinHandle,
    time::Duration,
};

use bytes::{BufMut, Bytes, BytesMut};
use seedlog::{
    Clock, Machine,
    shard::{Exit, Ground, Limits, Stop, serve},
};
use seedlog_core::{
    broker::{Input, Output},
    event::Event,
    ids::ConnectionId,
    storage::{
        Completion, FileId, FileOp, FilePath, FileRange, Frame, Generation, Head, LogDirId, Owner,
        Part, StorageQueue, SyncTarget, WriteData,
    },
    time::{Instant, Now},
};
use tokio::sync::mpsc::UnboundedSender;

pub(crate) const ECHO: u8 = b'e';
pub(crate) const APPEND: u8 = b'a';
pub(crate) const APPEND_DURABLY: u8 = b'd';
/// Argument: position (u64) and length (u32) in the log.
pub(crate) const RANGE: u8 = b'r';
/// Argument: length (u32) of an answer of zeros.
pub(crate) const ZEROS: u8 = b'z';
pub(crate) const CLOSE: u8 = b'c';
/// Argument: milliseconds (u64) until the answer.
pub(crate) const LATER: u8 = b'l';
/// Cuts the log to the length in its argument (u64).
pub(crate) const TRUNCATE: u8 = b't';
/// Answered with the number of syncs that were asked for so far (u64).
pub(crate) const SYNCS: u8 = b's';
/// Holds up the whole thread for the milliseconds in its argument (u64), then answers.
pub(crate) const STALL: u8 = b'w';
/// Says that it cannot go on.
pub(crate) const FAIL: u8 = b'f';
/// Dials the node at the port in its argument (u16), asks it what follows, and answers with its answer; empty when it is gone.
pub(crate) const DIAL: u8 = b'n';

#[derive(Debug, Default)]
pub(crate) struct Toy {
    storage: StorageQueue,
    outputs: VecDeque<Output>,
    log: Option<FileId>,
    end: u64,
    /// Who waits for the operation with this number.
    waiting: VecDeque<(u64, ConnectionId, bool)>,
    /// Whose appends are written and wait for the next sync.
    written: Vec<ConnectionId>,
    syncs: u64,
    /// The folder was synced after the log's creation.
    dir_synced: bool,
    later: Vec<(Instant, ConnectionId)>,
    /// By the dialled connection: who waits for the answer, and the question.
    dialled: HashMap<ConnectionId, (ConnectionId, Bytes)>,
    dials: u64,
    /// Never stops, as a machine whose disk hangs.
    stuck: bool,
    ready: bool,
}

impl Toy {
    pub(crate) fn start() -> Self {
        let mut toy = Self::default();
        let dir = FilePath::root(LogDirId(0)).join("toy-0");
        toy.storage
            .submit(OWNER, FileOp::CreateDir { dir: dir.clone() });
        let file = toy.storage.new_file();
        toy.storage.submit(
            OWNER,
            FileOp::Open {
                file,
                path: dir.join("log"),
                create: true,
            },
        );
        toy.log = Some(file);
        toy
    }

    pub(crate) fn start_stuck(stuck: bool) -> Self {
        Self {
            stuck,
            ..Self::start()
        }
    }

    fn frame(&mut self, now: Now, connection: ConnectionId, bytes: &Bytes) {
        let Some((&command, _)) = bytes.split_first() else {
            self.outputs.push_back(Output::Close { connection });
            return;
        };
        let argument = bytes.slice(1..);
        match command {
            ECHO => self.send(connection, whole(&argument)),
            APPEND | APPEND_DURABLY => {
                let at = self.end;
                self.end += argument.len() as u64;
                let cut = argument.len().min(10);
                let data = WriteData {
                    head: Head::new(&argument[..cut]).unwrap(),
                    body: argument.slice(cut..),
                };
                let file = self.log.unwrap();
                let id = self.storage.submit(OWNER, FileOp::Write { file, at, data });
                self.waiting
                    .push_back((id.seq, connection, command == APPEND_DURABLY));
            }
            RANGE => {
                let at = u64::from_be_bytes(argument[..8].try_into().unwrap());
                let len = u32::from_be_bytes(argument[8..12].try_into().unwrap());
                let head = Bytes::copy_from_slice(&len.to_be_bytes());
                let range = FileRange {
                    file: self.log.unwrap(),
                    generation: Generation(0),
                    at,
                    len,
                };
                let parts = vec![Part::Bytes(head), Part::File(range)];
                self.send(connection, Frame::Parts(parts));
            }
            ZEROS => {
                let len = u32::from_be_bytes(argument[..4].try_into().unwrap());
                let zeros = vec![0; len as usize];
                self.send(connection, whole(&zeros));
            }
            LATER => {
                let millis = u64::from_be_bytes(argument[..8].try_into().unwrap());
                self.later
                    .push((now.instant.plus_millis(millis), connection));
            }
            TRUNCATE => {
                let len = u64::from_be_bytes(argument[..8].try_into().unwrap());
                self.end = len;
                let file = self.log.unwrap();
                let id = self.storage.submit(OWNER, FileOp::Truncate { file, len });
                self.waiting.push_back((id.seq, connection, false));
            }
            SYNCS => self.send(connection, whole(&self.syncs.to_be_bytes())),
            STALL => {
                let millis = u64::from_be_bytes(argument[..8].try_into().unwrap());
                std::thread::sleep(Duration::from_millis(millis));
                self.send(connection, whole(b"stalled"));
            }
            DIAL => self.dial(connection, &argument),
            FAIL => {
                let message = "the toy is broken; get another one".to_owned();
                self.outputs
                    .push_back(Output::Event(Event::Fatal { message }));
                self.outputs.push_back(Output::Stopped);
            }
            _ => self.outputs.push_back(Output::Close { connection }),
        }
    }

    fn dial(&mut self, asker: ConnectionId, argument: &Bytes) {
        let port = u16::from_be_bytes(argument[..2].try_into().unwrap());
        self.dials += 1;
        let connection = ConnectionId::dialled(self.dials);
        let question = argument.slice(2..);
        self.dialled.insert(connection, (asker, question));
        self.outputs.push_back(Output::Dial {
            connection,
            host: "localhost".to_owned(),
            port,
            frame_bytes_max: ANSWER_BYTES_MAX,
        });
    }

    fn send(&mut self, connection: ConnectionId, frame: Frame) {
        self.outputs.push_back(Output::Send { connection, frame });
    }

    fn sync(&mut self) -> u64 {
        let target = SyncTarget {
            file: self.log.unwrap(),
            generation: Generation(0),
        };
        let mut dirs = Vec::new();
        if !std::mem::replace(&mut self.dir_synced, true) {
            dirs.push(FilePath::root(LogDirId(0)).join("toy-0"));
        }
        let files = vec![target];
        self.syncs += 1;
        self.storage.submit(OWNER, FileOp::Sync { files, dirs }).seq
    }

    /// One sync for all whose writes have ended.
    fn sync_written(&mut self) {
        if self.written.is_empty() {
            return;
        }
        let seq = self.sync();
        for connection in std::mem::take(&mut self.written) {
            self.waiting.push_back((seq, connection, false));
        }
    }

    fn completed(&mut self, seq: u64) {
        if !self.ready && seq == 2 {
            self.ready = true;
            self.outputs.push_back(Output::Event(Event::Ready));
        }
        while let Some(at) = self.waiting.iter().position(|(id, ..)| *id == seq) {
            let (_, connection, durably) = self.waiting.remove(at).unwrap();
            if durably {
                self.written.push(connection);
            } else if connection == STOP {
                self.outputs.push_back(Output::Stopped);
            } else {
                self.send(connection, whole(&self.end.to_be_bytes()));
            }
        }
    }

    fn stored(&mut self, completion: &Completion) {
        completion
            .result
            .as_ref()
            .expect("a toy has no storage faults");
        self.completed(completion.id.seq);
    }
}

impl Machine for Toy {
    fn handle(&mut self, now: Now, input: Input) {
        match input {
            Input::Frame { connection, bytes } if connection.is_dialled() => {
                self.outputs.push_back(Output::Close { connection });
                let (asker, _) = self.dialled.remove(&connection).unwrap();
                self.send(asker, whole(&bytes));
            }
            Input::Frame { connection, bytes } => self.frame(now, connection, &bytes),
            Input::Dialled { connection } => {
                let question = self.dialled[&connection].1.clone();
                self.send(connection, whole(&question));
            }
            Input::Closed { connection } => {
                if let Some((asker, _)) = self.dialled.remove(&connection) {
                    self.send(asker, whole(b""));
                }
            }
            Input::Storage(completion) => {
                self.stored(&completion);
                self.sync_written();
            }
            Input::StorageMany(completions) => {
                completions.iter().for_each(|done| self.stored(done));
                self.sync_written();
            }
            Input::Timeout => {
                let due: Vec<_> = self
                    .later
                    .extract_if(.., |(at, _)| *at <= now.instant)
                    .collect();
                for (_, connection) in due {
                    self.send(connection, whole(b"later"));
                }
            }
            Input::Stop if self.stuck => {}
            Input::Stop => {
                let seq = self.sync();
                self.waiting.push_back((seq, STOP, false));
            }
            Input::Connected { .. } | Input::Sent { .. } | Input::RangeUnreadable { .. } => {}
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs
            .pop_front()
            .or_else(|| self.storage.pop().map(Output::Storage))
    }

    fn deadline(&self) -> Option<Instant> {
        self.later.iter().map(|(at, _)| *at).min()
    }
}

fn whole(body: &[u8]) -> Frame {
    let mut frame = BytesMut::with_capacity(4 + body.len());
    frame.put_u32(u32::try_from(body.len()).unwrap());
    frame.put_slice(body);
    Frame::Whole(frame.freeze())
}

const OWNER: Owner = Owner(1);
const STOP: ConnectionId = ConnectionId(u64::MAX);

/// No answer of a dialled node may be larger.
pub(crate) const ANSWER_BYTES_MAX: usize = 100_000;

/// A toy that serves on a thread of its own.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    stop: UnboundedSender<()>,
    thread: JoinHandle<Exit>,
}

impl Server {
    pub(crate) fn start(dir: &Path) -> Self {
        Self::start_with(dir, Limits::default())
    }

    pub(crate) fn start_with(dir: &Path, limits: Limits) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stop_receiver) = tokio::sync::mpsc::unbounded_channel();
        let dirs: Vec<PathBuf> = vec![dir.to_owned()];
        let (ready, is_ready) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let ground = Ground::prepare(&dirs, vec![listener]).unwrap();
            let observer = Box::new(move |event: &Event| {
                if *event == Event::Ready {
                    ready.send(()).unwrap();
                }
            });
            let stop = Stop::Channel(stop_receiver);
            serve(ground, limits, Clock::start(), Toy::start(), observer, stop).unwrap()
        });
        is_ready.recv_timeout(PATIENCE).unwrap();
        Self {
            address,
            stop,
            thread,
        }
    }

    pub(crate) fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    pub(crate) fn ask_to_stop(&self) {
        self.stop.send(()).unwrap();
    }

    pub(crate) fn ended(self) -> Exit {
        self.thread.join().unwrap()
    }

    pub(crate) fn stop(self) -> Exit {
        self.ask_to_stop();
        self.ended()
    }
}

/// A client that speaks frames.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { stream }
    }

    pub(crate) fn send(&mut self, command: u8, argument: &[u8]) {
        self.stream.write_all(&frame(command, argument)).unwrap();
    }

    pub(crate) fn receive(&mut self) -> io::Result<Vec<u8>> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let mut body = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut body)?;
        Ok(body)
    }

    pub(crate) fn ask(&mut self, command: u8, argument: &[u8]) -> Vec<u8> {
        self.send(command, argument);
        self.receive().unwrap()
    }

    pub(crate) fn range(&mut self, at: u64, len: u32) -> io::Result<Vec<u8>> {
        self.send(RANGE, &[&at.to_be_bytes()[..], &len.to_be_bytes()].concat());
        self.receive()
    }

    /// Returns whether the server has closed the connection.
    pub(crate) fn is_closed(&mut self) -> bool {
        match self.stream.read(&mut [0; 64]) {
            Ok(0) => true,
            Ok(_) => false,
            Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
        }
    }
}

pub(crate) fn frame(command: u8, argument: &[u8]) -> Vec<u8> {
    let length = u32::try_from(argument.len() + 1).unwrap();
    [&length.to_be_bytes()[..], &[command], argument].concat()
}

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
