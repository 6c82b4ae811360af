//! Checks of the storage contract, for every host that performs [`FileOp`]s: real files and the simulated disk run the same
//! ones, so that the two cannot drift apart.
//!
//! Each check gets an empty log directory, numbered 0, and panics with what is wrong.

use std::fmt::Debug;

use bytes::Bytes;

use super::{
    Completion, DirEntry, EntryKind, FaultKind, FileId, FileOp, FilePath, Generation, Head,
    LogDirId, OpResult, Owner, StorageFault, StorageOp, StorageQueue, SyncTarget, WriteData,
};

/// A host under check.
pub trait Host {
    /// Submits the operations in order, without waiting in between, and returns their completions in the order in which they
    /// came, once all have.
    fn run(&mut self, ops: Vec<StorageOp>) -> Vec<Completion>;
}

/// A check: panics with what is wrong with the host.
pub type Check = fn(&mut dyn Host);

/// All checks by name, each to be run on an empty log directory of its own.
pub const CHECKS: &[(&str, Check)] = &[
    (
        "missing_file_is_not_created_unasked",
        missing_file_is_not_created_unasked,
    ),
    (
        "created_file_is_empty_and_listed",
        created_file_is_empty_and_listed,
    ),
    (
        "opening_again_tells_the_length",
        opening_again_tells_the_length,
    ),
    ("written_bytes_are_read_back", written_bytes_are_read_back),
    (
        "overwriting_keeps_what_surrounds_it",
        overwriting_keeps_what_surrounds_it,
    ),
    ("gap_reads_as_zeros", gap_reads_as_zeros),
    (
        "read_is_short_only_at_the_end",
        read_is_short_only_at_the_end,
    ),
    ("large_bytes_survive", large_bytes_survive),
    ("truncation_cuts_and_extends", truncation_cuts_and_extends),
    (
        "folder_is_created_once_under_an_existing_parent",
        folder_is_created_once_under_an_existing_parent,
    ),
    ("missing_folder_is_not_listed", missing_folder_is_not_listed),
    (
        "listing_tells_files_from_folders",
        listing_tells_files_from_folders,
    ),
    ("renamed_file_stays_bound", renamed_file_stays_bound),
    (
        "renamed_folder_keeps_its_files_bound",
        renamed_folder_keeps_its_files_bound,
    ),
    ("rename_replaces_a_file", rename_replaces_a_file),
    (
        "rename_of_nothing_is_not_found",
        rename_of_nothing_is_not_found,
    ),
    (
        "removed_file_is_read_until_closed",
        removed_file_is_read_until_closed,
    ),
    (
        "removal_of_nothing_is_not_found",
        removal_of_nothing_is_not_found,
    ),
    (
        "removed_folder_takes_its_contents_along",
        removed_folder_takes_its_contents_along,
    ),
    (
        "sync_completes_for_files_and_folders",
        sync_completes_for_files_and_folders,
    ),
    ("sync_of_nothing_completes", sync_of_nothing_completes),
    (
        "sync_does_not_hold_back_what_follows",
        sync_does_not_hold_back_what_follows,
    ),
    (
        "operations_on_one_file_keep_their_order",
        operations_on_one_file_keep_their_order,
    ),
    (
        "every_operation_completes_once",
        every_operation_completes_once,
    ),
    (
        "two_ids_of_one_path_see_the_same_bytes",
        two_ids_of_one_path_see_the_same_bytes,
    ),
];

/// A host together with the queue from which its operations are numbered.
struct Bench<'h> {
    host: &'h mut dyn Host,
    queue: StorageQueue,
}

impl<'h> Bench<'h> {
    fn new(host: &'h mut dyn Host) -> Self {
        let queue = StorageQueue::default();
        Self { host, queue }
    }

    fn run_all(&mut self, ops: Vec<FileOp>) -> Vec<Completion> {
        for op in ops {
            self.queue.submit(Owner(1), op);
        }
        let mut submitted = Vec::new();
        while let Some(op) = self.queue.pop() {
            submitted.push(op);
        }
        self.host.run(submitted)
    }

    fn run(&mut self, op: FileOp) -> Result<OpResult, StorageFault> {
        let mut completions = self.run_all(vec![op]);
        assert_eq!(completions.len(), 1, "one operation, one completion");
        completions.remove(0).result
    }

    fn done(&mut self, op: FileOp) {
        let what = format!("{op:?}");
        expect(&what, self.run(op), OpResult::Done);
    }

