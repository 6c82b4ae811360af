//! A proxy that passes everything on and records what producers sent, as it stood on the wire.

use std::{
    collections::BTreeMap,
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    thread,
};

use crate::raw::{Batch, Input};

/// Record batches by partition, and requests by API key.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) batches: BTreeMap<i32, Vec<Batch>>,
    pub(crate) requests: BTreeMap<i16, u32>,
}

/// A listening proxy; it ends with the process.
#[derive(Debug)]
pub(crate) struct Proxy {
    address: SocketAddr,
    broker: Arc<OnceLock<SocketAddr>>,
    record: Arc<Mutex<Record>>,
}

impl Proxy {
    /// Listens on a free port. Connections are refused until [`Self::lead_to`] is called.
    pub(crate) fn listen() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let proxy = Self {
            address: listener.local_addr()?,
            broker: Arc::default(),
            record: Arc::default(),
        };
        let (broker, record) = (Arc::clone(&proxy.broker), Arc::clone(&proxy.record));
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // A broker that is down looks to the client as it is: the connection closes.
                let _closed = broker.get().map(|&broker| connect(client, broker, &record));
            }
        });
        Ok(proxy)
    }

    /// Where clients connect.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the broker behind the proxy, once.
    pub(crate) fn lead_to(&self, broker: SocketAddr) {
        self.broker
            .set(broker)
            .expect("the proxy leads to one broker");
    }

    /// Hands out what was recorded since the last call.
    pub(crate) fn take(&self) -> Record {
        std::mem::take(&mut self.record.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn connect(client: TcpStream, broker: SocketAddr, record: &Arc<Mutex<Record>>) -> io::Result<()> {
    let broker = TcpStream::connect(broker)?;
    client.set_nodelay(true)?;
    broker.set_nodelay(true)?;
    let (mut answers, mut to_client) = (broker.try_clone()?, client.try_clone()?);
    thread::spawn(move || {
        let _ended = io::copy(&mut answers, &mut to_client);
        let _closed = to_client.shutdown(Shutdown::Both);
    });
    let record = Arc::clone(record);
    thread::spawn(move || {
        let _ended = pass_requests(client, &broker, &record);
        let _closed = broker.shutdown(Shutdown::Both);
    });
    Ok(())
}

fn pass_requests(
    mut client: TcpStream,
    mut broker: &TcpStream,
    record: &Mutex<Record>,
) -> io::Result<()> {
    loop {
        let mut size = [0; 4];
        client.read_exact(&mut size)?;
        let mut frame =
            vec![0; usize::try_from(u32::from_be_bytes(size)).map_err(io::Error::other)?];
        client.read_exact(&mut frame)?;
        note(
            &frame,
            &mut record.lock().unwrap_or_else(PoisonError::into_inner),
        );
        broker.write_all(&[&size, frame.as_slice()].concat())?;
    }
}

fn note(frame: &[u8], record: &mut Record) {
    let mut input = Input::of(frame);
    let (api, version, _correlation, _client) =
        (input.i16(), input.i16(), input.i32(), input.text());
    *record.requests.entry(api).or_default() += 1;
    if api == 0 {
        for (partition, records) in produce_request(&mut input, version) {
            record
                .batches
                .entry(partition)
                .or_default()
                .extend(Batch::split(records));
        }
    }
}

/// The partitions of a Produce request of any version.
fn produce_request<'a>(input: &mut Input<'a>, version: i16) -> Vec<(i32, &'a [u8])> {
    let flexible = version >= 9;
    let mut out = Vec::new();
    tags(input, flexible);
    if flexible {
        let transactional_id = length(input, flexible);
        input.take(transactional_id);
    } else {
        input.text();
    }
    let (_acks, _timeout) = (input.i16(), input.i32());
    for _topic in 0..length(input, flexible) {
        match version {
            13.. => _ = input.take(16),
            9.. => {
                let name = length(input, flexible);
                input.take(name);
            }
            _ => _ = input.text(),
        }
        for _partition in 0..length(input, flexible) {
            let index = input.i32();
            let size = length(input, flexible);
            out.push((index, input.take(size)));
            tags(input, flexible);
        }
        tags(input, flexible);
    }
    out
}

/// The length of an array, or of bytes; null counts as empty.
fn length(input: &mut Input<'_>, flexible: bool) -> usize {
    let size = if flexible {
        input.uvarint().saturating_sub(1)
    } else {
        input.i32().max(0).cast_unsigned().into()
    };
    usize::try_from(size).expect("a size")
}

fn tags(input: &mut Input<'_>, flexible: bool) {
    if flexible {
        for _tag in 0..input.uvarint() {
            let (_tag, size) = (input.uvarint(), input.uvarint());
            input.take(usize::try_from(size).expect("a size"));
        }
    }
}
