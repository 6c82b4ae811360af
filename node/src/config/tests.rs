use super::*;
use seedlog_core::protocol;

fn settings(lines: &str) -> Result<NodeConfig, SettingsError> {
    let properties = parse_properties(lines).into_iter();
    NodeConfig::from_settings(properties.map(|property| (property.name, property.value)))
}

/// The one reason for which settings are refused.
fn refusal(lines: &str) -> String {
    match settings(lines) {
        Err(SettingsError::Refused(problems)) => {
            assert_eq!(problems.lines().len(), 1, "{problems}");
            problems.lines()[0].clone()
        }
        other => panic!("not refused: {other:?}"),
    }
}

const KAFKAS_OWN: &str = "
# The file that Kafka 4 ships, without its comments
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
";

#[test]
fn kafkas_own_file_starts_a_node() {
    let config = settings(KAFKAS_OWN).unwrap();
    assert_eq!(config.node_id, NodeId(1));
    assert_eq!(config.log_dirs, [PathBuf::from("/tmp/kraft-combined-logs")]);
    let listener = ListenerConfig {
        name: "PLAINTEXT".to_owned(),
        host: String::new(),
        port: 9092,
        advertised_host: "localhost".to_owned(),
        advertised_port: 9092,
        kind: protocol::Listener::Broker,
    };
    let controller = ListenerConfig {
        name: "CONTROLLER".to_owned(),
        port: 9093,
        advertised_port: 9093,
        kind: protocol::Listener::Controller,
        ..listener.clone()
    };
    assert_eq!(config.listeners, [listener, controller]);
    assert_eq!(config.voters.len(), 1);
    assert_eq!(config.limits.frames.request_max, 104_857_600);
}

#[test]
fn nothing_need_be_set() {
    let config = settings("").unwrap();
    assert_eq!(config.node_id, NodeId(1));
    assert_eq!(config.listeners[0].port, 9092);
    assert!(!address::is_wildcard(&config.listeners[0].advertised_host));
    assert_eq!(config.limits.idle_max, Some(Duration::from_secs(600)));
    assert!(
        config
            .notes
            .iter()
            .any(|note| note.contains("advertised.listeners")),
        "the choice of an address is not silent: {:?}",
        config.notes
    );
}

#[test]
fn a_wildcard_is_never_advertised() {
    for host in ["0.0.0.0", "[::]"] {
        let lines = format!(
            "listeners=PLAINTEXT://:9092\nadvertised.listeners=PLAINTEXT://{host}:9092\nlog.dirs=/d"
        );
        let message = refusal(&lines);
        assert!(message.contains("advertised.listeners"), "{message}");
    }
    let config = settings("listeners=PLAINTEXT://0.0.0.0:9092\nlog.dirs=/d").unwrap();
    assert!(!address::is_wildcard(&config.listeners[0].advertised_host));
}

#[test]
fn an_explicit_address_is_advertised_as_it_is() {
    let config = settings("listeners=PLAINTEXT://[::1]:0\nlog.dirs=/d").unwrap();
    assert_eq!(config.listeners[0].advertised_host, "::1");
    let bound = config.bind().unwrap();
    let port = bound[0].local_addr().unwrap().port();
    let broker = config.broker_config(&bound);
    assert_eq!(broker.listeners[0].advertised_port, port);
    assert_ne!(port, 0);
}

#[test]
fn secured_listeners_are_refused_by_name() {
    for protocol in ["SSL", "SASL_PLAINTEXT", "SASL_SSL"] {
        let message = refusal(&format!("listeners={protocol}://localhost:9092"));
        assert!(message.contains(protocol), "{message}");
        let message = refusal(&format!(
            "listeners=CLIENTS://localhost:9092\nlistener.security.protocol.map=CLIENTS:{protocol}"
        ));
        assert!(message.contains(protocol), "{message}");
    }
}

#[test]
fn a_listener_without_protocol_is_told_how_to_get_one() {
    let message = refusal("listeners=INSIDE://localhost:9092");
    assert!(message.contains("INSIDE:PLAINTEXT"), "{message}");
    settings(
        "listeners=INSIDE://localhost:9092,OUTSIDE://localhost:9094
        listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
    )
    .unwrap();
}

#[test]
fn contradictory_listeners_are_explained() {
    for (lines, word) in [
        ("listeners=PLAINTEXT:9092", "NAME://HOST:PORT"),
        ("listeners=PLAINTEXT://localhost:99999", "NAME://HOST:PORT"),
        ("listeners=PLAINTEXT://a:1,PLAINTEXT://b:2", "twice"),
        (
            "listeners=PLAINTEXT://:9092,B://:9092\nlistener.security.protocol.map=PLAINTEXT:PLAINTEXT,B:PLAINTEXT",
            "share port",
        ),
        (
            "advertised.listeners=OTHER://localhost:9092,PLAINTEXT://localhost:9092",
            "OTHER",
        ),
        ("inter.broker.listener.name=OTHER", "OTHER"),
        (
            "listeners=CONTROLLER://:9093\ncontroller.listener.names=CONTROLLER",
            "listener for clients",
        ),
    ] {
        let message = refusal(lines);
        assert!(message.contains(word), "{lines}: {message}");
    }
}

