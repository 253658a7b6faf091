//! Bars for long work, drawn only where standard error is a terminal.

use std::sync::{Mutex, OnceLock, PoisonError};

use indicatif::{ProgressBar, ProgressStyle};

/// A bar that appears with its first report and goes away with the last, or when dropped.
pub(super) struct Bar {
    what: &'static str,
    bar: OnceLock<ProgressBar>,
}

impl Bar {
    pub(super) fn new(what: &'static str) -> Self {
        Self { what, bar: OnceLock::new() }
    }

    /// Work done of work in all.
    pub(super) fn report(&self, done: usize, total: usize) {
        let bar = self.bar.get_or_init(|| {
            let style = ProgressStyle::with_template("{msg} {wide_bar} {percent}%");
            let bar = ProgressBar::new(total as u64).with_message(self.what);
            style.map_or(bar.clone(), |style| bar.with_style(style))
        });
        bar.set_position(done as u64);
        if done >= total {
            // What follows is the answer, which a later clearing would take along.
            bar.finish_and_clear();
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.get() {
            bar.finish_and_clear();
        }
    }
}

/// One bar after the other, by what they are about.
#[derive(Default)]
pub(super) struct Stages(Mutex<Option<Bar>>);

impl Stages {
    /// Work done of work in all; a new `what` starts a new bar.
    pub(super) fn report(&self, what: &'static str, done: usize, total: usize) {
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if current.as_ref().is_none_or(|bar| bar.what != what) {
            *current = Some(Bar::new(what));
        }
        if let Some(bar) = current.as_ref() {
            bar.report(done, total);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Bar;

    #[test]
    fn a_bar_goes_away_with_its_last_report() {
        let bar = Bar::new("work");
        bar.report(3, 5);
        assert!(!bar.bar.get().unwrap().is_finished());
        bar.report(5, 5);
        assert!(bar.bar.get().unwrap().is_finished(), "what is printed next would be cleared with it");
    }
}
