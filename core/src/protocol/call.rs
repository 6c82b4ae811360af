//! The frame around a call from one node to another: header and body, whatever the API.

use bytes::{BufMut, Bytes, BytesMut};
use kacrab_protocol::version::{request_header_version, response_header_version};

use super::{
    DecodeLimits, EncodeError, FRAME_PREFIX_BYTES, Listener, ResponseError, reader::Reader,
};

/// Writes the frame of a request whose body is written already, length prefix and header included.
///
/// # Errors
///
/// Returns an [`EncodeError`] if the frame or the client id is too long for the wire.
pub fn encode_call(
    (api_key, version): (i16, i16),
    correlation_id: i32,
    client_id: &str,
    body: &[u8],
) -> Result<Bytes, EncodeError> {
    let too_long = EncodeError::TooLong { field: "frame" };
    let client_id_len =
        i16::try_from(client_id.len()).map_err(|_| EncodeError::TooLong { field: "ClientId" })?;
    let tagged = request_header_version(api_key, version) == 2;
    let header_len = 10 + client_id.len() + usize::from(tagged);
    let Some(len) = body.len().checked_add(header_len) else {
        return Err(too_long);
    };
    let Ok(prefix) = i32::try_from(len) else {
        return Err(too_long);
    };
    let mut buffer = BytesMut::with_capacity(len + FRAME_PREFIX_BYTES);
    buffer.put_i32(prefix);
    buffer.put_i16(api_key);
    buffer.put_i16(version);
    buffer.put_i32(correlation_id);
    buffer.put_i16(client_id_len);
    buffer.put_slice(client_id.as_bytes());
    if tagged {
        buffer.put_u8(0);
    }
    buffer.put_slice(body);
    Ok(buffer.freeze())
}

/// Splits the frame of a response, without its length prefix, into the correlation id and the body.
///
/// # Errors
///
/// Returns a [`ResponseError`] for a damaged header; the connection is then of no more use.
pub fn split_answer(
    (api_key, version): (i16, i16),
    frame: &Bytes,
) -> Result<(i32, Bytes), ResponseError> {
    let tagged = response_header_version(api_key, version) == 1;
    let limits = DecodeLimits::new(Listener::Broker);
    let mut reader = Reader::new(frame, 0, tagged, &limits);
    let header = reader.i32("CorrelationId").and_then(|id| {
        reader.skip_tags()?;
        Ok(id)
    });
    let correlation_id = header.map_err(|fault| ResponseError::Header { fault: fault.fault })?;
    Ok((correlation_id, frame.slice(reader.position()..)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{
        ApiKey, DecodeLimits, RequestBody, decode_request, encode_request,
        messages::DescribeClusterRequestData,
    };

    #[test]
    fn call_is_the_frame_that_a_client_writes() {
        let request = DescribeClusterRequestData::default();
        let written = encode_request(1, 7, "n", &request).unwrap();
        // Length, key, version, correlation id, client id and an empty list of tags.
        let body = written.slice(4 + 8 + 3 + 1..);
        let key = ApiKey::DescribeCluster.key();
        assert_eq!(encode_call((key, 1), 7, "n", &body).unwrap(), written);
        let limits = DecodeLimits::new(Listener::Broker);
        let read = decode_request(&written.slice(4..), &limits).unwrap();
        assert!(matches!(read.body, RequestBody::DescribeCluster(_)));
    }

    #[test]
    fn header_is_as_long_as_its_version_says() {
        // Fetch has tagged fields from version 12 on.
        let old = encode_call((1, 11), 7, "", b"x").unwrap();
        let new = encode_call((1, 12), 7, "", b"x").unwrap();
        assert_eq!((old.len(), new.len()), (15, 16));
        let answer = Bytes::from_static(&[0, 0, 0, 7, 0, 9]);
        let split = |version| split_answer((1, version), &answer).unwrap();
        assert_eq!(split(11), (7, Bytes::from_static(&[0, 9])));
        assert_eq!(split(12), (7, Bytes::from_static(&[9])));
        assert!(split_answer((1, 12), &Bytes::from_static(&[0, 0, 0, 7])).is_err());
        assert!(split_answer((1, 12), &Bytes::from_static(&[0, 0, 0])).is_err());
        let hostile = Bytes::from_static(&[0, 0, 0, 7, 0xff, 0xff, 0xff, 0xff, 0x0f]);
        assert!(split_answer((1, 12), &hostile).is_err());
    }
}
