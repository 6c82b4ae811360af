//! Random requests by the schema tables, held against the wire crate.

use bytes::{BufMut, Bytes, BytesMut};

use super::{Dice, decode};
use crate::protocol::{
    ApiKey, Request, RequestBody, encode_request,
    request::SCHEMAS,
    schema::{Field, Kind},
};

pub(super) fn varint(buffer: &mut BytesMut, mut value: usize) {
    while value >= 0x80 {
        buffer.put_u8(u8::try_from(value & 0x7f).unwrap() | 0x80);
        value >>= 7;
    }
    buffer.put_u8(u8::try_from(value).unwrap());
}

/// Writes well-formed messages by a schema.
struct Generator<'a> {
    dice: &'a mut Dice,
    buffer: BytesMut,
    version: i16,
    flexible: bool,
}

impl Generator<'_> {
    fn length(&mut self, length: Option<usize>) {
        match length {
            length if self.flexible => varint(&mut self.buffer, length.map_or(0, |len| len + 1)),
            Some(length) => self.buffer.put_i32(i32::try_from(length).unwrap()),
            None => self.buffer.put_i32(-1),
        }
    }

    fn string(&mut self, nullable: bool) {
        let text = (!nullable || !self.dice.one_in(3)).then(|| self.dice.text());
        match &text {
            Some(text) if self.flexible => varint(&mut self.buffer, text.len() + 1),
            None if self.flexible => self.buffer.put_u8(0),
            Some(text) => self.buffer.put_i16(i16::try_from(text.len()).unwrap()),
            None => self.buffer.put_i16(-1),
        }
        self.buffer
            .put_slice(text.as_ref().map_or(&[], |text| text.as_bytes()));
    }

    fn bytes(&mut self, nullable: bool) {
        let bytes = (!nullable || !self.dice.one_in(3)).then(|| self.dice.bytes(200));
        self.length(bytes.as_ref().map(Vec::len));
        self.buffer.put_slice(&bytes.unwrap_or_default());
    }

    fn array(&mut self, nullable: bool, mut element: impl FnMut(&mut Self)) {
        if nullable && self.dice.one_in(3) {
            return self.length(None);
        }
        let count = self.dice.count();
        self.length(Some(count));
        for _ in 0..count {
            element(self);
        }
    }

    fn field(&mut self, field: &Field) {
        let nullable = field.is_nullable_in(self.version);
        match field.kind {
            // Booleans are written as 0 or 1 by everyone.
            Kind::Int8 => self.buffer.put_u8(u8::from(self.dice.one_in(2))),
            Kind::Int16 => self.buffer.put_i16(self.dice.i16()),
            Kind::Int32 => self.buffer.put_i32(self.dice.i32()),
            Kind::Int64 => self.buffer.put_i64(self.dice.i64()),
            Kind::Uuid => self.buffer.put_slice(&self.dice.uuid().to_bytes()),
            Kind::String => self.string(nullable),
            Kind::Bytes => self.bytes(nullable),
            Kind::Struct(fields) => self.fields(fields),
            Kind::Uuids => self.array(nullable, |this| {
                this.buffer.put_slice(&this.dice.uuid().to_bytes());
            }),
            Kind::Int32s => self.array(nullable, |this| this.buffer.put_i32(this.dice.i32())),
            Kind::Strings => self.array(nullable, |this| this.string(false)),
            Kind::Structs { fields, .. } => self.array(nullable, |this| this.fields(fields)),
        }
    }

    /// Draws the content of a tagged field; none where it says what its absence says, for nobody writes that.
    fn tagged(&mut self, field: &Field) -> Option<BytesMut> {
        let written = std::mem::take(&mut self.buffer);
        self.field(field);
        let content = std::mem::replace(&mut self.buffer, written);
        let is_null = |byte: &u8| *byte == 0;
        let is_default = match field.kind {
            Kind::Uuids if !field.is_nullable_in(self.version) => content[..] == [1],
            _ => content.iter().all(is_null),
        };
        (!is_default && self.dice.one_in(2)).then_some(content)
    }

    fn fields(&mut self, fields: &[Field]) {
        let version = self.version;
        let (tagged, plain): (Vec<&Field>, Vec<&Field>) = fields
            .iter()
            .filter(|field| field.is_in(version))
            .partition(|field| field.tag.is_some());
        for field in plain {
            self.field(field);
        }
        if self.flexible {
            self.tags(&tagged);
        }
    }

    fn tags(&mut self, known: &[&Field]) {
        let known: Vec<(u32, BytesMut)> = known
            .iter()
            .filter_map(|field| Some((field.tag?, self.tagged(field)?)))
            .collect();
        let count = if self.dice.one_in(4) {
            self.dice.below(3)
        } else {
            0
        };
        varint(&mut self.buffer, known.len() + count);
        for (tag, content) in known {
            varint(&mut self.buffer, usize::try_from(tag).unwrap());
            varint(&mut self.buffer, content.len());
            self.buffer.put_slice(&content);
        }
        for tag in 0..count {
            let content = self.dice.bytes(5);
            varint(&mut self.buffer, 1000 + tag * 1000);
            varint(&mut self.buffer, content.len());
            self.buffer.put_slice(&content);
        }
    }
}

