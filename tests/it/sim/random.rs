//! Chance, all of it from one seed: whatever a simulation decides, it decides here, so that the seed
//! is all there is to say about a run.

/// Splitmix64: one word of state, and every seed is as good as any other.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Another source, whose draws do not move this one.
    pub(crate) fn fork(&mut self) -> Self {
        Self(self.next())
    }

    /// A number below `bound`, 0 if there is none.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    /// True `percent` times in a hundred.
    pub(crate) fn chance(&mut self, percent: u32) -> bool {
        self.below(100) < percent as usize
    }

    pub(crate) fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// The index of a weight, each as likely as it is heavy; nothing if all are 0.
    pub(crate) fn weighted(&mut self, weights: &[u32]) -> Option<usize> {
        let total: u32 = weights.iter().sum();
        let mut left = self.below(total as usize) as u32;
        weights.iter().position(|&weight| {
            let found = left < weight;
            left = left.saturating_sub(weight);
            found
        })
    }

    /// Words, and now and then what words are seldom made of.
    pub(crate) fn text(&mut self, bytes: usize) -> String {
        const WORDS: [&str; 10] = [
            "and so ",
            "\"quoted\" ",
            "line\n",
            "ä€𐍈 ",
            "\\ ",
            "\t",
            "\u{1} ",
            "{}",
            "data: ",
            "x",
        ];
        let mut text = String::new();
        while text.len() < bytes {
            text.push_str(self.pick(&WORDS));
        }
        text
    }
}
