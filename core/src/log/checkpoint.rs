//! Kafka's text checkpoint files: a version, a count, then one entry a line.
//!
//! Offset checkpoints (`recovery-point-offset-checkpoint`, `log-start-offset-checkpoint`,
//! `replication-offset-checkpoint`) hold `topic partition offset`; `leader-epoch-checkpoint` holds `epoch offset`. Parsing
//! is strict about the count, so that a file cut short is seen as damaged and never as complete, and it allocates no more
//! than the text is long.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::ids::{Epoch, Offset, TopicName, TopicPartition};

/// The version that Kafka and Seedlog write.
const VERSION: &str = "0";

/// Why a checkpoint file cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// The bytes are not text.
    #[error("not UTF-8 text")]
    NotText,
    /// The first line is not a version that is known.
    #[error("unknown version")]
    Version,
    /// The second line is not a count.
    #[error("no entry count")]
    Count,
    /// There are fewer or more entries than the count says.
    #[error("the entry count does not fit the entries")]
    CountMismatch,
    /// A line cannot be parsed.
    #[error("line {line} cannot be parsed")]
    Line {
        /// Its number, from 1.
        line: usize,
    },
}

/// Writes an offset checkpoint.
#[must_use]
pub fn encode_offsets(offsets: &BTreeMap<TopicPartition, Offset>) -> String {
    let mut text = head(offsets.len());
    for (partition, offset) in offsets {
        line(
            &mut text,
            format_args!("{} {} {offset}", partition.topic, partition.partition),
        );
    }
    text
}

/// Reads an offset checkpoint.
pub fn parse_offsets(bytes: &[u8]) -> Result<BTreeMap<TopicPartition, Offset>, CheckpointError> {
    let mut offsets = BTreeMap::new();
    let count = parse_lines(bytes, |fields| {
        let [topic, partition, offset] = fields else {
            return None;
        };
        let partition = TopicPartition {
            topic: TopicName::new(topic),
            partition: partition.parse().ok()?,
        };
        offsets.insert(partition, offset.parse().ok()?);
        Some(())
    })?;
    if offsets.len() == count {
        Ok(offsets)
    } else {
        Err(CheckpointError::CountMismatch)
    }
}

/// Writes a leader epoch checkpoint.
#[must_use]
pub fn encode_epochs(entries: &[(Epoch, Offset)]) -> String {
    let mut text = head(entries.len());
    for (epoch, start) in entries {
        line(&mut text, format_args!("{epoch} {start}"));
    }
    text
}

/// Reads a leader epoch checkpoint; both columns must grow from line to line.
pub fn parse_epochs(bytes: &[u8]) -> Result<Vec<(Epoch, Offset)>, CheckpointError> {
    let mut entries: Vec<(Epoch, Offset)> = Vec::new();
    parse_lines(bytes, |fields| {
        let [epoch, start] = fields else {
            return None;
        };
        let entry = (Epoch(epoch.parse().ok()?), start.parse::<Offset>().ok()?);
        let grows = entries
            .last()
            .map_or(entry.0.0 >= 0 && entry.1 >= 0, |last| {
                entry.0 > last.0 && entry.1 > last.1
            });
        grows.then(|| entries.push(entry))
    })?;
    Ok(entries)
}

fn head(count: usize) -> String {
    format!("{VERSION}\n{count}\n")
}

fn line(text: &mut String, entry: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{entry}");
}

/// Feeds each entry's fields to `take`, which returns `None` for a line it cannot use; returns the count.
fn parse_lines(
    bytes: &[u8],
    mut take: impl FnMut(&[&str]) -> Option<()>,
) -> Result<usize, CheckpointError> {
    let text = std::str::from_utf8(bytes).map_err(|_| CheckpointError::NotText)?;
    let mut lines = text.lines();
    if lines.next() != Some(VERSION) {
        return Err(CheckpointError::Version);
    }
    let count: usize = lines
        .next()
        .and_then(|count| count.parse().ok())
        .ok_or(CheckpointError::Count)?;
    // The last entry counts only with its line end: a number cut in the middle is still a number.
    if count > 0 && !text.ends_with('\n') {
        return Err(CheckpointError::CountMismatch);
    }
    let mut seen = 0_usize;
    for (at, entry) in lines.enumerate() {
        let mut fields = [""; 3];
        let mut used = 0;
        for field in entry.split_ascii_whitespace() {
            *fields
                .get_mut(used)
                .ok_or(CheckpointError::Line { line: at + 3 })? = field;
            used += 1;
        }
        take(&fields[..used]).ok_or(CheckpointError::Line { line: at + 3 })?;
        seen += 1;
    }
    if seen == count {
        Ok(count)
    } else {
        Err(CheckpointError::CountMismatch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(topic: &str, partition: i32) -> TopicPartition {
        TopicPartition {
            topic: TopicName::new(topic),
            partition,
        }
    }

    #[test]
    fn offset_checkpoint_is_kafkas_text() {
        let offsets = BTreeMap::from([(partition("orders", 0), 17), (partition("users", 3), 0)]);
        let text = encode_offsets(&offsets);
        assert_eq!(text, "0\n2\norders 0 17\nusers 3 0\n");
        assert_eq!(parse_offsets(text.as_bytes()), Ok(offsets));
    }

    #[test]
    fn epoch_checkpoint_is_kafkas_text() {
        let entries = vec![(Epoch(0), 0), (Epoch(3), 42)];
        let text = encode_epochs(&entries);
        assert_eq!(text, "0\n2\n0 0\n3 42\n");
        assert_eq!(parse_epochs(text.as_bytes()), Ok(entries));
        assert_eq!(parse_epochs(b"0\n0\n"), Ok(Vec::new()));
    }

    #[test]
    fn epoch_checkpoint_that_does_not_grow_is_damaged() {
        let bad = Err(CheckpointError::Line { line: 4 });
        assert_eq!(parse_epochs(b"0\n2\n1 5\n1 6\n"), bad);
        assert_eq!(parse_epochs(b"0\n2\n1 5\n2 5\n"), bad);
    }

    #[test]
    fn every_cut_of_a_checkpoint_is_seen() {
        let text = "0\n2\norders 0 17\nusers 3 25\n";
        for len in 0..text.len() {
            assert!(parse_offsets(&text.as_bytes()[..len]).is_err(), "{len}");
        }
    }

    #[test]
    fn damage_is_an_error_and_never_a_panic() {
        assert_eq!(parse_offsets(&[0xff]), Err(CheckpointError::NotText));
        assert_eq!(parse_offsets(b"1\n0\n"), Err(CheckpointError::Version));
        assert_eq!(parse_offsets(b"0\n-1\n"), Err(CheckpointError::Count));
        assert_eq!(
            parse_offsets(b"0\n99999999999\n"),
            Err(CheckpointError::CountMismatch)
        );
        let duplicate = b"0\n2\na 0 1\na 0 2\n";
        assert_eq!(
            parse_offsets(duplicate),
            Err(CheckpointError::CountMismatch)
        );
        assert_eq!(
            parse_offsets(b"0\n1\na 0 1 2\n"),
            Err(CheckpointError::Line { line: 3 })
        );
    }
}
