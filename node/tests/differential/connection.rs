//! A plain socket that sends frames and reports what came back, or that nothing did.

use std::{
    io::{self, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::{Duration, Instant},
};

/// What a broker did after a request.
#[derive(Debug)]
pub(crate) enum Reply {
    /// A frame, without its size.
    Frame(Vec<u8>),
    /// The broker closed the connection.
    Closed,
    /// Nothing, for as long as was waited.
    Silence,
}

/// One connection to a broker.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    input: Vec<u8>,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            input: Vec::new(),
        })
    }

    /// Sends bytes as they are. A broker that already closed shows itself in the next reply.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _closed = self.stream.write_all(bytes);
    }

    /// Says that nothing more will be sent.
    pub(crate) fn finish_sending(&self) {
        let _closed = self.stream.shutdown(std::net::Shutdown::Write);
    }

    /// Waits for the next frame.
    pub(crate) fn receive(&mut self, patience: Duration) -> Reply {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(frame) = self.take_frame() {
                return Reply::Frame(frame);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Reply::Silence;
            }
            let mut chunk = [0; 65536];
            self.stream
                .set_read_timeout(Some(left))
                .expect("a positive timeout");
            match self.stream.read(&mut chunk) {
                Ok(0) => return Reply::Closed,
                Ok(size) => self.input.extend(&chunk[..size]),
                Err(e)
                    if matches!(
                        e.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                    ) => {}
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Reply::Closed,
            }
        }
    }

    fn take_frame(&mut self) -> Option<Vec<u8>> {
        let size = u32::from_be_bytes(self.input.get(..4)?.try_into().ok()?);
        let end = usize::try_from(size).ok()?.checked_add(4)?;
        let frame = self.input.get(4..end)?.to_vec();
        self.input.drain(..end);
        Some(frame)
    }
}

/// Puts the size in front of a frame.
pub(crate) fn framed(frame: &[u8]) -> Vec<u8> {
    let size = u32::try_from(frame.len()).expect("a frame below 4 GiB");
    [&size.to_be_bytes(), frame].concat()
}
