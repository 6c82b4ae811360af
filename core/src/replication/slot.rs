//! A partition's place on this broker.

use crate::storage::Owner;

/// A partition's place in the table; never reused within one incarnation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotId(u32);

/// Operations of slot `n` are owned by `FIRST_OWNER + n`.
const FIRST_OWNER: u32 = 64;

impl SlotId {
    /// Names the place at this index; `None` if there can be no such place.
    pub(super) fn new(index: usize) -> Option<Self> {
        u32::try_from(index).ok().map(Self)
    }

    /// Returns the place's index.
    pub(super) fn index(self) -> Option<usize> {
        usize::try_from(self.0).ok()
    }

    /// Returns the owner of the slot's storage operations.
    #[must_use]
    pub const fn owner(self) -> Owner {
        Owner(FIRST_OWNER + self.0)
    }

    /// Returns the slot that owns an operation; `None` if another machine does.
    #[must_use]
    pub const fn of(owner: Owner) -> Option<Self> {
        match owner.0.checked_sub(FIRST_OWNER) {
            Some(slot) => Some(Self(slot)),
            None => None,
        }
    }
}
