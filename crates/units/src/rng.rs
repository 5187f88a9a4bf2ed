/// A seeded stream of random numbers: xoshiro256++ (Blackman and Vigna, 2019), seeded by `SplitMix64`.
///
/// One stream per component, told apart by name, so that a component that draws one number more does not
/// change what the others draw. Same seed and name, same numbers, on any machine. Not for secrets.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Rng {
    /// The stream of the component `name` under `seed`.
    pub fn new(seed: u64, name: &str) -> Self {
        // FNV-1a over the name, so that streams of one seed differ.
        let hash = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
        let mut mix = seed ^ hash;
        Rng { state: std::array::from_fn(|_| split_mix(&mut mix)) }
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number in [0, 1) with 53 random bits.
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// A whole number in [0, bound); zero if `bound` is zero. Lemire's multiplication without the rejection
    /// step: the bias is below `bound` / 2^64.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Whether an event of probability `p` happens. Zero and below never, one and above always.
    pub fn chance(&mut self, p: f64) -> bool {
        self.uniform() < p
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_and_name_give_the_same_stream_and_others_do_not() {
        let draw = |seed, name| {
            let mut rng = Rng::new(seed, name);
            [rng.next_u64(), rng.next_u64()]
        };
        assert_eq!(draw(1, "loss"), draw(1, "loss"));
        assert_ne!(draw(1, "loss"), draw(1, "delay"));
        assert_ne!(draw(1, "loss"), draw(2, "loss"));
    }

    #[test]
    fn xoshiro_matches_its_reference_sequence() {
        // First outputs of the reference implementation for the state 1, 2, 3, 4.
        let mut rng = Rng { state: [1, 2, 3, 4] };
        assert_eq!(rng.next_u64(), 41_943_041);
        assert_eq!(rng.next_u64(), 58_720_359);
        assert_eq!(rng.next_u64(), 3_588_806_011_781_223);
    }

    #[test]
    fn chance_is_close_to_its_probability_and_exact_at_the_ends() {
        let mut rng = Rng::new(7, "chance");
        let hits = (0..100_000).filter(|_| rng.chance(0.1)).count();
        assert!((9_600..10_400).contains(&hits), "{hits}");
        assert!(!(0..1000).any(|_| rng.chance(0.0)));
        assert!((0..1000).all(|_| rng.chance(1.0)));
        assert!((0..1000).all(|_| rng.below(3) < 3));
        assert_eq!(rng.below(0), 0);
    }
}
