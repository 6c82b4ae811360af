//! What the model disk promises, and that it breaks all it may break.

use std::collections::BTreeSet;

use bytes::Bytes;
use seedlog_core::storage::{
    Completion, FaultKind, FileId, FileOp, FilePath, Generation, LogDirId, OpId, OpResult, Owner,
    StorageOp, SyncTarget, WriteData, contract,
};

use super::{Damage, Device, DeviceEvent, DiskFault, Latency, Survival};
use crate::{
    batch::{self, ValueId},
    engine::Engine,
    plan::Glob,
    random::Streams,
    time::SimTime,
};

/// A device on which each operation runs to its end before the next.
struct Bench {
    device: Device,
    now: SimTime,
    seq: u64,
}

impl Bench {
    fn new(seed: u64) -> Self {
        let stream = Streams::new(seed).stream("disk");
        Self {
            device: Device::new(1, Latency::default(), stream),
            now: SimTime::START,
            seq: 0,
        }
    }

    fn start(&mut self, op: FileOp) -> (u64, SimTime) {
        self.seq += 1;
        let id = OpId {
            owner: Owner(0),
            seq: self.seq,
        };
        self.device.submit(self.now, StorageOp { id, op })
    }

    fn finish(&mut self, (ticket, mut at): (u64, SimTime)) -> Result<OpResult, FaultKind> {
        loop {
            self.now = self.now.max(at);
            match self.device.go_on(self.now, ticket) {
                DeviceEvent::Complete(done) => return done.result.map_err(|fault| fault.kind),
                DeviceEvent::Later(later) => at = later,
                DeviceEvent::Gone => return Err(FaultKind::Io),
            }
        }
    }

    fn run(&mut self, op: FileOp) -> Result<OpResult, FaultKind> {
        let started = self.start(op);
        self.finish(started)
    }

    fn open(&mut self, file: u64, path: &FilePath) -> Result<OpResult, FaultKind> {
        self.run(FileOp::Open {
            file: FileId(file),
            path: path.clone(),
            create: true,
        })
    }

    fn write(&mut self, file: u64, at: u64, bytes: &[u8]) -> Result<OpResult, FaultKind> {
        self.run(write(file, at, bytes))
    }

    fn sync(&mut self, files: &[u64], dirs: &[FilePath]) -> Result<OpResult, FaultKind> {
        self.run(sync(files, dirs))
    }

    fn read(&mut self, file: u64) -> Vec<u8> {
        let read = FileOp::Read {
            file: FileId(file),
            at: 0,
            len: 1 << 20,
        };
        self.run(read).unwrap().into_data().to_vec()
    }
}

fn write(file: u64, at: u64, bytes: &[u8]) -> FileOp {
    FileOp::Write {
        file: FileId(file),
        at,
        data: WriteData::from_body(Bytes::copy_from_slice(bytes)),
    }
}

fn sync(files: &[u64], dirs: &[FilePath]) -> FileOp {
    FileOp::Sync {
        files: files
            .iter()
            .map(|file| SyncTarget {
                file: FileId(*file),
                generation: Generation(0),
            })
            .collect(),
        dirs: dirs.to_vec(),
    }
}

fn root() -> FilePath {
    FilePath::root(LogDirId(0))
}

impl contract::Host for Bench {
    fn run(&mut self, ops: Vec<StorageOp>) -> Vec<Completion> {
        let started = ops.into_iter().map(|op| {
            let (ticket, at) = self.device.submit(self.now, op);
            (at, ticket)
        });
        let mut due: BTreeSet<(SimTime, u64)> = started.collect();
        let mut done = Vec::new();
        while let Some((at, ticket)) = due.pop_first() {
            self.now = self.now.max(at);
            match self.device.go_on(self.now, ticket) {
                DeviceEvent::Complete(completion) => done.push(completion),
                DeviceEvent::Later(at) => {
                    due.insert((at, ticket));
                }
                DeviceEvent::Gone => panic!("nothing crashed"),
            }
        }
        done
    }
}

#[test]
fn device_keeps_the_storage_contract() {
    for (name, check) in contract::CHECKS {
        for seed in 0..20 {
            println!("{name} with seed {seed}");
            check(&mut Bench::new(seed));
        }
    }
}

