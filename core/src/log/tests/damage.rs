//! Damage of any byte: the log opens, repairs, or refuses by name, and never serves wrong bytes.

use crate::{
    event::OfflineReason,
    log::{LogEvent, OpenHint},
};

use super::{
    disk::{Disk, Keep},
    host::{Host, TOPIC_ID, batch, dir, fresh, small_config},
};

fn folder() -> (Disk, OpenHint, Vec<u8>) {
    let mut host = Host::new(small_config(), fresh());
    host.open();
    host.run();
    for at in 0..13 {
        host.append(&batch(at)).unwrap();
    }
    host.run();
    let expected = host.read_all().unwrap();
    let (disk, hint) = host.stop();
    (disk, hint, expected)
}

/// Opens a damaged folder and reads all of it; what is served must be a prefix of what was stored.
fn try_damage(disk: Disk, hint: OpenHint, expected: &[u8], what: &str) -> bool {
    let mut host = Host::opened(disk, small_config(), hint);
    let mut served = Vec::new();
    let mut offset = host.log.start();
    while host.log.is_open() && offset < host.log.end() {
        let request = host.request(offset);
        let Ok(slice) = host.read(request) else { break };
        assert!(slice.next_offset > offset, "{what}: stuck at {offset}");
        served.extend(host.bytes(&slice));
        offset = slice.next_offset;
    }
    let mut expected = expected.to_vec();
    if hint.recovery_point == 0 {
        // Past the recovery point nothing tells which leader epoch a batch had.
        mask_epochs(&mut served);
        mask_epochs(&mut expected);
    }
    assert!(
        expected.starts_with(&served),
        "{what}: wrong bytes were served"
    );
    let is_named = host
        .events
        .iter()
        .any(|event| matches!(event, LogEvent::Offline { .. }));
    if hint.recovery_point.max(hint.synced) >= 26 {
        assert!(
            is_named || served.len() == expected.len(),
            "{what}: {} of {} bytes, silently",
            served.len(),
            expected.len()
        );
    }
    is_named
}

fn mask_epochs(bytes: &mut [u8]) {
    let mut at = 0;
    while let Some(facts) = crate::log::scan::BatchFacts::read(&bytes[at..]) {
        bytes[at + 12..at + 16].fill(0);
        at += usize::try_from(facts.size).unwrap();
    }
}

#[test]
fn every_damaged_byte_is_repaired_or_refused_by_name() {
    let (disk, clean, expected) = folder();
    let unclean = OpenHint {
        clean: false,
        ..clean
    };
    let torn = OpenHint {
        fresh: Some(TOPIC_ID),
        ..OpenHint::default()
    };
    let marked = OpenHint {
        synced: clean.synced,
        ..torn
    };
    let mut refused = 0;
    let mut all = 0;
    for (name, bytes) in disk.files(&dir()) {
        for at in 0..bytes.len() {
            for flip in [0x01, 0x80] {
                let mut damaged = bytes.clone();
                damaged[at] ^= flip;
                for hint in [clean, unclean, torn, marked] {
                    let mut disk = disk.clone();
                    disk.damage(&dir().join(&name), Some(damaged.clone()));
                    let what = format!("{name} byte {at} ^ {flip:#x} {hint:?}");
                    all += 1;
                    refused += u32::from(try_damage(disk, hint, &expected, &what));
                }
            }
        }
    }
    assert!(refused > 1000 && refused < all, "{refused} of {all}");
}

#[test]
fn every_cut_and_every_missing_file_is_repaired_or_refused_by_name() {
    let (disk, clean, expected) = folder();
    let unclean = OpenHint {
        clean: false,
        ..clean
    };
    let marked = OpenHint {
        recovery_point: 0,
        fresh: Some(TOPIC_ID),
        ..unclean
    };
    for (name, bytes) in disk.files(&dir()) {
        for hint in [clean, unclean, marked] {
            let mut gone = disk.clone();
            gone.damage(&dir().join(&name), None);
            // A first segment that is missing cannot be told from one that retention deleted.
            if !name.starts_with("00000000000000000000.log") {
                try_damage(gone, hint, &expected, &format!("{name} missing {hint:?}"));
            }
            for len in 0..bytes.len() {
                let mut disk = disk.clone();
                disk.damage(&dir().join(&name), Some(bytes[..len].to_vec()));
                try_damage(
                    disk,
                    hint,
                    &expected,
                    &format!("{name} cut at {len} {hint:?}"),
                );
            }
            let mut disk = disk.clone();
            let mut longer = bytes.clone();
            longer.extend([0; 100]);
            disk.damage(&dir().join(&name), Some(longer));
            try_damage(disk, hint, &expected, &format!("{name} longer {hint:?}"));
        }
    }
}

#[test]
fn missing_and_empty_indexes_are_built_again() {
    let (disk, hint, expected) = folder();
    for empty in [false, true] {
        let mut disk = disk.clone();
        for name in disk.files(&dir()).keys() {
            if name.ends_with("index") {
                disk.damage(&dir().join(name), empty.then(Vec::new));
            }
        }
        let mut host = Host::opened(disk, small_config(), hint);
        assert_eq!(host.read_all().unwrap(), expected);
        let found = host
            .lookup(crate::log::LookupTarget::Timestamp(1000))
            .unwrap();
        assert_eq!(found.map(|found| found.offset), Some(0));
        host.flush_all();
        super::layout::check_layout(&host, "rebuilt");
    }
}

/// Damage past the recovery point, in records that were synced, is no torn tail; what was never synced behind them is.
#[test]
fn synced_mark_tells_damage_from_a_torn_tail() {
    let mut host = Host::new(small_config(), fresh());
    host.open();
    host.run();
    for at in 0..3 {
        host.append(&batch(at)).unwrap();
    }
    host.flush_all();
    host.append(&batch(3)).unwrap();
    host.run();
    let hint = OpenHint {
        synced: host.log.flushed_end(),
        ..fresh()
    };
    assert_eq!((hint.synced, host.log.end()), (6, 8));
    let name = "00000000000000000000.log";
    let bytes = host.files().remove(name).unwrap();
    let mut left = host.disk;
    left.crash(Keep::All);
    for at in 0..4 {
        let size = bytes.len() / 4;
        let mut damaged = bytes.clone();
        damaged[at * size + size - 1] ^= 1;
        let mut disk = left.clone();
        disk.damage(&dir().join(name), Some(damaged.clone()));
        let host = Host::opened(disk, small_config(), hint);
        if at == 3 {
            assert_eq!(host.log.end(), 6, "cut at what was synced");
            continue;
        }
        let offline = host.events.iter().find_map(|event| match event {
            LogEvent::Offline { file, at, reason } => Some((file.clone(), *at, *reason)),
            _ => None,
        });
        let position = u64::try_from(at * size).unwrap();
        let expected = (dir().join(name), Some(position), OfflineReason::Damaged);
        assert_eq!(offline, Some(expected));
        assert_eq!(host.files()[name], damaged, "nothing is cut");
    }
}