    fn fails(&mut self, op: FileOp, kind: FaultKind) {
        let what = format!("{op:?}");
        let result = self.run(op).map_err(|fault| fault.kind);
        assert_eq!(result, Err(kind), "{what}");
    }

    fn open(&mut self, path: &FilePath, create: bool) -> Result<(FileId, u64), FaultKind> {
        let file = self.queue.new_file();
        let path = path.clone();
        match self.run(FileOp::Open { file, path, create }) {
            Ok(OpResult::Opened { len }) => Ok((file, len)),
            Ok(other) => panic!("an open answered with {other:?}"),
            Err(fault) => Err(fault.kind),
        }
    }

    /// Creates a file that holds `bytes`.
    fn file(&mut self, path: &FilePath, bytes: &[u8]) -> FileId {
        let opened = self.open(path, true);
        let (file, _) = opened.unwrap_or_else(|kind| panic!("{path} cannot be created: {kind:?}"));
        self.write(file, 0, bytes);
        file
    }

    fn write(&mut self, file: FileId, at: u64, bytes: &[u8]) {
        self.done(write(file, at, bytes));
    }

    fn read(&mut self, file: FileId, at: u64, len: u32) -> Bytes {
        match self.run(FileOp::Read { file, at, len }) {
            Ok(OpResult::Data(bytes)) => bytes,
            other => panic!("a read of {len} bytes at {at} answered with {other:?}"),
        }
    }

    fn list(&mut self, dir: &FilePath) -> Vec<DirEntry> {
        match self.run(FileOp::List { dir: dir.clone() }) {
            Ok(OpResult::Listing(mut entries)) => {
                entries.sort_by(|a, b| a.name.cmp(&b.name));
                entries
            }
            other => panic!("listing {dir} answered with {other:?}"),
        }
    }
}

fn write(file: FileId, at: u64, bytes: &[u8]) -> FileOp {
    let body = Bytes::copy_from_slice(bytes);
    let data = WriteData::from_body(body);
    FileOp::Write { file, at, data }
}

fn root() -> FilePath {
    FilePath::root(LogDirId(0))
}

fn entry(name: &str, kind: EntryKind) -> DirEntry {
    let name = name.to_owned();
    DirEntry { name, kind }
}

fn expect<T: Debug + PartialEq>(what: &str, seen: Result<T, StorageFault>, wanted: T) {
    assert_eq!(seen, Ok(wanted), "{what}");
}

fn missing_file_is_not_created_unasked(host: &mut dyn Host) {
    let mut bench = Bench::new(host);
    let path = root().join("log");
    assert_eq!(bench.open(&path, false), Err(FaultKind::NotFound));
    assert_eq!(bench.list(&root()), []);
    let beneath_nothing = root().join("nowhere").join("log");
    assert_eq!(bench.open(&beneath_nothing, true), Err(FaultKind::NotFound));
}

fn created_file_is_empty_and_listed(host: &mut dyn Host) {
    let mut bench = Bench::new(host);
    let opened = bench.open(&root().join("log"), true);
    assert_eq!(opened.map(|(_, len)| len), Ok(0));
    let listed = bench.list(&root());
    assert_eq!(listed, [entry("log", EntryKind::File { len: 0 })]);
}

fn opening_again_tells_the_length(host: &mut dyn Host) {
    let mut bench = Bench::new(host);
    let path = root().join("log");
    let file = bench.file(&path, b"twelve bytes");
    bench.done(FileOp::Close { file });
    for create in [false, true] {
        let again = bench.open(&path, create);
        assert_eq!(again.map(|(_, len)| len), Ok(12), "create: {create}");
    }
}

fn written_bytes_are_read_back(host: &mut dyn Host) {
    let mut bench = Bench::new(host);
    let file = bench.file(&root().join("log"), b"");
    let head = Head::new(b"head ").unwrap_or(Head::EMPTY);
    let body = Bytes::from_static(b"and body");
    let data = WriteData { head, body };
    bench.done(FileOp::Write { file, at: 0, data });
    assert_eq!(&bench.read(file, 0, 13)[..], b"head and body");
    assert_eq!(&bench.read(file, 3, 5)[..], b"d and");
    let data = WriteData {
        head,
        body: Bytes::new(),
    };
    bench.done(FileOp::Write { file, at: 13, data });
    assert_eq!(&bench.read(file, 9, 100)[..], b"bodyhead ");
    bench.write(file, 0, b"");
    assert_eq!(bench.read(file, 0, 100).len(), 18);
}

