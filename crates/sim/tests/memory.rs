//! What ten thousand flows take. Some 1300 bytes of it are a flow's two ends, its sender's state, and its places in the agenda and among
//! the claims; the rest is the algorithms' state, and room that the records of segments grew to and keep for a while.

use std::sync::Arc;
use std::time::Duration;

use trunkline_link::LinkSettings;
use trunkline_queue::{Limits, Settings as QueueSettings};
use trunkline_sim::Dumbbell;
use trunkline_tcp::Preset;
use trunkline_units::{Instant, Rate};

/// Bytes that a packet takes, the allocator's own left out, and what is remembered of a segment that is under way.
const PACKET: u64 = 136;
const SEGMENT: u64 = 32;

/// Bytes in use after `flows` have run for a second, and those of them that are windows: packets and records of segments.
fn in_use(flows: u32) -> (i64, i64) {
    let mut windows = 0;
    let info = allocation_counter::measure(|| {
        let queue = QueueSettings::TailDrop(Limits { segments: 20_000, bytes: u64::MAX });
        let link = LinkSettings::new(Rate::from_mbit(5000.0), Duration::from_millis(20)).queue(queue);
        let mut dumbbell = Dumbbell::new(1, 10, &link);
        let tcp = Arc::new(Preset::Linux6.settings());
        let sources: Vec<_> = (0..10)
            .map(|pair| dumbbell.bulk(pair, flows / 10, &tcp, (Duration::ZERO, Duration::from_micros(200))))
            .collect();
        dumbbell.network.run_until(Instant::from_millis(1000));
        let mut segments = 0;
        for (source, user) in
            sources.iter().flat_map(|source| (0..flows / 10).map(move |user| (*source, user)))
        {
            let ends = dumbbell.network.endpoints(source, user).expect("it runs");
            segments += ends[0].unacknowledged().div_ceil(1448);
        }
        windows = (segments * (PACKET + SEGMENT)).cast_signed();
        // What is in use now is counted, not what is given back with the network.
        std::mem::forget(dumbbell);
    });
    (info.bytes_current, windows)
}

#[test]
fn a_flow_takes_less_than_two_kilobytes_beyond_its_window() {
    let ((few, few_windows), (many, many_windows)) = (in_use(100), in_use(10_000));
    let each = ((many - few) - (many_windows - few_windows)) as f64 / 9900.0;
    println!("{each:.0} bytes a flow beyond its window");
    assert!((600.0..=1960.0).contains(&each), "{each}");
}
