use std::sync::Arc;
use std::time::Duration;

use trunkline_units::{Instant, Rate};

use super::pacer::Pacer;
use super::path_loss::PathLoss;
use super::progress::Progress;
use super::restart::Restarts;
use super::{ArrivalReport, LaneSnapshot};
use crate::path::{Arrival, Departure, Departures, Grant, LaneDemand, PathEvidence, Paths, Signal};
use crate::{CongestionControl, LaneId, Packet, Transmitter, TrunkPlan};

/// A setting that the owner of a lane is to change on its connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LaneAction {
    /// Use the congestion control of this name (`TCP_CONGESTION`).
    SetCongestionControl {
        /// Its name.
        name: Arc<str>,
        /// Why it changes.
        cause: CongestionControlCause,
    },
    /// Report the connection writable once fewer than half of so many bytes are unsent (`TCP_NOTSENT_LOWAT`).
    SetLowWaterMark(usize),
    /// Pace segments at this rate at most (`SO_MAX_PACING_RATE`), or without a maximum.
    SetMaxPacingRate(Option<Rate>),
}

/// The window of a connection, as it is now.
#[derive(Debug, Clone, Copy)]
pub struct LaneWindow {
    /// Its congestion window, bytes.
    pub bytes: u64,
    /// Bytes that it may send at once: whole packets that fit into the window beside what is in flight.
    pub available: usize,
    /// Smoothed round-trip time; `None` before the first sample.
    pub srtt: Option<Duration>,
}

/// Why the congestion control of a lane changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CongestionControlCause {
    /// The plan says so.
    Plan,
    /// The path has become lossy, or clean.
    Path,
    /// It is the one in use, and is to begin anew: the lane delivers less than it is granted.
    Restart,
}

/// The control of one lane's sending half: when it gets packets and how many, and the settings of its connection.
///
/// A [`LanePump`](super::LanePump) owns it and does what it says to a connection. It reports what happened and asks what to do next:
///
/// - Before it serves the lane, and while [`snapshot_due`](Self::snapshot_due): a snapshot of the connection to
///   [`handle_snapshot`](Self::handle_snapshot). While [`delivery_due`](Self::delivery_due) and the lane holds data
///   that the retransmission filter covers: the bytes that the connection holds to [`handle_held`](Self::handle_held).
///   Both pass on to the transmitter what the lane has delivered, and that a lane which stalls may have lost the rest.
/// - [`stalled_until`](Self::stalled_until), [`paced_until`](Self::paced_until) and [`room`](Self::room) say whether the lane may
///   take packets that wait, and how many bytes. All bytes that the connection has taken go to
///   [`handle_written`](Self::handle_written).
/// - Before a connection that does not pace is served: its window to [`handle_window`](Self::handle_window).
/// - A snapshot also goes to the [`Paths`] to the lane's peer. While they [have changed](Paths::take_changed), the owner gives each
///   lane its [grant](Paths::grant) by [`handle_grant`](Self::handle_grant). A connection that does not pace gets no more than
///   that from the edge, from [`pace`](Self::pace) on.
/// - If the far end reports what arrives: its reports to [`handle_report`](Self::handle_report), from
///   [`expect_reports`](Self::expect_reports) on.
/// - After each of these, and after [`configure`](Self::configure): [`poll_action`](Self::poll_action) until it gives
///   nothing.
#[derive(Debug, Clone, Default)]
pub struct LaneControl {
    snapshot: LaneSnapshot,
    /// Bytes that the connection has taken.
    written: u64,
    /// Whether it has been full since the last snapshot.
    filled: bool,
    depth: usize,
    /// Unsent bytes that the lane holds whatever its connection does, if that is set.
    fixed_depth: Option<usize>,
    snapshot_at: Option<Instant>,
    held_at: Option<Instant>,
    progress: Progress,
    /// Whether the plan asks for edge pacing.
    edge_pacing: bool,
    /// Bytes that it had sent at the last snapshot.
    sent: u64,
    /// The mean size of its segments of late, bytes; `None` before the first.
    segment: Option<f64>,
    /// Whether segments are paced on this path. Once set it stays: Linux does not turn pacing off again.
    paced: bool,
    grant: Option<Rate>,
    /// Bytes that the connection may hold.
    flight: Option<u64>,
    /// Until when what it holds is not looked at again: it was as much.
    landing: Instant,
    /// If the connection does not pace.
    pacer: Option<Pacer>,
    /// The rate at which a window is spread over its round trip, of such a connection, and the bytes that may leave at once.
    spacing: Option<(Rate, usize)>,
    /// The place in the stream up to which the far end had everything at the last snapshot.
    arrived: u64,
    /// When the bytes left that the far end has not reported yet, if it reports any.
    departures: Option<Departures>,
    path: Option<PathLoss>,
    restarts: Restarts,
    chosen: Option<&'static str>,
    congestion_control_due: Option<(Arc<str>, CongestionControlCause)>,
    low_water_mark_due: bool,
    pacing_rate_due: bool,
}

