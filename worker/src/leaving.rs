//! Leaving: a process is asked to stop, and everything in it hears of it.

use tokio::sync::watch;

/// Asks everybody to leave.
#[derive(Debug)]
pub struct Leave(watch::Sender<bool>);

/// Hears of it.
#[derive(Debug, Clone)]
pub struct Leaving(watch::Receiver<bool>);

/// A way to ask, and a way to hear.
pub fn leaving() -> (Leave, Leaving) {
    let (sender, receiver) = watch::channel(false);
    (Leave(sender), Leaving(receiver))
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

    /// Returns when somebody asks; never, if nobody can any more.
    pub async fn asked(&self) {
        let mut receiver = self.0.clone();
        if receiver.wait_for(|asked| *asked).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
