//! Splitting a byte stream into frames: the length prefix and its limits.

use thiserror::Error;

use super::ApiKey;

/// Bytes of the length prefix.
pub const FRAME_PREFIX_BYTES: usize = 4;

/// How far a connection has come; trust, and with it the largest frame, grows with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameStage {
    /// On a listener with authentication, before it has succeeded.
    Unauthenticated,
    /// On a listener without authentication, before the first request was understood.
    First,
    /// After that.
    Established,
}

/// The largest frames that are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameLimits {
    /// `socket.request.max.bytes`: the largest frame at all.
    pub request_max: usize,
    /// The largest frame before authentication (`sasl.server.max.receive.size`).
    pub unauthenticated_max: usize,
    /// The largest first frame without authentication; clients that do not negotiate versions may
    /// start with a Produce of their `max.request.size`.
    pub first_max: usize,
    /// The largest frame of an API that carries no records.
    pub control_max: usize,
}

impl Default for FrameLimits {
    fn default() -> Self {
        Self {
            request_max: 100 << 20,
            unauthenticated_max: 512 << 10,
            first_max: 2 << 20,
            control_max: 16 << 20,
        }
    }
}

impl FrameLimits {
    /// Returns the largest frame of a stage, before anything of the frame is known.
    #[must_use]
    pub fn max(&self, stage: FrameStage) -> usize {
        match stage {
            FrameStage::Unauthenticated => self.unauthenticated_max.min(self.request_max),
            FrameStage::First => self.first_max.min(self.request_max),
            FrameStage::Established => self.request_max,
        }
    }

    /// Returns the largest frame of a stage once its first two bytes, the API key, have come in:
    /// only Produce may be large.
    #[must_use]
    pub fn max_for_key(&self, stage: FrameStage, key: i16) -> usize {
        let max = self.max(stage);
        if key == ApiKey::Produce.key() {
            max
        } else {
            max.min(self.control_max)
        }
    }
}

/// A length prefix that no frame can follow; the connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The length is negative.
    #[error("frame length {0} is negative")]
    Negative(i32),
    /// The length is zero.
    #[error("frame is empty")]
    Empty,
    /// The length is over the limit.
    #[error("frame of {len} bytes is larger than the limit of {max}")]
    TooLarge {
        /// The length that was declared.
        len: usize,
        /// The limit.
        max: usize,
    },
}

/// Reads a length prefix: the bytes of the frame that follow it.
///
/// # Errors
///
/// Returns a [`FrameError`] for a negative, empty or too large frame.
pub fn frame_len(prefix: [u8; FRAME_PREFIX_BYTES], max: usize) -> Result<usize, FrameError> {
    let declared = i32::from_be_bytes(prefix);
    let len = usize::try_from(declared).map_err(|_| FrameError::Negative(declared))?;
    if len == 0 {
        return Err(FrameError::Empty);
    }
    if len > max {
        return Err(FrameError::TooLarge { len, max });
    }
    Ok(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_is_held_to_the_limit() {
        assert_eq!(frame_len([0, 0, 0, 8], 8), Ok(8));
        assert_eq!(
            frame_len([0, 0, 0, 9], 8),
            Err(FrameError::TooLarge { len: 9, max: 8 })
        );
        assert_eq!(frame_len([0; 4], 8), Err(FrameError::Empty));
        assert_eq!(frame_len([0xff; 4], 8), Err(FrameError::Negative(-1)));
        assert!(
            frame_len(*b"GET ", 100 << 20).is_err(),
            "HTTP is no Kafka frame"
        );
    }

    #[test]
    fn only_produce_frames_may_be_large() {
        let limits = FrameLimits::default();
        assert_eq!(limits.max_for_key(FrameStage::Established, 0), 104_857_600);
        assert_eq!(limits.max_for_key(FrameStage::Established, 3), 16 << 20);
        assert_eq!(limits.max_for_key(FrameStage::Unauthenticated, 0), 524_288);
        let small = FrameLimits {
            request_max: 1000,
            ..limits
        };
        assert_eq!(small.max(FrameStage::First), 1000);
    }
}