#[test]
fn what_is_missing_is_refused_and_not_ignored() {
    for (lines, word) in [
        (
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "access control",
        ),
        ("remote.log.storage.system.enable=true", "tiered storage"),
        ("zookeeper.connect=localhost:2181", "ZooKeeper"),
        ("security.inter.broker.protocol=SSL", "PLAINTEXT"),
        ("controller.quorum.voters=1@a:9093\nnode.id=2", "node.id"),
        ("controller.quorum.voters=one@a:9093", "id@host:port"),
        ("node.id=-5", "node.id"),
        ("log.dirs=/a,/a", "twice"),
        ("log.dirs=/a,/b", "more than one"),
        ("log.dirs=/a\nmetadata.log.dir=/b", "metadata.log.dir"),
    ] {
        let message = refusal(lines);
        assert!(message.contains(word), "{lines}: {message}");
    }
}

#[test]
fn all_problems_are_told_at_once() {
    let refused = settings("listeners=SSL://localhost:9092\nprocess.roles=broker");
    let message = refused.unwrap_err().to_string();
    assert!(
        message.contains("SSL") && message.contains("process.roles"),
        "{message}"
    );
}

#[test]
fn an_unknown_setting_is_noted_with_the_name_that_was_meant() {
    let config = settings("num.partition=3\nlog.dirs=/d").unwrap();
    assert!(
        config
            .notes
            .iter()
            .any(|note| note.contains("num.partitions")),
        "{:?}",
        config.notes
    );
}

#[test]
fn overrides_win_over_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("server.properties");
    std::fs::write(&file, "node.id=3\nlog.dirs=/a\n").unwrap();
    let overrides = ["node.id=4".to_owned(), "log.dirs = /b".to_owned()];
    let config = NodeConfig::load(&file, &overrides).unwrap();
    assert_eq!(config.node_id, NodeId(4));
    assert_eq!(config.log_dirs, [PathBuf::from("/b")]);
    let refused = NodeConfig::load(&file, &["node.id".to_owned()]);
    assert!(matches!(refused, Err(SettingsError::Override { .. })));
    let refused = NodeConfig::load(&dir.path().join("nowhere"), &[]);
    assert!(matches!(refused, Err(SettingsError::Unreadable { .. })));
}

#[test]
fn a_port_in_use_is_explained() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let config = settings(&format!("listeners=PLAINTEXT://127.0.0.1:{port}")).unwrap();
    let message = config.bind().unwrap_err().to_string();
    assert!(message.contains("another process"), "{message}");
}

#[test]
fn limits_follow_kafkas_settings() {
    let config = settings(
        "socket.request.max.bytes=5000000\nmax.connections=7\nmax.connections.per.ip=3\n\
         connections.max.idle.ms=1000\nmessage.max.bytes=3000000\nqueued.max.request.bytes=9000000",
    )
    .unwrap();
    let limits = config.limits;
    assert_eq!(limits.frames.request_max, 5_000_000);
    assert_eq!(limits.frames.first_max, 3_000_000 + 64 * 1024);
    assert_eq!(limits.connections_max, 7);
    assert_eq!(limits.connections_per_address_max, 3);
    assert_eq!(limits.idle_max, Some(Duration::from_secs(1)));
    assert_eq!(limits.partial_bytes_max, 9_000_000);
}

/// Three voters, of which this is the first.
const VOTERS: &str = "controller.quorum.voters=1@a:9093,2@b:9093,3@c:9093\nlog.dirs=/d\n";

#[test]
fn a_voter_listens_for_the_others() {
    let config = settings(&format!(
        "{VOTERS}node.id=2\nlisteners=PLAINTEXT://:9092,CONTROLLER://:9093\nadvertised.listeners=PLAINTEXT://b:9092\n\
         controller.listener.names=CONTROLLER\nbroker.rack=north"
    ))
    .unwrap();
    assert_eq!(config.node_id, NodeId(2));
    assert_eq!(config.voters.len(), 3);
    let kinds: Vec<_> = config
        .listeners
        .iter()
        .map(|listener| listener.kind)
        .collect();
    let expected = [protocol::Listener::Broker, protocol::Listener::Controller];
    assert_eq!(kinds, expected);
    assert!(config.notes.is_empty(), "{:?}", config.notes);
    let broker = config.broker_config(&[]);
    assert_eq!(broker.rack.as_deref(), Some("north"));
}

