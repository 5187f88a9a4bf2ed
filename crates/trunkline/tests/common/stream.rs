//! A stream that may break, and whose bytes are correct if they arrive.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use trunkline_testbed::namespace::Host;

use super::pattern;

/// How a stream ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Every byte has arrived.
    Whole,
    /// It broke off or took too long.
    Broken(String),
    /// Bytes arrived that were not sent: never allowed.
    Wrong(String),
}

/// Sends a stream of `bytes` from one site to another, for at most `limit`.
pub(crate) fn stream(from: &Host, to: (&Host, IpAddr), bytes: u64, limit: Duration) -> Outcome {
    let deadline = Instant::now() + limit;
    let broken = |error: io::Error| Outcome::Broken(error.to_string());
    let listener = match to.0.run(|| TcpListener::bind(("0.0.0.0", 0))) {
        Ok(listener) => listener,
        Err(error) => return broken(error),
    };
    let port = listener.local_addr().map_or(0, |address| address.port());
    let receiving = to.0.spawn("receiver", move || receive(&listener, bytes, deadline));
    let target = SocketAddr::new(to.1, port);
    let sent = from.run(|| -> io::Result<()> {
        let mut stream = TcpStream::connect_timeout(&target, limit)?;
        let mut chunk = vec![0; 1 << 14];
        let mut position = 0;
        while position < bytes {
            let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            stream.set_write_timeout(Some(left))?;
            let len = chunk.len().min((bytes - position) as usize);
            pattern(position, &mut chunk[..len]);
            stream.write_all(&chunk[..len])?;
            position += len as u64;
        }
        stream.shutdown(Shutdown::Write)?;
        // The other end closes when it has everything.
        stream.set_read_timeout(Some(limit))?;
        stream.read(&mut [0]).map(drop)
    });
    match (receiving.join(), sent) {
        (Outcome::Whole, Err(error)) => Outcome::Broken(format!("at the sender: {error}")),
        (outcome, _) => outcome,
    }
}

fn receive(listener: &TcpListener, bytes: u64, deadline: Instant) -> Outcome {
    let accept = || -> io::Result<TcpStream> {
        listener.set_nonblocking(true)?;
        loop {
            match listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false)?;
                    return Ok(stream);
                }
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                Err(_) if Instant::now() >= deadline => return Err(io::ErrorKind::TimedOut.into()),
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    };
    let mut stream = match accept() {
        Ok(stream) => stream,
        Err(error) => return Outcome::Broken(format!("no connection: {error}")),
    };
    let (mut buffer, mut expected) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    let mut position = 0;
    loop {
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        let read = stream.set_read_timeout(Some(left)).and_then(|()| stream.read(&mut buffer));
        match read {
            Err(error) => return Outcome::Broken(format!("at {position}: {error}")),
            Ok(0) if position == bytes => return Outcome::Whole,
            // A sender that gave up closes as well.
            Ok(0) => return Outcome::Broken(format!("it ended at {position} of {bytes}")),
            Ok(read) => {
                pattern(position, &mut expected[..read]);
                if buffer[..read] != expected[..read] || position + read as u64 > bytes {
                    return Outcome::Wrong(format!("wrong bytes behind {position}"));
                }
                position += read as u64;
            }
        }
    }
}
