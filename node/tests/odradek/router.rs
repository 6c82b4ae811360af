//! What a client of several brokers does and odradek-accept does not: it sends what is for a partition to the partition's leader.
//!
//! The tool speaks to one address alone, whoever leads the topic that it made there. Behind this router that address is a whole
//! cluster. Frames pass unchanged in both directions. What is for no leader goes where the connection's last request went, so
//! that what a leader says unasked is seen.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    thread,
};

use bytes::Bytes;
use seedlog_core::protocol::{
    DecodeLimits, KafkaString, KafkaUuid, Listener, RequestBody, decode_request, decode_response,
    encode_request, messages::MetadataRequestData,
};

/// A listening router; it ends with the process.
#[derive(Debug)]
pub(crate) struct Router;

impl Router {
    /// Listens before brokers, of which one is asked whatever is for no leader; the answer is where.
    pub(crate) fn before(brokers: Vec<SocketAddr>, entry: usize) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr();
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let at = brokers[entry];
                thread::spawn(move || {
                    let _ended = serve(client, at);
                });
            }
        });
        address.expect("a bound socket has an address")
    }
}

/// A topic, as a request names it.
enum Topic {
    Name(KafkaString),
    Id(KafkaUuid),
}

fn serve(mut client: TcpStream, entry: SocketAddr) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut connections = BTreeMap::new();
    let mut at = entry;
    // Until the client has closed its end.
    while let Ok(frame) = read_frame(&mut client) {
        if let Some(topic) = topic_of(&frame)
            && let Some(leader) = leader_of(&topic, entry)?
        {
            at = leader;
        }
        let broker = match connections.entry(at) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(free) => free.insert(open(at, &client)?),
        };
        broker.write_all(&with_length(&frame)?)?;
    }
    for broker in connections.values() {
        let _closed = broker.shutdown(Shutdown::Both);
    }
    Ok(())
}

/// Connects to a broker and passes on all that it says. When it closes, so does the client's connection.
fn open(broker: SocketAddr, client: &TcpStream) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(broker)?;
    stream.set_nodelay(true)?;
    let (mut answers, mut to_client) = (stream.try_clone()?, client.try_clone()?);
    thread::spawn(move || {
        let _ended = io::copy(&mut answers, &mut to_client);
        let _closed = to_client.shutdown(Shutdown::Both);
    });
    Ok(stream)
}

fn read_frame(stream: &mut TcpStream) -> io::Result<Bytes> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = usize::try_from(u32::from_be_bytes(length)).map_err(io::Error::other)?;
    let mut frame = vec![0; length];
    stream.read_exact(&mut frame)?;
    Ok(frame.into())
}

fn with_length(frame: &Bytes) -> io::Result<Vec<u8>> {
    let length = u32::try_from(frame.len()).map_err(io::Error::other)?;
    Ok([&length.to_be_bytes(), frame.as_ref()].concat())
}

/// The topic of a request that is for a leader. What cannot be read goes on as it is: judging it is the broker's business.
fn topic_of(frame: &Bytes) -> Option<Topic> {
    let request = decode_request(frame, &DecodeLimits::new(Listener::Broker)).ok()?;
    let either = |name: &KafkaString, id: KafkaUuid| {
        let named = !name.is_empty();
        Some(if named {
            Topic::Name(name.clone())
        } else {
            Topic::Id(id)
        })
    };
    match request.body {
        RequestBody::Produce(produce) => {
            let topic = produce.topics.iter().next()?;
            either(&topic.name, topic.topic_id)
        }
        RequestBody::Fetch(fetch) => {
            let topic = fetch.topics.iter().next()?;
            either(&topic.topic, topic.topic_id)
        }
        RequestBody::ListOffsets(list) => Some(Topic::Name(list.topics.first()?.name.clone())),
        _ => None,
    }
}

/// Who leads partition 0 of a topic, as a broker knows it.
fn leader_of(topic: &Topic, broker: SocketAddr) -> io::Result<Option<SocketAddr>> {
    const VERSION: i16 = 12;
    let all = MetadataRequestData {
        topics: None,
        ..Default::default()
    };
    let request = encode_request(VERSION, 1, "router", &all).map_err(io::Error::other)?;
    let mut stream = TcpStream::connect(broker)?;
    stream.write_all(&request)?;
    let answer = read_frame(&mut stream)?;
    let (_, metadata) =
        decode_response::<MetadataRequestData>(VERSION, &answer).map_err(io::Error::other)?;
    let found = metadata.topics.iter().find(|known| match topic {
        Topic::Name(name) => known.name.as_ref() == Some(name),
        Topic::Id(id) => known.topic_id == *id,
    });
    let first = found.and_then(|found| found.partitions.iter().find(|it| it.partition_index == 0));
    let leader = first.and_then(|first| {
        let mut brokers = metadata.brokers.iter();
        brokers.find(|broker| broker.node_id == first.leader_id)
    });
    Ok(leader.and_then(|leader| {
        let port = u16::try_from(leader.port).ok()?;
        Some(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
    }))
}
