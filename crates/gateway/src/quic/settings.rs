//! The settings of connections: keys, limits and timers.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::hmac;
use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn_proto::{
    ClientConfig, EndpointConfig, IdleTimeout, MtuDiscoveryConfig, ServerConfig, TransportConfig, VarInt,
};

use trunkline_congestion::{PACKET_THRESHOLD, TIME_THRESHOLD};
use trunkline_trunk::Delivery;

use super::callers::LIMITS;
use super::cid::{self, Generator};
use super::control::Factory;
use super::signals::Signals;
use super::streams::{SEND_WINDOW, STREAM_WINDOW};
use crate::handshake::{Admit, HandshakeError, Identity};
use crate::keys::PublicKey;

/// A connection from which nothing comes for so long is dead. Lanes are found dead long before ([`super::keepalive`]), and connections that
/// are no lanes have deadlines.
const IDLE_TIMEOUT_MS: u32 = 900_000;
/// First packets of callers that a worker keeps until their turn, and the one that it looks at.
const MAX_INCOMING: usize = 2 * LIMITS.waiting + 1;
/// How long after a Retry its token serves.
pub(super) const TOKEN_LIFETIME: Duration = Duration::from_secs(15);
/// Bytes of packets that one of them, and all, may have sent beyond the first.
const INCOMING_BYTES: u64 = 8 << 10;
/// Bytes of datagrams that wait to be sent: a lane hands over what may leave soon, and nothing is dropped there.
pub(super) const SEND_BUFFER: usize = 1 << 20;
/// Bytes of datagrams that wait to be read, which happens after each batch.
const RECEIVE_BUFFER: usize = 4 << 20;
/// The bounds on a packet, bytes of UDP data: every path of QUIC takes the one (RFC 9000 §14), no header says more than the other.
pub(super) const MIN_PACKET: u16 = 1200;
pub(super) const MAX_PACKET: u16 = 65_527;
/// One that any Ethernet takes, over IPv4 and IPv6.
pub(super) const USUAL_PACKET: u16 = 1452;
/// How long packets have the shortest length after the path has swallowed longer ones, before longer ones are tried again (RFC 8899
/// §5.2). A burst of other losses may look the same, and short packets cost processor time.
const BLACK_HOLE_COOLDOWN: Duration = Duration::from_secs(10);
/// The largest greeting, with room for those of other versions.
const GREETING_BYTES: u32 = 1024;

/// What dials one peer; its copies share the TLS settings.
#[derive(Clone)]
pub(crate) struct Dialer(Arc<QuicClientConfig>);

impl Dialer {
    pub(crate) fn new(
        identity: &Identity,
        peer: PublicKey,
        delivery: Delivery,
    ) -> Result<Self, HandshakeError> {
        let tls = identity.quic_client(peer, delivery).map_err(HandshakeError::Setup)?;
        let tls = QuicClientConfig::try_from(tls).map_err(|_| HandshakeError::NoProtocol)?;
        Ok(Dialer(Arc::new(tls)))
    }

    /// The settings of a dial for the lane of this number, on a path that takes packets of at most `longest` bytes.
    pub(super) fn client(&self, lane: u16, longest: u16, signals: &Arc<Signals>) -> ClientConfig {
        let mut config = ClientConfig::new(Arc::clone(&self.0) as _);
        config.transport_config(transport(longest, signals));
        config.initial_dst_cid_provider(Arc::new(move || cid::initial(lane)));
        config
    }
}

/// What accepts callers; its copies share the TLS settings, and the key of the tokens that prove addresses.
#[derive(Clone)]
pub(crate) struct Acceptor {
    config: Arc<ServerConfig>,
}

impl Acceptor {
    pub(crate) fn new(identity: &Identity, admit: Admit) -> Result<Self, HandshakeError> {
        let tls = identity.quic_server(admit).map_err(HandshakeError::Setup)?;
        let tls = QuicServerConfig::try_from(tls).map_err(|_| HandshakeError::NoProtocol)?;
        let mut config = ServerConfig::with_crypto(Arc::new(tls));
        config.max_incoming(MAX_INCOMING);
        config.retry_token_lifetime(TOKEN_LIFETIME);
        config.incoming_buffer_size(INCOMING_BYTES);
        config.incoming_buffer_size_total(MAX_INCOMING as u64 * INCOMING_BYTES);
        Ok(Acceptor { config: Arc::new(config) })
    }

    pub(super) fn server(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }

    /// The same for one caller, on a path that takes packets of at most `longest` bytes, whose controller hears these signals.
    pub(super) fn for_caller(&self, longest: u16, signals: &Arc<Signals>) -> Arc<ServerConfig> {
        let mut config = ServerConfig::clone(&self.config);
        config.transport_config(transport(longest, signals));
        Arc::new(config)
    }
}

/// The settings of a worker's connections in common. Workers have one key for resets, and none resets connections of another: it
/// does not take packets of their connection IDs.
pub(super) fn endpoint(shard: u16, shards: u16, reset_key: hmac::Key) -> EndpointConfig {
    let mut config = EndpointConfig::new(Arc::new(reset_key));
    config.cid_generator(move || Box::new(Generator { shard, shards }));
    // The path bounds what comes, and the buffers hold whatever comes.
    config.max_udp_payload_size(MAX_PACKET).expect("QUIC allows it");
    config
}

/// `longest`: the longest packet, in bytes of UDP data, that the way to the path's first interface takes.
fn transport(longest: u16, signals: &Arc<Signals>) -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config.max_concurrent_bidi_streams(VarInt::from_u32(1));
    config.max_concurrent_uni_streams(VarInt::from_u32(0));
    // Until the connection is a lane of streams, its own window bounds what they take.
    config.stream_receive_window(VarInt::from_u32(STREAM_WINDOW));
    config.receive_window(VarInt::from_u32(GREETING_BYTES));
    config.send_window(SEND_WINDOW);
    // What the lane hands over first leaves first: the edge queue has decided about the order.
    config.send_fairness(false);
    config.max_idle_timeout(Some(IdleTimeout::from(VarInt::from_u32(IDLE_TIMEOUT_MS))));
    config.datagram_receive_buffer_size(Some(RECEIVE_BUFFER));
    config.datagram_send_buffer_size(SEND_BUFFER);
    let mut discovery = MtuDiscoveryConfig::default();
    discovery.upper_bound(longest).black_hole_cooldown(BLACK_HOLE_COOLDOWN);
    config.mtu_discovery_config(Some(discovery));
    config.packet_threshold(PACKET_THRESHOLD);
    config.time_threshold(TIME_THRESHOLD as f32);
    config.congestion_controller_factory(Arc::new(Factory(Arc::clone(signals))));
    Arc::new(config)
}
