//! TCPs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::quantity::{Size, Time};

/// A TCP: a preset, and what is different from it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("x-renamed" = { "most_retries": "max_retransmissions" }))]
pub struct TcpSpec {
    /// `linux-6`, `linux-6-reno`, `linux-2.2`, `linux-2.4`, `bsd-4.4`, `opnet-reno`, `ns2-reno`, or another of this file's.
    pub preset: String,
    /// `reno`, `bic`, `cubic`, `compound`, `vegas`, `bbr`.
    pub growth: Option<String>,
    /// `tahoe`, `reno`, `newreno`, `sack`, `rack-tlp`.
    pub recovery: Option<String>,
    /// `classic`, `limited`, `hystart`, `hystart++`.
    pub slow_start: Option<String>,
    /// Bytes of data in a segment.
    pub mss: Option<Size>,
    /// Send and receive buffer; `send_buffer` and `receive_buffer` go before it.
    pub buffers: Option<Size>,
    /// Bytes that may be written and not acknowledged.
    pub send_buffer: Option<Size>,
    /// The largest window that the receiver offers, bytes.
    pub receive_buffer: Option<Size>,
    /// Segments that may be sent before the first acknowledgement.
    pub initial_window: Option<u32>,
    /// Segments at which slow start ends the first time.
    pub initial_ssthresh: Option<u32>,
    /// RTO before the first sample of the RTT.
    pub initial_rto: Option<Time>,
    /// Minimum of the RTO.
    pub min_rto: Option<Time>,
    /// Maximum of the RTO.
    pub max_rto: Option<Time>,
    /// Of the clock.
    pub granularity: Option<Time>,
    /// Acknowledgements that wait; `{ every = 1 }`: none does.
    pub delayed_ack: Option<DelayedAckSpec>,
    /// Offers SACK.
    pub sack: Option<bool>,
    /// Offers timestamps.
    pub timestamps: Option<bool>,
    /// Offers windows beyond 64 KB.
    pub window_scaling: Option<bool>,
    /// Offers ECN.
    pub ecn: Option<bool>,
    /// Routers may not fragment its packets, which become shorter where one is too long for a link.
    pub path_mtu_discovery: Option<bool>,
    /// New data leaves in super-packets, whose segments follow each other without a gap, as from Linux with segmentation offload.
    pub tso: Option<bool>,
    /// The receiver acknowledges segments that come within this time as one, as Linux does with receive offload; `"0 s"`: each.
    pub gro: Option<Time>,
    /// New data for the first two duplicate acknowledgements.
    pub limited_transmit: Option<bool>,
    /// Timeouts of one segment after which the connection is given up.
    pub max_retransmissions: Option<u8>,
    /// Retransmissions of a SYN after which the connection is given up.
    pub max_syn_retransmissions: Option<u8>,
    /// Retransmissions of a SYN-ACK after which the connection is forgotten.
    pub max_syn_ack_retransmissions: Option<u8>,
    /// Retransmissions of a SYN before its timeout doubles with each.
    pub linear_syn_retransmissions: Option<u8>,
}

/// When acknowledgements leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DelayedAckSpec {
    /// At the latest after this; as the preset has it, or 200 ms.
    pub timeout: Option<Time>,
    /// At the latest with so many full segments.
    pub every: u8,
}
