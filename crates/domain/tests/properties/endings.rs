//! Nothing is stuck: whatever has happened to a run, somebody can bring it to an end.

use domain::{Live, RunStatus};
use proptest::prelude::*;

use crate::cases;
use crate::story::{Holder, Wish, any_story};
use crate::world::World;

/// More than any run needs that is served without a pause.
const ROUNDS_MAX: usize = 200;

/// An operator who has said three times to go on says something else.
const RESUMES_MAX: u32 = 3;

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_run_that_is_served_comes_to_an_end(story in any_story()) {
        let mut world = World::tell(&story, |_, _| {});
        let mut resumes = 0;
        let ended = serve(&mut world, |world| {
            resumes += 1;
            world.wish(0, if resumes > RESUMES_MAX { Wish::Cancel } else { Wish::Resume });
        });
        prop_assert!(ended, "{:?}", world.runs[0].record);
    }

    #[test]
    fn a_run_that_somebody_cancels_comes_to_an_end_without_anybody_resuming_it(story in any_story()) {
        let mut world = World::tell(&story, |_, _| {});
        world.wish(0, Wish::Cancel);
        let ended = serve(&mut world, |world| {
            world.wish(0, Wish::Cancel);
        });
        prop_assert!(ended, "{:?}", world.runs[0].record);
    }
}

/// The first run is worked on until it is over; whenever it is paused, `operator` says something.
fn serve(world: &mut World, mut operator: impl FnMut(&mut World)) -> bool {
    for _ in 0..ROUNDS_MAX {
        let record = &world.runs[0].record;
        let served = match (record.status, &record.live) {
            (status, _) if status.is_terminal() => return true,
            (RunStatus::Paused, _) => {
                operator(world);
                continue;
            }
            (_, Live::Running(_)) => Wish::Finish { who: Holder::Newest, hand_on: false },
            (_, Live::Retrying { .. } | Live::WaitingEvent { .. } | Live::WaitingApproval { .. }) => {
                world.wish(0, Wish::PassUntilDue);
                Wish::Serve
            }
            _ => Wish::Serve,
        };
        world.wish(0, served);
    }
    false
}
