//! Zstandard (KIP-110).

use super::{CodecError, read_bounded};
use crate::batch::header::CompressionType;

const CODEC: CompressionType = CompressionType::Zstd;

pub(super) fn compress(input: &[u8], level: i32) -> Result<Vec<u8>, CodecError> {
    zstd::bulk::compress(input, level).map_err(|_| CodecError::Compress { codec: CODEC })
}

/// Frames may follow each other. A frame's window of up to 128 MiB is reserved but only touched as
/// far as output is produced, so the limit bounds the memory in use too.
pub(super) fn decompress(input: &[u8], limit: usize) -> Result<Vec<u8>, CodecError> {
    let hint = input.len().saturating_mul(4);
    let decoder = zstd::stream::read::Decoder::with_buffer(input)
        .map_err(|_| CodecError::Corrupt { codec: CODEC })?;
    read_bounded(decoder, CODEC, hint, limit)
}
