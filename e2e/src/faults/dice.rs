//! Chance that can be had again: all of it comes from one seed.

use std::time::Duration;

/// Numbers out of a seed. The same seed gives the same numbers.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Begins at a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Begins at a place of its own: the same for the same seed and words, whatever was thrown elsewhere.
    #[must_use]
    pub fn at(seed: u64, words: &[&str], number: u64) -> Self {
        let mut hash = seed ^ 0xcbf2_9ce4_8422_2325;
        for byte in words.iter().flat_map(|word| word.bytes().chain([0])) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        let mut dice = Self(hash ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        // One throw mixes what was only added up.
        dice.0 = dice.throw();
        dice
    }

    /// The next number (splitmix64).
    pub fn throw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `count` - 1; 0 of none.
    pub fn below(&mut self, count: usize) -> usize {
        let count = u64::try_from(count).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.throw() % count).unwrap_or_default()
    }

    /// Whether something happens that happens in `percent` of 100 cases.
    pub fn chance(&mut self, percent: u32) -> bool {
        self.throw() % 100 < u64::from(percent)
    }

    /// A time between two.
    pub fn between(&mut self, from: Duration, to: Duration) -> Duration {
        let width = u64::try_from(to.saturating_sub(from).as_micros()).unwrap_or(u64::MAX);
        from + Duration::from_micros(self.throw() % width.saturating_add(1))
    }

    /// One of several.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        of.get(self.below(of.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_another_seed_others() {
        let of = |seed| {
            let mut dice = Dice::at(seed, &["patch", "pods"], 7);
            [dice.throw(), dice.throw(), dice.throw()]
        };
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
        assert_ne!(Dice::at(1, &["ab", "c"], 7).throw(), Dice::at(1, &["a", "bc"], 7).throw());
    }

    #[test]
    fn a_share_is_kept() {
        let hits = (0..10_000).filter(|number| Dice::at(3, &["get"], *number).chance(20)).count();
        assert!((1_800..2_200).contains(&hits), "{hits} of 10,000 at 20 %");
    }

    #[test]
    fn a_time_lies_between_its_bounds() {
        let (from, to) = (Duration::from_millis(10), Duration::from_millis(20));
        let mut dice = Dice::new(1);
        assert!((0..1_000).all(|_| (from..=to).contains(&dice.between(from, to))));
    }
}
