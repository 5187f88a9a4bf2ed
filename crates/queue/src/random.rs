use trunkline_units::Rng;

/// Up to this probability a drop is a signal, and one is enough for a super-packet. Above it the senders have not
/// listened, and a super-packet loses as much as its segments would have lost on their own. It is where PIE stops
/// marking, too (RFC 8033 §5.1).
pub(crate) const SIGNAL: f64 = 0.1;

/// `base`^`exponent` by squaring: the same bits on every platform.
pub(crate) fn power(mut base: f64, mut exponent: u32) -> f64 {
    let mut result = 1.0;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    result
}

/// How many of an item's segments are lost if each is with probability `p`: up to [`SIGNAL`] at most one, with the
/// probability that any is.
pub(crate) fn losses(rng: &mut Rng, p: f64, segments: u32) -> u32 {
    if p <= 0.0 {
        0
    } else if segments == 1 {
        u32::from(rng.chance(p))
    } else if p <= SIGNAL {
        u32::from(rng.chance(1.0 - power(1.0 - p, segments)))
    } else {
        let expected = p.min(1.0) * f64::from(segments);
        let whole = expected as u32;
        (whole + u32::from(rng.chance(expected - f64::from(whole)))).min(segments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_by_squaring_are_products() {
        assert!((power(0.99, 45) - (0..45).map(|_| 0.99).product::<f64>()).abs() < 1e-12);
        assert_eq!(
            (power(0.5, 0).to_bits(), power(0.5, 3).to_bits()),
            (1_f64.to_bits(), 0.125_f64.to_bits())
        );
        assert!(power(0.998, u32::MAX) < 1e-300);
    }

    #[test]
    fn a_super_packet_loses_one_segment_at_most_while_a_drop_is_a_signal() {
        let mut rng = Rng::new(1, "losses");
        let hits: u32 = (0..100_000)
            .map(|_| {
                let lost = losses(&mut rng, 0.02, 20);
                assert!(lost <= 1);
                lost
            })
            .sum();
        // 1 − 0.98^20 is 0.332.
        assert!((32_700..33_800).contains(&hits), "{hits}");
    }

    #[test]
    fn beyond_a_signal_a_super_packet_loses_its_share() {
        let mut rng = Rng::new(2, "losses");
        let hits: u32 = (0..10_000).map(|_| losses(&mut rng, 0.33, 20)).sum();
        assert!((65_500..66_500).contains(&hits), "{hits}");
        assert_eq!(losses(&mut rng, 1.0, 45), 45);
        assert_eq!(losses(&mut rng, 0.0, 45), 0);
    }
}
