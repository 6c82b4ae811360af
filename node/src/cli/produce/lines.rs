//! Chunks of input become lines of bounded length.

use bytes::{Bytes, BytesMut};

use crate::cli::bootstrap::CommandError;

/// Input that was read and not sent yet.
#[derive(Debug)]
pub(super) struct Lines {
    buffer: BytesMut,
    /// Bytes that are known to hold no end of line.
    searched: usize,
    ended: bool,
    line_max: usize,
    count: u64,
}

impl Lines {
    pub(super) fn new(line_max: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            searched: 0,
            ended: false,
            line_max,
            count: 0,
        }
    }

    pub(super) fn push(&mut self, chunk: &[u8]) {
        self.buffer.extend_from_slice(chunk);
    }

    /// What is left is the last line, whether or not it ends.
    pub(super) const fn end(&mut self) {
        self.ended = true;
    }

    /// Returns the next line without its end; everything else in it is kept as it is.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>, CommandError> {
        let rest = self.buffer.get(self.searched..).unwrap_or_default();
        if let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
            let mut line = self.buffer.split_to(self.searched + at + 1);
            line.truncate(line.len() - 1);
            self.searched = 0;
            self.count += 1;
            return Ok(Some(line.freeze()));
        }
        self.searched = self.buffer.len();
        if self.searched > self.line_max {
            let (line, max) = (self.count + 1, self.line_max);
            let text = format!("line {line} is longer than the {max} bytes of a request");
            return Err(CommandError::Said(text.into()));
        }
        if self.ended && !self.buffer.is_empty() {
            self.searched = 0;
            self.count += 1;
            return Ok(Some(self.buffer.split().freeze()));
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_put_together_across_chunks() {
        let mut lines = Lines::new(100);
        lines.push(b"one\ntw");
        assert_eq!(&lines.next().unwrap().unwrap()[..], b"one");
        assert!(lines.next().unwrap().is_none());
        lines.push(b"o\r\n\nrest");
        assert_eq!(&lines.next().unwrap().unwrap()[..], b"two\r");
        assert_eq!(&lines.next().unwrap().unwrap()[..], b"");
        assert!(lines.next().unwrap().is_none());
        lines.end();
        assert_eq!(&lines.next().unwrap().unwrap()[..], b"rest");
        assert!(lines.next().unwrap().is_none());
    }

    #[test]
    fn endless_line_is_refused_within_its_bound() {
        let mut lines = Lines::new(10);
        lines.push(&[b'x'; 11]);
        assert!(lines.next().is_err());
    }
}
