//! What the bars of a run say, and how they are drawn.

use domain::event::{Attempt, RunTransition, StepTransition};
use domain::payload::Fingerprint;
use domain::{Cause, Event, EventBody, Failure, Fence, Initiator, RunStatus, StepSeq, StepStatus, Timestamp};

use super::{Doing, MarkKind, Now, Row, Strokes, Timeline, chart};

const FIRST: StepSeq = StepSeq(0);
const SECOND: StepSeq = StepSeq(1);

fn event(at: i64, seq: StepSeq, body: EventBody) -> Event {
    let by = Initiator::new(Cause::System, "w2");
    Event { n: 0, at: Timestamp(at), by, seq, undo: false, run: None, step: None, body }
}

fn resumed(at: i64, seq: StepSeq) -> Event {
    event(at, seq, EventBody::RunResumed { reason: String::new() })
}

fn waits(at: i64, seq: StepSeq) -> Event {
    let body = EventBody::WaitOpened { event: "news".parse().unwrap(), deadline: Timestamp(i64::MAX) };
    event(at, seq, body)
}

fn came(at: i64, seq: StepSeq) -> Event {
    let (event_name, signal) = ("news".parse().unwrap(), "s".parse().unwrap());
    let payload = Fingerprint::of(&serde_json::json!(1));
    event(at, seq, EventBody::EventDelivered { event: event_name, signal, payload })
}

fn done(since: i64, at: i64, seq: StepSeq) -> Event {
    let attempt =
        Attempt { number: 0, worker: "w1".parse().unwrap(), fence: Fence(1), since: Timestamp(since) };
    let output = Fingerprint::of(&serde_json::json!(1));
    let attempt = Some(attempt);
    let body = EventBody::StepSucceeded { attempt, output, receipt: None, cost_microusd: 0, usage: None };
    event(at, seq, body)
}

fn failed(at: i64, not_before: i64) -> Event {
    let failure = Failure::new("HTTP_STATUS", "503");
    event(at, FIRST, EventBody::AttemptFailed { number: 0, failure, not_before: Timestamp(not_before) })
}

fn silent(at: i64) -> Event {
    let body = EventBody::LeaseExpired { silent: "w1".parse().unwrap(), fence: Fence(2), number: 1 };
    event(at, FIRST, body)
}

fn over(mut event: Event, status: RunStatus) -> Event {
    event.run = Some(RunTransition { from: Some(RunStatus::Running), to: status });
    event
}

fn timeline(events: &[Event], now: i64, held: Option<i64>) -> Timeline {
    let rows = vec![Row::new(FIRST, "look", "http.request"), Row::new(SECOND, "tell", "slack.post")];
    let held = held.map(|since| ("w3".to_owned(), Timestamp(since)));
    let seq = events.last().map_or(FIRST, |event| event.seq);
    Timeline::told(rows, events, &Now { at: Timestamp(now), seq, held })
}

/// What was done with a step, from when until when.
fn bars(timeline: &Timeline, seq: StepSeq) -> Vec<(Doing, i64, i64)> {
    let row = &timeline.rows[seq.index()];
    row.bars.iter().map(|bar| (bar.doing, bar.from.0, bar.until.0)).collect()
}

#[test]
fn work_begins_when_it_was_taken_and_the_next_step_where_it_ended() {
    let events = [resumed(0, FIRST), done(20, 50, FIRST), over(done(50, 100, SECOND), RunStatus::Succeeded)];
    let timeline = timeline(&events, 900, None);
    assert_eq!(bars(&timeline, FIRST), [(Doing::Queued, 0, 20), (Doing::Working, 20, 50)]);
    assert_eq!(bars(&timeline, SECOND), [(Doing::Working, 50, 100)]);
    assert_eq!((timeline.until, timeline.over), (Timestamp(100), true));
    assert_eq!(timeline.rows[0].bars[1].worker.as_deref(), Some("w1"));
}

#[test]
fn a_retry_is_work_a_pause_and_work_again() {
    let events = [resumed(0, FIRST), failed(10, 40), done(45, 60, FIRST)];
    let timeline = timeline(&events, 60, None);
    let expected = [(Doing::Working, 0, 10), (Doing::BackingOff, 10, 45), (Doing::Working, 45, 60)];
    assert_eq!(bars(&timeline, FIRST)[..3], expected);
    assert_eq!(
        timeline.rows[0].bars.iter().map(|bar| bar.vain).collect::<Vec<_>>()[..3],
        [true, false, false]
    );
    assert_eq!(timeline.rows[0].marks[0].kind, MarkKind::Retry);
    assert!(timeline.rows[0].marks[0].text.contains("HTTP_STATUS: 503"));
}

