//! Kafka's wire encoding, driven by the schemas: JSON values to frames and back.
//!
//! Byte fields and uuids are strings (`0x…` and the usual hyphenated form). A structure may carry `_tags`,
//! a list of `[tag, "0x…"]` that no schema knows. The decoder is strict: what is left over is reported.

use serde_json::{Map, Value, json};

use crate::schema::{Field, Kind, Message};

/// Encodes the body of a message. Absent fields take their default; fields of other versions are skipped.
pub(crate) fn encode(message: &Message, version: i16, body: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    let writer = Codec {
        version,
        flexible: message.flexible.contains(version),
    };
    writer.put_fields(&mut out, &message.fields, body);
    out
}

/// Decodes the body of a message.
pub(crate) fn decode(message: &Message, version: i16, bytes: &[u8]) -> Result<Value, String> {
    let reader = Codec {
        version,
        flexible: message.flexible.contains(version),
    };
    let mut input = Input { rest: bytes };
    let mut value = reader.fields(&mut input, &message.fields)?;
    if !input.rest.is_empty() {
        value["_trailing"] = hex(input.rest).into();
    }
    Ok(value)
}

/// The text form of bytes.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::from("0x"), |text, byte| {
        text + &format!("{byte:02x}")
    })
}

/// The bytes of their text form.
pub(crate) fn unhex(text: &str) -> Vec<u8> {
    let digits = text
        .strip_prefix("0x")
        .unwrap_or_else(|| panic!("{text:?} does not start with 0x"));
    let pair = |i: usize| u8::from_str_radix(&digits[i..i + 2], 16).expect("pairs of hex digits");
    (0..digits.len()).step_by(2).map(pair).collect()
}

/// Appends an unsigned variable-length integer.
pub(crate) fn put_uvarint(out: &mut Vec<u8>, mut value: u32) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

struct Codec {
    version: i16,
    flexible: bool,
}

impl Codec {
    fn put_fields(&self, out: &mut Vec<u8>, fields: &[Field], body: &Value) {
        let known =
            |name: &String| name == "_tags" || fields.iter().any(|field| field.name == *name);
        for name in body.as_object().into_iter().flat_map(Map::keys) {
            assert!(
                known(name),
                "no field is called {name} (of {:?})",
                names(fields)
            );
        }
        let mut tags = Vec::new();
        for field in fields
            .iter()
            .filter(|field| field.versions.contains(self.version))
        {
            let value = body.get(&field.name).unwrap_or(&field.default);
            if self.flexible && field.tagged.contains(self.version) {
                if *value != field.default {
                    let mut bytes = Vec::new();
                    self.put(&mut bytes, field, &field.kind, value);
                    tags.push((field.tag, bytes));
                }
            } else {
                self.put(out, field, &field.kind, value);
            }
        }
        if self.flexible {
            for extra in body["_tags"].as_array().into_iter().flatten() {
                let tag = extra[0]
                    .as_u64()
                    .and_then(|t| u32::try_from(t).ok())
                    .expect("a tag");
                tags.push((tag, unhex(extra[1].as_str().expect("a tag's bytes"))));
            }
            put_uvarint(out, length(tags.len()));
            for (tag, bytes) in tags {
                put_uvarint(out, tag);
                put_uvarint(out, length(bytes.len()));
                out.extend(bytes);
            }
        }
    }

    fn put(&self, out: &mut Vec<u8>, field: &Field, kind: &Kind, value: &Value) {
        let number = || {
            value
                .as_i64()
                .unwrap_or_else(|| panic!("{}: {value} is no integer", field.name))
        };
        let flexible = self.flexible && !field.never_flexible;
        match kind {
            Kind::Bool => out.push(value.as_bool().expect("a truth value").into()),
            Kind::Int8 => out.extend(i8::try_from(number()).expect("an int8").to_be_bytes()),
            Kind::Int16 => out.extend(i16::try_from(number()).expect("an int16").to_be_bytes()),
            Kind::Uint16 => out.extend(u16::try_from(number()).expect("a uint16").to_be_bytes()),
            Kind::Int32 => out.extend(i32::try_from(number()).expect("an int32").to_be_bytes()),
            Kind::Uint32 => out.extend(u32::try_from(number()).expect("a uint32").to_be_bytes()),
            Kind::Int64 => out.extend(number().to_be_bytes()),
            Kind::Float64 => out.extend(value.as_f64().expect("a float").to_be_bytes()),
            Kind::Uuid => out.extend(unhex(&format!("0x{}", text(field, value).replace('-', "")))),
            Kind::String if value.is_null() => put_null(out, flexible, 2),
            Kind::String => {
                let text = text(field, value);
                put_length(out, flexible, 2, text.len());
                out.extend(text.as_bytes());
            }
            Kind::Bytes if value.is_null() => put_null(out, flexible, 4),
            Kind::Bytes => {
                let bytes = unhex(text(field, value));
                put_length(out, flexible, 4, bytes.len());
                out.extend(bytes);
            }
            Kind::Array(_) if value.is_null() => put_null(out, flexible, 4),
            Kind::Array(element) => {
                let items = value
                    .as_array()
                    .unwrap_or_else(|| panic!("{}: {value} is no array", field.name));
                put_length(out, flexible, 4, items.len());
                for item in items {
                    match &**element {
                        // Only a list as a whole can be null, not its structures.
                        Kind::Struct(fields) => self.put_fields(out, fields, item),
                        plain => self.put(out, field, plain, item),
                    }
                }
            }
            Kind::Struct(fields) => {
                if field.nullable.contains(self.version) {
                    out.extend((if value.is_null() { -1_i8 } else { 1 }).to_be_bytes());
                }
                if !value.is_null() {
                    self.put_fields(out, fields, value);
                }
            }
        }
    }