impl LaneControl {
    /// The longest time between two visits of the owner that the depth of a lane must bridge: a scheduler's slice.
    pub const VISIT: Duration = Duration::from_millis(2);
    /// How often the owner of a busy lane takes a snapshot.
    pub const SNAPSHOT_INTERVAL: Duration = Duration::from_millis(20);
    /// How often it asks what the far end has acknowledged.
    pub const DELIVERY_INTERVAL: Duration = Duration::from_millis(1);
    /// How often a lane is looked at that holds all that it may have in flight.
    const LANDING: Duration = Duration::from_millis(4);
    /// How often a stalled lane is looked at while packets wait for it.
    pub const STALL_INTERVAL: Duration = Duration::from_millis(20);
    /// Bytes taken from the edge before they are sent: enough for a few super-packets, and few enough to be still in
    /// the cache when the kernel copies them.
    pub const MAX_BATCH: usize = 256 << 10;
    /// The congestion control of a lane that goes [by its path](CongestionControl::ByPath), unless the path is lossy
    /// (docs/decisions/0009).
    pub const USUAL_CONGESTION_CONTROL: &str = "cubic";
    /// And the one on a path that loses packets without being full.
    pub const LOSSY_CONGESTION_CONTROL: &str = "bbr";

    /// The shortest round-trip time of a path that is paced. On a shorter one a window is small and timers cost much.
    const MIN_PACED_RTT: Duration = Duration::from_millis(1);
    /// A connection in user space paces by its window, in bursts of so many bytes at least: ten packets (RFC 9002 §7.7).
    const CONNECTION_BURST: u64 = 10 * 1452;
    /// A lane with so many segments in flight is busy though no packet waits for it.
    const BUSY_SEGMENTS: f64 = 16.0;
    /// The mean size of segments follows the last snapshots, so many of them.
    const SEGMENT_MEMORY: f64 = 16.0;
    /// Bytes in a packet of full size.
    const SEGMENT: usize = 1448;

    /// Takes the settings of a plan for `lane`, at first and whenever they change. A lane that goes by its path keeps
    /// what it has learnt and chosen.
    pub fn configure(&mut self, plan: &TrunkPlan, lane: LaneId) {
        match &plan.group_of(lane).0.congestion_control {
            CongestionControl::ByPath if self.chosen.is_some() => {}
            CongestionControl::ByPath => {
                let name = Self::USUAL_CONGESTION_CONTROL;
                (self.path, self.chosen) = (Some(PathLoss::default()), Some(name));
                self.congestion_control_due = Some((name.into(), CongestionControlCause::Plan));
            }
            other => {
                (self.path, self.chosen) = (None, None);
                self.congestion_control_due = match other {
                    CongestionControl::Named(name) => Some((Arc::clone(name), CongestionControlCause::Plan)),
                    CongestionControl::AsOpened | CongestionControl::ByPath => None,
                };
            }
        }
        if self.edge_pacing && !plan.edge_pacing {
            self.paced = false;
            self.flight = None;
            self.pacing_rate_due = true;
            if self.grant.take().is_some() {
                self.update_depth();
            }
        }
        self.edge_pacing = plan.edge_pacing;
    }

    /// The last snapshot. Its delivery rate is the last one that no lack of data limited, or a higher one.
    pub const fn snapshot(&self) -> &LaneSnapshot {
        &self.snapshot
    }

