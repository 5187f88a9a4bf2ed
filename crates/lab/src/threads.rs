//! Work on several threads.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread;

/// Does all that is to be done, the last first, on so many threads, and hands on what comes of each as it comes. What has not begun
/// when `stop` is set is left undone. An error of `done` sets it.
pub(crate) fn each<T: Copy + Send, R: Send, E>(
    threads: usize,
    todo: Vec<T>,
    stop: &AtomicBool,
    work: impl Fn(T) -> R + Sync,
    mut done: impl FnMut(T, R) -> Result<(), E>,
) -> Result<(), E> {
    let todo = Mutex::new(todo);
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for _ in 0..threads.max(1) {
            let (sender, todo, work) = (sender.clone(), &todo, &work);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let Some(next) = todo.lock().ok().and_then(|mut todo| todo.pop()) else { return };
                    if sender.send((next, work(next))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let done = receiver.into_iter().try_for_each(|(next, result)| done(next, result));
        done.inspect_err(|_| stop.store(true, Ordering::Relaxed))
    })
}
