//! TCP over radio links: what the links' closed forms say that they carry.

use std::sync::Arc;
use std::time::Duration;

use trunkline_link::LinkSettings;
use trunkline_link::mobile::{BlockErrors, Mobile, Pareto, Rlp};
use trunkline_sim::Dumbbell;
use trunkline_tcp::{Preset, Stats};
use trunkline_units::Rate;

const MS: Duration = Duration::from_millis(1);

/// Goodput in bit/s over ten minutes after the first, and the sender's and the receiver's counts.
fn goodput(mobile: Mobile) -> (f64, Stats, Stats) {
    let mut link = LinkSettings::new(Rate::from_mbit(1.0), 10 * MS);
    link.mobile = Some(mobile);
    let mut dumbbell = Dumbbell::new(3, 1, &link);
    let tcp = Arc::new(Preset::Linux6.settings().with_buffers(60_000));
    let source = dumbbell.bulk(0, 1, &tcp, (Duration::ZERO, Duration::ZERO));
    dumbbell.network.run_for(60_000 * MS);
    let before = dumbbell.received(source);
    dumbbell.network.run_for(600_000 * MS);
    let bits = (dumbbell.received(source) - before) as f64 * 8.0;
    let transfer = dumbbell.network.transfers(source)[0];
    (bits / 600.0, transfer.sender, transfer.receiver)
}

#[test]
fn a_radio_link_protocol_carries_its_blocks_less_those_lost_and_loses_nothing() {
    let fading = BlockErrors::Fading { to_bad: 0.001, to_good: 0.01, good: 0.01, bad: 0.5 };
    for errors in [BlockErrors::Independent(0.0), BlockErrors::Independent(0.2), fading] {
        let rlp = Rlp { block: 100, interval: MS, feedback: 20, errors };
        let (measured, sender, receiver) = goodput(Mobile::Rlp(rlp));
        // A packet of 1500 bytes is 15 blocks.
        let expected = 1448.0 * 8.0 / 0.015 * (1.0 - errors.mean());
        assert!((measured / expected - 1.0).abs() < 0.02, "{errors:?}: {measured} {expected}");
        // In a fade a probe or a timer may come before the acknowledgement: what it retransmissions comes twice.
        let retransmitted = sender.retransmitted_segments;
        assert!(
            retransmitted <= 5 && receiver.duplicates_received == retransmitted,
            "{errors:?}: {retransmitted}"
        );
    }
}

#[test]
fn pareto_recovery_takes_its_mean_of_each_packet() {
    let mean = 20 * MS;
    let (measured, ..) = goodput(Mobile::Pareto(Pareto { mean, shape: 3.0, share: 1.0 }));
    let expected = 1448.0 * 8.0 / (0.012 + 0.020);
    assert!((measured / expected - 1.0).abs() < 0.03, "{measured} {expected}");
}
