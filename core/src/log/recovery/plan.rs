//! What a folder's listing means: which segments there are, and which files are leftovers of something interrupted.

use std::collections::BTreeMap;

use crate::{
    ids::Offset,
    storage::{DirEntry, EntryKind},
};

use crate::log::{
    epoch_file::EPOCH_FILE,
    partition_metadata,
    segment::{FileKind, file_name, parse_name},
};

/// A segment found in a folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FoundSegment {
    pub(super) base: Offset,
    pub(super) log: u64,
    pub(super) offset_index: Option<u64>,
    pub(super) time_index: Option<u64>,
}

/// What to do with a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Segments in order of their base offset.
    pub(super) segments: Vec<FoundSegment>,
    /// Interrupted swaps to complete: old name, new name.
    pub(super) renames: Vec<(String, String)>,
    /// Files to remove before the folder is synced.
    pub(super) remove_first: Vec<String>,
    /// Files of completed deletions, to remove once the folder is synced.
    pub(super) remove_last: Vec<String>,
    /// Length of `partition.metadata`.
    pub(super) metadata: Option<u64>,
    /// Length of `leader-epoch-checkpoint`.
    pub(super) epochs: Option<u64>,
}

#[derive(Default)]
struct Files {
    log: Option<u64>,
    offset_index: Option<u64>,
    time_index: Option<u64>,
}

/// Reads a listing.
///
/// Segments are only ever deleted from the front, so a `.deleted` file says that its segment and all before it are
/// gone: a power loss may have undone some of the renames of one deletion and kept others.
pub(super) fn plan(entries: &[DirEntry]) -> Plan {
    let mut plan = Plan::default();
    let mut found: BTreeMap<Offset, Files> = BTreeMap::new();
    let mut swaps: Vec<(Offset, FileKind, String, u64)> = Vec::new();
    let mut deleted: Option<Offset> = None;
    for entry in entries {
        let EntryKind::File { len } = entry.kind else {
            continue;
        };
        match entry.name.as_str() {
            partition_metadata::FILE_NAME => plan.metadata = Some(len),
            EPOCH_FILE => plan.epochs = Some(len),
            _ => {}
        }
        let Some((base, suffix)) = parse_name(&entry.name) else {
            continue;
        };
        if suffix.ends_with(".deleted") {
            if suffix.starts_with(FileKind::Log.suffix()) {
                deleted = deleted.max(Some(base));
            }
            plan.remove_last.push(entry.name.clone());
        } else if suffix.ends_with(".cleaned") {
            plan.remove_first.push(entry.name.clone());
        } else if let Some(kind) = kind_of(suffix) {
            *found.entry(base).or_default().get_mut(kind) = Some(len);
        } else if let Some(kind) = suffix.strip_suffix(".swap").and_then(kind_of) {
            swaps.push((base, kind, entry.name.clone(), len));
        }
    }
    for (base, kind, name, len) in swaps {
        let files = found.entry(base).or_default();
        if files.get_mut(kind).is_some() {
            plan.remove_first.push(name);
        } else {
            *files.get_mut(kind) = Some(len);
            plan.renames.push((name, file_name(base, kind)));
        }
    }
    for (base, files) in found {
        let is_gone = deleted.is_some_and(|deleted| base <= deleted);
        match files.log {
            Some(log) if !is_gone => plan.segments.push(FoundSegment {
                base,
                log,
                offset_index: files.offset_index,
                time_index: files.time_index,
            }),
            Some(_) | None => plan.remove_first.extend(files.names(base)),
        }
    }
    plan.remove_first.sort();
    plan.remove_last.sort();
    plan
}

fn kind_of(suffix: &str) -> Option<FileKind> {
    FileKind::ALL
        .into_iter()
        .find(|kind| kind.suffix() == suffix)
}

impl Files {
    const fn get_mut(&mut self, kind: FileKind) -> &mut Option<u64> {
        match kind {
            FileKind::Log => &mut self.log,
            FileKind::OffsetIndex => &mut self.offset_index,
            FileKind::TimeIndex => &mut self.time_index,
        }
    }

    fn names(&self, base: Offset) -> impl Iterator<Item = String> {
        let present = [
            (FileKind::Log, self.log),
            (FileKind::OffsetIndex, self.offset_index),
            (FileKind::TimeIndex, self.time_index),
        ];
        present
            .into_iter()
            .filter(|(_, len)| len.is_some())
            .map(move |(kind, _)| file_name(base, kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(names: &[&str]) -> Vec<DirEntry> {
        names
            .iter()
            .map(|name| DirEntry {
                name: (*name).to_owned(),
                kind: EntryKind::File { len: 7 },
            })
            .collect()
    }

    fn bases(plan: &Plan) -> Vec<Offset> {
        plan.segments.iter().map(|segment| segment.base).collect()
    }

    #[test]
    fn deleted_segment_takes_all_before_it_along() {
        let plan = plan(&listing(&[
            "00000000000000000000.log",
            "00000000000000000010.log.deleted",
            "00000000000000000020.log",
            "00000000000000000000.index",
        ]));
        assert_eq!(bases(&plan), [20]);
        assert_eq!(
            plan.remove_first,
            ["00000000000000000000.index", "00000000000000000000.log"]
        );
        assert_eq!(plan.remove_last, ["00000000000000000010.log.deleted"]);
    }

    #[test]
    fn index_without_log_and_half_cleaned_files_go() {
        let plan = plan(&listing(&[
            "00000000000000000000.log",
            "00000000000000000005.index",
            "00000000000000000000.log.cleaned",
            "notes.txt",
        ]));
        assert_eq!(bases(&plan), [0]);
        assert_eq!(
            plan.remove_first,
            [
                "00000000000000000000.log.cleaned",
                "00000000000000000005.index"
            ]
        );
    }

    #[test]
    fn swap_is_completed_only_where_the_old_file_is_gone() {
        let plan = plan(&listing(&[
            "00000000000000000000.log.swap",
            "00000000000000000010.log",
            "00000000000000000010.log.swap",
        ]));
        assert_eq!(bases(&plan), [0, 10]);
        assert_eq!(plan.renames.len(), 1);
        assert_eq!(plan.remove_first, ["00000000000000000010.log.swap"]);
    }
}
