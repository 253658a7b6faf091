//! Layers that see a window of positions only, as some architectures alternate them with those that see all.

use super::{Decline, KeyValue, Keys};

/// For each layer the window that it has, none for a layer that sees all earlier positions.
///
/// Without a pattern in the file, one layer in `period` sees all, the last of each period.
///
/// # Errors
/// A pattern that is neither a period nor a list of one flag for each layer.
pub fn read_windows(
    keys: &mut Keys,
    window: usize,
    period: usize,
    n_layer: usize,
) -> Result<Vec<Option<usize>>, Decline> {
    const KEY: &str = "attention.sliding_window_pattern";
    let periodic = |period: usize| (0..n_layer).map(|layer| layer % period + 1 < period).collect();
    let local: Vec<bool> = match keys.list(KEY) {
        None => periodic(keys.count_or(KEY, period)?),
        Some(flags) => {
            let flag = |flag: &KeyValue| if let KeyValue::Bool(flag) = flag { Some(*flag) } else { None };
            let read: Option<Vec<bool>> = flags.iter().map(flag).collect();
            read.filter(|flags| flags.len() >= n_layer).ok_or_else(|| {
                let expected = format!("a period or a flag for each of the {n_layer} layers");
                keys.bad(KEY, KeyValue::List(flags), &expected)
            })?
        }
    };
    Ok(local.into_iter().take(n_layer).map(|local| local.then_some(window)).collect())
}
