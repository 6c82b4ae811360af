//! The protocol's plain types: integers, texts, variable-length integers.

/// A body under construction.
#[derive(Debug, Default)]
pub(crate) struct Output {
    pub(crate) bytes: Vec<u8>,
}

impl Output {
    pub(crate) fn i16(&mut self, value: i16) -> &mut Self {
        self.bytes.extend(value.to_be_bytes());
        self
    }

    pub(crate) fn i32(&mut self, value: i32) -> &mut Self {
        self.bytes.extend(value.to_be_bytes());
        self
    }

    pub(crate) fn i64(&mut self, value: i64) -> &mut Self {
        self.bytes.extend(value.to_be_bytes());
        self
    }

    pub(crate) fn text(&mut self, text: &str) -> &mut Self {
        self.i16(i16::try_from(text.len()).expect("a short text"));
        self.bytes.extend(text.as_bytes());
        self
    }

    pub(super) fn varint(&mut self, value: i64) -> &mut Self {
        let mut zigzag = ((value << 1) ^ (value >> 63)).cast_unsigned();
        while zigzag >= 0x80 {
            self.bytes.push(zigzag.to_le_bytes()[0] | 0x80);
            zigzag >>= 7;
        }
        self.bytes.push(zigzag.to_le_bytes()[0]);
        self
    }
}

/// A body being read; one that is too short fails the test.
#[derive(Debug)]
pub(crate) struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    pub(crate) fn of(rest: &'a [u8]) -> Self {
        Self { rest }
    }

    pub(crate) fn take(&mut self, size: usize) -> &'a [u8] {
        let (taken, rest) = self
            .rest
            .split_at_checked(size)
            .expect("the frame is long enough");
        self.rest = rest;
        taken
    }

    pub(super) fn array<const N: usize>(&mut self) -> [u8; N] {
        self.take(N).try_into().expect("as many bytes as asked for")
    }

    pub(crate) fn i16(&mut self) -> i16 {
        i16::from_be_bytes(self.array())
    }

    pub(crate) fn i32(&mut self) -> i32 {
        i32::from_be_bytes(self.array())
    }

    pub(crate) fn i64(&mut self) -> i64 {
        i64::from_be_bytes(self.array())
    }

    pub(crate) fn text(&mut self) -> Option<String> {
        let size = usize::try_from(self.i16()).ok()?;
        Some(String::from_utf8(self.take(size).to_vec()).expect("names are UTF-8"))
    }

    /// A variable-length integer without a sign.
    pub(crate) fn uvarint(&mut self) -> u64 {
        let mut value = 0;
        for shift in (0..).step_by(7) {
            let [byte] = self.array::<1>();
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        value
    }

    pub(super) fn varint(&mut self) -> i64 {
        let zigzag = self.uvarint();
        (zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed()
    }
}

/// A length as the protocol has it.
pub(super) fn count(size: usize) -> i32 {
    i32::try_from(size).expect("a small request")
}
