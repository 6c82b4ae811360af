//! The first question on every connection: which versions of which API the broker speaks.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::network::{Loss, Network, Peer, Tag};
use crate::{
    protocol::{
        ApiKey, ErrorCode, KafkaString, VersionRange,
        messages::{ApiVersionsRequestData, ApiVersionsResponseData},
    },
    time::Instant,
};

impl<T> Network<T> {
    pub(super) fn negotiate(&mut self, now: Instant, peer: Peer, version: i16) {
        let request = ApiVersionsRequestData {
            client_software_name: KafkaString::from_static("seedlog"),
            client_software_version: KafkaString::from_static(env!("CARGO_PKG_VERSION")),
            ..Default::default()
        };
        let sent = self.transmit(now, peer, version, &request, Tag::Negotiate);
        if sent.is_err() {
            self.close(now, peer, Loss::NotSent);
        }
    }

    /// Takes the answer. An older broker refuses our version and names its own (KIP-511).
    pub(super) fn on_versions(&mut self, now: Instant, peer: Peer, tried: i16, frame: &Bytes) {
        let answer = self.decode::<ApiVersionsRequestData>(now, peer, tried, frame);
        let Some(answer) = answer else { return };
        let versions = known(&answer);
        match ErrorCode::from_code(answer.error_code) {
            Some(ErrorCode::None) => {
                if let Some(link) = self.links.get_mut(&peer) {
                    link.negotiated(versions);
                }
            }
            Some(ErrorCode::UnsupportedVersion) if tried > 0 => {
                let named = versions.get(&ApiKey::ApiVersions);
                let next = named.map_or(0, |theirs| theirs.max.clamp(0, tried - 1));
                self.negotiate(now, peer, next);
            }
            _ => self.close(now, peer, Loss::Malformed),
        }
    }
}

/// Keeps what this client could ask; a hostile broker may name anything.
fn known(answer: &ApiVersionsResponseData) -> BTreeMap<ApiKey, VersionRange> {
    let lines = answer.api_keys.iter();
    lines
        .filter_map(|line| {
            let range = VersionRange {
                min: line.min_version,
                max: line.max_version,
            };
            Some((ApiKey::from_i16(line.api_key)?, range))
        })
        .collect()
}
