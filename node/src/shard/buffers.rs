//! Read buffers, lent to connections only while they have bytes that are not yet a whole frame.
//!
//! One buffer of 64 KiB serves all connections that send small frames: it stays in the processor's cache, which was measured to
//! matter more than fewer system calls by larger reads. A frame that does not fit gets a buffer of its own size.

use bytes::BytesMut;

/// Size of an ordinary read buffer.
pub(crate) const READ_BYTES: usize = 64 * 1024;

/// Buffers that no connection holds at the moment. A frame handed to the machine may still share the memory of one; such a
/// buffer is passed over until the frame is dropped.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    ordinary: Vec<BytesMut>,
    large: Vec<BytesMut>,
}

impl Buffers {
    /// Lends an empty buffer with room for at least `bytes`.
    pub(crate) fn take(&mut self, bytes: usize) -> BytesMut {
        let spare = if bytes <= READ_BYTES {
            &mut self.ordinary
        } else {
            &mut self.large
        };
        let bytes = bytes.max(READ_BYTES);
        // From the end: the buffer used last is the one most likely in the cache.
        for at in (0..spare.len()).rev() {
            if spare[at].try_reclaim(bytes) {
                return spare.remove(at);
            }
        }
        BytesMut::with_capacity(bytes)
    }

    /// Takes a buffer back, whatever it holds is dropped.
    pub(crate) fn give(&mut self, mut buffer: BytesMut, bytes: usize) {
        buffer.clear();
        if bytes <= READ_BYTES {
            keep(&mut self.ordinary, buffer, ORDINARY_KEPT_MAX);
        } else if bytes <= LARGE_BYTES_MAX {
            keep(&mut self.large, buffer, LARGE_KEPT_MAX);
        }
    }

    /// Drops large buffers, when nobody has used one for a while.
    pub(crate) fn shrink(&mut self) {
        self.large.clear();
    }
}

fn keep(spare: &mut Vec<BytesMut>, buffer: BytesMut, max: usize) {
    if spare.len() == max {
        // The oldest is the one whose frames are held longest, by a machine that keeps them in memory.
        spare.remove(0);
    }
    spare.push(buffer);
}

/// Two alternate on one busy connection; a few more cover frames that the machine holds for a moment.
const ORDINARY_KEPT_MAX: usize = 4;

/// Large buffers kept for the next large frame.
const LARGE_KEPT_MAX: usize = 2;

/// A larger buffer is given back to the system at once.
const LARGE_BYTES_MAX: usize = 2 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_returned_buffer_is_lent_again() {
        let mut buffers = Buffers::default();
        let mut buffer = buffers.take(READ_BYTES);
        buffer.extend_from_slice(b"frame");
        let place = buffer.as_ptr();
        drop(buffer.split_to(5).freeze());
        buffers.give(buffer, READ_BYTES);
        assert_eq!(buffers.take(READ_BYTES).as_ptr(), place);
    }

    #[test]
    fn a_buffer_whose_frame_is_held_is_passed_over() {
        let mut buffers = Buffers::default();
        let mut buffer = buffers.take(READ_BYTES);
        buffer.extend_from_slice(b"frame");
        let held = buffer.split_to(5).freeze();
        buffers.give(buffer, READ_BYTES);
        let mut other = buffers.take(READ_BYTES);
        other.extend_from_slice(b"other");
        assert_eq!(&held[..], b"frame");
    }

    #[test]
    fn spare_memory_is_bounded() {
        let mut buffers = Buffers::default();
        for _ in 0..100 {
            buffers.give(BytesMut::with_capacity(READ_BYTES), READ_BYTES);
            buffers.give(BytesMut::with_capacity(1 << 20), 1 << 20);
            buffers.give(BytesMut::with_capacity(1 << 24), 1 << 24);
        }
        assert_eq!(buffers.ordinary.len(), ORDINARY_KEPT_MAX);
        assert_eq!(buffers.large.len(), LARGE_KEPT_MAX);
    }
}