#[test]
fn synced_file_without_its_entry_is_gone_after_power_loss() {
    let mut bench = Bench::new(1);
    let path = root().join("a");
    bench.open(1, &path).unwrap();
    bench.write(1, 0, b"data").unwrap();
    bench.sync(&[1], &[]).unwrap();
    let mut twin = bench.device.clone();
    assert!(
        bench
            .device
            .lose_power(bench.now, Survival::Nothing)
            .is_loss()
    );
    assert_eq!(bench.device.disk.read_file("a"), None);

    twin.crash(bench.now);
    assert_eq!(
        twin.disk.read_file("a"),
        Some(&b"data"[..]),
        "a crash keeps it"
    );
}

#[test]
fn synced_entry_and_bytes_survive_any_power_loss() {
    for seed in 0..50 {
        let mut bench = Bench::new(seed);
        let folder = root().join("t-0");
        bench
            .run(FileOp::CreateDir {
                dir: folder.clone(),
            })
            .unwrap();
        bench.open(1, &folder.join("a")).unwrap();
        bench.write(1, 0, &[7; 900]).unwrap();
        bench.sync(&[1], &[root(), folder]).unwrap();
        bench.write(1, 900, &[8; 900]).unwrap();
        bench.device.lose_power(bench.now, Survival::Scattered);
        let bytes = bench.device.disk.read_file("t-0/a").unwrap();
        assert_eq!(&bytes[..900], &[7; 900]);
    }
}

#[test]
fn rename_is_old_or_new_and_durable_once_its_folder_is_synced() {
    let (mut old, mut new) = (false, false);
    for seed in 0..50 {
        let mut bench = Bench::new(seed);
        let (from, to) = (root().join("a.tmp"), root().join("a"));
        bench.open(1, &to).unwrap();
        bench.write(1, 0, b"old").unwrap();
        bench.open(2, &from).unwrap();
        bench.write(2, 0, b"new").unwrap();
        bench.sync(&[1, 2], &[root()]).unwrap();
        bench.run(FileOp::Rename { from, to }).unwrap();
        let mut synced = bench.device.clone();
        bench.device.lose_power(bench.now, Survival::Scattered);
        match bench.device.disk.read_file("a") {
            Some(b"old") => old = true,
            Some(b"new") => new = true,
            other => panic!("neither old nor new: {other:?}"),
        }
        std::mem::swap(&mut bench.device, &mut synced);
        bench.sync(&[], &[root()]).unwrap();
        bench.device.lose_power(bench.now, Survival::Nothing);
        assert_eq!(bench.device.disk.read_file("a"), Some(&b"new"[..]));
    }
    assert!(old && new);
}

#[test]
fn sync_does_not_cover_a_write_still_in_flight() {
    let mut missed = false;
    for seed in 0..50 {
        let mut bench = Bench::new(seed);
        bench.open(1, &root().join("a")).unwrap();
        bench.sync(&[1], &[root()]).unwrap();
        let writing = bench.start(write(1, 0, b"late"));
        let syncing = bench.start(sync(&[1], &[]));
        bench.finish(writing).unwrap();
        bench.finish(syncing).unwrap();
        bench.device.lose_power(bench.now, Survival::Nothing);
        missed |= bench.device.disk.read_file("a") == Some(&[]);
    }
    assert!(missed);
}

#[test]
fn operations_on_one_file_complete_in_order() {
    for seed in 0..20 {
        let mut bench = Bench::new(seed);
        bench.open(1, &root().join("a")).unwrap();
        let started: Vec<_> = (0..10_u8)
            .map(|at| bench.start(write(1, u64::from(at), &[at])))
            .collect();
        let times: Vec<SimTime> = started.iter().map(|(_, at)| *at).collect();
        assert!(times.is_sorted());
        for op in started {
            bench.finish(op).unwrap();
        }
        assert_eq!(bench.read(1), (0..10).collect::<Vec<u8>>());
    }
}

#[test]
fn failed_sync_loses_its_writes_though_the_next_one_succeeds() {
    let mut bench = Bench::new(1);
    bench.open(1, &root().join("a")).unwrap();
    bench.sync(&[1], &[root()]).unwrap();
    bench.device.arm(DiskFault::FailSync {
        file: Glob::any(),
        times: 1,
    });
    bench.write(1, 0, b"doomed").unwrap();
    assert_eq!(bench.sync(&[1], &[]), Err(FaultKind::Io));
    bench.sync(&[1], &[]).unwrap();
    assert_eq!(bench.read(1), b"doomed", "the cache still shows it");
    bench.device.lose_power(bench.now, Survival::Everything);
    assert_eq!(bench.device.disk.read_file("a"), Some(&[][..]));
    assert_eq!(bench.device.tally().failed_syncs, 1);
}

