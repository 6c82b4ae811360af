//! From a stream of bytes to frames.

use bytes::{Bytes, BytesMut};
use seedlog_core::protocol::{FRAME_PREFIX_BYTES, FrameError, FrameLimits, FrameStage, frame_len};

use super::buffers::{Buffers, READ_BYTES};

/// What a connection has sent and was not yet handed on.
#[derive(Debug, Default)]
pub(super) struct Inbound {
    buffer: BytesMut,
    /// How many bytes the buffer was taken for; 0 when it is an exact copy of a few bytes, or nothing.
    lent: usize,
}

/// What a connection may send.
#[derive(Debug)]
pub(super) enum Expected<'a> {
    /// Requests, of which those that carry records may be large.
    Requests(&'a FrameLimits, FrameStage),
    /// Answers to what this side asked.
    Answers {
        /// The largest.
        bytes_max: usize,
    },
}

/// What the first bytes of a buffer are.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A whole frame, without its length.
    Frame(Bytes),
    /// Less than a frame; so many bytes in all will be one, its length included, as far as is known.
    More {
        /// Bytes of the whole, at least four.
        total: usize,
    },
    /// Not a frame.
    Invalid(FrameError),
}

impl Inbound {
    /// Takes the next frame if it is there and within its limit.
    pub(super) fn next(&mut self, expected: &Expected<'_>) -> Next {
        let Some((prefix, rest)) = self.buffer.split_first_chunk::<FRAME_PREFIX_BYTES>() else {
            return Next::More {
                total: FRAME_PREFIX_BYTES,
            };
        };
        // What may be large is known a little later than how large it claims to be.
        let max = match (expected, rest.first_chunk()) {
            (Expected::Answers { bytes_max }, _) => *bytes_max,
            (Expected::Requests(limits, stage), Some(key)) => {
                limits.max_for_key(*stage, i16::from_be_bytes(*key))
            }
            (Expected::Requests(limits, stage), None) => limits.max(*stage),
        };
        let total = match frame_len(*prefix, max) {
            Ok(body) => body.saturating_add(FRAME_PREFIX_BYTES),
            Err(error) => return Next::Invalid(error),
        };
        if self.buffer.len() < total {
            return Next::More { total };
        }
        let frame = self.buffer.split_to(total).freeze();
        Next::Frame(frame.slice(FRAME_PREFIX_BYTES..))
    }

    /// Makes room for the next read and returns how many bytes it may take.
    ///
    /// A frame that is larger than an ordinary buffer gets one of its own that holds it alone and ends with it. It grows only as
    /// bytes arrive, unless the connection is `trusted`: a length is a claim, not a reason to set memory aside.
    pub(super) fn make_room(
        &mut self,
        buffers: &mut Buffers,
        total: usize,
        trusted: bool,
    ) -> usize {
        let held = self.buffer.len();
        if total <= READ_BYTES {
            let room = self.buffer.capacity() - held;
            let missing = total - held.min(total);
            // What is left of a buffer is as good as a whole one, as long as reads do not become small.
            if room < missing.max(READ_BYTES_MIN) || held == 0 {
                self.exchange(buffers, READ_BYTES);
            }
            return self.buffer.capacity() - self.buffer.len();
        }
        if held == self.buffer.capacity() || self.lent <= READ_BYTES {
            let step = if trusted {
                total
            } else {
                held.max(READ_BYTES).saturating_mul(2)
            };
            self.exchange(buffers, step.min(total));
        }
        (self.buffer.capacity() - self.buffer.len()).min(total - self.buffer.len())
    }

    /// Returns the buffer that reads go to.
    pub(super) const fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// Gives memory back while nothing more arrives: all of it when no byte is held, most of it when few are.
    pub(super) fn rest(&mut self, buffers: &mut Buffers, scarce: bool) {
        let held = self.buffer.len();
        if self.lent == 0
            || held
                > if scarce {
                    READ_BYTES / 2
                } else {
                    REST_BYTES_MAX
                }
        {
            return;
        }
        let few = BytesMut::from(&self.buffer[..]);
        let buffer = std::mem::replace(&mut self.buffer, few);
        buffers.give(buffer, self.lent);
        self.lent = 0;
    }

    /// Returns how much memory is held.
    pub(super) fn memory(&self) -> usize {
        if self.lent == 0 {
            self.buffer.len()
        } else {
            self.lent
        }
    }

    /// Returns whether part of a frame has arrived.
    pub(super) fn is_partial(&self) -> bool {
        !self.buffer.is_empty()
    }

    fn exchange(&mut self, buffers: &mut Buffers, bytes: usize) {
        let mut fresh = buffers.take(bytes);
        fresh.extend_from_slice(&self.buffer);
        let old = std::mem::replace(&mut self.buffer, fresh);
        if self.lent > 0 {
            buffers.give(old, self.lent);
        }
        self.lent = bytes.max(READ_BYTES);
    }
}

/// Below this much room a buffer is exchanged for an empty one.
const READ_BYTES_MIN: usize = 16 * 1024;

/// So few bytes are copied to a place of their own while a connection rests.
const REST_BYTES_MAX: usize = 1024;
