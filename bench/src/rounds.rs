//! Contenders that take turns.

use std::time::{Duration, Instant};

/// Rounds of one launch of each contender, so that clock and temperature are the same for all.
///
/// Of four and more, each round is in another order, since what ran right before decides the clock, too (by 0.4 % of a product
/// of 4096³ on an H200): within as many rounds as there are contenders, twice as many where their number is odd, each comes
/// right after each other one equally often (E. J. Williams, "Experimental Designs Balanced for the Estimation of Residual
/// Effects of Treatments", Australian Journal of Scientific Research A2, 1949). Fewer keep one order: in any other a launch
/// would come right after itself, which makes short ones faster. None does.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    /// Rounds that are not counted: a GPU at rest runs at a low clock, and a first launch pays for loading.
    pub warm_up: usize,
    /// Rounds that are counted, at least.
    pub least: usize,
    /// Rounds that are counted, at most.
    pub most: usize,
    /// What warming up, and the rounds up to `most`, go on for at least, so that short launches are measured on a GPU at
    /// work, and often.
    pub lasting: Duration,
}

/// What rounds gave.
#[derive(Clone, Debug)]
pub struct Played {
    /// Times of the counted launches, by contender.
    pub times: Vec<Vec<f64>>,
    /// When the first counted round began: what a [`Monitor`](crate::Monitor) saw since is of these.
    pub start: Instant,
}

impl Rounds {
    /// So many counted rounds, up to ten times as many while they take less than a quarter of a second in all.
    pub fn new(least: usize) -> Self {
        Rounds { warm_up: 2, least, most: least.saturating_mul(10), lasting: Duration::from_millis(250) }
    }

    /// Lets contenders `0..contenders` take turns. `launch` runs one and returns its time; `None` is not counted.
    ///
    /// # Errors
    /// The first of `launch`.
    pub fn play<E>(
        self,
        contenders: usize,
        mut launch: impl FnMut(usize) -> Result<Option<f64>, E>,
    ) -> Result<Played, E> {
        let mut times = vec![Vec::new(); contenders];
        let mut orders = (0..).map(|round| order(round, contenders));
        let mut rounds = |least: usize, most: usize, counted: bool| -> Result<Instant, E> {
            let (start, mut played) = (Instant::now(), 0);
            while played < least || (start.elapsed() < self.lasting && played < most) {
                for contender in orders.next().into_iter().flatten() {
                    let time = launch(contender)?;
                    times[contender].extend(time.filter(|_| counted));
                }
                played += 1;
            }
            Ok(start)
        };
        rounds(self.warm_up, usize::MAX, false)?;
        let start = rounds(self.least, self.most, true)?;
        Ok(Played { times, start })
    }
}

/// Who launches when in a round. A row of Williams's square: the differences within its first row, 0, n-1, 1, n-2, …, are all
/// different modulo n where n is even; where it is odd, each is there twice in the rows and their reversals.
fn order(round: usize, contenders: usize) -> Vec<usize> {
    if contenders < 4 {
        return (0..contenders).collect();
    }
    let zigzag = (0..contenders).map(|i| if i % 2 == 0 { i / 2 } else { contenders - 1 - i / 2 });
    let mut row: Vec<usize> = zigzag.map(|c| (c + round) % contenders).collect();
    if contenders % 2 == 1 && round / contenders % 2 == 1 {
        row.reverse();
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_contender_comes_after_each_other_equally_often_and_never_after_itself() {
        for contenders in 2..10 {
            let rounds: Vec<usize> = (0..5 * contenders).flat_map(|round| order(round, contenders)).collect();
            assert!(rounds.windows(2).all(|pair| pair[0] != pair[1]), "{contenders}: {rounds:?}");
        }
        for contenders in 4..10usize {
            let period = if contenders.is_multiple_of(2) { contenders } else { 2 * contenders };
            let mut after = vec![vec![0; contenders]; contenders];
            let mut places = after.clone();
            for round in period..2 * period {
                let row = order(round, contenders);
                assert_eq!(row, order(round - period, contenders));
                row.iter().enumerate().for_each(|(place, &c)| places[c][place] += 1);
                row.windows(2).for_each(|pair| after[pair[0]][pair[1]] += 1);
            }
            let each = period / contenders;
            assert!(places.iter().flatten().all(|&n| n == each), "{contenders}: {places:?}");
            for (a, row) in after.iter().enumerate() {
                for (b, &n) in row.iter().enumerate() {
                    assert_eq!(n, if a == b { 0 } else { each }, "{contenders}: {a} before {b}");
                }
            }
        }
    }

    #[test]
    fn contenders_take_turns_and_warming_up_is_not_counted() {
        let rounds = Rounds { warm_up: 1, least: 3, most: 3, lasting: Duration::ZERO };
        let mut order = Vec::new();
        let played = rounds.play(2, |c| {
            order.push(c);
            Ok::<_, ()>((c == 0 || order.len() > 4).then_some(order.len() as f64))
        });
        let played = played.unwrap();
        assert_eq!(order, [0, 1, 0, 1, 0, 1, 0, 1]);
        assert_eq!(played.times, [vec![3.0, 5.0, 7.0], vec![6.0, 8.0]]);
    }

    #[test]
    fn what_is_counted_goes_on_in_the_order_of_the_warm_up() {
        for warm_up in 0..6 {
            let rounds = Rounds { warm_up, least: 3, most: 3, lasting: Duration::ZERO };
            let mut launched = Vec::new();
            let launch = |c| {
                launched.push(c);
                Ok::<_, ()>(Some(1.0))
            };
            rounds.play(4, launch).unwrap();
            assert_eq!(launched.len(), 4 * (warm_up + 3));
            assert!(launched.windows(2).all(|pair| pair[0] != pair[1]), "{warm_up}: {launched:?}");
        }
    }

    #[test]
    fn short_rounds_go_on_until_the_most_and_errors_end_them() {
        let rounds = Rounds { warm_up: 0, least: 2, most: 5, lasting: Duration::from_millis(20) };
        let slow = |_| {
            std::thread::sleep(Duration::from_millis(25));
            Ok::<_, ()>(Some(1.0))
        };
        assert_eq!(rounds.play(1, slow).unwrap().times[0].len(), 2);
        let rounds = Rounds { lasting: Duration::from_secs(3600), ..rounds };
        // Warming up lasts as long, so it is the error that ends it.
        let mut left = 10;
        let failing = |_| {
            left -= 1;
            if left == 0 { Err("enough") } else { Ok(None) }
        };
        assert_eq!(rounds.play(1, failing).unwrap_err(), "enough");
    }
}
