//! Chance from one seed, so that a run can be played again.

use std::time::Duration;

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014): good enough to keep
/// requests apart, and five lines.
#[derive(Debug)]
pub(super) struct Dice {
    state: u64,
}

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Dice { state: seed }
    }

    /// A number from 0 up to, but not including, 1.
    pub(super) fn fraction(&mut self) -> f64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        // The 53 bits that a float holds exactly.
        (mixed >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A time between these two.
    pub(super) fn between(&mut self, least: Duration, most: Duration) -> Duration {
        least + most.saturating_sub(least).mul_f64(self.fraction())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_sequence_that_fills_the_range() {
        let draw = |seed| {
            let mut dice = Dice::new(seed);
            std::iter::repeat_with(|| dice.fraction()).take(1000).collect::<Vec<f64>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        let drawn = draw(7);
        assert!(drawn.iter().all(|fraction| (0.0..1.0).contains(fraction)));
        let mean = drawn.iter().sum::<f64>() / 1000.0;
        assert!((0.45..0.55).contains(&mean), "the mean is {mean}");
    }
}
