//! The oracle: an independent record of who did what, and its own decision about each effect.

use std::collections::{BTreeMap, BTreeSet};

use domain::{Digest, IdempotencyKey, StepSeq};
use serde::Serialize;

use super::config::Need;

/// A set of people, by number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct People(u8);

impl People {
    pub(crate) const fn first(count: u8) -> Self {
        Self((1 << count) - 1)
    }
    pub(crate) const fn has(self, person: u8) -> bool {
        self.0 & (1 << person) != 0
    }
    pub(crate) const fn add(&mut self, person: u8) {
        self.0 |= 1 << person;
    }
    pub(crate) const fn toggle(&mut self, person: u8) {
        self.0 ^= 1 << person;
    }
    const fn count(self) -> u32 {
        self.0.count_ones()
    }
    const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
    const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// What an effect violates, or what it shows.
pub(crate) mod flag {
    pub(crate) const UNAPPROVED: u16 = 1;
    pub(crate) const SHAPED: u16 = 1 << 1;
    pub(crate) const OTHER_ACTION: u16 = 1 << 2;
    pub(crate) const REMOVED: u16 = 1 << 3;
    pub(crate) const REPEATED: u16 = 1 << 4;
    pub(crate) const REJECTION_HIDDEN: u16 = 1 << 5;
    pub(crate) const ATTEMPT_HIDDEN: u16 = 1 << 6;
}

/// What the last command led to.
#[expect(clippy::struct_excessive_bools, reason = "the facts are independent of each other")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Situation {
    pub effect: bool,
    /// An interrupted effect was repeated.
    pub continued: bool,
    pub need: u32,
    pub rollback: bool,
    pub undo: bool,
    pub again: bool,
    pub after_rejection: bool,
    /// A person who had voted was no longer in the directory.
    pub without_a_voter: bool,
}

/// The oracle's record of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct RunHistory {
    pub shaped: People,
    request: Option<Request>,
    /// The step whose action was rejected, and whether it was its rollback.
    rejected: Option<(StepSeq, bool)>,
}

/// A request for approval of one action.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Request {
    action: Digest,
    policy: u8,
    need: u32,
    voters: People,
    /// The people in the directory who had approved when they were enough.
    deciders: People,
    /// Whether an effect that may have happened used it.
    used: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Oracle {
    pub runs: [RunHistory; 2],
    /// The effects that may have happened, or that are known to be repeated by nothing.
    open: BTreeMap<IdempotencyKey, Digest>,
    /// The risky effects whose last attempt failed. The next attempt needs an approval of its own.
    failed: BTreeSet<IdempotencyKey>,
    /// The violated rules.
    pub broken: u16,
    pub seen: Situation,
}

/// An action as the oracle sees it.
pub(crate) struct Proposed<'a> {
    pub run: usize,
    pub at: (StepSeq, bool),
    pub key: &'a IdempotencyKey,
    pub action: Digest,
    pub policy: u8,
    /// What the table requires.
    pub need: Need,
    pub is_repeatable: bool,
}

impl Oracle {
    /// The approvals that the action needs: as policy requires, and at least one to repeat an unknown outcome, or a risky
    /// action after a failed attempt.
    fn need(&self, proposed: &Proposed<'_>) -> u32 {
        let unknown = self.open.contains_key(proposed.key) && !proposed.is_repeatable;
        let repeats = unknown || self.failed.contains(proposed.key);
        proposed.need.count().max(u32::from(repeats))
    }

    /// An approval was requested, and the request names an earlier rejection and an earlier attempt or does not.
    pub(crate) fn record_request(&mut self, proposed: &Proposed<'_>, (rejection, attempt): (bool, bool)) {
        let need = self.need(proposed).max(1);
        let account = &mut self.runs[proposed.run];
        if account.rejected == Some(proposed.at) && !rejection {
            self.broken |= flag::REJECTION_HIDDEN;
        }
        if self.open.contains_key(proposed.key) && !attempt {
            self.broken |= flag::ATTEMPT_HIDDEN;
        }
        account.request = Some(Request {
            action: proposed.action,
            policy: proposed.policy,
            need,
            voters: People::default(),
            deciders: People::default(),
            used: false,
        });
    }

