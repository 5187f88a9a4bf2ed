//! A connection of a lane with a record of what its pump asks of it. The owners of lanes, in the gateway and in the simulator, put
//! it around their own connections.

use trunkline_trunk::datagram::Rest;
use trunkline_trunk::{CongestionControlCause, HandedOver, Label, LaneConnection, LaneSnapshot, LaneWindow};
use trunkline_units::{Instant, Rate};

/// What a connection says of itself, in place of what it would say.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Readings {
    pub(crate) snapshot: LaneSnapshot,
    pub(crate) unsent: usize,
}

/// Passes all calls on to a connection, except for its readings, and writes down their names.
pub(crate) struct Recorder<'a, C> {
    pub(crate) connection: &'a mut C,
    pub(crate) readings: Readings,
    pub(crate) calls: &'a mut Vec<String>,
}

impl<C: LaneConnection> LaneConnection for Recorder<'_, C> {
    type Packet = C::Packet;
    type Error = C::Error;

    fn snapshot(&mut self) -> Result<LaneSnapshot, C::Error> {
        self.calls.push("snapshot".to_owned());
        self.connection.snapshot()?;
        Ok(self.readings.snapshot)
    }

    fn held(&mut self) -> Result<usize, C::Error> {
        self.calls.push("held".to_owned());
        self.connection.held()?;
        Ok(self.readings.snapshot.held())
    }

    fn unsent(&mut self) -> Result<usize, C::Error> {
        self.calls.push("unsent".to_owned());
        self.connection.unsent()?;
        Ok(self.readings.unsent)
    }

    /// None binds: whether there is one differs between connections.
    fn window(&mut self) -> Option<LaneWindow> {
        let window = self.connection.window()?;
        Some(LaneWindow { srtt: None, ..window })
    }

    fn hand_over_rest(&mut self, now: Instant) -> Result<HandedOver, C::Error> {
        let handed_over = self.connection.hand_over_rest(now)?;
        self.calls.push(if handed_over.is_ready { "rest" } else { "rest: full" }.to_owned());
        Ok(handed_over)
    }

    fn has_space(&self) -> bool {
        self.connection.has_space()
    }

    fn announce(&mut self, label: Label) -> Result<(), C::Error> {
        self.calls.push("announce".to_owned());
        self.connection.announce(label)
    }

    fn accept(&mut self, now: Instant, packet: C::Packet) -> Result<(), C::Error> {
        self.calls.push("accept".to_owned());
        self.connection.accept(now, packet)
    }

    fn copy(&mut self, packet: &C::Packet) -> Option<C::Packet> {
        self.connection.copy(packet)
    }

    fn release(&mut self, packet: C::Packet) {
        self.calls.push("release".to_owned());
        self.connection.release(packet);
    }

    fn hand_over(&mut self, now: Instant, rest: Rest) -> Result<u64, C::Error> {
        self.calls.push(format!("hand over: {rest:?}"));
        self.connection.hand_over(now, rest)
    }

    fn position(&self) -> u64 {
        self.connection.position()
    }

    fn transmit(&mut self, now: Instant) -> bool {
        self.calls.push("transmit".to_owned());
        self.connection.transmit(now)
    }

    fn handle_window_limited(&mut self) {
        self.calls.push("window limited".to_owned());
        self.connection.handle_window_limited();
    }

    fn set_congestion_control(&mut self, name: &str, cause: CongestionControlCause) -> bool {
        self.calls.push(format!("{cause:?}: {name}"));
        self.connection.set_congestion_control(name, cause)
    }

    fn set_low_water_mark(&mut self, bytes: usize) -> Result<(), C::Error> {
        self.calls.push(format!("low-water mark {bytes}"));
        self.connection.set_low_water_mark(bytes)
    }

    fn set_max_pacing_rate(&mut self, rate: Option<Rate>) -> Result<(), C::Error> {
        let is_bound = rate.is_some_and(|rate| rate < Rate::MAX);
        self.calls.push(format!("pacing {} bound", if is_bound { "with" } else { "without" }));
        self.connection.set_max_pacing_rate(rate)
    }
}