#[test]
fn a_broker_alone_opens_no_controller_listener() {
    let config = settings(&format!(
        "{VOTERS}node.id=4\nprocess.roles=broker\nlisteners=PLAINTEXT://d:9092\ncontroller.listener.names=CONTROLLER"
    ))
    .unwrap();
    assert_eq!(config.node_id, NodeId(4));
    assert_eq!(config.listeners.len(), 1);
    assert_eq!(config.voters.len(), 3);
}

#[test]
fn a_controller_alone_serves_no_clients() {
    let config = settings(&format!(
        "{VOTERS}node.id=1\nprocess.roles=controller\nlisteners=CONTROLLER://a:9093\n\
         controller.listener.names=CONTROLLER\ninter.broker.listener.name=PLAINTEXT"
    ))
    .unwrap();
    let [only] = &config.listeners[..] else {
        panic!("{:?}", config.listeners);
    };
    assert_eq!(only.kind, protocol::Listener::Controller);
}

#[test]
fn roles_voters_and_listeners_must_agree() {
    let controller = "listeners=CONTROLLER://:9093\ncontroller.listener.names=CONTROLLER";
    let both =
        "listeners=PLAINTEXT://a:9092,CONTROLLER://:9093\ncontroller.listener.names=CONTROLLER";
    for (lines, words) in [
        (format!("{VOTERS}{both}"), "node.id is missing"),
        (format!("{VOTERS}{both}\nnode.id=4"), "not among"),
        (
            format!("{VOTERS}node.id=1\nprocess.roles=broker"),
            "has not the role",
        ),
        (
            format!("{VOTERS}node.id=4\nprocess.roles=broker\n{both}"),
            "is no controller",
        ),
        (
            format!("{VOTERS}node.id=1\nprocess.roles=controller\n{both}"),
            "serves no clients",
        ),
        (
            format!("{VOTERS}node.id=1\n{controller}"),
            "listener for clients",
        ),
        (
            format!(
                "{VOTERS}node.id=1\nlisteners=PLAINTEXT://a:9092\ncontroller.listener.names=CONTROLLER"
            ),
            "not among listeners",
        ),
        (
            format!("{VOTERS}node.id=1\nlisteners=PLAINTEXT://a:9092"),
            "controller.listener.names",
        ),
        (
            "process.roles=broker\nnode.id=1".to_owned(),
            "controllers elsewhere",
        ),
        (
            format!("{both}\ncontroller.quorum.bootstrap.servers=a:9093,b:9093"),
            "controller.quorum.voters=",
        ),
        (
            format!("{both}\ncontroller.quorum.bootstrap.servers=192.0.2.1:9093"),
            "no controller listener of this node",
        ),
        (
            format!("{VOTERS}{both}\nnode.id=1\ninter.broker.listener.name=CONTROLLER"),
            "inter.broker.listener.name",
        ),
        (
            format!(
                "{VOTERS}node.id=4\nprocess.roles=broker\ncontroller.listener.names=INSIDE\n\
                 listener.security.protocol.map=PLAINTEXT:PLAINTEXT,INSIDE:SSL"
            ),
            "INSIDE wants SSL",
        ),
    ] {
        let message = refusal(&format!("{lines}\n"));
        assert!(message.contains(words), "{lines}: {message}");
    }
}

#[test]
fn voters_are_told_apart() {
    let both =
        "listeners=PLAINTEXT://a:9092,CONTROLLER://:9093\ncontroller.listener.names=CONTROLLER";
    for (lines, words) in [
        (
            format!("{both}\nnode.id=1\ncontroller.quorum.voters=1@a:9093,1@b:9093"),
            "twice",
        ),
        (
            format!("{both}\nnode.id=1\ncontroller.quorum.voters=1@a:9093,2@a:9093"),
            "same address",
        ),
        (
            format!("{both}\nnode.id=1\ncontroller.quorum.voters=1@a:9093,2@b:0"),
            "no port",
        ),
    ] {
        let message = refusal(&lines);
        assert!(message.contains(words), "{lines}: {message}");
    }
}

#[test]
fn a_voter_that_is_looked_for_at_another_port_is_told() {
    let config = settings(&format!(
        "{VOTERS}node.id=1\nlisteners=PLAINTEXT://a:9092,CONTROLLER://:19093\ncontroller.listener.names=CONTROLLER"
    ))
    .unwrap();
    assert!(
        config.notes.iter().any(|note| note.contains("19093")),
        "{:?}",
        config.notes
    );
}

#[test]
fn the_name_of_the_listener_between_brokers_is_the_same_in_any_case() {
    let config = settings(
        "listeners=inside://a:9092\nlistener.security.protocol.map=INSIDE:PLAINTEXT\ninter.broker.listener.name=Inside\n\
         log.dirs=/d",
    )
    .unwrap();
    let broker = config.broker_config(&[]);
    assert_eq!(broker.inter_broker_listener(), "INSIDE");
}
