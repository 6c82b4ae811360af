//! A cursor over a frame that checks before it allocates.

use bytes::Bytes;
use kacrab_protocol::{KafkaString, KafkaUuid};

use super::{DecodeLimits, Fault, Few};

/// A fault and the field it was found in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FieldFault {
    pub(super) field: &'static str,
    pub(super) fault: Fault,
}

impl FieldFault {
    pub(super) const fn new(field: &'static str, fault: Fault) -> Self {
        Self { field, fault }
    }
}

pub(super) type Read<T> = Result<T, FieldFault>;

/// Reads fields off a frame; slices of it are handed out without copying.
///
/// Every array and every section of tagged fields is charged to a budget before it is read, so what
/// a message can make the process allocate is bounded whatever its bytes claim.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    frame: &'a Bytes,
    /// What is left to read; ends before the frame does while a tagged field is read.
    rest: &'a [u8],
    flexible: bool,
    elements_max: u64,
    tags_max: u64,
    memory_left: u64,
}

/// What one tagged field costs in the wire crate's structs: it is kept twice while it is decoded.
const TAG_COST_BYTES: u64 = 80;
/// Elements for which room is made before the first of them is read, as Kafka 4.4 does.
const PREALLOCATED_ELEMENTS: usize = 1000;
/// The longest string of Kafka, also where the length field could say more.
const STRING_BYTES_MAX: u32 = 0x7fff;

impl<'a> Reader<'a> {
    /// A reader of `frame` from byte `at`; `flexible` says how strings and arrays are written.
    pub(super) fn new(frame: &'a Bytes, at: usize, flexible: bool, limits: &DecodeLimits) -> Self {
        Self {
            frame,
            rest: frame.get(at..).unwrap_or_default(),
            flexible,
            elements_max: limits.elements_max,
            tags_max: limits.tags_max,
            memory_left: limits.memory_max,
        }
    }

    /// The position of the next byte, outside of tagged fields.
    pub(super) const fn position(&self) -> usize {
        self.frame.len() - self.rest.len()
    }

    /// Bytes left.
    pub(super) const fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Refuses bytes after the last field.
    pub(super) fn finish(&self) -> Read<()> {
        match self.remaining() {
            0 => Ok(()),
            left => Err(FieldFault::new("message", Fault::Trailing(left as u64))),
        }
    }

    #[inline]
    fn take(&mut self, field: &'static str, count: usize) -> Read<&'a [u8]> {
        match self.rest.split_at_checked(count) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(self.truncated(field, count as u64)),
        }
    }

    #[cold]
    fn truncated(&self, field: &'static str, needed: u64) -> FieldFault {
        FieldFault::new(
            field,
            Fault::Truncated {
                needed,
                available: self.remaining() as u64,
            },
        )
    }

    #[inline]
    fn fixed<const N: usize>(&mut self, field: &'static str) -> Read<[u8; N]> {
        match self.rest.split_first_chunk() {
            Some((value, rest)) => {
                self.rest = rest;
                Ok(*value)
            }
            None => Err(self.truncated(field, N as u64)),
        }
    }

    pub(super) fn i8(&mut self, field: &'static str) -> Read<i8> {
        self.fixed(field).map(i8::from_be_bytes)
    }

    pub(super) fn i16(&mut self, field: &'static str) -> Read<i16> {
        self.fixed(field).map(i16::from_be_bytes)
    }

    pub(super) fn i32(&mut self, field: &'static str) -> Read<i32> {
        self.fixed(field).map(i32::from_be_bytes)
    }

    pub(super) fn i64(&mut self, field: &'static str) -> Read<i64> {
        self.fixed(field).map(i64::from_be_bytes)
    }

    pub(super) fn uuid(&mut self, field: &'static str) -> Read<KafkaUuid> {
        let bits = self.fixed(field).map(u128::from_be_bytes)?;
        let [msb, lsb] = [(bits >> 64) as u64, (bits & u128::from(u64::MAX)) as u64];
        Ok(KafkaUuid::from_parts(msb, lsb))
    }

    /// Steps over `count` bytes.
    pub(super) fn skip(&mut self, field: &'static str, count: usize) -> Read<()> {
        self.take(field, count).map(|_| ())
    }

    /// Reads an unsigned variable-length integer; bits beyond the 32nd are dropped, as Kafka does.
    pub(super) fn varint(&mut self, field: &'static str) -> Read<u32> {
        let mut value = 0_u32;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.fixed(field)?;
            value |= u32::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(FieldFault::new(field, Fault::Varint))
    }

    /// Reads a length, `None` for null: compact, or of four bytes.
    fn length(&mut self, field: &'static str) -> Read<Option<u32>> {
        if self.flexible {
            return Ok(self.varint(field)?.checked_sub(1));
        }
        self.i32(field).map(|length| u32::try_from(length).ok())
    }