/// A random well-formed frame of an API that the wire crate decodes.
pub(super) fn frame(dice: &mut Dice, api: ApiKey, version: i16) -> Option<Bytes> {
    let (_, schema) = SCHEMAS.iter().find(|(known, _)| *known == api)?;
    let flexible = api.is_flexible(version);
    let mut generator = Generator {
        dice,
        buffer: BytesMut::new(),
        version,
        flexible,
    };
    generator.buffer.put_i16(api.key());
    generator.buffer.put_i16(version);
    generator.buffer.put_i32(77);
    generator.buffer.put_slice(b"\0\x02me");
    if flexible {
        generator.buffer.put_u8(0);
    }
    generator.fields(schema.fields);
    Some(generator.buffer.freeze())
}

fn encoded(version: i16, body: &RequestBody) -> Bytes {
    let frame = match body {
        RequestBody::ListOffsets(body) => encode_request(version, 77, "me", body),
        RequestBody::Metadata(body) => encode_request(version, 77, "me", body),
        RequestBody::ApiVersions(body) => encode_request(version, 77, "me", body),
        RequestBody::CreateTopics(body) => encode_request(version, 77, "me", body),
        RequestBody::DeleteTopics(body) => encode_request(version, 77, "me", body),
        RequestBody::DeleteRecords(body) => encode_request(version, 77, "me", body),
        RequestBody::DescribeConfigs(body) => encode_request(version, 77, "me", body),
        RequestBody::CreatePartitions(body) => encode_request(version, 77, "me", body),
        RequestBody::IncrementalAlterConfigs(body) => encode_request(version, 77, "me", body),
        RequestBody::FindCoordinator(body) => encode_request(version, 77, "me", body),
        RequestBody::DescribeCluster(body) => encode_request(version, 77, "me", body),
        RequestBody::OffsetForLeaderEpoch(body) => encode_request(version, 77, "me", body),
        RequestBody::ElectLeaders(body) => encode_request(version, 77, "me", body),
        RequestBody::AlterPartition(body) => encode_request(version, 77, "me", body),
        RequestBody::BrokerRegistration(body) => encode_request(version, 77, "me", body),
        RequestBody::BrokerHeartbeat(body) => encode_request(version, 77, "me", body),
        RequestBody::Vote(body) => encode_request(version, 77, "me", body),
        RequestBody::BeginQuorumEpoch(body) => encode_request(version, 77, "me", body),
        RequestBody::EndQuorumEpoch(body) => encode_request(version, 77, "me", body),
        RequestBody::DescribeQuorum(body) => encode_request(version, 77, "me", body),
        RequestBody::Envelope(body) => encode_request(version, 77, "me", body),
        RequestBody::FetchSnapshot(body) => encode_request(version, 77, "me", body),
        RequestBody::Produce(_) | RequestBody::Fetch(_) => unreachable!("they have no schema"),
    };
    super::unframed(&frame.unwrap())
}

#[test]
fn requests_by_the_schemas_are_what_the_wire_crate_reads_and_writes() {
    let mut messages = 0;
    for &(api, _) in SCHEMAS {
        let versions = api.spec().served;
        for version in versions.min..=versions.max {
            let mut dice = Dice::new(u64::from(version.unsigned_abs()) << 8 | 1);
            for _ in 0..200 {
                let frame = frame(&mut dice, api, version).unwrap();
                let Request { header, body } = decode(&frame).unwrap();
                assert_eq!(
                    (header.api, header.version, header.correlation_id),
                    (api, version, 77)
                );
                assert_eq!(body.api(), api);
                assert_eq!(encoded(version, &body), frame, "{api} version {version}");
                messages += 1;
            }
        }
    }
    assert_eq!(
        messages,
        200 * 94,
        "versions of the twenty-two APIs with schemas"
    );
}

#[test]
fn every_byte_cut_off_or_added_is_noticed() {
    for &(api, _) in SCHEMAS {
        let versions = api.spec().served;
        for version in versions.min..=versions.max {
            let mut dice = Dice::new(7);
            let frame = frame(&mut dice, api, version).unwrap();
            for len in 0..frame.len() {
                assert!(
                    decode(&frame.slice(..len)).is_err(),
                    "{api} {version} cut to {len}"
                );
            }
            let longer: Bytes = [&frame[..], &[0]].concat().into();
            assert!(
                decode(&longer).is_err(),
                "{api} version {version} with a byte too many"
            );
        }
    }
}
