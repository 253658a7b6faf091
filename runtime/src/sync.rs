//! Locking without poison (every guarded value is valid between any two statements), and whose turn it is.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Held while an instance or a device is made or destroyed: rare enough to take turns, so that no driver has to show
/// that its loading and unloading stand several threads.
pub(crate) fn lifecycle() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    lock(&TURN)
}