#[test]
fn a_take_over_ends_the_silent_workers_bar_and_begins_another() {
    let events = [resumed(0, FIRST), silent(30), done(30, 60, FIRST)];
    let timeline = timeline(&events, 60, None);
    assert_eq!(bars(&timeline, FIRST)[..2], [(Doing::Working, 0, 30), (Doing::Working, 30, 60)]);
    assert_eq!(timeline.rows[0].marks[0].kind, MarkKind::TakeOver);
}

#[test]
fn a_step_under_way_is_open_at_the_end() {
    let events = [resumed(0, FIRST)];
    let held = timeline(&events, 100, Some(40));
    assert_eq!(bars(&held, FIRST), [(Doing::Queued, 0, 40), (Doing::Working, 40, 100)]);
    assert!(held.rows[0].bars[1].open && !held.over);
    assert_eq!(held.rows[0].bars[1].worker.as_deref(), Some("w3"));
    let waiting = timeline(&[resumed(0, FIRST), waits(10, FIRST)], 100, None);
    assert_eq!(bars(&waiting, FIRST).last(), Some(&(Doing::AwaitingEvent, 10, 100)));
}

#[test]
fn a_clock_that_is_behind_draws_no_bar_backwards() {
    let events = [resumed(100, FIRST), waits(110, FIRST), came(90, FIRST), done(80, 95, SECOND)];
    let timeline = timeline(&events, 50, None);
    for bar in timeline.rows.iter().flat_map(|row| &row.bars) {
        assert!(bar.from <= bar.until, "{bar:?}");
    }
    assert_eq!(timeline.until, Timestamp(110));
}

#[test]
fn a_step_that_failed_for_good_is_marked() {
    let body = EventBody::StepFailed { number: 0, failure: Failure::new("HTTP_STATUS", "404") };
    let mut event = over(event(10, FIRST, body), RunStatus::FailedTerminal);
    let (from, to) = (StepStatus::Running, StepStatus::FailedTerminal);
    event.step = Some(StepTransition { seq: FIRST, id: "look".parse().unwrap(), from, to });
    let timeline = timeline(&[resumed(0, FIRST), event], 20, None);
    assert_eq!(timeline.rows[0].marks[0].kind, MarkKind::Failed);
    assert!(timeline.rows[1].bars.is_empty());
}

#[test]
fn a_place_is_a_share_of_the_whole() {
    let timeline = timeline(&[over(resumed(0, FIRST), RunStatus::Succeeded)], 0, None);
    let timeline = Timeline { until: Timestamp(200), ..timeline };
    assert_eq!([0, 100, 200, 900].map(|at| timeline.place(Timestamp(at), 1000)), [0, 500, 1000, 1000]);
}

#[test]
fn a_run_is_drawn_with_shades_or_in_plain_ascii() {
    let events =
        [resumed(0, FIRST), failed(20_000, 40_000), done(40_000, 50_000, FIRST), waits(50_000, SECOND)];
    let timeline = timeline(&events, 100_000, None);
    assert_eq!(
        chart(&timeline, 60, Strokes::Plain),
        "      1970-01-01T00:00:00.000Z 1 min until now\n\
         look |########r-------####                    | 50.0 s\n\
         tell |                    ~~~~~~~~~~~~~~~~~~~>| 50.0 s\n\
         \n\
         # work, - until the next attempt, ~ waits for an event, r\n\
         tried again, > goes on\n"
    );
    let shaded = chart(&timeline, 60, Strokes::Shaded);
    assert!(shaded.contains("look │████████↻░░░░░░░████"), "{shaded}");
    assert!(chart(&timeline, 60, Strokes::Plain).is_ascii());
}

#[test]
fn however_narrow_the_terminal_and_short_the_step_it_is_seen() {
    let events = [resumed(0, FIRST), done(0, 0, FIRST), waits(0, SECOND)];
    let timeline = timeline(&events, 86_400_000, None);
    for width in [0, 1, 20, 200] {
        let drawn = chart(&timeline, width, Strokes::Plain);
        assert!(drawn.contains('#') && drawn.contains('~'), "{drawn}");
    }
}
