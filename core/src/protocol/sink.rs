//! Where a message is written to: once into a counter for its length, then into one buffer.

use bytes::Bytes;
use kacrab_protocol::{KafkaString, KafkaUuid};

use super::{ApiKey, EncodeError, FRAME_PREFIX_BYTES, FetchRecords};

/// Takes the bytes of a message, and gaps for records that are sent from elsewhere.
pub(super) trait Sink {
    /// Says whether strings and arrays are compact and structs end in tagged fields.
    fn flexible(&self) -> bool;
    fn bytes(&mut self, bytes: &[u8]);
    fn gap(&mut self, records: FetchRecords);

    fn i16(&mut self, value: i16) {
        self.bytes(&value.to_be_bytes());
    }

    fn i32(&mut self, value: i32) {
        self.bytes(&value.to_be_bytes());
    }

    fn i64(&mut self, value: i64) {
        self.bytes(&value.to_be_bytes());
    }

    fn uuid(&mut self, value: KafkaUuid) {
        self.bytes(&value.to_bytes());
    }

    fn varint(&mut self, mut value: u32) {
        while value >= 0x80 {
            let [low, ..] = value.to_le_bytes();
            self.bytes(&[low | 0x80]);
            value >>= 7;
        }
        let [low, ..] = value.to_le_bytes();
        self.bytes(&[low]);
    }

    /// Writes the length of an array or of bytes, `None` for null.
    fn length(&mut self, field: &'static str, length: Option<usize>) -> Result<(), EncodeError> {
        let length = match length {
            Some(length) => {
                Some(i32::try_from(length).map_err(|_| EncodeError::TooLong { field })?)
            }
            None => None,
        };
        if self.flexible() {
            self.varint(length.map_or(0, |length| length.unsigned_abs() + 1));
        } else {
            self.i32(length.unwrap_or(-1));
        }
        Ok(())
    }

    fn nullable_string(
        &mut self,
        field: &'static str,
        text: Option<&KafkaString>,
    ) -> Result<(), EncodeError> {
        let length = match text {
            Some(text) => {
                Some(i16::try_from(text.len()).map_err(|_| EncodeError::TooLong { field })?)
            }
            None => None,
        };
        if self.flexible() {
            self.varint(length.map_or(0, |length| u32::from(length.unsigned_abs()) + 1));
        } else {
            self.i16(length.unwrap_or(-1));
        }
        if let Some(text) = text {
            self.bytes(text.as_bytes());
        }
        Ok(())
    }

    fn string(&mut self, field: &'static str, text: &KafkaString) -> Result<(), EncodeError> {
        self.nullable_string(field, Some(text))
    }

    /// Ends a struct that has no tagged fields set.
    fn no_tags(&mut self) {
        if self.flexible() {
            self.varint(0);
        }
    }

    /// Writes one tagged field with its number and size.
    fn tag(
        &mut self,
        tag: u32,
        content: impl Fn(&mut dyn Sink) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError>
    where
        Self: Sized,
    {
        let mut counter = Counter::new(self.flexible());
        content(&mut counter)?;
        self.varint(tag);
        let field = "tagged field";
        self.varint(u32::try_from(counter.head).map_err(|_| EncodeError::TooLong { field })?);
        content(self)
    }
}

/// Counts what would be written.
#[derive(Debug)]
pub(super) struct Counter {
    flexible: bool,
    /// Bytes outside gaps.
    pub(super) head: usize,
    /// Bytes in gaps.
    pub(super) records: usize,
    /// The number of gaps.
    pub(super) gaps: usize,
}

impl Counter {
    pub(super) const fn new(flexible: bool) -> Self {
        Self {
            flexible,
            head: 0,
            records: 0,
            gaps: 0,
        }
    }

    /// The length to write into the prefix: everything after it.
    pub(super) fn frame_len(&self) -> Result<i32, EncodeError> {
        let too_long = EncodeError::TooLong { field: "frame" };
        let len = self
            .head
            .checked_add(self.records)
            .and_then(|len| len.checked_sub(4));
        len.and_then(|len| i32::try_from(len).ok()).ok_or(too_long)
    }
}

impl Sink for Counter {
    fn flexible(&self) -> bool {
        self.flexible
    }

    #[inline]
    fn bytes(&mut self, bytes: &[u8]) {
        self.head = self.head.saturating_add(bytes.len());
    }

    fn gap(&mut self, records: FetchRecords) {
        self.records = self.records.saturating_add(records.len);
        self.gaps += 1;
    }
}

/// Writes everything outside gaps into one buffer and notes where the gaps are.
#[derive(Debug)]
pub(super) struct Head {
    flexible: bool,
    pub(super) buffer: Vec<u8>,
    /// Position in the buffer and what comes there.
    pub(super) gaps: Vec<(usize, FetchRecords)>,
}

impl Sink for Head {
    fn flexible(&self) -> bool {
        self.flexible
    }

    #[inline]
    fn bytes(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    fn gap(&mut self, records: FetchRecords) {
        self.gaps.push((self.buffer.len(), records));
    }
}

/// A message with an encoder of its own.
pub(super) trait HotMessage {
    const API: ApiKey;

    fn write<S: Sink>(&self, sink: &mut S, version: i16) -> Result<(), EncodeError>;

    /// Writes a whole response frame: length, header, body; the length is known beforehand.
    fn frame(&self, version: i16, correlation_id: i32) -> Result<Head, EncodeError> {
        let api = Self::API;
        if !api.serves(version) {
            return Err(EncodeError::Version { api, version });
        }
        let flexible = api.is_flexible(version);
        let mut counter = Counter::new(flexible);
        counter.head = FRAME_PREFIX_BYTES;
        response_header(&mut counter, api, version, correlation_id);
        self.write(&mut counter, version)?;
        let mut head = Head {
            flexible,
            buffer: Vec::with_capacity(counter.head),
            gaps: Vec::with_capacity(counter.gaps),
        };
        head.i32(counter.frame_len()?);
        response_header(&mut head, api, version, correlation_id);
        self.write(&mut head, version)?;
        debug_assert_eq!(
            head.buffer.len(),
            counter.head,
            "both passes write the same"
        );
        Ok(head)
    }

    /// Writes a frame that has no gaps.
    fn frame_without_gaps(&self, version: i16, correlation_id: i32) -> Result<Bytes, EncodeError> {
        self.frame(version, correlation_id)
            .map(|head| head.buffer.into())
    }
}

fn response_header<S: Sink>(sink: &mut S, api: ApiKey, version: i16, correlation_id: i32) {
    sink.i32(correlation_id);
    if api.response_header_version(version) == 1 {
        sink.varint(0);
    }
}
