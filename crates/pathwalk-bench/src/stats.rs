//! The statistics of a row: the median and the quartiles, which one slow sample does not move.

/// What is kept of the samples of one subject.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    /// The middle of the samples.
    pub(crate) median: f64,
    /// The distance of the quartiles over the median: half of the samples lie between them.
    pub(crate) spread: f64,
}

impl Summary {
    /// Sums up samples, in any order, or `None` of no samples.
    pub(crate) fn of(samples: &[f64]) -> Option<Summary> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let median = quantile(&sorted, 0.5)?;
        let spread = (quantile(&sorted, 0.75)? - quantile(&sorted, 0.25)?) / median;
        Some(Summary { median, spread })
    }
}

/// Within which part of a median nineteen of twenty others would lie, of as many samples with the same spread: twice the standard
/// error of a median, for samples that lie as errors do.
pub(crate) fn noise_of_median(spread: f64, samples: usize) -> f64 {
    /// The distance of the quartiles, in standard deviations; and the error of a median, in those of a mean.
    const QUARTILES: f64 = 1.349;
    const MEDIAN: f64 = 1.2533;
    2.0 * MEDIAN * spread / QUARTILES / (samples.max(1) as f64).sqrt()
}

/// Returns the value below which the fraction `at` of the sorted samples lies.
///
/// Between two samples it goes in a straight line from one to the other.
fn quantile(sorted: &[f64], at: f64) -> Option<f64> {
    let position = at * sorted.len().checked_sub(1)? as f64;
    let below = sorted[position.floor() as usize];
    let above = sorted[position.ceil() as usize];
    Some(below + (above - below) * position.fract())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_the_samples() {
        let rows: &[(&[f64], f64, Option<f64>)] = &[
            (&[], 0.5, None),
            (&[7.0], 0.25, Some(7.0)),
            (&[1.0, 2.0], 0.5, Some(1.5)),
            (&[1.0, 2.0, 9.0], 0.5, Some(2.0)),
            (&[1.0, 2.0, 3.0, 4.0, 5.0], 0.25, Some(2.0)),
            (&[1.0, 2.0, 3.0, 4.0], 0.75, Some(3.25)),
            (&[1.0, 2.0, 3.0, 4.0], 1.0, Some(4.0)),
        ];
        for (sorted, at, want) in rows {
            assert_eq!(quantile(sorted, *at), *want, "{at} of {sorted:?}");
        }
    }

    #[test]
    fn the_noise_of_a_median_is_what_medians_differ_by() {
        const SAMPLES: usize = 90;
        let mut random = fastrand::Rng::with_seed(205);
        // Sums of twelve numbers between 0 and 1 lie as errors do, round 6 with a standard deviation of 1.
        let mut sample = || 94.0 + (0..12).map(|_| random.f64()).sum::<f64>();
        let mut of = || Summary::of(&(0..SAMPLES).map(|_| sample()).collect::<Vec<_>>());
        let all: Vec<_> = (0..1000).filter_map(|_| of()).collect();
        let within = |one: &&Summary| {
            (one.median - 100.0).abs() <= noise_of_median(one.spread, SAMPLES) * one.median
        };
        let within = all.iter().filter(within).count();
        assert!((920..980).contains(&within), "{within} of 1000");
    }

    #[test]
    fn the_order_of_the_samples_does_not_matter() {
        let summary = Summary::of(&[5.0, 1.0, 3.0, 2.0, 4.0]);
        assert_eq!(summary, Some(Summary { median: 3.0, spread: 2.0 / 3.0 }));
    }

    #[test]
    fn one_slow_sample_moves_neither_median_nor_spread_far() {
        let mut samples = vec![10.0; 99];
        samples.push(1e9);
        assert_eq!(Summary::of(&samples), Some(Summary { median: 10.0, spread: 0.0 }));
    }
}
