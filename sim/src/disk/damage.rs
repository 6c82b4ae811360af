//! Damage at rest: what a disk does to bytes that were safe.

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
        let candidates: Vec<(String, InodeId, usize)> = files
            .filter(|(path, _)| file.matches(path))
            .filter_map(|(path, id)| {
                let (_, safe) = self.content(id)?;
                (safe > 0).then_some((path, id, safe))
            })
            .collect();
        if candidates.is_empty() {
            return None;
        }
        let (path, id, safe) = stream.pick(&candidates).clone();
        let content = self.tree.file_mut(id)?;
        let at = stream.index(safe);
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
