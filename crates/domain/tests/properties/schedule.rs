//! Properties of retry policies.

use domain::retry_policy::RETRY_AFTER_MAX;
use domain::{Digest, Millis};
use proptest::prelude::*;

use crate::cases;
use crate::plans::any_retry;

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn delay_stays_within_cap_or_retry_after(
        policy in any_retry(),
        attempt in any::<u32>(),
        seed in any::<[u8; 32]>(),
        asked in prop::option::of(any::<u64>().prop_map(Millis)),
    ) {
        let delay = policy.delay(attempt, &Digest::from(seed), asked);
        let honored = asked.unwrap_or_default().min(RETRY_AFTER_MAX);
        prop_assert!(delay <= policy.cap.max(honored));
        prop_assert!(delay >= honored);
    }

    #[test]
    fn delay_is_deterministic(
        policy in any_retry(),
        attempt in any::<u32>(),
        seed in any::<[u8; 32]>(),
    ) {
        let seed = Digest::from(seed);
        prop_assert_eq!(policy.delay(attempt, &seed, None), policy.delay(attempt, &seed, None));
    }

    #[test]
    fn policy_bounds_the_number_of_attempts(policy in any_retry()) {
        let last = policy.attempts - 1;
        prop_assert!((0..last).all(|attempt| !policy.is_exhausted_by(attempt)));
        prop_assert!(policy.is_exhausted_by(last));
    }

    #[test]
    fn duration_round_trips(ms in any::<u64>()) {
        let written = Millis(ms).to_string();
        prop_assert_eq!(written.parse::<Millis>(), Ok(Millis(ms)));
    }
}
