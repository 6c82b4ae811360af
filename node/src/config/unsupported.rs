//! Settings of Kafka whose silent loss would lose data, let somebody in, or leave somebody waiting for a feature.

use seedlog_core::config::StaticConfig;

use super::Problems;

/// Refuses what this release cannot do and must not pretend to.
pub(super) fn check(settings: &StaticConfig, problems: &mut Problems) {
    for (name, what) in CLASSES {
        if settings
            .text(name)
            .is_some_and(|value| !value.trim().is_empty())
        {
            problems.add(format!(
                "{name}: {what}; remove the setting to start without it"
            ));
        }
    }
    for (name, what) in SWITCHES {
        if settings
            .text(name)
            .is_some_and(|value| value.trim().eq_ignore_ascii_case("true"))
        {
            problems.add(format!("{name}=true: {what}; set it to false or remove it"));
        }
    }
    if let Some(protocol) = settings.text("security.inter.broker.protocol")
        && protocol.trim() != "PLAINTEXT"
    {
        problems.add(format!(
            "security.inter.broker.protocol={protocol}: only PLAINTEXT is supported in this release"
        ));
    }
    if settings
        .text("zookeeper.connect")
        .is_some_and(|value| !value.trim().is_empty())
    {
        problems.add(
            "zookeeper.connect: there is no ZooKeeper any more, as in Kafka 4; remove the setting, \
             the node keeps its metadata itself",
        );
    }
}

/// Classes that Kafka would load and that are asked before something is allowed or done.
const CLASSES: &[(&str, &str)] = &[
    (
        "authorizer.class.name",
        "access control is not supported in this release, every client may do everything",
    ),
    (
        "create.topic.policy.class.name",
        "policies for new topics are not supported",
    ),
    (
        "alter.config.policy.class.name",
        "policies for changed configs are not supported",
    ),
    (
        "client.quota.callback.class",
        "quota callbacks are not supported",
    ),
];

const SWITCHES: &[(&str, &str)] = &[
    (
        "remote.log.storage.system.enable",
        "tiered storage is not supported",
    ),
    (
        "unstable.api.versions.enable",
        "unstable versions are never offered",
    ),
];
