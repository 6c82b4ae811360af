//! Questions about requests whose answer depends on their version.

use super::messages::{ApiVersionsRequestData, MetadataRequestData};

/// Says whether a Metadata request asks for all topics: null does, and in version 0, which has no
/// null, an empty list.
#[must_use]
pub fn asks_for_all_topics(version: i16, request: &MetadataRequestData) -> bool {
    match &request.topics {
        None => true,
        Some(topics) => version == 0 && topics.is_empty(),
    }
}

/// Says whether an ApiVersions request names its client acceptably; Kafka answers others with
/// INVALID_REQUEST (KIP-511).
#[must_use]
pub fn names_client_software(version: i16, request: &ApiVersionsRequestData) -> bool {
    version < 3
        || [
            &request.client_software_name,
            &request.client_software_version,
        ]
        .iter()
        .all(|name| is_software_name(name.as_bytes()))
}

/// Letters, digits, dashes and dots, the last two not at either end.
fn is_software_name(name: &[u8]) -> bool {
    let ends = [name.first(), name.last()];
    ends.iter()
        .all(|end| end.is_some_and(u8::is_ascii_alphanumeric))
        && name
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_means_all_topics_in_version_0_alone() {
        let none = MetadataRequestData::default().with_topics(Some(Vec::new()));
        assert!(asks_for_all_topics(0, &none));
        assert!(!asks_for_all_topics(1, &none));
        assert!(asks_for_all_topics(1, &none.with_topics(None)));
    }

    #[test]
    fn client_software_is_named_by_kafkas_rule() {
        for (name, good) in [
            ("librdkafka", true),
            ("2.16.1-rdkafka-2.16.0", true),
            ("a", true),
            ("", false),
            (".a", false),
            ("a-", false),
            ("a b", false),
            ("ä", false),
        ] {
            let request = ApiVersionsRequestData::default()
                .with_client_software_name(name.to_owned().into())
                .with_client_software_version("1".to_owned().into());
            assert_eq!(names_client_software(3, &request), good, "{name:?}");
            assert!(names_client_software(2, &request));
        }
    }
}