    /// Bytes that the connection has taken so far.
    pub const fn written(&self) -> u64 {
        self.written
    }

    /// The rate that its path grants the lane, if it is bounded.
    pub const fn grant(&self) -> Option<Rate> {
        self.grant
    }

    /// The congestion control that the lane has chosen, if it goes by its path.
    pub const fn chosen_congestion_control(&self) -> Option<&'static str> {
        self.chosen
    }

    /// Whether [`handle_snapshot`](Self::handle_snapshot) is due.
    #[inline]
    pub fn snapshot_due(&self, now: Instant) -> bool {
        self.snapshot_at.is_none_or(|at| now.saturating_since(at) >= Self::SNAPSHOT_INTERVAL)
    }

    /// Whether [`handle_held`](Self::handle_held) is due.
    #[inline]
    pub fn delivery_due(&self, now: Instant) -> bool {
        self.held_at.is_none_or(|at| now.saturating_since(at) >= Self::DELIVERY_INTERVAL)
    }

    /// When to look at the lane again, if it has stalled: until then it gets no packets.
    #[inline]
    pub fn stalled_until(&self, now: Instant) -> Option<Instant> {
        self.progress.is_stalled().then(|| now + Self::STALL_INTERVAL)
    }

    /// The connection does not pace what it sends: from now on the room that the lane is given does, by its grant.
    pub fn pace(&mut self) {
        self.pacer = Some(Pacer::default());
    }

    /// Takes the window of a connection that [does not pace](Self::pace). The lane gets 5/4 of a window in a round trip (RFC 9002
    /// §7.7) in bursts of a [visit](Self::VISIT), and no more than may leave at once: what waits in the connection would leave with
    /// the next acknowledgement, unpaced. Above the rate at which the connection's own bursts are as short, it is left to them, and so
    /// is a window that is no longer than one of them: acknowledgements clock it, and a stream of small packets waits for no more.
    #[inline]
    pub fn handle_window(&mut self, window: LaneWindow) {
        let paces = self.pacer.is_some() && window.bytes > Self::CONNECTION_BURST;
        let srtt = window.srtt.filter(|srtt| paces && *srtt >= Self::MIN_PACED_RTT);
        self.spacing = srtt.and_then(|srtt| {
            let bits = u128::from(window.bytes) * 10 * 1_000_000_000 / srtt.as_nanos();
            let rate = Rate::from_bits_per_second(u64::try_from(bits).unwrap_or(u64::MAX));
            (rate.bytes_in(Self::VISIT) < Self::CONNECTION_BURST).then_some((rate, window.available))
        });
    }

    /// The rate at which the lane takes packets at most, if its connection does not pace.
    fn pace_rate(&self) -> Option<Rate> {
        [self.grant, self.spacing.map(|(rate, _)| rate)].into_iter().flatten().min()
    }

    /// Whether the lane gets no more for the sake of the window, and not of the grant: the window is in use.
    pub fn is_window_limited(&self) -> bool {
        self.spacing.is_some_and(|(rate, available)| available == 0 || Some(rate) == self.pace_rate())
    }

    /// When the pacing of a lane lets it take packets again, for which packets wait; `None` if it may take some now. See
    /// [`pace`](Self::pace).
    #[inline]
    pub fn paced_until(&mut self, now: Instant) -> Option<Instant> {
        let rate = self.pace_rate()?;
        let until = self.pacer.as_mut()?.held_until(now, rate);
        self.filled |= until.is_some();
        until
    }

    /// How many bytes, at least one, the lane may take from the edge while its connection has `unsent` bytes; `None` until
    /// the connection has sent half of its depth.
    #[inline]
    pub fn room(&mut self, now: Instant, unsent: usize) -> Option<usize> {
        self.record_sent(now, unsent);
        // Linux reports a socket writable once its unsent part is below half the low-water mark.
        let room = (unsent * 2 < self.depth).then(|| (self.depth - unsent).min(Self::MAX_BATCH));
        let room = match (&self.pacer, self.pace_rate()) {
            (Some(pacer), Some(rate)) => room.map(|room| room.min(pacer.room(now, rate))),
            _ => room,
        };
        let available = self.spacing.map_or(usize::MAX, |(_, available)| available.saturating_sub(unsent));
        let room = room.map(|room| room.min(available)).filter(|room| *room > 0);
        self.filled |= room.is_none();
        room
    }

    /// The connection has not taken all that the owner had for it.
    #[inline]
    pub const fn handle_full(&mut self) {
        self.filled = true;
    }

    /// The connection has taken so many bytes.
    #[inline]
    pub fn handle_written(&mut self, now: Instant, bytes: u64) {
        self.written += bytes;
        let rate = self.pace_rate();
        if let (Some(pacer), Some(rate)) = (&mut self.pacer, rate) {
            pacer.take(now, rate, bytes);
        }
        if let Some(departures) = &mut self.departures {
            departures.handle_written(now, self.written);
        }
    }

    /// The far end reports what arrives from now on; before the connection has taken any byte.
    pub fn expect_reports(&mut self) {
        self.departures = Some(Departures::default());
    }

    /// Takes a report of the far end, and tells the lane's path. One that cannot be true changes nothing.
    pub fn handle_report(&mut self, now: Instant, lane: LaneId, paths: &mut Paths, report: ArrivalReport) {
        // Without edge pacing too: what has arrived leaves the record.
        let rate = self.grant;
        let left = self.departures.as_mut().and_then(|departures| departures.take(now, report.bytes, rate));
        let Some(Departure { earliest, paced }) = left.filter(|_| self.edge_pacing) else { return };
        let arrival = Arrival {
            signal: Signal::OneWay,
            at: Instant::from_nanos(report.at.saturating_mul(1000)),
            bytes: report.bytes,
            delay: Some((report.at as u32).wrapping_sub((earliest.as_nanos() / 1000) as u32)),
            paced: paced.saturating_since(earliest),
            age: Some(now.saturating_since(earliest)),
        };
        paths.handle_arrival(now, lane, arrival);
    }

    /// Takes a snapshot of the lane's connection, and tells the transmitter and the lane's path.
    pub fn handle_snapshot<P: Packet>(
        &mut self,
        now: Instant,
        lane: LaneId,
        (transmitter, paths): (&mut Transmitter<P>, &mut Paths),
        mut snapshot: LaneSnapshot,
    ) {
        self.snapshot_at = Some(now);
        self.update_progress(now, lane, transmitter, snapshot.held());
        if snapshot.app_limited {
            // A lane that had little to send has not become slower.
            snapshot.delivery_rate = snapshot.delivery_rate.max(self.snapshot.delivery_rate);
        }
        self.measure_segment(&snapshot);
        self.snapshot = snapshot;
        self.record_sent(now, snapshot.unsent);
        transmitter.handle_lane(now, lane, &snapshot, self.delivered(snapshot.held()));
        transmitter
            .divide_class_rates(now, lane, |class, demand| paths.handle_edge_queue(now, lane, class, demand));
        let waiting = transmitter.has_backlog(lane);
        let evidence = if self.edge_pacing { paths.evidence(lane) } else { None };
        self.update_congestion_control(now, waiting, evidence);
        if self.path.as_ref().is_some_and(PathLoss::has_found) {
            paths.handle_lossy(now, lane);
        }
        if transmitter.follows_path(lane)
            && let Some((path, srtt)) = paths.view(now, lane).zip(snapshot.srtt)
        {
            let lossy = self.path.as_ref().is_some_and(PathLoss::is_lossy);
            let packets = |capacity: Rate| {
                if lossy { capacity.bytes_in(srtt) as f64 / Self::SEGMENT as f64 } else { 0.0 }
            };
            transmitter.handle_path(now, lane, path, path.capacity.map(packets));
        }
        if self.edge_pacing {
            // A packet that has just come and finds room does not wait.
            let waiting = std::mem::take(&mut self.filled);
            self.update_path(now, lane, paths, waiting);
        }
        self.update_depth();
    }

    /// Takes the next snapshot, while the last one is still known.
    fn measure_segment(&mut self, next: &LaneSnapshot) {
        let sent = self.written.saturating_sub(next.unsent as u64);
        let bytes = sent.saturating_sub(std::mem::replace(&mut self.sent, sent));
        let segments = next.segments_sent.wrapping_sub(self.snapshot.segments_sent);
        // A counter that goes back is that of another connection.
        if bytes > 0 && (1..=u32::MAX / 2).contains(&segments) {
            let mean = (bytes as f64 / f64::from(segments)).min(Self::SEGMENT as f64);
            let known = self.segment.unwrap_or(mean);
            self.segment = Some(known + (mean - known) / Self::SEGMENT_MEMORY);
        }
    }

    /// Has the lane hold so many unsent bytes, as a program does that writes into a socket with such a buffer. A gateway's holds what its
    /// connection needs.
    pub fn fix_depth(&mut self, bytes: usize) {
        self.fixed_depth = Some(bytes);
        self.update_depth();
    }

    fn update_depth(&mut self) {
        let depth = self.fixed_depth.unwrap_or_else(|| self.snapshot.depth(Self::VISIT, self.grant));
        if depth.abs_diff(self.depth) > self.depth / 4 {
            self.depth = depth;
            self.low_water_mark_due = true;
        }
    }

    /// Takes the number of bytes that the connection holds, and tells the transmitter what has been delivered.
    pub fn handle_held<P: Packet>(
        &mut self,
        now: Instant,
        lane: LaneId,
        transmitter: &mut Transmitter<P>,
        held: usize,
    ) {
        self.held_at = Some(now);
        self.update_progress(now, lane, transmitter, held);
        transmitter.handle_delivered(lane, self.delivered(held));
    }

    /// What the connection may hold, if that is bounded, is to be looked at before the lane takes packets.
    pub const fn bounds_flight(&self) -> bool {
        self.flight.is_some()
    }

    /// How many bytes, at least one, the lane may take while its connection holds so many.
    ///
    /// # Errors
    /// When to look again: it holds as many as it may. Of acknowledgements the owner of a socket is not told.
    pub fn flight_room(&mut self, now: Instant, held: usize) -> Result<usize, Instant> {
        let Some(flight) = self.flight else { return Ok(usize::MAX) };
        if now >= self.landing {
            let room =
                usize::try_from((flight + self.snapshot.out_of_order as u64).saturating_sub(held as u64))
                    .unwrap_or(usize::MAX);
            if room > 0 {
                return Ok(room);
            }
            self.landing = now + Self::LANDING;
        }
        self.filled = true;
        Err(self.landing)
    }

    /// Takes what the lane's path grants it.
    pub fn handle_grant(&mut self, grant: Grant) {
        let Grant { rate, flight } = grant;
        // A connection that does not pace makes no reports either. On a short path its round trips are the machine's scheduling.
        let is_short = self.snapshot.min_rtt.is_some_and(|rtt| rtt < Self::MIN_PACED_RTT);
        let takes = self.edge_pacing && !(self.pacer.is_some() && is_short);
        self.flight = flight.filter(|_| takes);
        let grant = rate.filter(|_| takes);
        if grant != self.grant {
            self.grant = grant;
            self.pacing_rate_due = true;
            self.update_depth();
        }
    }

    /// The connection cannot have the congestion control that the path asked for last: the lane keeps the one before
    /// that, and no longer goes by its path.
    pub fn handle_congestion_control_refused(&mut self) {
        if let Some(path) = self.path.take() {
            self.chosen = Some(Self::congestion_control(!path.is_lossy()));
        }
    }

    /// The next setting to change.
    pub fn poll_action(&mut self) -> Option<LaneAction> {
        if let Some((name, cause)) = self.congestion_control_due.take() {
            return Some(LaneAction::SetCongestionControl { name, cause });
        }
        if std::mem::take(&mut self.low_water_mark_due) {
            return Some(LaneAction::SetLowWaterMark(self.depth));
        }
        let due = std::mem::take(&mut self.pacing_rate_due);
        due.then(|| LaneAction::SetMaxPacingRate(self.grant.or(self.paced.then_some(Rate::MAX))))
    }

    #[inline]
    fn record_sent(&mut self, now: Instant, unsent: usize) {
        if let Some(departures) = &mut self.departures {
            departures.handle_sent(now, self.written.saturating_sub(unsent as u64));
        }
    }

    const fn congestion_control(lossy: bool) -> &'static str {
        if lossy { Self::LOSSY_CONGESTION_CONTROL } else { Self::USUAL_CONGESTION_CONTROL }
    }

    /// The place in the lane's stream before which the far end has everything.
    const fn delivered(&self, held: usize) -> u64 {
        self.written.saturating_sub(held as u64)
    }

    /// A lane that has stalled may be dead, and the bytes that it holds lost: users' retransmissions of them are
    /// worth carrying.
    fn update_progress<P: Packet>(
        &mut self,
        now: Instant,
        lane: LaneId,
        transmitter: &mut Transmitter<P>,
        held: usize,
    ) {
        if self.progress.update(now, self.delivered(held), held, self.snapshot.srtt) {
            transmitter.handle_lane_lost(lane);
        }
    }

    /// Tells the lane's path what has arrived, by what has been acknowledged.
    fn update_path(&mut self, now: Instant, lane: LaneId, paths: &mut Paths, waiting: bool) {
        let snapshot = &self.snapshot;
        // Users' slow start takes the even spacing of a paced lane for the rate of the path, and ends (HyStart).
        let begun = self.grant.is_some() || snapshot.retransmissions > 0;
        if begun && !self.paced && snapshot.min_rtt.is_some_and(|rtt| rtt >= Self::MIN_PACED_RTT) {
            (self.paced, self.pacing_rate_due) = (true, true);
        }
        let segment = self.segment.unwrap_or(Self::SEGMENT as f64);
        paths.handle_demand(
            now,
            lane,
            LaneDemand {
                waiting,
                busy: snapshot.unacknowledged as f64 >= Self::BUSY_SEGMENTS * segment,
                segment,
                min_rtt: snapshot.min_rtt,
                window_rate: snapshot.window_rate(),
                segments_sent: snapshot.segments_sent,
                retransmissions: snapshot.retransmissions,
            },
        );
        let arrived = self.delivered(snapshot.held()) + snapshot.out_of_order as u64;
        let bytes = arrived.saturating_sub(snapshot.lost_bytes);
        let news = std::mem::replace(&mut self.arrived, bytes) != bytes;
        let delay = snapshot.srtt.filter(|_| news).map(|srtt| srtt.as_micros() as u32);
        let arrival = Arrival {
            signal: Signal::RoundTrip,
            at: now,
            bytes,
            delay,
            paced: Duration::ZERO,
            age: snapshot.srtt,
        };
        paths.handle_arrival(now, lane, arrival);
    }

    /// Chooses by what the path loses. `evidence`: of the whole path, where its controller knows.
    fn update_congestion_control(&mut self, now: Instant, waiting: bool, evidence: Option<PathEvidence>) {
        let Some(path) = &mut self.path else { return };
        // Of a lane that sends little, round-trip times alone say nothing of a queue.
        if evidence.is_none() && !waiting {
            return;
        }
        let evidence = evidence.unwrap_or_else(|| PathEvidence {
            congested: PathLoss::has_queue(&self.snapshot),
            lossy: false,
            free: false,
        });
        let PathEvidence { congested, free, .. } = evidence;
        self.restarts.update(now, self.arrived);
        let srtt = self.snapshot.srtt.unwrap_or_default();
        // What bounds a lane that has as much in flight as it may is not its congestion control.
        let has_landed = now.saturating_since(self.landing) >= Self::SNAPSHOT_INTERVAL;
        let waiting = waiting && has_landed;
        // Without a grant only a free path says nothing else bounds the lane.
        let may_more = !congested && (free || self.grant.is_some());
        if self.pacer.is_none() && self.restarts.is_held_back(now, waiting && may_more, self.grant, srtt) {
            path.handle_held_back(now);
        }
        let changed = path.update(now, self.snapshot.retransmissions, evidence, self.pacer.is_none());
        let name = Self::congestion_control(path.is_lossy());
        let cause = if changed {
            CongestionControlCause::Path
        } else if let Some(grant) = self.grant
            && waiting
            && !congested
            && self.pacer.is_none()
            && name == Self::LOSSY_CONGESTION_CONTROL
            && self.restarts.is_due(now, grant, srtt)
        {
            CongestionControlCause::Restart
        } else {
            return;
        };
        self.restarts.handle_begun(now);
        self.congestion_control_due = Some((name.into(), cause));
        self.chosen = Some(name);
    }
}
