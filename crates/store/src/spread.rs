//! Waits that differ from one another: whoever was turned away together must not come back together.
//!
//! The chance lies in who waits, and how often they have waited before. So nothing is drawn, and a test can be repeated.

use std::time::Duration;

use domain::Digest;

/// Something between nothing and `most`: always the same for `who` in this `round`, and hardly ever for another.
pub fn part(most: Duration, who: &str, round: u32) -> Duration {
    let parts = [who.as_bytes(), &round.to_be_bytes()];
    let chance = Digest::of_parts("countersign/spread/v1", &parts).as_bytes()[0];
    most * u32::from(chance) / 255
}

/// About `wait`: between half of it and half as much again.
pub fn around(wait: Duration, who: &str, round: u32) -> Duration {
    wait / 2 + part(wait, who, round)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const WAIT: Duration = Duration::from_millis(500);

    #[test]
    fn those_who_were_turned_away_together_come_back_apart() {
        let waits: BTreeSet<Duration> = (0..100).map(|n| around(WAIT, &format!("worker.{n}"), 1)).collect();
        assert!(waits.len() > 50, "{} different waits of a hundred", waits.len());
        assert!(waits.iter().all(|wait| (WAIT / 2..=WAIT * 3 / 2).contains(wait)), "{waits:?}");
    }

    #[test]
    fn each_round_has_a_wait_of_its_own_and_the_same_every_time() {
        let rounds = || (0..20).map(|round| part(WAIT, "worker.1", round)).collect::<Vec<_>>();
        assert_eq!(rounds(), rounds());
        assert!(rounds().into_iter().collect::<BTreeSet<_>>().len() > 10);
    }
}
