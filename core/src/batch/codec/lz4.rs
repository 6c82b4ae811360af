//! LZ4 in its standard frame, as record batches v2 carry it.
//!
//! The frame is read and written here and only its blocks are left to the codec crate: Kafka's
//! frame is one fixed form, and a reader of hostile bytes should have no assertion to trip over.

use lz4_flex::block::{
    compress_into, decompress_into, decompress_into_with_dict, get_maximum_output_size,
};

use super::CodecError;
use super::xxh32::xxh32;
use crate::batch::header::CompressionType;

const CODEC: CompressionType = CompressionType::Lz4;
const CORRUPT: CodecError = CodecError::Corrupt { codec: CODEC };

const MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];
/// Version 1, independent blocks, no checksums, no content size.
const FLAGS: u8 = 0x60;
/// Blocks of 64 KiB.
const BLOCK_DESCRIPTOR: u8 = 0x40;
const BLOCK_SIZE: usize = 64 * 1024;
/// How far back a block may refer into the ones before it, when they are linked.
const WINDOW: usize = 64 * 1024;
/// The top bit of a block's length: it is stored as it is.
const STORED: u32 = 0x8000_0000;
const END_MARK: u32 = 0;

pub(super) fn compress(input: &[u8]) -> Result<Vec<u8>, CodecError> {
    let mut out = Vec::with_capacity(input.len() / 2 + 64);
    out.extend_from_slice(&MAGIC);
    let descriptor = [FLAGS, BLOCK_DESCRIPTOR];
    out.extend_from_slice(&descriptor);
    out.push(header_checksum(&descriptor));
    let mut scratch = vec![0; get_maximum_output_size(BLOCK_SIZE.min(input.len()))];
    for block in input.chunks(BLOCK_SIZE) {
        let size = compress_into(block, &mut scratch)
            .map_err(|_| CodecError::Compress { codec: CODEC })?;
        let (data, flag) = if size < block.len() {
            (&scratch[..size], 0)
        } else {
            (block, STORED)
        };
        let length =
            u32::try_from(data.len()).map_err(|_| CodecError::Compress { codec: CODEC })?;
        out.extend_from_slice(&(length | flag).to_le_bytes());
        out.extend_from_slice(data);
    }
    out.extend_from_slice(&END_MARK.to_le_bytes());
    Ok(out)
}

/// Reads one frame up to its end mark and ignores what follows, as Kafka does. Linked blocks are
/// accepted although Kafka's own reader refuses them: a few clients write them.
pub(super) fn decompress(input: &[u8], limit: usize) -> Result<Vec<u8>, CodecError> {
    let (frame, mut rest) = FrameHeader::read(input).ok_or(CORRUPT)?;
    let mut out = Vec::new();
    let mut scratch = Vec::new();
    loop {
        let word = take_u32(&mut rest).ok_or(CORRUPT)?;
        if word == END_MARK {
            return Ok(out);
        }
        let length = usize::try_from(word & !STORED).map_err(|_| CORRUPT)?;
        if length > frame.block_size {
            return Err(CORRUPT);
        }
        let (data, after) = rest.split_at_checked(length).ok_or(CORRUPT)?;
        rest = after;
        if frame.block_checksums && take_u32(&mut rest) != Some(xxh32(data)) {
            return Err(CORRUPT);
        }
        let room = limit - out.len();
        if word & STORED != 0 {
            if data.len() > room {
                return Err(CodecError::OutputLimit { limit });
            }
            out.extend_from_slice(data);
        } else {
            let unpacked = frame.unpack(data, &out, &mut scratch)?;
            if unpacked > room {
                return Err(CodecError::OutputLimit { limit });
            }
            out.extend_from_slice(&scratch[..unpacked]);
        }
    }
}

struct FrameHeader {
    block_size: usize,
    linked: bool,
    block_checksums: bool,
}

impl FrameHeader {
    fn read(input: &[u8]) -> Option<(Self, &[u8])> {
        let descriptor = input.strip_prefix(&MAGIC)?;
        let &[flags, sizes] = descriptor.first_chunk::<2>()?;
        let version_one = flags & 0xc0 == 0x40;
        let reserved = flags & 0x02 != 0 || sizes & 0x8f != 0;
        let needs_dictionary = flags & 0x01 != 0;
        if !version_one || reserved || needs_dictionary {
            return None;
        }
        let block_size = match sizes >> 4 {
            4 => 64 * 1024,
            5 => 256 * 1024,
            6 => 1024 * 1024,
            7 => 4 * 1024 * 1024,
            _ => return None,
        };
        let has_content_size = flags & 0x08 != 0;
        let (descriptor, rest) =
            descriptor.split_at_checked(if has_content_size { 10 } else { 2 })?;
        let (&checksum, rest) = rest.split_first()?;
        if checksum != header_checksum(descriptor) {
            return None;
        }
        let header = Self {
            block_size,
            linked: flags & 0x20 == 0,
            block_checksums: flags & 0x10 != 0,
        };
        Some((header, rest))
    }

    /// Unpacks one block into `scratch` and gives its size.
    fn unpack(
        &self,
        data: &[u8],
        before: &[u8],
        scratch: &mut Vec<u8>,
    ) -> Result<usize, CodecError> {
        // One byte of input gives at most 255 of output, so a small block needs no large buffer.
        let space = self.block_size.min(data.len().saturating_mul(256));
        if scratch.len() < space {
            scratch.resize(space, 0);
        }
        let scratch = &mut scratch[..space];
        let unpacked = if self.linked {
            let window = &before[before.len().saturating_sub(WINDOW)..];
            decompress_into_with_dict(data, scratch, window)
        } else {
            decompress_into(data, scratch)
        };
        unpacked.map_err(|_| CORRUPT)
    }
}

fn header_checksum(descriptor: &[u8]) -> u8 {
    let [_, second, ..] = xxh32(descriptor).to_le_bytes();
    second
}

fn take_u32(rest: &mut &[u8]) -> Option<u32> {
    let (word, after) = rest.split_first_chunk::<4>()?;
    *rest = after;
    Some(u32::from_le_bytes(*word))
}
