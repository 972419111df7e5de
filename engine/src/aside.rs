//! Long thoughts, beside everything else.
//!
//! A policy may take a second for each question and for each of its tests, and whoever asks may have written it to.
//! What may take long is done on a thread of its own, a few at a time, and is told when it has had its time or when
//! nobody waits for it any more.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use domain::Millis;
use store::{Store, StoreError};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::Engine;
use crate::error::EngineError;

/// Runs go on meanwhile, on the other cores.
const AT_ONCE: usize = 2;

/// An honest policy needs a hundredth of this; a client waits a little longer.
const WITHIN: Millis = Millis::secs(20);

/// Who waits this long for room is told to come again, instead of standing in a line without end.
const ROOM_WITHIN: Millis = Millis::secs(5);

/// Room for thoughts.
pub(crate) struct Aside(Arc<Semaphore>);

impl Default for Aside {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE)))
    }
}

/// Says that the time is up as soon as it is dropped.
struct Waiting(Arc<AtomicBool>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl<S: Store> Engine<S> {
    /// What `thought` comes to. It is asked to end early by what it is given.
    pub(crate) async fn aside<T: Send + 'static>(
        &self,
        thought: impl FnOnce(&dyn Fn() -> bool) -> T + Send + 'static,
    ) -> Result<T, EngineError> {
        let busy = || EngineError::Store(StoreError::Busy { doing: "ask a policy" });
        let room = timeout(ROOM_WITHIN.std(), Arc::clone(&self.aside.0).acquire_owned()).await;
        let room = room.map_err(|_| busy())?.map_err(|_| busy())?;
        let over = Arc::new(AtomicBool::new(false));
        let waiting = Waiting(Arc::clone(&over));
        let mut thinking = spawn_blocking(move || {
            let _room = room;
            thought(&|| over.load(Ordering::Relaxed))
        });
        let come_to = if let Ok(come_to) = timeout(WITHIN.std(), &mut thinking).await {
            come_to
        } else {
            drop(waiting);
            thinking.await
        };
        match come_to {
            Ok(come_to) => Ok(come_to),
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            // The process is ending.
            Err(_) => Err(busy()),
        }
    }
}
