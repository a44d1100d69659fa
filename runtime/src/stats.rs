//! Order statistics of repeated measurements.

/// The median: the mean of the two middle values of an even number; `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    quantile(values, 0.5)
}

/// The value below which a `fraction` (0 to 1) of the values lies, linear between neighbours; `None` of nothing.
pub fn quantile(values: &[f64], fraction: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = fraction * sorted.len().checked_sub(1)? as f64;
    let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    Some(low + (high - low) * at.fract())
}

/// The median of `a[i] / b[i]`: what two measurements of the same rounds have in common, such as the clock, cancels.
pub fn paired_ratio(a: &[f64], b: &[f64]) -> Option<f64> {
    median(&a.iter().zip(b).map(|(a, b)| a / b).collect::<Vec<_>>())
}
