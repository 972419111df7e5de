//! Store faults.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use store::{Intercept, StoreCall, StoreError};

/// What happens to a call of the store.
#[derive(Debug)]
pub enum Fault {
    /// It is carried out.
    None,
    /// It is carried out after this long.
    Delay(Duration),
    /// It is not carried out, and fails.
    Fail(StoreError),
    /// It is not carried out, and fails after this long.
    FailAfter(Duration, StoreError),
    /// It is not carried out, and no reply arrives.
    Hang,
    /// It is carried out, and no reply arrives.
    NoReply,
    /// It is carried out, and the caller gets an error.
    LoseReply,
}

type Choose = dyn Fn(&StoreCall) -> Fault + Send + Sync;

/// Chooses a fault for each call. Use it with `store::Intercepted`.
#[derive(Clone)]
pub struct Faults(Arc<Choose>);

impl Faults {
    pub fn new(choose: impl Fn(&StoreCall) -> Fault + Send + Sync + 'static) -> Self {
        Self(Arc::new(choose))
    }

    /// The fault for calls of this name only.
    pub fn at(name: &'static str, fault: impl Fn() -> Fault + Send + Sync + 'static) -> Self {
        Self::new(move |call| if call.name == name { fault() } else { Fault::None })
    }
}

/// How often each call of the store was made, by name. Clones count together.
#[derive(Debug, Clone, Default)]
pub struct CallCounts(Arc<Mutex<BTreeMap<&'static str, usize>>>);

impl CallCounts {
    /// Counts each call and chooses a fault for it.
    pub fn faults(&self, choose: impl Fn(&StoreCall) -> Fault + Send + Sync + 'static) -> Faults {
        let counts = Arc::clone(&self.0);
        Faults::new(move |call| {
            *counts.lock().unwrap().entry(call.name).or_default() += 1;
            choose(call)
        })
    }

    /// The number of calls of this name.
    pub fn of(&self, name: &str) -> usize {
        self.0.lock().unwrap().get(name).copied().unwrap_or_default()
    }

    pub fn all(&self) -> BTreeMap<&'static str, usize> {
        self.0.lock().unwrap().clone()
    }

    /// The number of calls of this name since the last call of this function.
    pub fn take(&self, name: &str) -> usize {
        self.0.lock().unwrap().remove(name).unwrap_or_default()
    }
}

/// What happens to the reply of a call that was carried out.
pub enum LostReply {
    No,
    Silent,
    Error(&'static str),
}

impl Intercept for Faults {
    type State = LostReply;

    async fn before(&self, call: &StoreCall) -> Result<LostReply, StoreError> {
        match (self.0)(call) {
            Fault::None => Ok(LostReply::No),
            Fault::Delay(time) => {
                tokio::time::sleep(time).await;
                Ok(LostReply::No)
            }
            Fault::Fail(error) => Err(error),
            Fault::FailAfter(time, error) => {
                tokio::time::sleep(time).await;
                Err(error)
            }
            Fault::Hang => pending().await,
            Fault::NoReply => Ok(LostReply::Silent),
            Fault::LoseReply => Ok(LostReply::Error(call.name)),
        }
    }

    async fn after(&self, reply: LostReply) -> Result<(), StoreError> {
        match reply {
            LostReply::No => Ok(()),
            LostReply::Silent => pending().await,
            LostReply::Error(doing) => Err(StoreError::Unknown { doing }),
        }
    }
}