fn overwriting_keeps_what_surrounds_it(host: &mut dyn Host) {
    let mut bench = Bench::new(host);
    let file = bench.file(&root().join("log"), b"0123456789");
    bench.write(file, 3, b"abc");
    assert_eq!(&bench.read(file, 0, 100)[..], b"012abc6789");
    bench.write(file, 8, b"xyz");
    assert_eq!(&bench.read(file, 0, 100)[..], b"012abc67xyz");
}

fn gap_reads_as_zeros(host: &mut dyn Host) {
    let mut bench = Bench::new(host);
    let file = bench.file(&root().join("log"), b"start");
    bench.write(file, 10_000, b"end");
    let bytes = bench.read(file, 0, 20_000);
    assert_eq!(bytes.len(), 10_003);
    assert_eq!(&bytes[..5], b"start");
    assert!(bytes[5..10_000].iter().all(|byte| *byte == 0));
    assert_eq!(&bytes[10_000..], b"end");
}

fn read_is_short_only_at_the_end(host: &mut dyn Host) {
    let mut bench = Bench::new(host);
    let file = bench.file(&root().join("log"), b"0123456789");
    assert_eq!(&bench.read(file, 8, 100)[..], b"89");
    assert_eq!(&bench.read(file, 10, 100)[..], b"");
    assert_eq!(&bench.read(file, 1 << 40, 100)[..], b"");
    assert_eq!(&bench.read(file, 2, 0)[..], b"");
    assert_eq!(bench.read(file, 0, u32::MAX).len(), 10);
}

fn large_bytes_survive(host: &mut dyn Host) {
    let mut bench = Bench::new(host);
    let bytes: Vec<u8> = (0..=250_u8).cycle().take(3_000_000).collect();
    let file = bench.file(&root().join("log"), &bytes);
    for (at, len) in [(0, 3_000_000), (1, 1_000_000), (2_999_999, 10)] {
        let read = bench.read(file, at, len);
        let from = usize::try_from(at).unwrap_or(usize::MAX);
        let wanted = &bytes[from..(from + read.len())];
        assert!(&read[..] == wanted, "{len} bytes at {at} differ");
        assert_eq!(read.len(), bytes.len().min(from + len as usize) - from);
    }
}

fn truncation_cuts_and_extends(host: &mut dyn Host) {
    let mut bench = Bench::new(host);
    let path = root().join("log");
    let file = bench.file(&path, b"0123456789");
    bench.done(FileOp::Truncate { file, len: 4 });
    assert_eq!(&bench.read(file, 0, 100)[..], b"0123");
    bench.done(FileOp::Truncate { file, len: 8 });
    assert_eq!(
        &bench.read(file, 0, 100)[..],
        b"0123\0\0\0\0",
        "cut bytes stay gone"
    );
    bench.done(FileOp::Truncate { file, len: 0 });
    assert_eq!(bench.read(file, 0, 100).len(), 0);
    let listed = bench.list(&root());
    assert_eq!(listed, [entry("log", EntryKind::File { len: 0 })]);
}

fn folder_is_created_once_under_an_existing_parent(host: &mut dyn Host) {
    let mut bench = Bench::new(host);
    let dir = root().join("orders-0");
    bench.done(FileOp::CreateDir { dir: dir.clone() });
    bench.file(&dir.join("log"), b"kept");
    bench.done(FileOp::CreateDir { dir: dir.clone() });
    assert_eq!(
        bench.list(&dir).len(),
        1,
        "creating it again changes nothing"
    );
    let orphan = root().join("nowhere").join("orders-0");
    bench.fails(FileOp::CreateDir { dir: orphan }, FaultKind::NotFound);
}

fn missing_folder_is_not_listed(host: &mut dyn Host) {
    let mut bench = Bench::new(host);
    let dir = root().join("nowhere");
    bench.fails(FileOp::List { dir }, FaultKind::NotFound);
}

fn listing_tells_files_from_folders(host: &mut dyn Host) {
    let mut bench = Bench::new(host);
    let dir = root().join("orders-0");
    bench.done(FileOp::CreateDir { dir: dir.clone() });
    bench.file(&dir.join("inner"), b"not listed above");
    bench.file(&root().join("meta.properties"), b"seven b");
    let listed = bench.list(&root());
    let wanted = [
        entry("meta.properties", EntryKind::File { len: 7 }),
        entry("orders-0", EntryKind::Dir),
    ];
    assert_eq!(listed, wanted);
}

