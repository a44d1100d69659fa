//! Which of many contenders is fastest: rounds in turn, in which the slower ones drop out.

use crate::stats::median;
use std::time::{Duration, Instant};

/// How far behind the fastest a contender may be after each stage of [`ROUNDS`] rounds, as a share of its time. What is
/// left after the last stage plays on until the time is spent.
const SLACK: [f64; 4] = [1.0, 0.3, 0.1, 0.04];

/// Rounds of a stage.
const ROUNDS: usize = 5;

/// What is played for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Time in all; the first stage is played to its end, whatever it takes.
    pub(super) budget: Duration,
    /// Most rounds.
    pub(super) most: usize,
}

/// Times of each contender, in the order in which they were taken. One launch of each that is left is a round, so that the
/// clock and the temperature are the same for all. `round` is told, after each, how many are left.
///
/// # Errors
/// The first of `launch`.
pub(super) fn play<E>(
    contenders: usize,
    limits: Limits,
    mut launch: impl FnMut(usize) -> Result<f64, E>,
    mut round: impl FnMut(usize),
) -> Result<Vec<Vec<f64>>, E> {
    let start = Instant::now();
    let mut times = vec![Vec::new(); contenders];
    // A GPU at rest runs at a low clock.
    while contenders > 0 && start.elapsed() < limits.budget.min(Duration::from_secs(1)) / 5 {
        (0..contenders).try_for_each(|n| launch(n).map(drop))?;
    }
    let mut left: Vec<usize> = (0..contenders).collect();
    let mut played = 0;
    while played < ROUNDS || (played < limits.most && start.elapsed() < limits.budget) {
        for &n in &left {
            times[n].push(launch(n)?);
        }
        played += 1;
        if played % ROUNDS == 0
            && let Some(slack) = SLACK.get(played / ROUNDS - 1)
        {
            let medians: Vec<f64> =
                left.iter().map(|n| median(&times[*n]).unwrap_or(f64::INFINITY)).collect();
            let best = medians.iter().copied().fold(f64::INFINITY, f64::min);
            let mut medians = medians.into_iter();
            left.retain(|_| medians.next().is_some_and(|median| median <= best * (1.0 + slack)));
        }
        round(left.len());
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slower_drop_out_and_the_others_play_on() {
        let speed = [1.0, 1.02, 1.08, 1.2, 1.9, 2.5];
        let mut left = Vec::new();
        let limits = Limits { budget: Duration::from_secs(3600), most: 40 };
        let times = play(speed.len(), limits, |n| Ok::<_, ()>(speed[n]), |n| left.push(n)).unwrap();
        let lengths: Vec<usize> = times.iter().map(Vec::len).collect();
        assert_eq!(lengths, [40, 40, 20, 15, 10, 5]);
        assert_eq!((left.len(), left.last()), (40, Some(&2)));
    }

    #[test]
    fn one_stage_is_played_without_time_and_errors_end_it() {
        let limits = Limits { budget: Duration::ZERO, most: 100 };
        let times = play(2, limits, |n| Ok::<_, ()>(n as f64), |_| {}).unwrap();
        assert_eq!(times, [vec![0.0; 5], vec![1.0; 5]]);
        let mut left = 3;
        let failing = |_| {
            left -= 1;
            if left == 0 { Err("enough") } else { Ok(1.0) }
        };
        assert_eq!(play(2, limits, failing, |_| {}), Err("enough"));
        assert_eq!(play(0, limits, |_| Err("none plays"), |_| {}), Ok(vec![]));
    }
}