    /// Reads the bytes of a nullable string, with its length checked.
    fn text(&mut self, field: &'static str) -> Read<Option<&'a [u8]>> {
        let length = if self.flexible {
            self.varint(field)?.checked_sub(1)
        } else {
            u32::try_from(self.i16(field)?).ok()
        };
        let Some(length) = length else {
            return Ok(None);
        };
        if length > STRING_BYTES_MAX {
            return Err(FieldFault::new(field, Fault::Length(length)));
        }
        self.take(field, length as usize).map(Some)
    }

    /// Reads a nullable string.
    pub(super) fn nullable_string(&mut self, field: &'static str) -> Read<Option<KafkaString>> {
        let Some(text) = self.text(field)? else {
            return Ok(None);
        };
        KafkaString::new(self.frame.slice_ref(text))
            .map(Some)
            .map_err(|_| FieldFault::new(field, Fault::Utf8))
    }

    /// Reads a string that is not null.
    pub(super) fn string(&mut self, field: &'static str) -> Read<KafkaString> {
        self.nullable_string(field)?
            .ok_or_else(|| FieldFault::new(field, Fault::Null))
    }

    /// Steps over a string, with all its checks.
    pub(super) fn skip_string(&mut self, field: &'static str, nullable: bool) -> Read<()> {
        match self.text(field)? {
            None if nullable => Ok(()),
            None => Err(FieldFault::new(field, Fault::Null)),
            Some(text) => std::str::from_utf8(text)
                .map(|_| ())
                .map_err(|_| FieldFault::new(field, Fault::Utf8)),
        }
    }

    /// Reads a nullable string that need not be UTF-8, always with the two-byte length of headers.
    pub(super) fn header_bytes(&mut self, field: &'static str) -> Read<Option<Bytes>> {
        let Ok(length) = usize::try_from(self.i16(field)?) else {
            return Ok(None);
        };
        let text = self.take(field, length)?;
        Ok(Some(self.frame.slice_ref(text)))
    }

    /// Reads nullable bytes as a slice of the frame.
    pub(super) fn nullable_bytes(&mut self, field: &'static str) -> Read<Option<Bytes>> {
        let Some(length) = self.length(field)? else {
            return Ok(None);
        };
        let bytes = self.take(field, length as usize)?;
        Ok(Some(self.frame.slice_ref(bytes)))
    }

    /// Reads the count of a nullable array whose elements take `element_bytes` in memory.
    pub(super) fn nullable_count(
        &mut self,
        field: &'static str,
        element_bytes: usize,
    ) -> Read<Option<u32>> {
        let Some(count) = self.length(field)? else {
            return Ok(None);
        };
        let wide = u64::from(count);
        if wide > self.elements_max {
            let fault = Fault::Elements {
                count: wide,
                max: self.elements_max,
            };
            return Err(FieldFault::new(field, fault));
        }
        // No element of any schema is smaller than one byte.
        if wide > self.remaining() as u64 {
            return Err(self.truncated(field, wide));
        }
        self.charge(field, wide.saturating_mul(element_bytes as u64))?;
        Ok(Some(count))
    }

    /// Reads the count of an array that is not null.
    pub(super) fn count(&mut self, field: &'static str, element_bytes: usize) -> Read<u32> {
        self.nullable_count(field, element_bytes)?
            .ok_or_else(|| FieldFault::new(field, Fault::Null))
    }

    /// Reads an array that is not null.
    pub(super) fn array<T>(
        &mut self,
        field: &'static str,
        mut element: impl FnMut(&mut Self) -> Read<T>,
    ) -> Read<Few<T>> {
        match self.count(field, size_of::<T>())? {
            1 => element(self).map(Few::one),
            count => {
                let count = count as usize;
                let mut elements = Vec::with_capacity(count.min(PREALLOCATED_ELEMENTS));
                for _ in 0..count {
                    elements.push(element(self)?);
                }
                Ok(Few::Many(elements))
            }
        }
    }

    fn charge(&mut self, field: &'static str, bytes: u64) -> Read<()> {
        self.memory_left = self
            .memory_left
            .checked_sub(bytes)
            .ok_or_else(|| FieldFault::new(field, Fault::Memory))?;
        Ok(())
    }

    /// Reads the section of tagged fields that ends a struct of a flexible version.
    ///
    /// `known` reads the content of the tags it knows and says so; others are stepped over.
    pub(super) fn tags(&mut self, mut known: impl FnMut(&mut Self, u32) -> Read<bool>) -> Read<()> {
        const FIELD: &str = "tagged fields";
        if !self.flexible {
            return Ok(());
        }
        let count = self.varint(FIELD)?;
        let wide = u64::from(count);
        if wide > self.tags_max {
            let fault = Fault::Tags {
                count: wide,
                max: self.tags_max,
            };
            return Err(FieldFault::new(FIELD, fault));
        }
        self.charge(FIELD, wide * TAG_COST_BYTES)?;
        let mut last = None;
        for _ in 0..count {
            let tag = self.varint(FIELD)?;
            if last.is_some_and(|last| tag <= last) {
                return Err(FieldFault::new(FIELD, Fault::TagOrder(tag)));
            }
            last = Some(tag);
            let size = self.varint(FIELD)? as usize;
            let content = self.take(FIELD, size)?;
            let after = std::mem::replace(&mut self.rest, content);
            if known(self, tag)? && !self.rest.is_empty() {
                return Err(FieldFault::new(FIELD, Fault::TagSize(tag)));
            }
            self.rest = after;
        }
        Ok(())
    }

    /// Steps over tagged fields none of which is known.
    pub(super) fn skip_tags(&mut self) -> Read<()> {
        self.tags(|_, _| Ok(false))
    }
}
