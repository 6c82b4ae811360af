//! Walks a message by its schema, without allocating, before the wire crate decodes it.
//!
//! The wire crate reads null as empty, counts on nothing being too large, and names no field. This
//! walk refuses what Kafka refuses, bounds memory, and says which field is wrong.

use super::{
    Fault,
    reader::{FieldFault, Read, Reader},
};

/// The shape of one message.
#[derive(Debug)]
pub(super) struct Schema {
    pub(super) fields: &'static [Field],
}

/// One field, in wire order.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) from: i16,
    pub(super) until: i16,
    pub(super) nullable_from: i16,
    /// The tag of a field that stands at the struct's end, and only where it has anything to say.
    pub(super) tag: Option<u32>,
}

/// The type of a field.
#[derive(Debug)]
pub(super) enum Kind {
    Int8,
    Int16,
    Int32,
    Int64,
    Uuid,
    Uuids,
    String,
    Bytes,
    Int32s,
    Strings,
    /// One struct.
    Struct(&'static [Field]),
    /// An array of structs, with the bytes that one takes in memory.
    Structs {
        fields: &'static [Field],
        element_bytes: usize,
    },
}

/// A field of all versions that is never null.
pub(super) const fn field(name: &'static str, kind: Kind) -> Field {
    Field {
        name,
        kind,
        from: 0,
        until: i16::MAX,
        nullable_from: i16::MAX,
        tag: None,
    }
}

impl Field {
    /// Limits the field to `version` and later.
    pub(super) const fn from(mut self, version: i16) -> Self {
        self.from = version;
        self
    }

    /// Limits the field to `version` and earlier.
    pub(super) const fn until(mut self, version: i16) -> Self {
        self.until = version;
        self
    }

    /// Allows null in `version` and later.
    pub(super) const fn nullable_from(mut self, version: i16) -> Self {
        self.nullable_from = version;
        self
    }

    /// Moves the field to the tagged ones.
    pub(super) const fn tagged(mut self, tag: u32) -> Self {
        self.tag = Some(tag);
        self
    }

    /// Says whether `version` has the field.
    pub(super) const fn is_in(&self, version: i16) -> bool {
        self.from <= version && version <= self.until
    }

    /// Says whether `version` allows null.
    pub(super) const fn is_nullable_in(&self, version: i16) -> bool {
        version >= self.nullable_from
    }
}

impl Schema {
    /// Checks a whole message body.
    pub(super) fn check(&self, reader: &mut Reader<'_>, version: i16) -> Read<()> {
        check_struct(self.fields, reader, version)?;
        reader.finish()
    }
}

fn check_struct(fields: &[Field], reader: &mut Reader<'_>, version: i16) -> Read<()> {
    for field in fields {
        if field.is_in(version) && field.tag.is_none() {
            check_field(field, reader, version)?;
        }
    }
    reader.tags(|reader, tag| {
        let known = |field: &&Field| field.is_in(version) && field.tag == Some(tag);
        match fields.iter().find(known) {
            Some(field) => check_field(field, reader, version).map(|()| true),
            None => Ok(false),
        }
    })
}

fn check_field(field: &Field, reader: &mut Reader<'_>, version: i16) -> Read<()> {
    let name = field.name;
    let nullable = field.is_nullable_in(version);
    match field.kind {
        Kind::Int8 => reader.skip(name, 1),
        Kind::Int16 => reader.skip(name, 2),
        Kind::Int32 => reader.skip(name, 4),
        Kind::Int64 => reader.skip(name, 8),
        Kind::Uuid => reader.skip(name, 16),
        Kind::String => reader.skip_string(name, nullable),
        Kind::Bytes => match reader.nullable_bytes(name)? {
            None if !nullable => Err(FieldFault::new(name, Fault::Null)),
            _ => Ok(()),
        },
        Kind::Struct(fields) => check_struct(fields, reader, version),
        Kind::Int32s => skip_each(reader, name, 4, nullable),
        Kind::Uuids => skip_each(reader, name, 16, nullable),
        Kind::Strings => {
            let count = count(
                reader,
                name,
                size_of::<kacrab_protocol::KafkaString>(),
                nullable,
            )?;
            for _ in 0..count {
                reader.skip_string(name, false)?;
            }
            Ok(())
        }
        Kind::Structs {
            fields,
            element_bytes,
        } => {
            let count = count(reader, name, element_bytes, nullable)?;
            for _ in 0..count {
                check_struct(fields, reader, version)?;
            }
            Ok(())
        }
    }
}

fn skip_each(
    reader: &mut Reader<'_>,
    name: &'static str,
    element_bytes: usize,
    nullable: bool,
) -> Read<()> {
    let count = count(reader, name, element_bytes, nullable)?;
    for _ in 0..count {
        reader.skip(name, element_bytes)?;
    }
    Ok(())
}

fn count(
    reader: &mut Reader<'_>,
    name: &'static str,
    element_bytes: usize,
    nullable: bool,
) -> Read<u32> {
    if nullable {
        reader
            .nullable_count(name, element_bytes)
            .map(Option::unwrap_or_default)
    } else {
        reader.count(name, element_bytes)
    }
}
