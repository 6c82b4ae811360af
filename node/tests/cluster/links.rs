//! Proxies between the nodes whose links can be cut one way.
//!
//! A node says its number in the client id of every request, so a proxy knows from the first frame of a connection whose it
//! is. A direction that is cut carries nothing until it is whole again, and then all that was held back, as TCP does with
//! packets that were lost.

use std::{
    collections::BTreeSet,
    io::{self, Read as _, Write as _},
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

/// From one node to another.
type Way = (usize, usize);

#[derive(Debug, Default)]
struct State {
    cut: Mutex<BTreeSet<Way>>,
    changed: Condvar,
}

/// All links between the nodes; they end with the process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Links {
    state: Arc<State>,
}

impl State {
    fn cuts(&self) -> MutexGuard<'_, BTreeSet<Way>> {
        self.cut.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until a way is whole.
    fn pass(&self, way: Way) {
        let mut cuts = self.cuts();
        while cuts.contains(&way) {
            cuts = self
                .changed
                .wait(cuts)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Links {
    /// Puts a proxy before a listener of a node; the answer is where the others reach it.
    pub(crate) fn stand_before(&self, node: usize, listener: SocketAddr) -> SocketAddr {
        let proxy = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = proxy.local_addr().expect("a bound socket has an address");
        let state = Arc::clone(&self.state);
        thread::spawn(move || {
            for incoming in proxy.incoming().flatten() {
                let state = Arc::clone(&state);
                thread::spawn(move || {
                    let _ended = join(incoming, node, listener, &state);
                });
            }
        });
        address
    }

    /// Cuts the way from one node to another.
    pub(crate) fn cut(&self, way: Way) {
        self.state.cuts().insert(way);
    }

    /// Makes all ways whole.
    pub(crate) fn heal(&self) {
        self.state.cuts().clear();
        self.state.changed.notify_all();
    }
}

/// Passes on what two nodes say to one another.
fn join(
    mut caller: TcpStream,
    node: usize,
    listener: SocketAddr,
    state: &Arc<State>,
) -> io::Result<()> {
    caller.set_nodelay(true)?;
    let mut head = [0; HEAD];
    caller.read_exact(&mut head)?;
    let named = usize::from(u16::from_be_bytes([head[HEAD - 2], head[HEAD - 1]]));
    let mut name = vec![0; named];
    caller.read_exact(&mut name)?;
    let name = String::from_utf8_lossy(&name).into_owned();
    let number = name.strip_prefix("broker-").map(str::parse);
    let Some(Ok(from)) = number else {
        panic!("{name} is no node, but came through the links of node {node}");
    };
    state.pass((from, node));
    let mut callee = TcpStream::connect(listener)?;
    callee.set_nodelay(true)?;
    callee.write_all(&[&head, name.as_bytes()].concat())?;
    let (answers, to_caller) = (callee.try_clone()?, caller.try_clone()?);
    let shared = Arc::clone(state);
    thread::spawn(move || carry(answers, to_caller, (node, from), &shared));
    carry(caller, callee, (from, node), state);
    Ok(())
}

fn carry(mut source: TcpStream, mut sink: TcpStream, way: Way, state: &State) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(size) = source.read(&mut buffer) {
        // An end is news as well.
        state.pass(way);
        if size == 0 || sink.write_all(&buffer[..size]).is_err() {
            break;
        }
    }
    let _closed = sink.shutdown(Shutdown::Both);
    let _closed = source.shutdown(Shutdown::Both);
}

/// Size, API, version, correlation id and the length of the client id.
const HEAD: usize = 4 + 2 + 2 + 4 + 2;
