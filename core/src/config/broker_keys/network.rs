//! Listeners, connections and request limits.

use crate::config::{
    check::Check::{Any, AnyList, AtLeast},
    key::{
        ConfigKey,
        UpdateMode::{ClusterWide, PerBroker, ReadOnly},
        key, known,
    },
    kind::ConfigType::{Int, List, Long, String},
};

/// Sorted by name.
#[rustfmt::skip] // one row a line: a table is read by column
pub(super) const KEYS: &[ConfigKey] = &[
    key("advertised.listeners", List, None, AnyList { empty: false }, ReadOnly, "The addresses clients and peers are told to connect to; listeners when unset."),
    known("background.threads", Int, Some("10"), AtLeast(1), ClusterWide),
    known("connection.failed.authentication.delay.ms", Int, Some("100"), AtLeast(0), ReadOnly),
    key("connections.max.idle.ms", Long, Some("600000"), Any, ReadOnly, "How long an idle connection is kept."),
    known("connections.max.reauth.ms", Long, Some("0"), Any, ReadOnly),
    known("early.start.listeners", List, None, AnyList { empty: true }, ReadOnly),
    key("fetch.max.bytes", Int, Some("57671680"), AtLeast(1_024), ReadOnly, "The most bytes one fetch answer carries, whatever the client asks for.").without_effect(),
    known("fetch.purgatory.purge.interval.requests", Int, Some("1000"), Any, ReadOnly),
    known("inter.broker.listener.name", String, None, Any, ReadOnly),
    key("listener.security.protocol.map", String, Some("SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"), Any, PerBroker, "The security protocol of each listener name."),
    key("listeners", List, Some("PLAINTEXT://:9092"), AnyList { empty: false }, PerBroker, "The addresses this node listens on."),
    known("max.connection.creation.rate", Int, Some("2147483647"), AtLeast(0), ClusterWide),
    key("max.connections", Int, Some("2147483647"), AtLeast(0), ClusterWide, "The most connections this broker accepts."),
    key("max.connections.per.ip", Int, Some("2147483647"), AtLeast(0), ClusterWide, "The most connections accepted from one address."),
    known("max.connections.per.ip.overrides", String, Some(""), Any, ClusterWide),
    key("max.incremental.fetch.session.cache.slots", Int, Some("1000"), AtLeast(0), ReadOnly, "The most incremental fetch sessions kept."),
    key("max.request.partition.size.limit", Int, Some("2000"), AtLeast(1), ReadOnly, "The most partitions one request may name in APIs that page their answer.").without_effect(),
    known("num.io.threads", Int, Some("8"), AtLeast(1), ClusterWide),
    known("num.network.threads", Int, Some("3"), AtLeast(1), ClusterWide),
    key("queued.max.request.bytes", Long, Some("-1"), Any, ReadOnly, "Bytes of requests held at once before reading stops; -1 for no limit."),
    key("queued.max.requests", Int, Some("500"), AtLeast(1), ReadOnly, "Requests held at once before reading stops.").without_effect(),
    key("request.timeout.ms", Int, Some("30000"), Any, ReadOnly, "How long this node waits for a peer's answer.").without_effect(),
    known("socket.connection.setup.timeout.max.ms", Long, Some("30000"), Any, ReadOnly),
    known("socket.connection.setup.timeout.ms", Long, Some("10000"), Any, ReadOnly),
    key("socket.listen.backlog.size", Int, Some("50"), AtLeast(1), ReadOnly, "Connections that may wait to be accepted.").without_effect(),
    key("socket.receive.buffer.bytes", Int, Some("102400"), Any, ReadOnly, "The receive buffer of a connection; -1 for the operating system's own.").without_effect(),
    key("socket.request.max.bytes", Int, Some("104857600"), AtLeast(1), ReadOnly, "The largest request accepted."),
    key("socket.send.buffer.bytes", Int, Some("102400"), Any, ReadOnly, "The send buffer of a connection; -1 for the operating system's own.").without_effect(),
];
