//! Two endpoints in their stride allocate nothing.

use std::sync::Arc;

use trunkline_tcp::{Endpoint, Event, Preset, Segment, Settings};
use trunkline_units::{Instant, Seq};

/// A path without delay: what one end sends the other has at once, up to 32 segments each millisecond.
fn exchange(client: &mut Endpoint, server: &mut Endpoint, now: Instant) {
    let mut segments: [Option<Segment>; 8] = [None; 8];
    for _ in 0..4 {
        let mut count = 0;
        while let Some(segment) = if count < 8 { client.poll_transmit(now) } else { None } {
            segments[count] = Some(segment);
            count += 1;
        }
        for segment in segments[..count].iter().flatten() {
            server.handle_segment(now, segment);
            while let Some(event) = server.poll_event() {
                if event == Event::Readable {
                    server.read(u64::MAX);
                }
            }
            while let Some(segment) = server.poll_transmit(now) {
                client.handle_segment(now, &segment);
            }
        }
        while let Some(event) = client.poll_event() {
            if event == Event::Writable {
                client.write(u64::MAX / 2);
            }
        }
    }
}

#[test]
fn nothing_is_allocated_in_the_stride() {
    for preset in Preset::ALL {
        let settings =
            Arc::new(Settings { send_buffer: 100_000, receive_buffer: 60_000, ..preset.settings() });
        let mut now = Instant::from_millis(1);
        let mut client = Endpoint::connect(&settings, now, Seq(1));
        let mut server = Endpoint::accept(&settings, Seq(2));
        client.write(3_000_000);
        let mut run = |until: u64, client: &mut Endpoint| {
            while server.received() < until {
                now += std::time::Duration::from_millis(1);
                if client.next_wakeup().is_some_and(|(at, _)| at <= now) {
                    client.handle_timeout(now);
                }
                if server.next_wakeup().is_some_and(|(at, _)| at <= now) {
                    server.handle_timeout(now);
                }
                exchange(client, &mut server, now);
            }
        };
        run(1_000_000, &mut client);
        let info = allocation_counter::measure(|| run(10_000_000, &mut client));
        assert_eq!(info.count_total, 0, "{}", preset.name());
    }
}
