//! Floors: brokers that do nothing but what no broker can leave out.

use std::{
    fs::File,
    io::{Read, Write},
    net::TcpStream,
    os::unix::fs::FileExt,
    path::Path,
};

use crate::batch::batch_bytes;

/// Reads requests of one size, checks the batch's CRC, appends the batch, and answers with 60 bytes.
pub(crate) fn produce(mut stream: TcpStream, dir: &Path, request_bytes: usize, batch_at: usize) {
    let mut log = File::create(dir.join("floor.log")).unwrap();
    let mut request = vec![0; request_bytes];
    while stream.read_exact(&mut request).is_ok() {
        let batch = &request[batch_at..];
        let batch = &batch[..batch_bytes(batch)];
        check(batch);
        log.write_all(batch).unwrap();
        if stream.write_all(&answer()).is_err() {
            return;
        }
    }
}

/// Does the same for many partitions, and flushes what it has appended before it answers: all requests that have arrived share
/// their flushes.
pub(crate) fn durable(
    mut stream: TcpStream,
    dir: &Path,
    request_bytes: usize,
    batch_at: usize,
    partitions: usize,
) {
    let mut logs: Vec<File> = (0..partitions)
        .map(|partition| File::create(dir.join(format!("floor-{partition}.log"))).unwrap())
        .collect();
    let mut buffer = vec![0; request_bytes * 128];
    let mut filled = 0;
    let mut touched = vec![false; partitions];
    loop {
        match stream.read(&mut buffer[filled..]) {
            Ok(count) if count > 0 => filled += count,
            _ => return,
        }
        let count = filled / request_bytes;
        for request in buffer.chunks_exact(request_bytes).take(count) {
            let batch = &request[batch_at..];
            let batch = &batch[..batch_bytes(batch)];
            check(batch);
            // The partition, then the length of its records, then the records.
            let partition = request[batch_at - 8..batch_at - 4].try_into().unwrap();
            let partition = u32::from_be_bytes(partition) as usize;
            logs[partition].write_all(batch).unwrap();
            touched[partition] = true;
        }
        for (log, touched) in logs.iter().zip(&mut touched) {
            if std::mem::take(touched) {
                log.sync_data().unwrap();
            }
        }
        buffer.copy_within(count * request_bytes..filled, 0);
        filled -= count * request_bytes;
        if stream.write_all(&answer().repeat(count)).is_err() {
            return;
        }
    }
}

/// Answers requests for a position and a length of a file, by `sendfile` or by reading into a buffer and writing that.
pub(crate) fn fetch(mut stream: TcpStream, dir: &Path, without_copy: bool) {
    let log = File::open(dir.join(FETCHED)).unwrap();
    let mut request = [0; 12];
    let mut buffer = vec![0; 256 << 10];
    while stream.read_exact(&mut request).is_ok() {
        let mut at = u64::from_be_bytes(request[..8].try_into().unwrap());
        let mut left = u32::from_be_bytes(request[8..].try_into().unwrap()) as usize;
        stream
            .write_all(&u32::try_from(left).unwrap().to_be_bytes())
            .unwrap();
        while left > 0 {
            left -= if without_copy {
                rustix::fs::sendfile(&stream, &log, Some(&mut at), left).unwrap()
            } else {
                let part = left.min(buffer.len());
                log.read_exact_at(&mut buffer[..part], at).unwrap();
                stream.write_all(&buffer[..part]).unwrap();
                at += part as u64;
                part
            };
        }
    }
}

/// Compares the CRC-32C in a batch's header with that of its bytes.
pub(crate) fn check(batch: &[u8]) {
    let stored = u32::from_be_bytes(batch[17..21].try_into().unwrap());
    assert_eq!(crc32c::crc32c(&batch[21..]), stored);
}

pub(crate) fn answer() -> [u8; 60] {
    let mut answer = [0; 60];
    answer[..4].copy_from_slice(&56_u32.to_be_bytes());
    answer
}

/// The file that is fetched from a floor.
pub(crate) const FETCHED: &str = "fetched.log";
