use std::{fs, path::Path};

use bytes::Bytes;
use seedlog_core::storage::{
    FaultKind, Generation, LogDirId, Owner, StorageQueue, SyncTarget,
    contract::{CHECKS, Host},
};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::*;

/// Real files, driven as the shard drives them.
struct RealFiles {
    files: Files,
    done: UnboundedReceiver<Done>,
    /// Performs each write before the next one joins it.
    early: bool,
}

impl RealFiles {
    fn new(dir: &Path, open_max: usize) -> Self {
        let (sender, done) = unbounded_channel();
        let files = Files::open(&[dir.to_owned()], open_max, sender).unwrap();
        let early = false;
        Self { files, done, early }
    }
}

impl Host for RealFiles {
    fn run(&mut self, ops: Vec<StorageOp>) -> Vec<Completion> {
        let count = ops.len();
        let mut completed = Vec::new();
        for op in ops {
            self.files.submit(op, &mut completed);
            if self.early {
                self.files.write_early();
            }
        }
        self.files.write_pending(&mut completed);
        self.files.sync_waiting(&mut completed);
        while completed.len() < count {
            match self.done.blocking_recv() {
                Some(Done::Storage(completion, file)) => {
                    self.files.on_done(completion, file, &mut completed);
                }
                other => panic!("a worker answered with {other:?}"),
            }
        }
        completed
    }
}

#[test]
fn real_files_keep_the_storage_contract() {
    for (name, check) in CHECKS {
        let dir = tempfile::tempdir().unwrap();
        eprintln!("{name}");
        check(&mut RealFiles::new(dir.path(), 1000));
    }
}

#[test]
fn syncs_of_a_node_that_serves_keep_the_contract_too() {
    for (name, check) in CHECKS {
        let dir = tempfile::tempdir().unwrap();
        eprintln!("{name}");
        let mut host = RealFiles::new(dir.path(), 1000);
        host.files.begin_service();
        check(&mut host);
        let dir = tempfile::tempdir().unwrap();
        let mut host = RealFiles::new(dir.path(), 1000);
        host.files.begin_service();
        host.files.be_alone(true);
        check(&mut host);
    }
}

#[test]
fn early_writes_keep_the_contract_too() {
    for (name, check) in CHECKS {
        let dir = tempfile::tempdir().unwrap();
        eprintln!("{name}");
        let mut host = RealFiles::new(dir.path(), 1000);
        host.early = true;
        check(&mut host);
    }
}

#[test]
fn a_single_descriptor_suffices_for_the_contract() {
    for (name, check) in CHECKS {
        let dir = tempfile::tempdir().unwrap();
        eprintln!("{name}");
        check(&mut RealFiles::new(dir.path(), 1));
    }
}

/// Runs one operation to its end.
fn run(
    host: &mut RealFiles,
    queue: &mut StorageQueue,
    op: FileOp,
) -> Result<OpResult, StorageFault> {
    queue.submit(Owner(1), op);
    let ops = queue.pop().into_iter().collect();
    host.run(ops).remove(0).result
}

#[test]
fn descriptors_in_use_stay_below_their_limit() {
    let dir = tempfile::tempdir().unwrap();
    let mut host = RealFiles::new(dir.path(), 10);
    let mut queue = StorageQueue::default();
    let mut ids = Vec::new();
    for number in 0..50 {
        let file = queue.new_file();
        let path = FilePath::root(LogDirId(0)).join(&format!("{number}.log"));
        let create = true;
        run(&mut host, &mut queue, FileOp::Open { file, path, create }).unwrap();
        let data = WriteData::from_body(Bytes::from(format!("file {number}")));
        run(&mut host, &mut queue, FileOp::Write { file, at: 0, data }).unwrap();
        ids.push(file);
    }
    let place = fs::canonicalize(dir.path()).unwrap();
    let open = fs::read_dir("/proc/self/fd").unwrap().filter(|entry| {
        let target = fs::read_link(entry.as_ref().unwrap().path());
        target.is_ok_and(|target| target.starts_with(&place))
    });
    // The lock file comes on top.
    assert!(open.count() <= 11);
    for (number, file) in ids.into_iter().enumerate() {
        let read = run(
            &mut host,
            &mut queue,
            FileOp::Read {
                file,
                at: 0,
                len: 100,
            },
        );
        let wanted = format!("file {number}").into_bytes();
        assert_eq!(read.unwrap().into_data(), wanted);
    }
}

#[test]
fn a_failed_sync_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let mut host = RealFiles::new(dir.path(), 10);
    let mut queue = StorageQueue::default();
    let op = FileOp::Sync {
        files: Vec::new(),
        dirs: vec![FilePath::root(LogDirId(0)).join("nowhere")],
    };
    let fault = run(&mut host, &mut queue, op.clone()).unwrap_err();
    assert_eq!(fault.kind, FaultKind::NotFound);
    host.files.begin_service();
    let fault = run(&mut host, &mut queue, op).unwrap_err();
    assert_eq!(fault.kind, FaultKind::NotFound);
}

#[test]
fn no_space_is_told_from_other_errors() {
    // A device that is always full.
    let full = File::options().write(true).open("/dev/full").unwrap();
    let slices = &mut [IoSlice::new(b"head"), IoSlice::new(b"body")];
    let (written, result) = write_all(&full, 0, slices);
    assert_eq!(written, 0);
    let error = result.unwrap_err();
    assert_eq!(fault(&error).kind, FaultKind::NoSpace);
}