fn renamed_file_stays_bound(host: &mut dyn Host) {
    let mut bench = Bench::new(host);
    let (from, to) = (root().join("log.swap"), root().join("log"));
    let file = bench.file(&from, b"before ");
    bench.done(FileOp::Rename {
        from: from.clone(),
        to: to.clone(),
    });
    bench.write(file, 7, b"and after");
    assert_eq!(&bench.read(file, 0, 100)[..], b"before and after");
    assert_eq!(bench.open(&from, false), Err(FaultKind::NotFound));
    let again = bench.open(&to, false);
    assert_eq!(again.map(|(_, len)| len), Ok(16));
}

fn renamed_folder_keeps_its_files_bound(host: &mut dyn Host) {
    let mut bench = Bench::new(host);
    let (from, to) = (root().join("orders-0"), root().join("orders-0.deleted"));
    // A neighbour whose name begins alike must not move along.
    let neighbour = root().join("orders-01");
    bench.done(FileOp::CreateDir { dir: from.clone() });
    bench.done(FileOp::CreateDir {
        dir: neighbour.clone(),
    });
    let file = bench.file(&from.join("log"), b"bound");
    let other = bench.file(&neighbour.join("log"), b"other");
    bench.done(FileOp::Rename {
        from,
        to: to.clone(),
    });
    bench.write(file, 5, b" still");
    bench.write(other, 5, b" too");
    let moved = bench.open(&to.join("log"), false);
    assert_eq!(moved.map(|(_, len)| len), Ok(11));
    let stayed = bench.open(&neighbour.join("log"), false);
    assert_eq!(stayed.map(|(_, len)| len), Ok(9));
}

fn rename_replaces_a_file(host: &mut dyn Host) {
    let mut bench = Bench::new(host);
    let (from, to) = (root().join("checkpoint.tmp"), root().join("checkpoint"));
    let old = bench.file(&to, b"old");
    let new = bench.file(&from, b"newer");
    bench.done(FileOp::Rename {
        from,
        to: to.clone(),
    });
    let listed = bench.list(&root());
    assert_eq!(listed, [entry("checkpoint", EntryKind::File { len: 5 })]);
    assert_eq!(&bench.read(new, 0, 100)[..], b"newer");
    assert_eq!(
        &bench.read(old, 0, 100)[..],
        b"old",
        "an open id keeps its file"
    );
}

fn rename_of_nothing_is_not_found(host: &mut dyn Host) {
    let mut bench = Bench::new(host);
    let (from, to) = (root().join("nothing"), root().join("something"));
    bench.fails(FileOp::Rename { from, to }, FaultKind::NotFound);
}

fn removed_file_is_read_until_closed(host: &mut dyn Host) {
    let mut bench = Bench::new(host);
    let path = root().join("log");
    let old = bench.file(&path, b"old bytes");
    bench.done(FileOp::Remove { path: path.clone() });
    assert_eq!(bench.list(&root()), []);
    let new = bench.file(&path, b"new");
    assert_eq!(&bench.read(old, 0, 100)[..], b"old bytes");
    assert_eq!(&bench.read(new, 0, 100)[..], b"new");
    bench.done(FileOp::Close { file: old });
    assert_eq!(&bench.read(new, 0, 100)[..], b"new");
}

fn removal_of_nothing_is_not_found(host: &mut dyn Host) {
    let mut bench = Bench::new(host);
    let path = root().join("nothing");
    bench.fails(FileOp::Remove { path }, FaultKind::NotFound);
    let dir = root().join("no folder");
    bench.done(FileOp::RemoveDir { dir });
}

fn removed_folder_takes_its_contents_along(host: &mut dyn Host) {
    let mut bench = Bench::new(host);
    let dir = root().join("orders-0.deleted");
    let inner = dir.join("inner");
    bench.done(FileOp::CreateDir { dir: dir.clone() });
    bench.done(FileOp::CreateDir { dir: inner.clone() });
    bench.file(&dir.join("log"), b"gone");
    bench.file(&inner.join("log"), b"gone too");
    bench.done(FileOp::RemoveDir { dir: dir.clone() });
    assert_eq!(bench.list(&root()), []);
    bench.done(FileOp::CreateDir { dir: dir.clone() });
    assert_eq!(bench.list(&dir), []);
}

