use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::thread;

use rustix::net::{SendFlags, send};

use super::*;

/// Two connections over the loopback, joined by a relay that is driven without epoll: all flags are set before each turn.
struct Joined {
    relay: Relay,
    pipes: Pipes,
}

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (near, _) = listener.accept().unwrap();
    near.set_nonblocking(true).unwrap();
    sockopt::set_socket_linger(&near, Some(Duration::ZERO)).unwrap();
    sockopt::set_socket_oobinline(&near, true).unwrap();
    (far, near)
}

fn joined(pipes: usize) -> (TcpStream, TcpStream, Joined) {
    let ((client, near), (server, far)) = (pair(), pair());
    let connection =
        Connection { client: client.local_addr().unwrap(), server: server.local_addr().unwrap() };
    let place = Place { proxy: 0, behind: Side::Client };
    let relay = Relay::new(Instant::ZERO, connection, [near.into(), far.into()], place);
    (client, server, Joined { relay, pipes: Pipes::new(pipes) })
}

impl Joined {
    fn turn(&mut self) -> Next {
        for side in [Side::Client, Side::Server] {
            let urgent = rustix::event::poll(
                &mut [rustix::event::PollFd::new(self.relay.socket(side), rustix::event::PollFlags::PRI)],
                Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 }),
            )
            .unwrap();
            let mut flags = EventFlags::IN | EventFlags::OUT;
            flags.set(EventFlags::PRI, urgent > 0);
            self.relay.handle_event(Instant::ZERO, side, flags);
        }
        self.relay.turn(&mut self.pipes)
    }

    fn until(&mut self, mut done: impl FnMut(Next) -> bool) -> Next {
        for _ in 0..20_000 {
            let next = self.turn();
            if done(next) {
                return next;
            }
            thread::sleep(Duration::from_micros(100));
        }
        panic!("it does not end");
    }
}

#[test]
fn bytes_go_both_ways_in_order_and_a_close_leaves_the_other_direction_open() {
    let (mut client, mut server, mut joined) = joined(4);
    let sent: Vec<u8> = (0..3_000_000_u32).map(|n| (n % 251) as u8).collect();
    let expected = sent.clone();
    let ends = thread::spawn(move || {
        let mut back = client.try_clone().unwrap();
        let writer = thread::spawn(move || {
            client.write_all(&sent).unwrap();
            client.shutdown(std::net::Shutdown::Write).unwrap();
        });
        let mut received = Vec::new();
        server.read_to_end(&mut received).unwrap();
        assert_eq!(received, expected);
        // The client has closed, and is answered still.
        server.write_all(b"thanks").unwrap();
        drop(server);
        let mut answer = String::new();
        back.read_to_string(&mut answer).unwrap();
        writer.join().unwrap();
        answer
    });
    joined.until(|next| next == Next::Closed);
    assert_eq!(joined.relay.take_moved(), [3_000_000, 6]);
    let Joined { relay, mut pipes } = joined;
    relay.end(&mut pipes, true);
    assert_eq!(ends.join().unwrap(), "thanks");
    assert_eq!(pipes.lent(), 0);
}

#[test]
fn a_reset_takes_the_other_socket_with_it() {
    let (client, mut server, mut joined) = joined(4);
    sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
    drop(client);
    assert_eq!(joined.until(|next| next != Next::Event), Next::Broken);
    let Joined { relay, mut pipes } = joined;
    relay.end(&mut pipes, false);
    let error = server.read(&mut [0; 8]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

#[test]
fn a_full_target_stops_its_source_alone() {
    let (mut client, mut server, mut joined) = joined(4);
    client.set_nonblocking(true).unwrap();
    let (mut sent, chunk) = (0, vec![1; 65_536]);
    // Nobody reads: all buffers fill, and then nothing more is taken.
    for _ in 0..2000 {
        sent += client.write(&chunk).unwrap_or(0);
        joined.turn();
    }
    assert!(client.write(&[1]).is_err(), "it takes more than {sent} bytes");
    server.write_all(b"still open").unwrap();
    joined.until(|_| {
        let mut seen = [0; 16];
        client.read(&mut seen).is_ok_and(|read| seen[..read].ends_with(b"open"))
    });
    assert!(joined.pipes.lent() <= 1);
}

#[test]
fn without_a_pipe_data_is_copied() {
    let (mut client, mut server, mut joined) = joined(0);
    let sent: Vec<u8> = (0..500_000_u32).map(|n| (n % 251) as u8).collect();
    let expected = sent.clone();
    let writer = thread::spawn(move || {
        client.write_all(&sent).unwrap();
        client
    });
    let reader = thread::spawn(move || {
        let mut received = Vec::new();
        server.read_to_end(&mut received).unwrap();
        received
    });
    joined.until(|_| writer.is_finished());
    drop(writer.join().unwrap());
    joined.until(|next| next == Next::Closed);
    assert_eq!(reader.join().unwrap(), expected);
}

#[test]
fn an_urgent_byte_stays_urgent_and_in_its_place() {
    let (mut client, server, mut joined) = joined(4);
    client.write_all(b"before").unwrap();
    send(client.as_fd(), b"!", SendFlags::OOB).unwrap();
    client.write_all(b"after").unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    sockopt::set_socket_oobinline(&server, true).unwrap();
    joined.until(|_| joined_closed(&server));
    let mut server = server;
    let mut text = Vec::new();
    let mut marks = Vec::new();
    let mut byte = [0; 1];
    loop {
        let urgent = trunkline_linux::is_at_urgent_byte(server.as_fd()).unwrap();
        if server.read(&mut byte).unwrap() == 0 {
            break;
        }
        if urgent {
            marks.push(text.len());
        }
        text.push(byte[0]);
    }
    assert_eq!((text.as_slice(), marks), (&b"before!after"[..], vec![6]));
}

/// Whether everything has come, the close included.
fn joined_closed(server: &TcpStream) -> bool {
    let mut poll = [rustix::event::PollFd::new(server, rustix::event::PollFlags::RDHUP)];
    rustix::event::poll(&mut poll, Some(&rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() > 0
}

#[test]
fn what_the_end_behind_has_not_acknowledged_is_held() {
    let (mut client, mut server, mut joined) = joined(4);
    server.write_all(&[7; 5000]).unwrap();
    joined.until(|_| joined_received(&client) == 5000);
    // The loopback acknowledges at once what it delivers.
    let measured = joined.relay.measure(Instant::ZERO);
    assert_eq!(measured.held, 0);
    assert!((5000..5002).contains(&measured.delivered), "the SYN may count: {measured:?}");
    // Nobody reads: the rest waits in the buffers of the proxy.
    server.set_nonblocking(true).unwrap();
    let mut written = 0_u64;
    while joined.relay.measure(Instant::ZERO).held == 0 {
        written += server.write(&vec![7; 65_536]).unwrap_or(0) as u64;
        joined.turn();
        assert!(written < 1 << 30, "the client's buffer has an end");
    }
    client.read_exact(&mut [0; 5000]).unwrap();
}

fn joined_received(socket: &TcpStream) -> usize {
    trunkline_linux::receive_queue(socket.as_fd()).unwrap()
}
