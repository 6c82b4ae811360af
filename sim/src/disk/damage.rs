//! Damage at rest: what a disk does to bytes that were safe.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Disk, InodeId};
use crate::{plan::Glob, random::Stream};

/// A way in which bytes at rest go bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Damage {
    /// One bit flips.
    FlipBit,
    /// The file ends earlier than it should.
    Cut,
    /// The file reads as zeros from some position on.
    Zero,
    /// The file is gone.
    Remove,
}

impl Damage {
    /// Returns the kind, as it is counted.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::FlipBit => "bit-flip",
            Self::Cut => "file-cut",
            Self::Zero => "file-zeroed",
            Self::Remove => "file-lost",
        }
    }
}

/// Where damage was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamageDone {
    /// The file.
    pub path: String,
    /// Position of the first bad byte.
    pub at: usize,
}

impl Disk {
    /// Damages one file, drawn from those that match; `None` if none with bytes does. Only bytes that are on the disk go bad:
    /// what is in the page cache alone is in memory.
    pub fn damage(
        &mut self,
        damage: Damage,
        file: &Glob,
        stream: &mut Stream,
    ) -> Option<DamageDone> {
        let files = self.tree.walk().into_iter();
        let candidates: Vec<Candidate> = files
            .filter(|(path, _)| file.matches(path))
            .filter_map(|(path, id)| {
                let (_, safe) = self.content(id)?;
                (safe > 0).then_some((path, id, safe))
            })
            .collect();
        if candidates.is_empty() {
            return None;
        }
        // Where much is written much goes wrong: half of the time the newest file of a folder, or the last part of a file.
        let among = if stream.one_in(2) {
            newest(&candidates)
        } else {
            candidates
        };
        let (path, id, safe) = stream.pick(&among).clone();
        let content = self.tree.file_mut(id)?;
        let at = if stream.one_in(2) {
            stream.index(safe)
        } else {
            safe - 1 - stream.index(safe.div_ceil(LAST_PART))
        };
        match damage {
            Damage::FlipBit => content.flip_bit(at, stream.below(8).to_le_bytes()[0]),
            Damage::Cut => content.damage(at, false),
            Damage::Zero => content.damage(at, true),
            Damage::Remove => self.tree.lose_file(id),
        }
        self.step += 1;
        self.ledger.settle_damage(&self.tree, id);
        let at = if damage == Damage::Remove { 0 } else { at };
        Some(DamageDone { path, at })
    }
}

/// A file, and how many of its first bytes are on the disk.
type Candidate = (String, InodeId, usize);

/// Returns the last file of each folder, of each kind.
fn newest(files: &[Candidate]) -> Vec<Candidate> {
    let mut last = BTreeMap::new();
    for file in files {
        let (folder, name) = file.0.rsplit_once('/').unwrap_or(("", &file.0));
        let kind = name.rsplit_once('.').map_or("", |(_, kind)| kind);
        // The files come in order of their paths.
        last.insert((folder, kind), file.clone());
    }
    last.into_values().collect()
}

/// The last part of a file is one of so many.
const LAST_PART: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_files_are_the_last_of_each_folder_and_kind() {
        let paths = [
            "a/0.index",
            "a/0.log",
            "a/7.index",
            "a/7.log",
            "b/0.log",
            "meta",
        ];
        let files: Vec<Candidate> = (0..)
            .zip(paths)
            .map(|(id, path)| (path.to_owned(), InodeId(id), 1))
            .collect();
        let newest = newest(&files);
        let paths: Vec<&str> = newest.iter().map(|(path, ..)| path.as_str()).collect();
        assert_eq!(paths, ["meta", "a/7.index", "a/7.log", "b/0.log"]);
    }
}
