//! `partition.metadata`: which topic a folder belongs to, by id, so that a topic created anew under an old name is not
//! mistaken for the old one.

use crate::ids::Uuid;

/// The file's name within the partition's folder.
pub const FILE_NAME: &str = "partition.metadata";

/// Writes the file's text.
#[must_use]
pub fn encode(topic_id: Uuid) -> String {
    format!("version: 0\ntopic_id: {topic_id}")
}

/// Reads the topic id, `None` when the file is not one of version 0 with an id.
#[must_use]
pub fn parse(bytes: &[u8]) -> Option<Uuid> {
    let text = std::str::from_utf8(bytes).ok()?;
    let mut lines = text.lines();
    if lines.next()? != "version: 0" {
        return None;
    }
    let id = Uuid::from_base64(lines.next()?.strip_prefix("topic_id: ")?)?;
    (id != Uuid::ZERO).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_kafkas() {
        let id = Uuid::METADATA_TOPIC;
        let text = encode(id);
        assert_eq!(text, "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ");
        assert_eq!(parse(text.as_bytes()), Some(id));
    }

    #[test]
    fn every_cut_is_seen() {
        let text = encode(Uuid::METADATA_TOPIC);
        for len in 0..text.len() {
            assert_eq!(parse(&text.as_bytes()[..len]), None, "{len}");
        }
    }
}
