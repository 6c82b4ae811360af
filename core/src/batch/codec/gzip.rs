//! gzip, as the Java client and librdkafka write it.

use flate2::bufread::{GzEncoder, MultiGzDecoder};

use super::{CodecError, Compression, read_bounded};
use crate::batch::header::CompressionType;

const CODEC: CompressionType = CompressionType::Gzip;

pub(super) fn compress(input: &[u8], level: i32) -> Result<Vec<u8>, CodecError> {
    let level = match u32::try_from(level) {
        Ok(level @ 1..=9) => flate2::Compression::new(level),
        _ if level == Compression::GZIP_DEFAULT_LEVEL => flate2::Compression::default(),
        _ => return Err(CodecError::Compress { codec: CODEC }),
    };
    let mut out = Vec::with_capacity(input.len() / 2 + 64);
    std::io::Read::read_to_end(&mut GzEncoder::new(input, level), &mut out)
        .map_err(|_| CodecError::Compress { codec: CODEC })?;
    Ok(out)
}

/// Members may follow each other, as Java's reader allows.
pub(super) fn decompress(input: &[u8], limit: usize) -> Result<Vec<u8>, CodecError> {
    let hint = input.len().saturating_mul(4);
    read_bounded(MultiGzDecoder::new(input), CODEC, hint, limit)
}
