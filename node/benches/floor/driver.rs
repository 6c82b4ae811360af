//! The node's own loop around a machine that decides nothing: what the driver costs without the core.

use std::{collections::VecDeque, net::TcpListener, path::Path};

use bytes::Bytes;
use seedlog::{
    Clock, Machine,
    shard::{Ground, Limits, Stop, serve as serve_shard},
};
use seedlog_core::{
    broker::{Input, Output},
    ids::ConnectionId,
    storage::{
        Completion, FileId, FileOp, FilePath, Frame, Head, LogDirId, Owner, StorageQueue, WriteData,
    },
    time::{Instant, Now},
};

use crate::{
    batch::batch_bytes,
    floor::{answer, check},
};

struct Append {
    storage: StorageQueue,
    outputs: VecDeque<Output>,
    waiting: VecDeque<ConnectionId>,
    file: FileId,
    end: u64,
    batch_at: usize,
    answer: Bytes,
}

impl Append {
    fn stored(&mut self, completion: Completion) {
        completion.result.unwrap();
        if let Some(connection) = self.waiting.pop_front() {
            let frame = Frame::Whole(self.answer.clone());
            self.outputs.push_back(Output::Send { connection, frame });
        }
    }
}

impl Machine for Append {
    fn handle(&mut self, _now: Now, input: Input) {
        match input {
            Input::Frame { connection, bytes } => {
                // The frame comes without its length.
                let batch = bytes.slice(self.batch_at - 4..);
                let batch = batch.slice(..batch_bytes(&batch));
                check(&batch);
                let mut head = [0; HEAD_BYTES];
                head.copy_from_slice(&batch[..HEAD_BYTES]);
                head[..8].copy_from_slice(&self.end.to_be_bytes());
                let data = WriteData {
                    head: Head::new(&head).unwrap(),
                    body: batch.slice(HEAD_BYTES..),
                };
                let (file, at) = (self.file, self.end);
                self.end += data.len() as u64;
                self.storage
                    .submit(Owner(1), FileOp::Write { file, at, data });
                self.waiting.push_back(connection);
            }
            Input::Storage(completion) => self.stored(completion),
            Input::StorageMany(completions) => {
                completions.into_iter().for_each(|done| self.stored(done));
            }
            _ => {}
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        let output = self.outputs.pop_front();
        output.or_else(|| self.storage.pop().map(Output::Storage))
    }

    fn deadline(&self) -> Option<Instant> {
        None
    }
}

/// Serves for ever.
pub(crate) fn serve(listener: TcpListener, dir: &Path, batch_at: usize) {
    let mut storage = StorageQueue::default();
    let file = storage.new_file();
    let path = FilePath::root(LogDirId(0)).join("driver.log");
    let create = true;
    storage.submit(Owner(0), FileOp::Open { file, path, create });
    let machine = Append {
        storage,
        outputs: VecDeque::new(),
        waiting: VecDeque::new(),
        file,
        end: 0,
        batch_at,
        answer: Bytes::copy_from_slice(&answer()),
    };
    let ground = Ground::prepare(&[dir.to_owned()], vec![listener]).unwrap();
    let observer = Box::new(|_: &_| {});
    let clock = Clock::start();
    serve_shard(
        ground,
        Limits::default(),
        clock,
        machine,
        observer,
        Stop::Signals,
    )
    .unwrap();
}

/// The header of a record batch.
const HEAD_BYTES: usize = 61;
