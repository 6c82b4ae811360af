//! Bytes on their way to a file or a socket, shared instead of copied.

use std::fmt;

use bytes::Bytes;

use super::{FileId, Generation};

/// Up to 64 bytes held inline: a patched batch header never needs an allocation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Head {
    bytes: [u8; 64],
    len: u8,
}

impl Head {
    /// No bytes.
    pub const EMPTY: Self = Self {
        bytes: [0; 64],
        len: 0,
    };

    /// Copies `bytes`, `None` if there are more than 64.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut head = Self::EMPTY;
        head.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        head.len = u8::try_from(bytes.len()).ok()?;
        Some(head)
    }

    /// Returns the bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl fmt::Debug for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Head({} bytes)", self.len)
    }
}

/// What a write puts into a file: a short head (a patched batch header), then a shared body.
#[derive(Clone, PartialEq, Eq)]
pub struct WriteData {
    /// The first bytes.
    pub head: Head,
    /// The rest.
    pub body: Bytes,
}

impl WriteData {
    /// Makes a write of a body alone.
    #[must_use]
    pub const fn from_body(body: Bytes) -> Self {
        Self {
            head: Head::EMPTY,
            body,
        }
    }

    /// Returns how many bytes are written.
    #[must_use]
    pub fn len(&self) -> usize {
        usize::from(self.head.len) + self.body.len()
    }

    /// Returns whether nothing is written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for WriteData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WriteData({} bytes)", self.len())
    }
}

/// Bytes of a file, pinned by its generation: a truncation in between makes the range void.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRange {
    /// The file.
    pub file: FileId,
    /// The generation for which the range was promised.
    pub generation: Generation,
    /// Position of the first byte.
    pub at: u64,
    /// How many bytes; the file holds them all.
    pub len: u32,
}

/// A piece of a frame.
#[derive(Clone, PartialEq, Eq)]
pub enum Part {
    /// Bytes in memory.
    Bytes(Bytes),
    /// Bytes of a file, read by the driver when it sends them.
    File(FileRange),
}

impl Part {
    /// Returns how many bytes the part puts on the wire.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::File(range) => range.len as usize,
        }
    }

    /// Returns whether the part is empty.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "Bytes({})", bytes.len()),
            Self::File(range) => range.fmt(f),
        }
    }
}

/// One whole frame to send, its length prefix included.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// One piece: every answer but a fetch's.
    Whole(Bytes),
    /// Several pieces in order: a head and slices of logs.
    Parts(Vec<Part>),
}

impl Frame {
    /// Returns how many bytes the frame puts on the wire.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Whole(bytes) => bytes.len(),
            Self::Parts(parts) => parts.iter().map(Part::len).sum(),
        }
    }

    /// Returns whether the frame is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<Bytes> for Frame {
    fn from(bytes: Bytes) -> Self {
        Self::Whole(bytes)
    }
}
