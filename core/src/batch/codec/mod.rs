//! The four codecs of record batches, with a bound on what they may unpack.
//!
//! Everything works on memory: the standard library's `Read` appears only where a codec crate asks
//! for it, and always over a slice.

mod gzip;
mod lz4;
mod snappy;
mod xxh32;
mod zstandard;

use super::header::CompressionType;

/// Why records could not be packed or unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// The bytes are not what the codec writes.
    #[error("{} data is damaged", codec.name())]
    Corrupt {
        /// The codec.
        codec: CompressionType,
    },
    /// Unpacking would give more bytes than allowed: a decompression bomb, or a limit set too low.
    #[error("records unpack to more than {limit} bytes")]
    OutputLimit {
        /// The limit.
        limit: usize,
    },
    /// The codec refused to pack the bytes.
    #[error("{} cannot compress these records", codec.name())]
    Compress {
        /// The codec.
        codec: CompressionType,
    },
}

/// A codec to pack with, and how hard it should try.
///
/// Levels are Kafka's `compression.gzip.level`, `compression.lz4.level` and
/// `compression.zstd.level`. They change the size of the result, never its format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Leave the records as they are.
    None,
    /// gzip, level 1 to 9 or -1 for the codec's default.
    Gzip {
        /// The level.
        level: i32,
    },
    /// Snappy in xerial blocks.
    Snappy,
    /// LZ4 frame. Levels 1 to 17 are accepted for Kafka's sake; the encoder has one speed.
    Lz4 {
        /// The level.
        level: i32,
    },
    /// Zstandard, level -131072 to 22.
    Zstd {
        /// The level.
        level: i32,
    },
}

impl Compression {
    /// Kafka's default gzip level: whatever the codec prefers.
    pub const GZIP_DEFAULT_LEVEL: i32 = -1;
    /// Kafka's default LZ4 level.
    pub const LZ4_DEFAULT_LEVEL: i32 = 9;
    /// Kafka's default Zstandard level.
    pub const ZSTD_DEFAULT_LEVEL: i32 = 3;

    /// Takes a codec at its default level.
    pub const fn of(codec: CompressionType) -> Self {
        match codec {
            CompressionType::None => Self::None,
            CompressionType::Gzip => Self::Gzip {
                level: Self::GZIP_DEFAULT_LEVEL,
            },
            CompressionType::Snappy => Self::Snappy,
            CompressionType::Lz4 => Self::Lz4 {
                level: Self::LZ4_DEFAULT_LEVEL,
            },
            CompressionType::Zstd => Self::Zstd {
                level: Self::ZSTD_DEFAULT_LEVEL,
            },
        }
    }

    /// Gives the codec without its level.
    pub const fn codec(self) -> CompressionType {
        match self {
            Self::None => CompressionType::None,
            Self::Gzip { .. } => CompressionType::Gzip,
            Self::Snappy => CompressionType::Snappy,
            Self::Lz4 { .. } => CompressionType::Lz4,
            Self::Zstd { .. } => CompressionType::Zstd,
        }
    }
}

/// Packs `input`.
pub fn compress(with: Compression, input: &[u8]) -> Result<Vec<u8>, CodecError> {
    match with {
        Compression::None => Ok(input.to_vec()),
        Compression::Gzip { level } => gzip::compress(input, level),
        Compression::Snappy => snappy::compress(input),
        Compression::Lz4 { .. } => lz4::compress(input),
        Compression::Zstd { level } => zstandard::compress(input, level),
    }
}

/// Unpacks `input` into at most `limit` bytes.
///
/// Memory stays within about twice the limit, whatever the input claims about itself.
pub fn decompress(
    codec: CompressionType,
    input: &[u8],
    limit: usize,
) -> Result<Vec<u8>, CodecError> {
    match codec {
        CompressionType::None if input.len() > limit => Err(CodecError::OutputLimit { limit }),
        CompressionType::None => Ok(input.to_vec()),
        CompressionType::Gzip => gzip::decompress(input, limit),
        CompressionType::Snappy => snappy::decompress(input, limit),
        CompressionType::Lz4 => lz4::decompress(input, limit),
        CompressionType::Zstd => zstandard::decompress(input, limit),
    }
}

/// Drains a decoder that reads from memory, one byte past the limit at most.
fn read_bounded(
    reader: impl std::io::Read,
    codec: CompressionType,
    size_hint: usize,
    limit: usize,
) -> Result<Vec<u8>, CodecError> {
    let mut out = Vec::with_capacity(size_hint.min(limit));
    let bound = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    std::io::Read::read_to_end(&mut std::io::Read::take(reader, bound), &mut out)
        .map_err(|_| CodecError::Corrupt { codec })?;
    if out.len() > limit {
        return Err(CodecError::OutputLimit { limit });
    }
    Ok(out)
}

#[cfg(test)]
mod tests;
