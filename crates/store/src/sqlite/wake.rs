//! The bell: wakes whoever waits for a message, in this process and in others on the same file.
//!
//! Within a process it is a notice. Between processes it is a small file beside the database: whoever
//! sends touches it, and everybody watches it (inotify). Where files cannot be watched, receivers look
//! once a second instead.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

/// Nobody else can send, so nobody needs to look.
const FOR_EVER: Duration = Duration::from_hours(24);

pub(super) struct Bell {
    notify: Arc<Notify>,
    file: Option<File>,
    watched: bool,
}

/// Registered before looking, so that a ring between the look and the wait is not missed.
pub(super) struct Heard(std::pin::Pin<Box<OwnedNotified>>);

impl Heard {
    pub(super) async fn wait(self) {
        self.0.await;
    }
}

impl Bell {
    /// A bell that only this process hears.
    pub(super) fn silent() -> Self {
        Self { notify: Arc::new(Notify::new()), file: None, watched: true }
    }

    /// A bell that every process on the database at `path` hears.
    pub(super) fn for_file(path: &Path) -> Self {
        let notify = Arc::new(Notify::new());
        let mut name = path.as_os_str().to_owned();
        name.push("-wake");
        let file = File::options().create(true).append(false).write(true).truncate(false).open(&name).ok();
        let watched = file.is_some() && watch(Path::new(&name), &notify);
        Self { notify, file, watched }
    }

    pub(super) fn ring(&self) {
        self.notify.notify_waiters();
        if let Some(mut file) = self.file.as_ref() {
            // A bell that cannot be rung costs the others a second, never a message.
            let _ = std::io::Seek::rewind(&mut file).and_then(|()| file.write_all(b"!"));
        }
    }

    pub(super) fn listen(&self) -> Heard {
        let mut heard = Box::pin(Arc::clone(&self.notify).notified_owned());
        heard.as_mut().enable();
        Heard(heard)
    }

    /// How long a receiver may go without looking.
    pub(super) fn patience(&self, look_every: Duration) -> Duration {
        if self.watched { FOR_EVER } else { look_every }
    }
}

#[cfg(target_os = "linux")]
fn watch(path: &Path, notify: &Arc<Notify>) -> bool {
    use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};

    let Ok(watch) = init(CreateFlags::CLOEXEC) else { return false };
    if add_watch(&watch, path, WatchFlags::MODIFY).is_err() {
        return false;
    }
    // The thread ends when the last store of this file is gone and the next ring finds nobody.
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
    std::thread::Builder::new().name("countersign-bell".into()).spawn(body).is_ok()
}

#[cfg(not(target_os = "linux"))]
fn watch(_path: &Path, _notify: &Arc<Notify>) -> bool {
    false
}