#[test]
fn full_disk_refuses_growth_but_not_overwriting() {
    let mut bench = Bench::new(1);
    bench.open(1, &root().join("a")).unwrap();
    bench.write(1, 0, &[1; 100]).unwrap();
    bench.device.disk.limit(Some(120));
    assert_eq!(bench.write(1, 100, &[2; 21]), Err(FaultKind::NoSpace));
    bench.write(1, 50, &[3; 70]).unwrap();
    assert_eq!(bench.device.disk.used(), 120);
}

#[test]
fn crash_applies_operations_in_flight_in_order_or_not_at_all() {
    let (mut none, mut some, mut torn) = (false, false, false);
    for seed in 0..200 {
        let mut bench = Bench::new(seed);
        bench.open(1, &root().join("a")).unwrap();
        for at in 0..4_u8 {
            bench.start(write(1, u64::from(at) * 10, &[at + 1; 10]));
        }
        bench.device.crash(bench.now);
        let bytes = bench.device.disk.read_file("a").unwrap();
        none |= bytes.is_empty();
        some |= bytes.len() > 10;
        torn |= !bytes.len().is_multiple_of(10);
        let expected: Vec<u8> = (0..40).map(|at| at / 10 + 1).collect();
        assert_eq!(
            bytes,
            &expected[..bytes.len()],
            "no hole, no order but theirs"
        );
    }
    assert!(none && some && torn);
}

#[test]
fn lying_sync_is_found_out_by_power_loss() {
    let mut bench = Bench::new(1);
    bench.open(1, &root().join("a")).unwrap();
    bench.sync(&[1], &[root()]).unwrap();
    bench.write(1, 0, b"x").unwrap();
    bench.device.arm(DiskFault::Lie {
        until: SimTime::NEVER,
    });
    bench.sync(&[1], &[]).unwrap();
    bench.device.lose_power(bench.now, Survival::Nothing);
    assert_eq!(bench.device.disk.read_file("a"), Some(&[][..]));
    assert_eq!(bench.device.tally().lies, 1);
}

#[test]
fn ledger_knows_since_when_a_batch_is_durable() {
    let mut bench = Bench::new(1);
    let folder = root().join("t-0");
    bench
        .run(FileOp::CreateDir {
            dir: folder.clone(),
        })
        .unwrap();
    bench
        .open(1, &folder.join("00000000000000000000.log"))
        .unwrap();
    let batch = batch::encode(&[ValueId(1)], 8, 5);
    bench.write(1, 0, &batch).unwrap();
    let durable = |bench: &Bench| {
        let id = bench.device.disk.segments("t-0")[0];
        bench.device.disk.batches(id)[0].durable
    };
    bench.sync(&[1], &[]).unwrap();
    assert_eq!(durable(&bench), None, "its folder's entry is missing");
    bench.sync(&[], &[folder]).unwrap();
    assert_eq!(durable(&bench), None, "the folder's own entry is missing");
    bench.sync(&[], &[root()]).unwrap();
    assert!(durable(&bench).is_some());
    let damaged = bench.device.disk.damage(
        Damage::FlipBit,
        &Glob::new("*.log"),
        &mut Streams::new(1).stream("damage"),
    );
    assert_eq!(damaged.unwrap().path, "t-0/00000000000000000000.log");
    let id = bench.device.disk.segments("t-0")[0];
    assert!(bench.device.disk.batches(id).is_empty());
}

#[test]
fn batch_that_is_written_again_stays_durable_and_a_changed_one_does_not() {
    let mut bench = Bench::new(1);
    let folder = root().join("t-0");
    let dir = folder.clone();
    bench.run(FileOp::CreateDir { dir }).unwrap();
    bench
        .open(1, &folder.join("00000000000000000000.log"))
        .unwrap();
    let bytes = batch::encode(&[ValueId(7)], 10, 1);
    bench.write(1, 0, &bytes).unwrap();
    bench.sync(&[1], &[folder, root()]).unwrap();
    let id = bench.device.disk.segments("t-0")[0];
    let before = bench.device.disk.batches(id).to_vec();
    assert!(before[0].durable.is_some());
    bench.write(1, 0, &bytes).unwrap();
    assert_eq!(bench.device.disk.batches(id), before);
    bench
        .write(1, 0, &batch::encode(&[ValueId(8)], 10, 1))
        .unwrap();
    assert_eq!(bench.device.disk.batches(id)[0].durable, None);
}

