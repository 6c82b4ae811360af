//! What a disk says of how far a log was synced: read as the broker's next start will read it, by code of its own.

use seedlog_core::ids::TopicPartition;

use crate::disk::Disk;

/// Returns up to where the disk itself says that a log was synced: damage below is no torn tail.
#[must_use]
pub fn synced(disk: &Disk, partition: &TopicPartition) -> i64 {
    from_marks(disk, partition)
        .into_iter()
        .chain(from_checkpoint(disk, partition))
        .fold(0, i64::max)
}

/// The line of `synced-marks` that names the topic's id.
fn from_marks(disk: &Disk, partition: &TopicPartition) -> Option<i64> {
    let metadata = disk.read_file(&format!("{partition}/partition.metadata"))?;
    let metadata = std::str::from_utf8(metadata).ok()?;
    let topic_id = metadata
        .lines()
        .find_map(|line| line.strip_prefix("topic_id: "))?;
    let own = |line: &[u8]| {
        let text = std::str::from_utf8(line.strip_suffix(b"\n")?).ok()?;
        let (covered, crc) = text.split_at_checked(55)?;
        if u32::from_str_radix(crc, 16) != Ok(crc32c::crc32c(covered.as_bytes())) {
            return None;
        }
        let mut fields = covered.split_whitespace();
        let is_own =
            fields.next()? == topic_id && fields.next()?.parse() == Ok(partition.partition);
        fields.next().filter(|_| is_own)?.parse::<i64>().ok()
    };
    disk.read_file("synced-marks")?
        .chunks(64)
        .filter_map(own)
        .min()
}

/// The line of the recovery-point checkpoint that names the partition.
fn from_checkpoint(disk: &Disk, partition: &TopicPartition) -> Option<i64> {
    let text = std::str::from_utf8(disk.read_file("recovery-point-offset-checkpoint")?).ok()?;
    let prefix = format!("{} {} ", partition.topic, partition.partition);
    text.lines()
        .find_map(|line| line.strip_prefix(&prefix))?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use seedlog_core::{
        ids::{TopicName, Uuid},
        log::{checkpoint, partition_metadata},
        logdir::SyncedMarks,
        storage::{
            Completion, FileId, FileOp, FilePath, LogDirId, OpResult, Owner, StorageQueue,
            WriteData,
        },
        time::Instant,
    };

    use super::*;

    fn partition() -> TopicPartition {
        TopicPartition {
            topic: TopicName::new("orders"),
            partition: 3,
        }
    }

    fn put(disk: &mut Disk, path: &FilePath, content: &[u8]) {
        let file = FileId(1);
        let open = FileOp::Open {
            file,
            path: path.clone(),
            create: true,
        };
        disk.apply(&open).unwrap();
        disk.apply(&FileOp::Truncate { file, len: 0 }).unwrap();
        let data = WriteData::from_body(Bytes::copy_from_slice(content));
        disk.apply(&FileOp::Write { file, at: 0, data }).unwrap();
    }

    /// The content of the file when the broker has noted this mark, and one of another partition.
    fn lines(topic_id: Uuid, mark: i64) -> Vec<u8> {
        let root = FilePath::root(LogDirId(0));
        let mut marks = SyncedMarks::new(Owner(2), &root);
        let mut storage = StorageQueue::default();
        marks.advance(topic_id, 4, 70);
        marks.advance(topic_id, 3, mark);
        marks.write(&mut storage);
        let open = Completion {
            id: storage.pop().unwrap().id,
            result: Ok(OpResult::Opened { len: 0 }),
        };
        marks.on_completion(Instant::ORIGIN, open).unwrap();
        marks.write(&mut storage);
        let FileOp::Write { data, .. } = storage.pop().unwrap().op else {
            panic!("a write was expected");
        };
        data.body.to_vec()
    }

    #[test]
    fn higher_of_mark_and_checkpoint_counts_and_only_of_the_same_topic() {
        let root = FilePath::root(LogDirId(0));
        let topic_id = Uuid::from_random([5; 16]);
        let mut disk = Disk::new(1);
        assert_eq!(synced(&disk, &partition()), 0);
        let checkpoint = checkpoint::encode_offsets(&[(partition(), 12)].into());
        put(
            &mut disk,
            &root.join("recovery-point-offset-checkpoint"),
            checkpoint.as_bytes(),
        );
        assert_eq!(synced(&disk, &partition()), 12);
        let folder = root.join("orders-3");
        disk.apply(&FileOp::CreateDir {
            dir: folder.clone(),
        })
        .unwrap();
        let metadata = folder.join(partition_metadata::FILE_NAME);
        put(
            &mut disk,
            &metadata,
            partition_metadata::encode(topic_id).as_bytes(),
        );
        let marks = root.join("synced-marks");
        put(&mut disk, &marks, &lines(topic_id, 30));
        assert_eq!(synced(&disk, &partition()), 30);
        put(&mut disk, &marks, &lines(topic_id, 9));
        assert_eq!(synced(&disk, &partition()), 12);
        put(&mut disk, &marks, &lines(Uuid::from_random([6; 16]), 30));
        assert_eq!(synced(&disk, &partition()), 12);
        let mut damaged = lines(topic_id, 30);
        damaged[64 + 50] ^= 1;
        put(&mut disk, &marks, &damaged);
        assert_eq!(synced(&disk, &partition()), 12);
    }
}
