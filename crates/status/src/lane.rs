//! What a gateway reports of a lane.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::EdgePacing;

/// One lane.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Lane {
    /// The lane group it belongs to: [`Class::lane_group`](crate::Class::lane_group).
    pub lane_group: String,
    /// The name of its path, if there are several.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Its place among the lanes of its lane group on its path and shard, from 0.
    pub index: u16,
    /// Which shard it serves.
    pub shard: u16,
    /// How far its connection is.
    pub state: LaneState,
    /// Seconds in this state.
    pub for_s: f64,
    /// The peer's address, while up.
    pub remote: Option<String>,
    /// Whether we dialled it.
    pub dialled: bool,
    /// Times it came up.
    pub established: u64,
    /// Why it last ended, or could not be made.
    pub last_error: Option<String>,
    /// What it is: `tcp` or `quic`.
    #[serde(default)]
    pub transport: String,
    /// How it delivers, while up over QUIC: `datagram` or `reliable`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivery: Option<String>,
    /// Its congestion control.
    pub congestion_control: String,
    /// Of a lane without congestion control (`none`): whether its circuit breaker has opened, and it has a congestion window now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub circuit_open: Option<bool>,
    /// How often it has opened.
    #[serde(default)]
    pub circuit_trips: u64,
    /// DSCP of its packets.
    pub dscp: u8,
    /// Frames sent.
    pub frames_sent: u64,
    /// Frames received.
    pub frames_received: u64,
    /// Bytes written to the connection, framing and TLS included.
    pub bytes_sent: u64,
    /// Bytes read from the connection.
    pub bytes_received: u64,
    /// TLS key updates, both ways.
    pub key_updates: u64,
    /// Congestion window, segments.
    pub cwnd: u32,
    /// Slow-start threshold, segments.
    pub ssthresh: u32,
    /// Sender's segment size.
    pub mss: u32,
    /// Smoothed round-trip time, µs; `None` if it has not been measured for ten seconds, since the lane sent nothing.
    pub rtt_us: Option<u32>,
    /// Smallest round-trip time, µs.
    pub min_rtt_us: Option<u32>,
    /// Time its packets wait between the sites, µs: the smoothed round-trip time above the smallest, as long as there
    /// is one. Of a lane that sends little it tells of delayed acknowledgements.
    pub queue_in_core_us: Option<u32>,
    /// Rate of delivery that the kernel last measured (`tcpi_delivery_rate`), bit/s. It is that of a few flights, and stays
    /// while the lane is idle: the rate of traffic is the difference of [`bytes_sent`](Self::bytes_sent) over time.
    pub delivery_rate: u64,
    /// Rate the kernel paces it to, or would where it does not pace, bit/s; `None` without bound.
    pub pacing_rate: Option<u64>,
    /// What edge pacing does to its path.
    pub edge_pacing: EdgePacing,
    /// What the losses of its path let it carry at most, bit/s: of a lane whose congestion control goes by losses, on a path that loses
    /// packets while it is not full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss_bound: Option<u64>,
    /// Segments retransmitted: losses in the core.
    pub retransmits: u64,
    /// Segments sent.
    pub segments_sent: u64,
    /// Bytes in the kernel and not yet sent.
    pub unsent_bytes: u64,
    /// Bytes sent and not yet acknowledged.
    pub unacked_bytes: u64,
    /// Packets sent with a compressed header.
    pub compressed: u64,
    /// Packets that travelled singly and were sent with their whole header.
    pub uncompressed: u64,
    /// Header bytes of those that were compressed or made a context, as they were.
    pub headers_in_bytes: u64,
    /// Header bytes of the same as they were sent.
    pub headers_out_bytes: u64,
    /// Packets received with a compressed header.
    #[serde(default)]
    pub restored: u64,
}

/// How far the connection of a lane is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LaneState {
    /// It carries packets.
    Up,
    /// This site dials the peer.
    Dialling,
    /// This site waits until it dials again.
    Waiting,
    /// This site waits for the peer to dial.
    #[default]
    Listening,
}

impl fmt::Display for LaneState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Up => "up",
            Self::Dialling => "dialling",
            Self::Waiting => "waiting",
            Self::Listening => "listening",
        })
    }
}

impl Lane {
    /// The windows of Reno and CUBIC on a path that loses the part *p* of its packets, in segments: 1.22 / √*p* (Mathis et al. 1997), and
    /// 1.054 (*RTT* / *p*)^¾ (RFC 9438 §5.1), of which CUBIC has the larger.
    const RENO: f64 = 1.22;
    const CUBIC: f64 = 1.054;

    /// What it carries at most on a path that loses this part of its packets, bit/s; `None` if its congestion control does not go by
    /// losses, or its round-trip time is not known.
    pub fn bound_by(&self, loss: f64) -> Option<f64> {
        let rtt = f64::from(self.rtt_us.or(self.min_rtt_us).filter(|rtt| *rtt > 0)?) / 1e6;
        let reno = Self::RENO / loss.sqrt();
        let window = match self.congestion_control.as_str() {
            "reno" => reno,
            "cubic" => reno.max(Self::CUBIC * (rtt / loss).powf(0.75)),
            _ => return None,
        };
        Some(window * f64::from(self.mss) * 8.0 / rtt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_bound_a_lane_that_goes_by_them() {
        let lane = |control: &str, rtt_us| Lane {
            congestion_control: control.to_owned(),
            rtt_us: Some(rtt_us),
            mss: 1250,
            ..Lane::default()
        };
        let mbit = |lane: &Lane, loss| lane.bound_by(loss).map(|rate| (rate / 1e5).round() / 10.0);
        // 12.2 segments of 10 kbit in 10 ms.
        assert_eq!(mbit(&lane("reno", 10_000), 0.01), Some(12.2));
        assert_eq!(mbit(&lane("cubic", 10_000), 0.01), Some(12.2), "Reno's is the larger");
        // 1.054 × 100^¾ = 33.3 segments in 100 ms, where Reno has 38.6.
        assert_eq!(mbit(&lane("cubic", 100_000), 0.001), Some(3.9));
        // 1.054 × 3000^¾ = 427.3 segments in 300 ms, where Reno has 122.
        assert_eq!(mbit(&lane("cubic", 300_000), 0.0001), Some(14.2));
        assert_eq!(mbit(&lane("bbr", 10_000), 0.01), None);
        assert_eq!(Lane { rtt_us: None, ..lane("reno", 1) }.bound_by(0.01), None);
    }
}