#[test]
fn failed_sync_that_reverts_leaves_durable_batches_their_stamps() {
    let mut bench = Bench::new(1);
    bench.device.disk.revert_on_failed_sync(true);
    let folder = root().join("t-0");
    let dir = folder.clone();
    bench.run(FileOp::CreateDir { dir }).unwrap();
    bench
        .open(1, &folder.join("00000000000000000000.log"))
        .unwrap();
    let first = batch::encode(&[ValueId(7)], 10, 1);
    bench.write(1, 0, &first).unwrap();
    bench.sync(&[1], &[folder, root()]).unwrap();
    let id = bench.device.disk.segments("t-0")[0];
    let before = bench.device.disk.batches(id).to_vec();
    let second = batch::encode(&[ValueId(8)], 10, 1);
    let at = u64::try_from(first.len()).unwrap();
    bench.write(1, at, &second).unwrap();
    bench.device.arm(DiskFault::FailSync {
        file: Glob::any(),
        times: 1,
    });
    assert!(bench.sync(&[1], &[]).is_err());
    assert_eq!(bench.device.disk.batches(id), before);
}

#[test]
fn completions_of_one_file_come_in_the_order_of_its_operations() {
    for seed in 0..50 {
        let mut bench = Bench::new(seed);
        let latency = Latency {
            late_permille: 500,
            ..Latency::default()
        };
        bench.device = Device::new(1, latency, Streams::new(seed).stream("disk"));
        let mut engine = Engine::default();
        let path = root().join("a");
        let open = FileOp::Open {
            file: FileId(1),
            path,
            create: true,
        };
        let writes = (0..20).map(|at| write(1, at, b"x"));
        for op in std::iter::once(open).chain(writes) {
            let (ticket, at) = bench.start(op);
            engine.schedule(at, ticket);
        }
        let mut order = Vec::new();
        while let Some(ticket) = engine.next(SimTime::NEVER) {
            match bench.device.go_on(engine.now(), ticket) {
                DeviceEvent::Complete(done) => order.push(done.id.seq),
                DeviceEvent::Later(at) => engine.schedule(at, ticket),
                DeviceEvent::Gone => panic!("nothing crashed"),
            }
        }
        assert!(order.is_sorted() && order.len() == 21, "{seed}: {order:?}");
    }
}

#[test]
fn full_disk_and_stall_count_once_however_many_operations_they_hit() {
    let mut bench = Bench::new(1);
    bench.open(1, &root().join("a")).unwrap();
    bench.device.limit_room(Some(1));
    for _ in 0..3 {
        assert_eq!(bench.write(1, 0, b"xyz"), Err(FaultKind::NoSpace));
    }
    bench.device.limit_room(None);
    bench.device.arm(DiskFault::Stall {
        until: bench.now.plus_millis(10_000),
        syncs_only: false,
    });
    for _ in 0..3 {
        bench.write(1, 0, b"xyz").unwrap();
    }
    let tally = bench.device.tally();
    assert_eq!((tally.full, tally.stalls), (1, 1));
}

#[test]
fn removed_folder_comes_back_or_goes_but_never_half_named() {
    let mut back = false;
    for seed in 0..50 {
        let mut bench = Bench::new(seed);
        let folder = root().join("t-0");
        bench
            .run(FileOp::CreateDir {
                dir: folder.clone(),
            })
            .unwrap();
        bench.open(1, &folder.join("a")).unwrap();
        bench.write(1, 0, b"1").unwrap();
        bench.sync(&[1], &[root(), folder.clone()]).unwrap();
        bench.run(FileOp::RemoveDir { dir: folder }).unwrap();
        assert_eq!(bench.read(1), b"1", "an open file outlives its name");
        bench.device.lose_power(bench.now, Survival::Scattered);
        back |= bench.device.disk.read_file("t-0/a") == Some(b"1");
    }
    assert!(back);
}
