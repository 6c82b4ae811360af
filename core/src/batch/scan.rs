//! Walking the batches in a run of bytes: a read from a segment, a fetch answer, a recovery scan.

use super::header::{
    ATTRIBUTES_AT, BatchHeader, HEADER_SIZE, HeaderFault, LENGTH_AT, LOG_OVERHEAD, MAGIC_AT,
    MAGIC_V2, MIN_BATCH_LENGTH,
};

/// One batch, borrowed from the bytes that were walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchView<'a> {
    position: u64,
    bytes: &'a [u8],
    header: BatchHeader<'a>,
}

impl<'a> BatchView<'a> {
    /// Gives the position of the first byte, counted as the walk was told to count.
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// Gives the position after the last byte.
    pub fn end_position(&self) -> u64 {
        self.position.saturating_add(to_u64(self.bytes.len()))
    }

    /// Gives the header.
    pub const fn header(&self) -> BatchHeader<'a> {
        self.header
    }

    /// Gives header and records.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Gives the records section, compressed or not.
    pub fn body(&self) -> &'a [u8] {
        &self.bytes[HEADER_SIZE..]
    }

    /// Computes the checksum over the bytes and compares it with the stored one.
    pub fn check_crc(&self) -> Result<(), ScanFault> {
        let stored = self.header.crc();
        let computed = checksum(self.bytes);
        if stored == computed {
            return Ok(());
        }
        Err(ScanFault {
            position: self.position,
            kind: ScanFaultKind::Crc { stored, computed },
        })
    }
}

/// Where and why a walk cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("at position {position}: {kind}")]
pub struct ScanFault {
    /// Position of the first byte of the batch at fault, which is also where the good bytes end.
    pub position: u64,
    /// What is wrong.
    pub kind: ScanFaultKind,
}

/// Why a walk cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ScanFaultKind {
    /// The bytes end inside a batch that looks good so far: the usual end of a read of limited
    /// size, or the torn tail of a log.
    #[error("{have} bytes of a batch of {need}")]
    Incomplete {
        /// Bytes present.
        have: usize,
        /// Bytes of the whole batch, as far as known: at least those of a header.
        need: usize,
    },
    /// No batch can be this small; zeroes after a power loss look like this.
    #[error("batch length {length} is below the minimum")]
    TooSmall {
        /// The length field.
        length: i32,
    },
    /// No batch may be this large.
    #[error("batch of {size} bytes is above the limit {max}")]
    TooLarge {
        /// Its size with the header.
        size: usize,
        /// The limit of the walk.
        max: usize,
    },
    /// The format is not version 2.
    #[error("magic {magic} is not 2")]
    Magic {
        /// The magic byte.
        magic: i8,
    },
    /// The checksum does not fit.
    #[error("stored crc {stored:#010x} but the bytes give {computed:#010x}")]
    Crc {
        /// What the header says.
        stored: u32,
        /// What the bytes give.
        computed: u32,
    },
}

impl ScanFaultKind {
    /// Tells whether more bytes could make the batch good.
    pub const fn is_incomplete(&self) -> bool {
        matches!(self, Self::Incomplete { .. })
    }
}

/// Walks batches. Ends with `None` at a clean end, or once with a fault.
///
/// A fault is reported from as few bytes as show it: a batch that is both cut off and impossible
/// is corrupt, not incomplete.
#[derive(Debug, Clone)]
pub struct BatchIter<'a> {
    rest: &'a [u8],
    position: u64,
    size_max: usize,
    with_crc: bool,
    failed: bool,
}

impl<'a> BatchIter<'a> {
    /// Starts at the first of `bytes`, which stands at `position` of its segment.
    pub const fn new(bytes: &'a [u8], position: u64) -> Self {
        Self {
            rest: bytes,
            position,
            size_max: usize::MAX,
            with_crc: false,
            failed: false,
        }
    }

    /// Checks the CRC of each batch as well: all bytes are read, not only headers.
    #[must_use]
    pub const fn with_crc(mut self) -> Self {
        self.with_crc = true;
        self
    }

    /// Takes larger batches for damage, so that a wild length is not waited for as incomplete.
    #[must_use]
    pub const fn with_size_max(mut self, size_max: usize) -> Self {
        self.size_max = size_max;
        self
    }

    /// Gives the position after the last good batch.
    pub const fn position(&self) -> u64 {
        self.position
    }

    fn step(&self) -> Result<BatchView<'a>, ScanFaultKind> {
        let size = batch_size(self.rest)?.unwrap_or(HEADER_SIZE);
        if size > self.size_max {
            return Err(ScanFaultKind::TooLarge {
                size,
                max: self.size_max,
            });
        }
        let incomplete = ScanFaultKind::Incomplete {
            have: self.rest.len(),
            need: size,
        };
        let bytes = self.rest.get(..size).ok_or(incomplete)?;
        let header = BatchHeader::read(bytes).map_err(|fault| match fault {
            HeaderFault::TooShort { .. } => incomplete,
            HeaderFault::Length { length } => ScanFaultKind::TooSmall { length },
            HeaderFault::Magic { magic } => ScanFaultKind::Magic { magic },
        })?;
        let batch = BatchView {
            position: self.position,
            bytes,
            header,
        };
        if self.with_crc {
            batch.check_crc().map_err(|fault| fault.kind)?;
        }
        Ok(batch)
    }
}

impl<'a> Iterator for BatchIter<'a> {
    type Item = Result<BatchView<'a>, ScanFault>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.rest.is_empty() {
            return None;
        }
        match self.step() {
            Ok(batch) => {
                self.rest = &self.rest[batch.bytes.len()..];
                self.position = batch.end_position();
                Some(Ok(batch))
            }
            Err(kind) => {
                self.failed = true;
                Some(Err(ScanFault {
                    position: self.position,
                    kind,
                }))
            }
        }
    }
}

/// Gives the size of the batch that starts at the first byte, once enough bytes are there to tell;
/// refuses a length or magic that cannot be.
///
/// A reader that fetched a few bytes learns from this how many it needs.
pub fn batch_size(bytes: &[u8]) -> Result<Option<usize>, ScanFaultKind> {
    let Some(length) = bytes.get(LENGTH_AT..).and_then(<[u8]>::first_chunk::<4>) else {
        return Ok(None);
    };
    let length = i32::from_be_bytes(*length);
    let size = usize::try_from(length)
        .ok()
        .filter(|_| length >= MIN_BATCH_LENGTH)
        .ok_or(ScanFaultKind::TooSmall { length })?
        .saturating_add(LOG_OVERHEAD);
    if let Some(byte) = bytes.get(MAGIC_AT) {
        let magic = i8::from_be_bytes([*byte]);
        if magic != MAGIC_V2 {
            return Err(ScanFaultKind::Magic { magic });
        }
    }
    Ok(Some(size))
}

/// Computes the CRC-32C of a whole batch.
pub(super) fn checksum(batch: &[u8]) -> u32 {
    crc32c::crc32c(batch.get(ATTRIBUTES_AT..).unwrap_or_default())
}

fn to_u64(size: usize) -> u64 {
    u64::try_from(size).unwrap_or(u64::MAX)
}
