//! What a peer's bytes make the decoders allocate, counted by the allocator itself.
//!
//! One test on its own in this binary, because the counter is the whole process's.

use std::alloc::System;

use bytes::{BufMut as _, BytesMut};
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng as _, SeedableRng as _},
};
use seedlog_core::{
    batch::{Compression, CompressionType, compress, decompress},
    protocol::{
        ApiKey, ClientRequest, DecodeLimits, Listener, decode_request, decode_response, messages,
    },
};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// How often a frame's own size a decoder may allocate, all of its allocations added up: an element takes one byte on the wire at
/// least and the largest struct for one a few hundred, of which a frame cannot be full.
const FACTOR: usize = 256;

/// What it may allocate beside that: an error with its names, the first growth of a few vectors.
const SLACK: usize = 4 << 10;

/// Counts of 2^31 - 1 elements as the wire writes them: fixed, and as a varint with the one that stands for null added.
const CLAIMS: [&[u8]; 3] = [
    &[0x7f, 0xff, 0xff, 0xff],
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0xff, 0xff, 0xff, 0xff, 0x07],
];

/// Bodies that mean harm: random ones, ones of small numbers, and zeros, each with a claim of two billion elements at each place.
fn harmful_bodies(seed: u64) -> impl Iterator<Item = Vec<u8>> {
    let mut dice = ChaCha8Rng::seed_from_u64(seed);
    (0..24).flat_map(move |round: u32| {
        let mut body = [0; 48];
        dice.fill_bytes(&mut body);
        for byte in &mut body {
            match round % 3 {
                0 => {}
                1 => *byte %= 4,
                _ => *byte = 0,
            }
        }
        (0..body.len()).flat_map(move |at| {
            CLAIMS.into_iter().map(move |claim| {
                let mut harmful = body.to_vec();
                harmful.splice(at..at, claim.iter().copied());
                harmful
            })
        })
    })
}

/// Runs a decoder and returns how many bytes it allocated, all allocations added up.
fn allocated<T>(decode: impl FnOnce() -> T) -> usize {
    let region = Region::new(ALLOCATOR);
    let decoded = decode();
    let bytes = region.change().bytes_allocated;
    drop(decoded);
    bytes
}

fn hold(what: &str, frame: &[u8], bytes: usize, worst: &mut usize) {
    assert!(
        bytes <= FACTOR * frame.len() + SLACK,
        "{what}: {bytes} bytes allocated for a frame of {}: {frame:02x?}",
        frame.len()
    );
    *worst = bytes.max(*worst);
}

fn requests(worst: &mut usize) -> usize {
    let mut frames = 0;
    for listener in [Listener::Broker, Listener::Controller] {
        let limits = DecodeLimits::new(listener);
        for api in ApiKey::ALL {
            let served = api.spec().served;
            for version in served.min..=served.max {
                for body in harmful_bodies(u64::from(version.unsigned_abs())) {
                    let mut frame = BytesMut::new();
                    frame.put_i16(api.key());
                    frame.put_i16(version);
                    frame.put_i32(5);
                    frame.put_i16(-1);
                    if api.is_flexible(version) {
                        frame.put_u8(0);
                    }
                    frame.put_slice(&body);
                    let frame = frame.freeze();
                    let bytes = allocated(|| decode_request(&frame, &limits));
                    hold(&format!("{api} version {version}"), &frame, bytes, worst);
                    frames += 1;
                }
            }
        }
    }
    frames
}

fn responses<R: ClientRequest>(worst: &mut usize) -> usize {
    let mut frames = 0;
    let served = R::API.spec().served;
    for version in served.min..=served.max {
        for body in harmful_bodies(u64::from(version.unsigned_abs())) {
            let mut frame = BytesMut::new();
            frame.put_i32(5);
            if R::API.response_header_version(version) == 1 {
                frame.put_u8(0);
            }
            frame.put_slice(&body);
            let frame = frame.freeze();
            let bytes = allocated(|| decode_response::<R>(version, &frame));
            let what = format!("answer to {} version {version}", R::API);
            hold(&what, &frame, bytes, worst);
            frames += 1;
        }
    }
    frames
}

