//! Which numbers of a flow have arrived.

/// Numbers below the highest that are remembered: more than any reordering here spans.
const WINDOW: u64 = 1 << 16;

/// What a number says of its datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Novelty {
    /// It is higher than all before.
    Next,
    /// It is the first with its number, and a higher one came before.
    Late,
    /// One with its number came before.
    Copy,
}

/// The numbers that have arrived. A number below the window counts as late.
#[derive(Debug)]
pub(super) struct Seen {
    /// One above the highest.
    next: u64,
    received: u64,
    bits: Vec<u64>,
}

impl Default for Seen {
    fn default() -> Self {
        Seen { next: 0, received: 0, bits: vec![0; (WINDOW / 64) as usize] }
    }
}

impl Seen {
    fn bit(number: u64) -> (usize, u64) {
        let place = number % WINDOW;
        ((place / 64) as usize, 1 << (place % 64))
    }

    pub(super) fn take(&mut self, number: u32) -> Novelty {
        let number = u64::from(number);
        let next = number >= self.next;
        if next {
            for between in self.next.max(number.saturating_sub(WINDOW - 1))..number {
                let (word, bit) = Self::bit(between);
                self.bits[word] &= !bit;
            }
            self.next = number + 1;
        }
        let (word, bit) = Self::bit(number);
        let known = number + WINDOW >= self.next;
        if !next && known && self.bits[word] & bit != 0 {
            return Novelty::Copy;
        }
        if known {
            self.bits[word] |= bit;
        }
        self.received += 1;
        if next { Novelty::Next } else { Novelty::Late }
    }

    /// Numbers below the highest that have not arrived.
    pub(super) fn missing(&self) -> u64 {
        self.next.saturating_sub(self.received)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_copies_and_late_ones_are_told_apart() {
        let mut seen = Seen::default();
        let all: Vec<_> = [0, 1, 4, 2, 4, 5, 5].into_iter().map(|number| seen.take(number)).collect();
        let (next, late, copy) = (Novelty::Next, Novelty::Late, Novelty::Copy);
        assert_eq!(all, [next, next, next, late, copy, next, copy]);
        assert_eq!(seen.missing(), 1);
    }

    #[test]
    fn a_number_is_new_again_after_the_window_has_passed_it() {
        let mut seen = Seen::default();
        for number in 0..3 * WINDOW as u32 {
            assert_eq!(seen.take(number), Novelty::Next);
        }
        seen.take(10 * WINDOW as u32);
        assert_eq!(seen.take(10 * WINDOW as u32 - 1), Novelty::Late);
        assert_eq!(seen.missing(), 7 * WINDOW - 1);
    }
}
