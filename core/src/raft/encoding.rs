//! The encoding of Kafka's flexible versions, as far as control records need it.

use crate::ids::{NodeId, Uuid};

use super::control::ControlFault;

/// Writes fields in the encoding of flexible versions.
#[derive(Debug, Default)]
pub(super) struct Writer {
    out: Vec<u8>,
}

impl Writer {
    pub(super) fn i16(&mut self, value: i16) {
        self.out.extend(value.to_be_bytes());
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.out.extend(value.to_be_bytes());
    }

    pub(super) fn i32(&mut self, value: i32) {
        self.out.extend(value.to_be_bytes());
    }

    pub(super) fn i64(&mut self, value: i64) {
        self.out.extend(value.to_be_bytes());
    }

    pub(super) fn uuid(&mut self, value: Uuid) {
        self.out.extend(value.0);
    }

    /// Writes the length of a compact array or string.
    pub(super) fn count(&mut self, count: usize) {
        let mut left = count.saturating_add(1);
        while left > 0x7f {
            self.out.push((left & 0x7f).to_le_bytes()[0] | 0x80);
            left >>= 7;
        }
        self.out.push(left.to_le_bytes()[0]);
    }

    pub(super) fn string(&mut self, text: &str) {
        self.count(text.len());
        self.out.extend(text.as_bytes());
    }

    pub(super) fn nodes(&mut self, nodes: &[NodeId]) {
        self.count(nodes.len());
        for node in nodes {
            self.i32(node.0);
            self.no_tags();
        }
    }

    pub(super) fn no_tags(&mut self) {
        self.out.push(0);
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.out
    }
}

/// Reads fields in the encoding of flexible versions; every length is checked against the bytes that are there.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ControlFault> {
        let (taken, rest) = self
            .rest
            .split_first_chunk::<N>()
            .ok_or(ControlFault::Length)?;
        self.rest = rest;
        Ok(*taken)
    }

    fn bytes(&mut self, len: usize) -> Result<&'a [u8], ControlFault> {
        let (taken, rest) = self
            .rest
            .split_at_checked(len)
            .ok_or(ControlFault::Length)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn version(&mut self, known: i16) -> Result<(), ControlFault> {
        let version = self.i16()?;
        if version == known {
            Ok(())
        } else {
            Err(ControlFault::Version { version })
        }
    }

    pub(super) fn i16(&mut self) -> Result<i16, ControlFault> {
        self.array().map(i16::from_be_bytes)
    }

    pub(super) fn u16(&mut self) -> Result<u16, ControlFault> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn i32(&mut self) -> Result<i32, ControlFault> {
        self.array().map(i32::from_be_bytes)
    }

    pub(super) fn i64(&mut self) -> Result<i64, ControlFault> {
        self.array().map(i64::from_be_bytes)
    }

    pub(super) fn uuid(&mut self) -> Result<Uuid, ControlFault> {
        self.array().map(Uuid)
    }

    fn varint(&mut self) -> Result<usize, ControlFault> {
        let mut value: u32 = 0;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.array()?;
            let bits = u32::from(byte & 0x7f);
            value |= bits
                .checked_shl(shift)
                .filter(|shifted| shifted >> shift == bits)
                .ok_or(ControlFault::Value)?;
            if byte & 0x80 == 0 {
                return usize::try_from(value).map_err(|_| ControlFault::Value);
            }
        }
        Err(ControlFault::Value)
    }

    /// Reads the length of a compact array or string; null is refused. Every element takes a byte at least.
    pub(super) fn count(&mut self) -> Result<usize, ControlFault> {
        let count = self.varint()?.checked_sub(1).ok_or(ControlFault::Value)?;
        if count > self.rest.len() {
            return Err(ControlFault::Length);
        }
        Ok(count)
    }

    pub(super) fn string(&mut self) -> Result<String, ControlFault> {
        let len = self.count()?;
        let bytes = self.bytes(len)?;
        let text = std::str::from_utf8(bytes).map_err(|_| ControlFault::Value)?;
        Ok(text.to_owned())
    }

    pub(super) fn nodes(&mut self) -> Result<Vec<NodeId>, ControlFault> {
        let mut nodes = Vec::new();
        for _ in 0..self.count()? {
            nodes.push(NodeId(self.i32()?));
            self.skip_tags()?;
        }
        Ok(nodes)
    }

    pub(super) fn skip_tags(&mut self) -> Result<(), ControlFault> {
        for _ in 0..self.varint()? {
            self.varint()?;
            let len = self.varint()?;
            self.bytes(len)?;
        }
        Ok(())
    }

    pub(super) const fn end(&self) -> Result<(), ControlFault> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(ControlFault::Length)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varint_with_surplus_bits_is_refused() {
        let mut from = Reader::new(&[0xff, 0xff, 0xff, 0xff, 0x7f]);
        assert_eq!(from.varint(), Err(ControlFault::Value));
        let mut from = Reader::new(&[0x80, 0x01]);
        assert_eq!(from.varint(), Ok(128));
    }
}
