//! Orders of loops over axes with limits: which points are left out depends on which loops are around, and which inside.

use super::Generator;
use crate::directive;

impl Generator<'_> {
    /// Here and there, the loops over an axis with limits go around those over others, or change places among themselves.
    pub(crate) fn limited(&mut self) {
        let limited: Vec<String> =
            self.nests[0].limits.keys().map(|axis| self.nests[0].axis(*axis).to_string()).collect();
        for axis in limited {
            if !self.chance(60) {
                continue;
            }
            let digits = self.digits(false).into_iter().map(|digit| digit.0);
            let of_axis = |digit: &String| digit.split('.').next() == Some(&axis);
            let (mut digits, others): (Vec<String>, Vec<String>) = digits.partition(of_axis);
            if digits.len() > 1 && self.chance(50) {
                digits.reverse();
            } else if !others.is_empty() {
                digits.push(self.random.pick(&others).clone());
            }
            if digits.len() > 1 {
                self.propose(directive::Reorder { digits, within: None });
            }
        }
    }
}
