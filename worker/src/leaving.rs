//! Leaving: a process is asked to stop, and everything in it hears of it.

use tokio::sync::watch;

/// Asks everybody to leave.
#[derive(Debug)]
pub struct Leave(watch::Sender<bool>);

/// Hears of it. Whoever hears it from elsewhere, within this crate, asks everybody else.
#[derive(Debug, Clone)]
pub struct Leaving(watch::Sender<bool>);

/// A way to ask, and a way to hear.
pub fn leaving() -> (Leave, Leaving) {
    let asked = watch::Sender::new(false);
    (Leave(asked.clone()), Leaving(asked))
}

impl Leave {
    /// Asks.
    pub fn ask(&self) {
        self.0.send_replace(true);
    }
}

impl Leaving {
    /// Whether somebody asked.
    pub fn is_asked(&self) -> bool {
        *self.0.borrow()
    }

    /// Returns when somebody asks.
    pub async fn asked(&self) {
        // This is a way to ask itself, so there is always one.
        let _ = self.0.subscribe().wait_for(|asked| *asked).await;
    }

    /// Asks.
    pub(crate) fn ask(&self) {
        self.0.send_replace(true);
    }
}
