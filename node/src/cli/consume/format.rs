//! How a record is written: as Kafka's console consumer writes it.

use std::io::{self, Write};

use seedlog_core::{
    batch::TimestampType,
    client::{ConsumedBatch, ConsumedRecord, Header},
};

/// What is printed of a record beside its value.
#[derive(Debug, clap::Args)]
pub(super) struct FormatArgs {
    /// Print timestamps
    #[arg(long)]
    print_timestamp: bool,
    /// Print partition numbers
    #[arg(long)]
    print_partition: bool,
    /// Print offsets
    #[arg(long)]
    print_offset: bool,
    /// Print headers
    #[arg(long)]
    print_headers: bool,
    /// Print keys
    #[arg(long)]
    print_key: bool,
    /// What stands between the parts of a line
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "\t",
        hide_default_value = true
    )]
    key_separator: String,
    /// What stands for a key or value that is null
    #[arg(long, value_name = "TEXT", default_value = "null")]
    null_literal: String,
    /// Say nothing but errors on standard error
    #[arg(short, long)]
    quiet: bool,
}

impl FormatArgs {
    pub(super) fn format(&self) -> Format {
        Format {
            timestamp: self.print_timestamp,
            partition: self.print_partition,
            offset: self.print_offset,
            headers: self.print_headers,
            key: self.print_key,
            separator: self.key_separator.clone(),
            null: self.null_literal.clone(),
        }
    }

    pub(super) const fn is_quiet(&self) -> bool {
        self.quiet
    }
}

/// A form of lines.
#[derive(Debug, Default)]
pub(super) struct Format {
    timestamp: bool,
    partition: bool,
    offset: bool,
    headers: bool,
    key: bool,
    separator: String,
    null: String,
}

impl Format {
    /// Writes a record and the end of its line.
    pub(super) fn write(
        &self,
        out: &mut impl Write,
        batch: &ConsumedBatch,
        record: &ConsumedRecord,
    ) -> io::Result<()> {
        let separator = self.separator.as_bytes();
        if self.timestamp {
            let kind = match batch.timestamp_type {
                TimestampType::CreateTime => "CreateTime",
                TimestampType::LogAppendTime => "LogAppendTime",
            };
            write!(out, "{kind}:{}", record.timestamp.as_millis())?;
            out.write_all(separator)?;
        }
        if self.partition {
            write!(out, "Partition:{}", batch.partition.partition)?;
            out.write_all(separator)?;
        }
        if self.offset {
            write!(out, "Offset:{}", record.offset)?;
            out.write_all(separator)?;
        }
        if self.headers {
            self.write_headers(out, &record.headers)?;
            out.write_all(separator)?;
        }
        if self.key {
            self.write_field(out, record.key.as_deref())?;
            out.write_all(separator)?;
        }
        self.write_field(out, record.value.as_deref())?;
        out.write_all(b"\n")
    }

    fn write_headers(&self, out: &mut impl Write, headers: &[Header]) -> io::Result<()> {
        if headers.is_empty() {
            return out.write_all(b"NO_HEADERS");
        }
        for (at, header) in headers.iter().enumerate() {
            if at > 0 {
                out.write_all(b",")?;
            }
            out.write_all(&header.key)?;
            out.write_all(b":")?;
            self.write_field(out, header.value.as_deref())?;
        }
        Ok(())
    }

    fn write_field(&self, out: &mut impl Write, field: Option<&[u8]>) -> io::Result<()> {
        out.write_all(field.unwrap_or(self.null.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use seedlog_core::{
        ids::{Epoch, TopicName, TopicPartition},
        time::Timestamp,
    };

    use super::*;

    fn written(format: &Format, record: &ConsumedRecord) -> String {
        let batch = ConsumedBatch {
            partition: TopicPartition {
                topic: TopicName::new("t"),
                partition: 3,
            },
            records: Vec::new(),
            leader_epoch: Epoch(0),
            timestamp_type: TimestampType::CreateTime,
            next_offset: 8,
            high_watermark: 8,
        };
        let mut out = Vec::new();
        format.write(&mut out, &batch, record).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn lines_look_like_those_of_kafkas_console_consumer() {
        let record = ConsumedRecord {
            offset: 7,
            timestamp: Timestamp::from_millis(5),
            key: None,
            value: Some(Bytes::from_static(b"v")),
            headers: vec![
                Header {
                    key: Bytes::from_static(b"a"),
                    value: Some(Bytes::from_static(b"1")),
                },
                Header {
                    key: Bytes::from_static(b"b"),
                    value: None,
                },
            ],
        };
        let mut format = Format {
            separator: "\t".to_owned(),
            null: "null".to_owned(),
            ..Format::default()
        };
        assert_eq!(written(&format, &record), "v\n");
        format.timestamp = true;
        format.partition = true;
        format.offset = true;
        format.headers = true;
        format.key = true;
        assert_eq!(
            written(&format, &record),
            "CreateTime:5\tPartition:3\tOffset:7\ta:1,b:null\tnull\tv\n"
        );
        let bare = ConsumedRecord {
            headers: Vec::new(),
            ..record
        };
        assert!(written(&format, &bare).contains("\tNO_HEADERS\t"));
    }
}
