//! What the kernel says of a TCP connection (`TCP_INFO`, `struct tcp_info` of linux/tcp.h).
//!
//! The structure grows with each kernel, and the kernel says how much of it it has filled in. A field is there if all of its bytes
//! are.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use crate::sys::get_option;

/// Bytes that are asked for: more than any kernel has.
const SIZE: usize = 256;

/// One reading.
#[derive(Debug, Clone, Copy)]
pub struct TcpInfo {
    bytes: [u8; SIZE],
    /// How many of them the kernel wrote.
    len: usize,
}

macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $at:literal;)*) => {
        impl TcpInfo {
            $($(#[$doc])*
            #[inline]
            pub fn $name(&self) -> Option<$type> {
                self.field($at).map(<$type>::from_ne_bytes)
            })*
        }
    };
}

fields! {
    /// The state, by the kernel's number: 1 established, 4 and 5 FIN-WAIT-1 and -2, 6 TIME-WAIT, 7 closed (`tcpi_state`).
    state: u8 = 0;
    /// Options of the connection, a bit each (`tcpi_options`).
    options: u8 = 5;
    /// Sender's segment size, bytes (`tcpi_snd_mss`).
    snd_mss: u32 = 16;
    /// Segments sent and not yet acknowledged (`tcpi_unacked`).
    unacked: u32 = 24;
    /// Of those, how many the other end has behind a gap (`tcpi_sacked`).
    sacked: u32 = 28;
    /// Of those, how many count as lost (`tcpi_lost`).
    lost: u32 = 32;
    /// Of those, how many are retransmitted (`tcpi_retrans`).
    retrans: u32 = 36;
    /// The time since data was sent last, ms (`tcpi_last_data_sent`).
    last_data_sent: u32 = 44;
    /// Smoothed round-trip time, µs; 0 before the first sample (`tcpi_rtt`).
    rtt: u32 = 68;
    /// Slow-start threshold, segments (`tcpi_snd_ssthresh`).
    snd_ssthresh: u32 = 76;
    /// Congestion window, segments (`tcpi_snd_cwnd`).
    snd_cwnd: u32 = 80;
    /// Segments retransmitted, modulo 2^32 (`tcpi_total_retrans`).
    total_retrans: u32 = 100;
    /// Pacing rate, bytes per second; `u64::MAX` if it is unlimited (`tcpi_pacing_rate`).
    pacing_rate: u64 = 104;
    /// Bytes that the other end has acknowledged, its SYN among them (`tcpi_bytes_acked`).
    bytes_acked: u64 = 120;
    /// Bytes of data received in order (`tcpi_bytes_received`).
    bytes_received: u64 = 128;
    /// Segments sent, those without data included, modulo 2^32 (`tcpi_segs_out`).
    segs_out: u32 = 136;
    /// Segments received, modulo 2^32 (`tcpi_segs_in`).
    segs_in: u32 = 140;
    /// Bytes in the send queue and not yet sent (`tcpi_notsent_bytes`).
    notsent_bytes: u32 = 144;
    /// Segments received with data, modulo 2^32 (`tcpi_data_segs_in`).
    data_segs_in: u32 = 152;
    /// Segments sent with data, modulo 2^32; Linux 4.6 (`tcpi_data_segs_out`).
    data_segs_out: u32 = 156;
    /// Delivery rate, bytes per second (`tcpi_delivery_rate`).
    delivery_rate: u64 = 160;
    /// Time in which the receiver's window held the connection back, µs (`tcpi_rwnd_limited`).
    rwnd_limited: u64 = 176;
    /// Time in which the send buffer did, µs (`tcpi_sndbuf_limited`).
    sndbuf_limited: u64 = 184;
    /// Segments that the other end has, those behind a gap included, modulo 2^32; Linux 4.18 (`tcpi_delivered`).
    delivered: u32 = 192;
    /// Bytes of data sent, retransmissions included (`tcpi_bytes_sent`).
    bytes_sent: u64 = 200;
    /// Bytes of data retransmitted (`tcpi_bytes_retrans`).
    bytes_retrans: u64 = 208;
    /// Segments that the other end says it got twice (`tcpi_dsack_dups`).
    dsack_dups: u32 = 216;
    /// Data segments received beyond a gap (`tcpi_rcv_ooopack`).
    rcv_ooopack: u32 = 224;
    /// The window that the other end offers: bytes beyond those that it has acknowledged; Linux 5.4 (`tcpi_snd_wnd`).
    snd_wnd: u32 = 228;
    /// Retransmission timeouts; Linux 6.7 (`tcpi_total_rto`).
    total_rto: u16 = 240;
}

impl TcpInfo {
    /// Reads it.
    ///
    /// # Errors
    /// The kernel's: this is no TCP socket.
    pub fn of(fd: BorrowedFd<'_>) -> io::Result<Self> {
        let mut bytes = [0; SIZE];
        let len = get_option(fd, libc::IPPROTO_TCP, libc::TCP_INFO, &mut bytes)?;
        Ok(TcpInfo { bytes, len })
    }

    fn field<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.bytes[..self.len].get(at..)?.first_chunk().copied()
    }

    /// Whether the sender, not the path, limited the delivery rate (`tcpi_delivery_rate_app_limited`).
    pub fn is_app_limited(&self) -> bool {
        self.field(7).is_some_and(|[bits]| bits & 1 != 0)
    }

    /// Smoothed round-trip time; `None` before the first sample.
    pub fn srtt(&self) -> Option<Duration> {
        self.rtt().filter(|micros| *micros > 0).map(|micros| Duration::from_micros(micros.into()))
    }

    /// Smallest round-trip time lately, µs; `u32::MAX` before the first sample (`tcpi_min_rtt`).
    pub fn min_rtt_micros(&self) -> Option<u32> {
        self.field(148).map(u32::from_ne_bytes)
    }

    /// Smallest round-trip time lately; `None` before the first sample.
    pub fn min_rtt(&self) -> Option<Duration> {
        let micros = self.min_rtt_micros().filter(|micros| *micros > 0 && *micros < u32::MAX);
        micros.map(|micros| Duration::from_micros(micros.into()))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_connection_is_described_by_what_it_did() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let mut stream =
            TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        let (_far, _) = listener.accept().expect("a connection");
        stream.write_all(&[7; 100]).expect("room");
        let info = TcpInfo::of(stream.as_fd()).expect("a TCP socket");
        assert_eq!((info.state(), info.total_retrans()), (Some(1), Some(0)));
        // A SYN, an acknowledgement and the data.
        assert_eq!((info.segs_out(), info.data_segs_out()), (Some(3), Some(1)));
        assert!(info.snd_mss().is_some_and(|bytes| bytes >= 536), "{info:?}");
        assert!(info.srtt().is_some() && info.min_rtt() <= info.srtt(), "{info:?}");
        assert!(TcpInfo::of(std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket").as_fd()).is_err());
    }

    #[test]
    fn a_field_that_the_kernel_did_not_write_whole_is_not_there() {
        let mut info = TcpInfo { bytes: [1; SIZE], len: 196 };
        assert_eq!((info.delivered(), info.bytes_sent(), info.total_rto()), (Some(0x0101_0101), None, None));
        info.len = 195;
        assert_eq!(info.delivered(), None);
        info.len = 7;
        assert!(!info.is_app_limited());
    }
}