    fn fields(&self, input: &mut Input<'_>, fields: &[Field]) -> Result<Value, String> {
        let mut value = Map::new();
        let here = |field: &&Field| field.versions.contains(self.version);
        let tagged = |field: &Field| self.flexible && field.tagged.contains(self.version);
        for field in fields.iter().filter(here).filter(|field| !tagged(field)) {
            value.insert(field.name.clone(), self.value(input, field, &field.kind)?);
        }
        if self.flexible {
            let mut unknown = Vec::new();
            for _ in 0..input.uvarint()? {
                let (tag, size) = (input.uvarint()?, input.uvarint()?);
                let mut bytes = Input {
                    rest: input.take(usize::try_from(size).map_err(|e| e.to_string())?)?,
                };
                match fields
                    .iter()
                    .filter(here)
                    .find(|field| tagged(field) && field.tag == tag)
                {
                    Some(field) => {
                        value.insert(
                            field.name.clone(),
                            self.value(&mut bytes, field, &field.kind)?,
                        );
                    }
                    None => unknown.push(json!([tag, hex(bytes.rest)])),
                }
            }
            if !unknown.is_empty() {
                value.insert("_tags".to_owned(), unknown.into());
            }
        }
        Ok(value.into())
    }

    fn value(&self, input: &mut Input<'_>, field: &Field, kind: &Kind) -> Result<Value, String> {
        let flexible = self.flexible && !field.never_flexible;
        let named = |e: String| format!("{}: {e}", field.name);
        Ok(match kind {
            Kind::Bool => (input.array::<1>()?[0] != 0).into(),
            Kind::Int8 => i8::from_be_bytes(input.array()?).into(),
            Kind::Int16 => i16::from_be_bytes(input.array()?).into(),
            Kind::Uint16 => u16::from_be_bytes(input.array()?).into(),
            Kind::Int32 => i32::from_be_bytes(input.array()?).into(),
            Kind::Uint32 => u32::from_be_bytes(input.array()?).into(),
            Kind::Int64 => i64::from_be_bytes(input.array()?).into(),
            Kind::Float64 => f64::from_be_bytes(input.array()?).into(),
            Kind::Uuid => hyphenated(&input.array::<16>()?).into(),
            Kind::String => match input.length(flexible, 2).map_err(named)? {
                None => Value::Null,
                Some(size) => String::from_utf8_lossy(input.take(size).map_err(named)?).into(),
            },
            Kind::Bytes => match input.length(flexible, 4).map_err(named)? {
                None => Value::Null,
                Some(size) => hex(input.take(size).map_err(named)?).into(),
            },
            Kind::Array(element) => match input.length(flexible, 4).map_err(named)? {
                None => Value::Null,
                Some(count) => {
                    let items = (0..count).map(|_| match &**element {
                        Kind::Struct(fields) => self.fields(input, fields),
                        plain => self.value(input, field, plain),
                    });
                    items.collect::<Result<Vec<_>, _>>().map_err(named)?.into()
                }
            },
            Kind::Struct(_)
                if field.nullable.contains(self.version) && input.array::<1>()? == [0xff] =>
            {
                Value::Null
            }
            Kind::Struct(fields) => self.fields(input, fields).map_err(named)?,
        })
    }
}

fn names(fields: &[Field]) -> Vec<&str> {
    fields.iter().map(|field| field.name.as_str()).collect()
}

fn text<'a>(field: &Field, value: &'a Value) -> &'a str {
    value
        .as_str()
        .unwrap_or_else(|| panic!("{}: {value} is no string", field.name))
}

fn length(size: usize) -> u32 {
    u32::try_from(size).expect("less than 4 GiB")
}

fn put_length(out: &mut Vec<u8>, flexible: bool, width: usize, size: usize) {
    if flexible {
        put_uvarint(out, length(size) + 1);
    } else {
        out.extend(&length(size).to_be_bytes()[4 - width..]);
    }
}

fn put_null(out: &mut Vec<u8>, flexible: bool, width: usize) {
    if flexible {
        out.push(0);
    } else {
        out.extend(vec![0xff; width]);
    }
}

fn hyphenated(bytes: &[u8; 16]) -> String {
    let digits = &hex(bytes)[2..];
    [
        &digits[..8],
        &digits[8..12],
        &digits[12..16],
        &digits[16..20],
        &digits[20..],
    ]
    .join("-")
}

/// Bytes still to be read.
pub(crate) struct Input<'a> {
    pub(crate) rest: &'a [u8],
}

impl<'a> Input<'a> {
    pub(crate) fn take(&mut self, size: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self
            .rest
            .split_at_checked(size)
            .ok_or_else(|| format!("{size} bytes wanted, {} left", self.rest.len()))?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], String> {
        self.take(N)?.try_into().map_err(|_| "short".to_owned())
    }

    pub(crate) fn uvarint(&mut self) -> Result<u32, String> {
        let mut value = 0;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.array::<1>()?;
            value |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err("a variable-length integer of more than five bytes".to_owned())
    }

    fn length(&mut self, flexible: bool, width: usize) -> Result<Option<usize>, String> {
        let size = match (flexible, width) {
            (true, _) => i64::from(self.uvarint()?) - 1,
            (false, 2) => i16::from_be_bytes(self.array()?).into(),
            (false, _) => i32::from_be_bytes(self.array()?).into(),
        };
        match size {
            -1 => Ok(None),
            size => usize::try_from(size)
                .map(Some)
                .map_err(|_| format!("length {size}")),
        }
    }
}
