//! Wakes receivers that wait for a message, in this process and in other processes on the same file.
//!
//! Within a process this is a [`Notify`]. Between processes it is a small file beside the database: a sender writes
//! to it, and every receiver watches it with inotify. On systems without inotify, receivers poll once a second.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

/// No other process can send without a notification, so there is no need to poll.
const NO_POLLING: Duration = Duration::from_hours(24);

pub(super) struct WakeUp {
    notify: Arc<Notify>,
    file: Option<File>,
    watched: bool,
}

/// Created before the receiver reads the queue, so that a notification between the read and the wait is not lost.
pub(super) struct Listener(std::pin::Pin<Box<OwnedNotified>>);

impl Listener {
    pub(super) async fn wait(self) {
        self.0.await;
    }
}

impl WakeUp {
    /// Wakes receivers of this process only.
    pub(super) fn in_process() -> Self {
        Self { notify: Arc::new(Notify::new()), file: None, watched: true }
    }

    /// Wakes receivers of every process that has the database at `path` open.
    pub(super) fn for_file(path: &Path) -> Self {
        let notify = Arc::new(Notify::new());
        let mut name = path.as_os_str().to_owned();
        name.push("-wake");
        let file = File::options().create(true).append(false).write(true).truncate(false).open(&name).ok();
        let watched = file.is_some() && watch(Path::new(&name), &notify);
        Self { notify, file, watched }
    }

    pub(super) fn notify(&self) {
        self.notify.notify_waiters();
        if let Some(mut file) = self.file.as_ref() {
            // If this fails, receivers of other processes see the message up to a second late.
            let _ = std::io::Seek::rewind(&mut file).and_then(|()| file.write_all(b"!"));
        }
    }

    pub(super) fn listen(&self) -> Listener {
        let mut notified = Box::pin(Arc::clone(&self.notify).notified_owned());
        notified.as_mut().enable();
        Listener(notified)
    }

    /// How long a receiver waits before it reads the queue again without a notification.
    pub(super) fn poll_interval(&self, without_inotify: Duration) -> Duration {
        if self.watched { NO_POLLING } else { without_inotify }
    }
}

#[cfg(target_os = "linux")]
fn watch(path: &Path, notify: &Arc<Notify>) -> bool {
    use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};

    let Ok(watch) = init(CreateFlags::CLOEXEC) else { return false };
    if add_watch(&watch, path, WatchFlags::MODIFY).is_err() {
        return false;
    }
    // The thread ends at the first notification after the last store of this file is dropped.
    let listeners = Arc::downgrade(notify);
    let body = move || {
        let mut buffer = [std::mem::MaybeUninit::uninit(); 4096];
        while rustix::io::read(&watch, &mut buffer).is_ok() {
            match listeners.upgrade() {
                Some(notify) => notify.notify_waiters(),
                None => return,
            }
        }
    };
    std::thread::Builder::new().name("countersign-wakeup".into()).spawn(body).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn watch(_path: &Path, _notify: &Arc<Notify>) -> bool {
    false
}
