//! Snappy: raw blocks within the framing of the xerial library, which Kafka clients speak.
//!
//! The stream starts with sixteen bytes (a magic, version 1, oldest compatible version 1), then
//! blocks follow, each behind its length as a big-endian `i32`. Some clients send one raw block
//! without framing; readers accept both.

use super::CodecError;
use crate::batch::header::CompressionType;

const CODEC: CompressionType = CompressionType::Snappy;
const CORRUPT: CodecError = CodecError::Corrupt { codec: CODEC };
const REFUSED: CodecError = CodecError::Compress { codec: CODEC };

const MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
const VERSIONS: [u8; 8] = [0, 0, 0, 1, 0, 0, 0, 1];

/// Block size of the Java client.
const BLOCK_SIZE: usize = 32 * 1024;

/// No snappy block can grow more than this: a copy of 64 bytes takes three.
const GROWTH_MAX: usize = 22;

pub(super) fn compress(input: &[u8]) -> Result<Vec<u8>, CodecError> {
    let mut encoder = snap::raw::Encoder::new();
    let mut scratch = vec![0; snap::raw::max_compress_len(BLOCK_SIZE.min(input.len()))];
    let mut out = Vec::with_capacity(input.len() / 2 + 64);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&VERSIONS);
    for block in input.chunks(BLOCK_SIZE) {
        let size = encoder.compress(block, &mut scratch).map_err(|_| REFUSED)?;
        let length = i32::try_from(size).map_err(|_| REFUSED)?;
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&scratch[..size]);
    }
    Ok(out)
}

pub(super) fn decompress(input: &[u8], limit: usize) -> Result<Vec<u8>, CodecError> {
    let mut out = Vec::new();
    let Some(mut rest) = strip_framing(input) else {
        block(input, limit, &mut out)?;
        return Ok(out);
    };
    while !rest.is_empty() {
        // Streams may be glued together: where a length should stand, another header may.
        if let Some(next) = strip_framing(rest) {
            rest = next;
            continue;
        }
        let (length, after) = rest.split_first_chunk::<4>().ok_or(CORRUPT)?;
        let length = usize::try_from(i32::from_be_bytes(*length)).map_err(|_| CORRUPT)?;
        let (packed, after) = after.split_at_checked(length).ok_or(CORRUPT)?;
        block(packed, limit, &mut out)?;
        rest = after;
    }
    Ok(out)
}

/// Skips magic and versions. The versions are not checked: clients disagree about their byte order.
fn strip_framing(input: &[u8]) -> Option<&[u8]> {
    input.strip_prefix(&MAGIC)?.get(VERSIONS.len()..)
}

fn block(packed: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<(), CodecError> {
    let size = snap::raw::decompress_len(packed).map_err(|_| CORRUPT)?;
    if size > packed.len().saturating_mul(GROWTH_MAX) {
        return Err(CORRUPT);
    }
    let start = out.len();
    let end = start
        .checked_add(size)
        .filter(|end| *end <= limit)
        .ok_or(CodecError::OutputLimit { limit })?;
    out.resize(end, 0);
    let written = snap::raw::Decoder::new()
        .decompress(packed, &mut out[start..])
        .map_err(|_| CORRUPT)?;
    if written != size {
        return Err(CORRUPT);
    }
    Ok(())
}
