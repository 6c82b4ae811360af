//! Between the wire crate's identifiers and this crate's own.

use kacrab_protocol::KafkaUuid;

use crate::ids::Uuid;

impl From<KafkaUuid> for Uuid {
    fn from(id: KafkaUuid) -> Self {
        Self(id.to_bytes())
    }
}

impl From<Uuid> for KafkaUuid {
    fn from(id: Uuid) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = id.0;
        Self::from_parts(
            u64::from_be_bytes([a, b, c, d, e, f, g, h]),
            u64::from_be_bytes([i, j, k, l, m, n, o, p]),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_identifiers_are_the_same_bytes_and_text() {
        let ours = Uuid([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
        let wire = KafkaUuid::from(ours);
        assert_eq!(Uuid::from(wire), ours);
        assert_eq!(wire.to_string(), ours.to_string());
        assert_eq!(wire.to_string(), "AQIDBAUGBwgJCgsMDQ4PEA");
    }
}