#[test]
fn a_missing_log_directory_is_a_fault_and_not_a_panic() {
    let dir = tempfile::tempdir().unwrap();
    let mut host = RealFiles::new(dir.path(), 10);
    let mut queue = StorageQueue::default();
    let dir = FilePath::root(LogDirId(7));
    let fault = run(&mut host, &mut queue, FileOp::List { dir }).unwrap_err();
    assert_eq!(fault.kind, FaultKind::NotFound);
}

#[test]
fn a_range_remembers_cuts_below_its_end() {
    let dir = tempfile::tempdir().unwrap();
    let mut host = RealFiles::new(dir.path(), 10);
    let mut queue = StorageQueue::default();
    let file = queue.new_file();
    let path = FilePath::root(LogDirId(0)).join("log");
    let create = true;
    run(&mut host, &mut queue, FileOp::Open { file, path, create }).unwrap();
    let data = WriteData::from_body(Bytes::from_static(&[1; 100]));
    run(&mut host, &mut queue, FileOp::Write { file, at: 0, data }).unwrap();
    let range = |at, len| FileRange {
        file,
        generation: Generation(0),
        at,
        len,
    };
    let low = host.files.resolve(&range(0, 40)).unwrap();
    let high = host.files.resolve(&range(40, 40)).unwrap();
    run(&mut host, &mut queue, FileOp::Truncate { file, len: 50 }).unwrap();
    assert!(low.is_intact());
    assert!(!high.is_intact());
    let later = host.files.resolve(&range(40, 10)).unwrap();
    assert!(later.is_intact());
}

#[test]
fn writes_that_follow_each_other_complete_one_by_one() {
    for early in [false, true] {
        complete_one_by_one(early);
    }
}

fn complete_one_by_one(early: bool) {
    let dir = tempfile::tempdir().unwrap();
    let mut host = RealFiles::new(dir.path(), 10);
    host.early = early;
    let mut queue = StorageQueue::default();
    let file = queue.new_file();
    let path = FilePath::root(LogDirId(0)).join("log");
    let create = true;
    run(&mut host, &mut queue, FileOp::Open { file, path, create }).unwrap();
    let mut ops = Vec::new();
    // Neighbours, then one that overlaps, then one far away.
    for (at, text) in [
        (0, "aaaa"),
        (4, "bbbb"),
        (8, "cccc"),
        (6, "dd"),
        (100, "eeee"),
    ] {
        let data = WriteData::from_body(Bytes::from_static(text.as_bytes()));
        queue.submit(Owner(1), FileOp::Write { file, at, data });
        ops.extend(queue.pop());
    }
    let seqs: Vec<u64> = ops.iter().map(|op| op.id.seq).collect();
    let completions = host.run(ops);
    assert!(
        completions
            .iter()
            .all(|done| done.result == Ok(OpResult::Done))
    );
    let completed: Vec<u64> = completions.iter().map(|done| done.id.seq).collect();
    assert_eq!(completed, seqs);
    let bytes = fs::read(dir.path().join("log")).unwrap();
    assert_eq!(&bytes[..12], b"aaaabbddcccc");
    assert_eq!(&bytes[100..], b"eeee");
}

#[test]
fn writes_are_gathered_only_where_one_file_is_synced_for_one_connection() {
    let dir = tempfile::tempdir().unwrap();
    let mut host = RealFiles::new(dir.path(), 10);
    host.files.begin_service();
    let mut queue = StorageQueue::default();
    let file = queue.new_file();
    let path = FilePath::root(LogDirId(0)).join("log");
    let create = true;
    run(&mut host, &mut queue, FileOp::Open { file, path, create }).unwrap();
    let generation = Generation(0);
    let sync = FileOp::Sync {
        files: vec![SyncTarget { file, generation }],
        dirs: Vec::new(),
    };
    let data = WriteData::from_body(Bytes::from(vec![1; 16 << 10]));
    let mut at = 0;
    let mut write = |host: &mut RealFiles, completed: &mut Vec<Completion>| {
        let data = data.clone();
        queue.submit(Owner(1), FileOp::Write { file, at, data });
        at += 16 << 10;
        host.files.submit(queue.pop().unwrap(), completed);
    };
    let mut completed = Vec::new();
    write(&mut host, &mut completed);
    assert!(!host.files.gathers(), "never synced");
    host.files.write_pending(&mut completed);
    let mut syncs = StorageQueue::default();
    for _ in 0..2 {
        run(&mut host, &mut syncs, sync.clone()).unwrap();
    }
    host.files.be_alone(true);
    assert!(!host.files.gathers(), "nothing waits");
    completed.clear();
    let mut count = 0;
    loop {
        write(&mut host, &mut completed);
        count += 1;
        if !host.files.gathers() {
            break;
        }
        host.files.be_alone(false);
        assert!(!host.files.gathers());
        host.files.be_alone(true);
        host.files.write_early();
        assert!(completed.is_empty(), "an end was told early");
    }
    assert_eq!(count, 13, "another buffer of them would be too many");
    host.files.write_pending(&mut completed);
    assert_eq!(completed.len(), count);
    let on_disk = fs::metadata(dir.path().join("log")).unwrap();
    assert_eq!(on_disk.len(), 14 * (16 << 10));
}
