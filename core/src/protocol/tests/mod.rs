//! Tests of the whole layer: against the wire crate, against frames of real clients, and against
//! hostile ones.

mod golden;
mod golden_responses;
mod hostile;
mod hot_requests;
mod hot_responses;
mod responses;
mod schema_requests;

use bytes::Bytes;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::{
    ApiKey, DecodeError, DecodeLimits, FRAME_PREFIX_BYTES, KafkaString, KafkaUuid, Listener,
    Request, decode_request,
};

/// A seeded source of random values for messages.
struct Dice(ChaCha8Rng);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// A number below `bound`.
    fn below(&mut self, bound: usize) -> usize {
        self.0.random_range(0..bound)
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    fn i8(&mut self) -> i8 {
        self.0.random()
    }

    fn i16(&mut self) -> i16 {
        self.0.random()
    }

    fn i32(&mut self) -> i32 {
        if self.one_in(3) { -1 } else { self.0.random() }
    }

    fn i64(&mut self) -> i64 {
        if self.one_in(3) { -1 } else { self.0.random() }
    }

    fn bytes(&mut self, below: usize) -> Vec<u8> {
        let len = self.below(below);
        (0..len).map(|_| self.0.random()).collect()
    }

    fn uuid(&mut self) -> KafkaUuid {
        if self.one_in(4) {
            KafkaUuid::ZERO
        } else {
            KafkaUuid::from_parts(self.0.random(), self.0.random())
        }
    }

    fn text(&mut self) -> KafkaString {
        let len = if self.one_in(20) {
            self.below(300)
        } else {
            self.below(12)
        };
        let text: String = (0..len)
            .map(|_| ['a', 'Z', '-', 'ß', '漢', '7'][self.below(6)])
            .collect();
        KafkaString::from(text)
    }

    fn maybe_text(&mut self) -> Option<KafkaString> {
        if self.one_in(3) {
            None
        } else {
            Some(self.text())
        }
    }

    /// The length of an array: most often one, sometimes long enough for a two-byte varint.
    fn count(&mut self) -> usize {
        match self.below(16) {
            0..=1 => 0,
            2..=8 => 1,
            15 if self.one_in(8) => 130,
            _ => self.below(4),
        }
    }

    fn many<T>(&mut self, mut make: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.count()).map(|_| make(self)).collect()
    }
}

fn decode(frame: &Bytes) -> Result<Request, DecodeError> {
    let key = frame.first_chunk().map(|key| i16::from_be_bytes(*key));
    let api = key.and_then(ApiKey::from_i16);
    decode_request(
        frame,
        &DecodeLimits::new(api.map_or(Listener::Broker, listener_of)),
    )
}

/// Returns a listener that serves an API: that of clients, if it does.
fn listener_of(api: ApiKey) -> Listener {
    if api.serves_on(Listener::Broker) {
        Listener::Broker
    } else {
        Listener::Controller
    }
}

/// Takes the length prefix off, after checking it.
fn unframed(frame: &Bytes) -> Bytes {
    let (prefix, _) = frame.split_first_chunk().expect("a prefix");
    let len = usize::try_from(i32::from_be_bytes(*prefix)).expect("a positive length");
    assert_eq!(
        len,
        frame.len() - FRAME_PREFIX_BYTES,
        "the prefix tells the length"
    );
    frame.slice(FRAME_PREFIX_BYTES..)
}

/// Reads bytes written as hex digits, with `#` before what only people read.
fn hex(text: &str) -> Bytes {
    let digits: Vec<u8> = text
        .lines()
        .flat_map(|line| line.split('#').next().unwrap_or_default().bytes())
        .filter(|byte| !byte.is_ascii_whitespace())
        .map(|byte| u8::try_from(char::from(byte).to_digit(16).expect("hex")).expect("a digit"))
        .collect();
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect::<Vec<u8>>()
        .into()
}