    pub(crate) fn record_approval(&mut self, run: usize, person: u8, directory: People) {
        let Some(request) = &mut self.runs[run].request else { return };
        request.voters.add(person);
        let present = request.voters.and(directory);
        if present.count() >= request.need && request.deciders.count() == 0 {
            request.deciders = present;
        }
    }

    pub(crate) fn record_rejection(&mut self, run: usize, at: (StepSeq, bool)) {
        let account = &mut self.runs[run];
        account.request = None;
        account.rejected = Some(at);
    }

    /// A worker may now perform an action that was not intended before.
    pub(crate) fn record_effect(&mut self, proposed: &Proposed<'_>, directory: People) {
        let need = self.need(proposed);
        let account = &mut self.runs[proposed.run];
        let again = self.open.contains_key(proposed.key) || self.failed.contains(proposed.key);
        self.broken |= account.violation(proposed, (need, again), directory);
        self.seen = Situation {
            effect: true,
            continued: false,
            need,
            rollback: proposed.at.1,
            undo: false,
            again,
            after_rejection: account.rejected == Some(proposed.at),
            without_a_voter: account
                .request
                .as_ref()
                .is_some_and(|request| need > 0 && request.voters.without(request.deciders).count() > 0),
        };
        if let Some(request) = &mut account.request {
            request.used = true;
        }
        self.failed.remove(proposed.key);
        self.open.insert(proposed.key.clone(), proposed.action);
    }

    /// A worker may now repeat an action that was intended before. It needs what policy requires now, although the
    /// approvals may have been given under an earlier policy.
    pub(crate) fn record_continuation(&mut self, proposed: &Proposed<'_>, directory: People) {
        let need = proposed.need.count();
        let deciders = self.runs[proposed.run].request.as_ref().map_or(People::default(), |it| it.deciders);
        if self.open.get(proposed.key) != Some(&proposed.action) || deciders.count() < need {
            self.broken |= flag::UNAPPROVED;
        } else if deciders.and(directory).count() < need {
            self.broken |= flag::REMOVED;
        }
        self.seen = Situation { continued: true, need, ..Situation::default() };
    }

    /// The effect happened, and its result is recorded.
    pub(crate) fn record_success(&mut self, key: &IdempotencyKey) {
        self.open.remove(key);
    }

    /// The effect did not happen, so its approval can be used again.
    pub(crate) fn record_no_effect(&mut self, run: usize, key: &IdempotencyKey) {
        self.open.remove(key);
        if let Some(request) = &mut self.runs[run].request {
            request.used = false;
        }
    }
}

impl Oracle {
    /// The effect of a risky action did not happen. The approval of the attempt is used up.
    pub(crate) fn record_failed_attempt(&mut self, key: &IdempotencyKey) {
        self.open.remove(key);
        self.failed.insert(key.clone());
    }
}

impl RunHistory {
    /// What is wrong with an effect that needs `need` approvals.
    fn violation(&self, proposed: &Proposed<'_>, (need, again): (u32, bool), directory: People) -> u16 {
        if need == 0 {
            return 0;
        }
        let unapproved =
            if again && proposed.need == Need::Allowed { flag::REPEATED } else { flag::UNAPPROVED };
        match &self.request {
            None => unapproved,
            Some(request) if request.used => flag::REPEATED,
            Some(request) if request.voters.count() < need => unapproved,
            Some(request) if request.action != proposed.action || request.policy != proposed.policy => {
                flag::OTHER_ACTION
            }
            Some(request) if request.deciders.and(directory).count() < need => flag::REMOVED,
            Some(request) if request.deciders.without(self.shaped).count() < need => flag::SHAPED,
            Some(_) => 0,
        }
    }
}