fn sync_completes_for_files_and_folders(host: &mut dyn Host) {
    let mut bench = Bench::new(host);
    let dir = root().join("orders-0");
    bench.done(FileOp::CreateDir { dir: dir.clone() });
    let log = bench.file(&dir.join("log"), b"bytes");
    let index = bench.file(&dir.join("index"), b"more bytes");
    let files = [log, index].map(target).to_vec();
    let dirs = vec![dir, root()];
    bench.done(FileOp::Sync { files, dirs });
}

fn sync_of_nothing_completes(host: &mut dyn Host) {
    let mut bench = Bench::new(host);
    let (files, dirs) = (Vec::new(), Vec::new());
    bench.done(FileOp::Sync { files, dirs });
}

/// A sync covers what had completed before it; what follows on the same files neither waits for it nor harms it.
fn sync_does_not_hold_back_what_follows(host: &mut dyn Host) {
    let mut bench = Bench::new(host);
    let file = bench.file(&root().join("log"), b"first");
    let sync = FileOp::Sync {
        files: vec![target(file)],
        dirs: Vec::new(),
    };
    let completions = bench.run_all(vec![
        sync,
        write(file, 5, b" second"),
        FileOp::Close { file },
    ]);
    assert_eq!(completions.len(), 3);
    for completion in completions {
        expect("each", completion.result, OpResult::Done);
    }
}

fn operations_on_one_file_keep_their_order(host: &mut dyn Host) {
    let mut bench = Bench::new(host);
    let file = bench.file(&root().join("log"), b"");
    let body: Vec<u8> = (0..=250_u8).cycle().take(600_000).collect();
    let mut ops = Vec::new();
    for round in 0..20_u64 {
        let mark = round.to_be_bytes();
        ops.push(write(file, 0, &mark));
        // Long and short reads, so that a host which treats them differently is caught.
        ops.push(FileOp::Read {
            file,
            at: 0,
            len: 8,
        });
        ops.push(write(file, 8, &body));
        ops.push(FileOp::Read {
            file,
            at: 0,
            len: 1_000_000,
        });
        ops.push(FileOp::Truncate { file, len: 8 });
    }
    let completions = bench.run_all(ops);
    let seqs: Vec<u64> = completions.iter().map(|done| done.id.seq).collect();
    assert!(seqs.is_sorted(), "completions out of order: {seqs:?}");
    for (round, done) in completions.chunks(5).enumerate() {
        let mark = (round as u64).to_be_bytes();
        for (at, wanted) in [(1, 8), (3, 600_008)] {
            let data = done[at].result.clone().map(OpResult::into_data);
            let data = data.unwrap_or_default();
            assert_eq!(data.len(), wanted, "round {round}");
            assert_eq!(data[..8], mark, "round {round}");
        }
    }
}

fn every_operation_completes_once(host: &mut dyn Host) {
    let mut bench = Bench::new(host);
    let dir = root().join("orders-0");
    let file = bench.file(&root().join("log"), b"bytes");
    let ops = vec![
        FileOp::CreateDir { dir: dir.clone() },
        FileOp::List { dir: root() },
        FileOp::Read {
            file,
            at: 0,
            len: 5,
        },
        FileOp::Sync {
            files: vec![target(file)],
            dirs: vec![root()],
        },
        FileOp::RemoveDir { dir: dir.join("x") },
        FileOp::Remove {
            path: root().join("x"),
        },
        FileOp::Close { file },
    ];
    let count = ops.len();
    let mut seqs: Vec<u64> = bench.run_all(ops).iter().map(|done| done.id.seq).collect();
    seqs.sort_unstable();
    seqs.dedup();
    assert_eq!(seqs.len(), count);
}

fn two_ids_of_one_path_see_the_same_bytes(host: &mut dyn Host) {
    let mut bench = Bench::new(host);
    let path = root().join("log");
    let writer = bench.file(&path, b"one file");
    let reader = bench.open(&path, false);
    let (reader, _) = reader.unwrap_or_else(|kind| panic!("not opened: {kind:?}"));
    bench.write(writer, 8, b", two ids");
    assert_eq!(&bench.read(reader, 0, 100)[..], b"one file, two ids");
    bench.done(FileOp::Close { file: writer });
    assert_eq!(bench.read(reader, 0, 100).len(), 17);
}

fn target(file: FileId) -> SyncTarget {
    SyncTarget {
        file,
        generation: Generation(0),
    }
}
