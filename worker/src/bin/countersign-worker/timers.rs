//! The intervals of the worker: lease, renewal, sweep and poll.

use domain::Millis;

use crate::Failure;

const LEASE: &str = "COUNTERSIGN_LEASE";
const RENEW_EVERY: &str = "COUNTERSIGN_RENEW_EVERY";
const SWEEP_EVERY: &str = "COUNTERSIGN_SWEEP_EVERY";
const POLL: &str = "COUNTERSIGN_POLL";

/// A shorter lease expires during a short outage of DynamoDB. During a longer one, the step of a dead worker waits.
const LEASE_BOUNDS: [Millis; 2] = [Millis::secs(5), Millis::mins(15)];

/// A more frequent renewal costs a write each time.
const RENEWAL_MIN: Millis = Millis::secs(1);

/// A sweep reads every partition of the due index. The sweep function runs once a minute as well.
const SWEEP_BOUNDS: [Millis; 2] = [Millis::secs(5), Millis::hours(1)];

/// SQS lets a request wait for at most 20 s, in whole seconds.
const POLL_BOUNDS: [Millis; 2] = [Millis::secs(1), Millis::secs(20)];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Timers {
    /// The lease of a step, and the visibility timeout of a message. With the delay of its message, a dead worker's step
    /// is taken over within half a minute by default.
    pub(crate) lease: Millis,
    /// Three renewals are tried before the lease expires.
    pub(crate) renew_every: Millis,
    pub(crate) sweep_every: Millis,
    /// A message that becomes visible again is received by the next poll, so polls are short enough for a take-over
    /// within half a minute. Three queues polled this often cost about fifty cents a month.
    pub(crate) poll: Millis,
}

impl Default for Timers {
    fn default() -> Self {
        Self {
            lease: Millis::secs(20),
            renew_every: Millis::secs(5),
            sweep_every: Millis::secs(30),
            poll: Millis::secs(5),
        }
    }
}

impl Timers {
    /// Reads the variables that are set. Without its own variable, the renewal follows the lease.
    pub(crate) fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, Failure> {
        let read = |name: &str, [min, max]: [Millis; 2], default: Millis| {
            let Some(text) = variable(name) else { return Ok::<_, Failure>(default) };
            let value: Millis = text.parse().map_err(|error| format!("{name} is {text:?}: {error}"))?;
            if value < min || value > max {
                return Err(format!("{name} is {value}; it must be from {min} to {max}").into());
            }
            Ok(value)
        };
        let default = Self::default();
        let lease = read(LEASE, LEASE_BOUNDS, default.lease)?;
        let timers = Self {
            lease,
            renew_every: read(RENEW_EVERY, [RENEWAL_MIN, Millis(lease.0 / 2)], Millis(lease.0 / 4))?,
            sweep_every: read(SWEEP_EVERY, SWEEP_BOUNDS, default.sweep_every)?,
            poll: read(POLL, POLL_BOUNDS, default.poll)?,
        };
        match timers.poll.0 % 1_000 {
            0 => Ok(timers),
            _ => Err(format!("{POLL} is {}; it must be in whole seconds", timers.poll).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(set: &[(&str, &str)]) -> Result<Timers, String> {
        let value = |name: &str| set.iter().find(|(of, _)| *of == name).map(|(_, text)| (*text).to_owned());
        Timers::read(value).map_err(|error| error.to_string())
    }

    #[test]
    fn unset_timers_keep_their_defaults() {
        let [lease, renew_every, sweep_every, poll] = [20, 5, 30, 5].map(Millis::secs);
        assert_eq!(read(&[]), Ok(Timers { lease, renew_every, sweep_every, poll }));
    }

    #[test]
    fn timers_can_be_set() {
        let set = [(LEASE, "2m"), (RENEW_EVERY, "50s"), (SWEEP_EVERY, "10s"), (POLL, "20s")];
        let [lease, renew_every, sweep_every, poll] = [120, 50, 10, 20].map(Millis::secs);
        assert_eq!(read(&set), Ok(Timers { lease, renew_every, sweep_every, poll }));
        assert_eq!(read(&[(LEASE, "1m")]).unwrap().renew_every, Millis::secs(15));
    }

    #[test]
    fn unsafe_timers_are_refused() {
        for (set, reason) in [
            (vec![(LEASE, "4s")], "COUNTERSIGN_LEASE is 4s; it must be from 5s to 15m"),
            (vec![(LEASE, "16m")], "COUNTERSIGN_LEASE is 16m; it must be from 5s to 15m"),
            (vec![(LEASE, "20")], "COUNTERSIGN_LEASE is \"20\": "),
            (vec![(RENEW_EVERY, "11s")], "COUNTERSIGN_RENEW_EVERY is 11s; it must be from 1s to 10s"),
            (vec![(LEASE, "8s"), (RENEW_EVERY, "5s")], "it must be from 1s to 4s"),
            (vec![(RENEW_EVERY, "0s")], "it must be from 1s to 10s"),
            (vec![(SWEEP_EVERY, "0s")], "COUNTERSIGN_SWEEP_EVERY is 0s; it must be from 5s to 1h"),
            (vec![(POLL, "21s")], "COUNTERSIGN_POLL is 21s; it must be from 1s to 20s"),
            (vec![(POLL, "0s")], "it must be from 1s to 20s"),
            (vec![(POLL, "1500ms")], "it must be in whole seconds"),
        ] {
            let refused = read(&set).unwrap_err();
            assert!(refused.contains(reason), "{set:?}: {refused}");
        }
    }
}
