//! Kafka's rules for topic names.

/// Topics that clients may not write to: group offsets, transaction states and share group states.
pub const INTERNAL_TOPICS: [&str; 3] = [
    "__consumer_offsets",
    "__transaction_state",
    "__share_group_state",
];

/// The topic of the metadata log itself.
pub(super) const METADATA_TOPIC_NAME: &str = "__cluster_metadata";

const NAME_CHARS_MAX: usize = 249;

/// Returns whether clients may not write to topic `name`.
#[must_use]
pub fn is_internal_topic(name: &str) -> bool {
    INTERNAL_TOPICS.contains(&name)
}

/// Returns why `name` cannot be a topic's, in Kafka's words; `None` if it can.
#[must_use]
pub fn invalid_topic_name(name: &str) -> Option<String> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let why = match name {
        "" => "the empty string is not allowed".to_owned(),
        "." => "'.' is not allowed".to_owned(),
        ".." => "'..' is not allowed".to_owned(),
        // Java counts UTF-16 units.
        _ if name.encode_utf16().count() > NAME_CHARS_MAX => {
            format!("the length of '{name}' is longer than the max allowed length {NAME_CHARS_MAX}")
        }
        _ if !name.bytes().all(legal) => format!(
            "'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
        ),
        _ => return None,
    };
    Some(format!("Topic name is invalid: {why}"))
}