/// What unpacking may give, and a bound of all that it allocates: a vector that doubles until it holds the limit, and the decoder's
/// own state (zstd's, in C, is not counted).
const UNPACKED_MAX: usize = 1 << 20;
const UNPACKING_MAX: usize = 2 * UNPACKED_MAX + (1 << 20);

/// Unpacks bombs, whole and with each of the first bytes damaged: those that say how large all will be.
fn bombs(worst: &mut usize) {
    let zeros = vec![0; 32 << 20];
    let codecs = [
        CompressionType::Gzip,
        CompressionType::Snappy,
        CompressionType::Lz4,
        CompressionType::Zstd,
    ];
    for codec in codecs {
        let bomb = compress(Compression::of(codec), &zeros).expect("zeros can be packed");
        let whole = [bomb.clone()];
        let damaged = (0..48).flat_map(|at| {
            let bomb = &bomb;
            [0x00, 0x7f, 0x80, 0xff].map(|byte| {
                let mut bomb = bomb.clone();
                bomb[at] = byte;
                bomb
            })
        });
        for bomb in whole.into_iter().chain(damaged) {
            let bytes = allocated(|| {
                let unpacked = decompress(codec, &bomb, UNPACKED_MAX);
                let size = unpacked.map_or(0, |bytes| bytes.len());
                assert!(size <= UNPACKED_MAX, "{codec:?}: {size} bytes unpacked");
            });
            assert!(
                bytes <= UNPACKING_MAX,
                "{codec:?}: {bytes} bytes allocated to unpack at most {UNPACKED_MAX}"
            );
            *worst = bytes.max(*worst);
        }
    }
}

#[test]
fn no_frame_and_no_bomb_makes_a_decoder_allocate_beyond_its_bound() {
    let mut worst = 0;
    let asked = requests(&mut worst);
    println!("{asked} requests, at most {worst} bytes allocated");
    let mut worst = 0;
    let answered = responses::<messages::ProduceRequestData>(&mut worst)
        + responses::<messages::FetchRequestData>(&mut worst)
        + responses::<messages::ListOffsetsRequestData>(&mut worst)
        + responses::<messages::MetadataRequestData>(&mut worst)
        + responses::<messages::ApiVersionsRequestData>(&mut worst)
        + responses::<messages::CreateTopicsRequestData>(&mut worst)
        + responses::<messages::DeleteTopicsRequestData>(&mut worst)
        + responses::<messages::DeleteRecordsRequestData>(&mut worst)
        + responses::<messages::DescribeConfigsRequestData>(&mut worst)
        + responses::<messages::CreatePartitionsRequestData>(&mut worst)
        + responses::<messages::IncrementalAlterConfigsRequestData>(&mut worst)
        + responses::<messages::DescribeClusterRequestData>(&mut worst)
        + responses::<messages::ElectLeadersRequestData>(&mut worst)
        + responses::<messages::VoteRequestData>(&mut worst)
        + responses::<messages::BeginQuorumEpochRequestData>(&mut worst)
        + responses::<messages::EndQuorumEpochRequestData>(&mut worst)
        + responses::<messages::DescribeQuorumRequestData>(&mut worst)
        + responses::<messages::AlterPartitionRequestData>(&mut worst)
        + responses::<messages::EnvelopeRequestData>(&mut worst)
        + responses::<messages::FetchSnapshotRequestData>(&mut worst)
        + responses::<messages::BrokerRegistrationRequestData>(&mut worst)
        + responses::<messages::BrokerHeartbeatRequestData>(&mut worst);
    println!("{answered} answers, at most {worst} bytes allocated");
    let mut worst = 0;
    bombs(&mut worst);
    println!("bombs: at most {worst} bytes allocated");
    assert!(asked > 100_000 && answered > 100_000, "{asked} {answered}");
}
