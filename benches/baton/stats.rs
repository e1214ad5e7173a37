//! Medians and percentiles.

/// The value that a share `p` (0 to 1) of the sample does not exceed, by nearest rank.
///
/// # Panics
/// When the sample is empty.
pub fn percentile(sample: &[f64], p: f64) -> f64 {
    assert!(!sample.is_empty(), "a percentile of nothing");
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (p * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

/// The middle of the sample; of two middles the mean.
pub fn median(sample: &[f64]) -> f64 {
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { f64::midpoint(sorted[half - 1], sorted[half]) }
}

/// The distribution of a sample: for some values, the share of the sample that does not exceed them.
pub fn distribution(sample: &[f64]) -> Vec<(f64, f64)> {
    const POINTS: usize = 200;
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let step = n.div_ceil(POINTS).max(1);
    let ranks = (0..n).filter(|rank| rank % step == 0 || rank + 1 == n);
    ranks.map(|rank| (sorted[rank], (rank + 1) as f64 / n as f64)).collect()
}
