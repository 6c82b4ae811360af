use super::{CodecError, Compression, compress, decompress};
use crate::batch::header::CompressionType;

const CODECS: [CompressionType; 4] = [
    CompressionType::Gzip,
    CompressionType::Snappy,
    CompressionType::Lz4,
    CompressionType::Zstd,
];

/// Bytes of which some repeat and some do not, over several blocks of every codec.
fn sample(len: usize) -> Vec<u8> {
    let mut state = 1u32;
    (0..len)
        .map(|at| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let [high, ..] = state.to_be_bytes();
            if at / 5_000 % 2 == 0 { high } else { b'x' }
        })
        .collect()
}

#[test]
fn all_sizes_around_block_borders_come_back() {
    let sizes = [
        0, 1, 15, 32_767, 32_768, 32_769, 65_535, 65_536, 65_537, 200_000,
    ];
    for codec in CODECS {
        for len in sizes {
            let plain = sample(len);
            let packed = compress(Compression::of(codec), &plain).unwrap();
            let unpacked = decompress(codec, &packed, len).unwrap();
            assert!(unpacked == plain, "{} {len}", codec.name());
            if len > 0 {
                let limit = len - 1;
                assert_eq!(
                    decompress(codec, &packed, limit),
                    Err(CodecError::OutputLimit { limit })
                );
            }
        }
    }
}

#[test]
fn cut_streams_are_refused() {
    let plain = sample(3_000);
    for codec in CODECS {
        let packed = compress(Compression::of(codec), &plain).unwrap();
        for cut in (1..packed.len()).filter(|cut| {
            // A xerial stream may end after any whole block, of which the header is none.
            codec != CompressionType::Snappy || *cut != 16
        }) {
            let result = decompress(codec, &packed[..cut], 1 << 20);
            assert!(result.is_err(), "{} cut at {cut}", codec.name());
        }
    }
}

#[test]
fn snappy_starts_with_the_xerial_header_in_big_endian() {
    let packed = compress(Compression::Snappy, b"abc").unwrap();
    let expected = b"\x82SNAPPY\0\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x05\x03\x08abc";
    assert_eq!(packed, expected);
}

#[test]
fn snappy_without_framing_and_glued_streams_are_read() {
    assert_eq!(
        decompress(CompressionType::Snappy, b"\x03\x08abc", 10).unwrap(),
        b"abc"
    );
    let one = compress(Compression::Snappy, b"abc").unwrap();
    let twice = [one.clone(), one].concat();
    assert_eq!(
        decompress(CompressionType::Snappy, &twice, 10).unwrap(),
        b"abcabc"
    );
}

#[test]
fn snappy_block_that_claims_the_impossible_reserves_nothing() {
    // Claims 4 GiB minus one in five bytes.
    let claim = b"\xff\xff\xff\xff\x0f\x00";
    assert_eq!(
        decompress(CompressionType::Snappy, claim, usize::MAX),
        Err(CodecError::Corrupt {
            codec: CompressionType::Snappy
        })
    );
}

#[test]
fn lz4_frame_is_kafkas() {
    let packed = compress(Compression::of(CompressionType::Lz4), b"abc").unwrap();
    // Magic, version 1 with independent blocks, 64 KiB blocks, their checksum, one stored block of
    // three bytes, end mark.
    let expected = b"\x04\x22\x4d\x18\x60\x40\x82\x03\x00\x00\x80abc\x00\x00\x00\x00";
    assert_eq!(packed, expected);
}

#[test]
fn lz4_frames_of_other_writers_are_read() {
    use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
    use std::io::Write;

    let plain = sample(300_000);
    for mode in [BlockMode::Independent, BlockMode::Linked] {
        for size in [BlockSize::Max64KB, BlockSize::Max256KB, BlockSize::Max4MB] {
            for checksums in [false, true] {
                let info = FrameInfo::new()
                    .block_mode(mode)
                    .block_size(size)
                    .block_checksums(checksums)
                    .content_checksum(checksums)
                    .content_size(checksums.then_some(300_000));
                let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
                encoder.write_all(&plain).unwrap();
                let packed = encoder.finish().unwrap();
                let unpacked = decompress(CompressionType::Lz4, &packed, 300_000).unwrap();
                assert!(unpacked == plain, "{mode:?} {size:?} {checksums}");
            }
        }
    }
}

#[test]
fn lz4_frame_with_a_wrong_descriptor_or_checksum_is_refused() {
    let good = compress(Compression::of(CompressionType::Lz4), b"abcabcabcabcabcabc").unwrap();
    for at in 0..7 {
        let mut bad = good.clone();
        bad[at] ^= 0x04;
        assert!(
            decompress(CompressionType::Lz4, &bad, 100).is_err(),
            "byte {at}"
        );
    }
}

#[test]
fn zstd_and_gzip_streams_may_be_glued() {
    for codec in [CompressionType::Gzip, CompressionType::Zstd] {
        let one = compress(Compression::of(codec), b"abc").unwrap();
        let twice = [one.clone(), one].concat();
        assert_eq!(decompress(codec, &twice, 10).unwrap(), b"abcabc");
    }
}
