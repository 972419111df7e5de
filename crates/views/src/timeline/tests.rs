//! Timelines: segments, marks and charts.

use domain::event::{Attempt, RunStatusChange, StepStatusChange};
use domain::payload::Fingerprint;
use domain::{Cause, Event, EventBody, Failure, Fence, Initiator, RunStatus, StepSeq, StepStatus, Timestamp};

use super::{Activity, ChartStyle, LiveStep, MarkKind, Timeline, TimelineRow, chart};

const FIRST: StepSeq = StepSeq(0);
const SECOND: StepSeq = StepSeq(1);

fn event(at: i64, seq: StepSeq, body: EventBody) -> Event {
    let by = Initiator::new(Cause::System, "w2");
    Event {
        n: 0,
        at: Timestamp(at),
        by,
        seq,
        rollback: false,
        run: None,
        step: None,
        read_verdict: None,
        body,
    }
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
    let body = EventBody::LeaseExpired { previous_worker: "w1".parse().unwrap(), fence: Fence(2), number: 1 };
    event(at, FIRST, body)
}

fn over(mut event: Event, status: RunStatus) -> Event {
    event.run = Some(RunStatusChange { from: Some(RunStatus::Running), to: status });
    event
}

fn timeline(events: &[Event], now: i64, held: Option<i64>) -> Timeline {
    let rows =
        vec![TimelineRow::new(FIRST, "look", "http.request"), TimelineRow::new(SECOND, "tell", "slack.post")];
    let held = held.map(|since| ("w3".to_owned(), Timestamp(since)));
    let seq = events.last().map_or(FIRST, |event| event.seq);
    Timeline::from_events(rows, events, &LiveStep { at: Timestamp(now), seq, held })
}

/// The segments of a step: activity, start and end.
fn segments(timeline: &Timeline, seq: StepSeq) -> Vec<(Activity, i64, i64)> {
    let row = &timeline.rows[seq.index()];
    row.segments.iter().map(|segment| (segment.activity, segment.from.0, segment.until.0)).collect()
}

#[test]
fn work_starts_with_the_claim() {
    let events = [resumed(0, FIRST), done(20, 50, FIRST), over(done(50, 100, SECOND), RunStatus::Succeeded)];
    let timeline = timeline(&events, 900, None);
    assert_eq!(segments(&timeline, FIRST), [(Activity::Queued, 0, 20), (Activity::Working, 20, 50)]);
    assert_eq!(segments(&timeline, SECOND), [(Activity::Working, 50, 100)]);
    assert_eq!((timeline.until, timeline.finished), (Timestamp(100), true));
    assert_eq!(timeline.rows[0].segments[1].worker.as_deref(), Some("w1"));
}

#[test]
fn retry_is_work_delay_and_work() {
    let events = [resumed(0, FIRST), failed(10, 40), done(45, 60, FIRST)];
    let timeline = timeline(&events, 60, None);
    let expected = [(Activity::Working, 0, 10), (Activity::BackingOff, 10, 45), (Activity::Working, 45, 60)];
    assert_eq!(segments(&timeline, FIRST)[..3], expected);
    assert_eq!(
        timeline.rows[0].segments.iter().map(|segment| segment.failed).collect::<Vec<_>>()[..3],
        [true, false, false]
    );
    assert_eq!(timeline.rows[0].marks[0].kind, MarkKind::Retry);
    assert!(timeline.rows[0].marks[0].text.contains("HTTP_STATUS: 503"));
}

#[test]
fn take_over_starts_a_new_segment() {
    let events = [resumed(0, FIRST), silent(30), done(30, 60, FIRST)];
    let timeline = timeline(&events, 60, None);
    assert_eq!(segments(&timeline, FIRST)[..2], [(Activity::Working, 0, 30), (Activity::Working, 30, 60)]);
    assert_eq!(timeline.rows[0].marks[0].kind, MarkKind::TakeOver);
}

#[test]
fn step_in_progress_is_open() {
    let events = [resumed(0, FIRST)];
    let held = timeline(&events, 100, Some(40));
    assert_eq!(segments(&held, FIRST), [(Activity::Queued, 0, 40), (Activity::Working, 40, 100)]);
    assert!(held.rows[0].segments[1].open && !held.finished);
    assert_eq!(held.rows[0].segments[1].worker.as_deref(), Some("w3"));
    let waiting = timeline(&[resumed(0, FIRST), waits(10, FIRST)], 100, None);
    assert_eq!(segments(&waiting, FIRST).last(), Some(&(Activity::AwaitingEvent, 10, 100)));
}

#[test]
fn slow_clock_yields_no_negative_segment() {
    let events = [resumed(100, FIRST), waits(110, FIRST), came(90, FIRST), done(80, 95, SECOND)];
    let timeline = timeline(&events, 50, None);
    for segment in timeline.rows.iter().flat_map(|row| &row.segments) {
        assert!(segment.from <= segment.until, "{segment:?}");
    }
    assert_eq!(timeline.until, Timestamp(110));
}

#[test]
fn permanent_failure_is_marked() {
    let body = EventBody::StepFailed { number: 0, failure: Failure::new("HTTP_STATUS", "404") };
    let mut event = over(event(10, FIRST, body), RunStatus::FailedTerminal);
    let (from, to) = (StepStatus::Running, StepStatus::FailedTerminal);
    event.step = Some(StepStatusChange { seq: FIRST, id: "look".parse().unwrap(), from, to });
    let timeline = timeline(&[resumed(0, FIRST), event], 20, None);
    assert_eq!(timeline.rows[0].marks[0].kind, MarkKind::Failed);
    assert!(timeline.rows[1].segments.is_empty());
}

#[test]
fn position_is_a_share_of_the_duration() {
    let timeline = timeline(&[over(resumed(0, FIRST), RunStatus::Succeeded)], 0, None);
    let timeline = Timeline { until: Timestamp(200), ..timeline };
    assert_eq!([0, 100, 200, 900].map(|at| timeline.position(Timestamp(at), 1000)), [0, 500, 1000, 1000]);
}

#[test]
fn chart_is_unicode_or_ascii() {
    let events =
        [resumed(0, FIRST), failed(20_000, 40_000), done(40_000, 50_000, FIRST), waits(50_000, SECOND)];
    let timeline = timeline(&events, 100_000, None);
    assert_eq!(
        chart(&timeline, 60, ChartStyle::Ascii),
        "      1970-01-01T00:00:00Z        1m 40s until now\n\
         look |########r--------#####                      | 50s\n\
         tell |                      ~~~~~~~~~~~~~~~~~~~~~>| 50s\n\
         \n\
         # working, - retry delay, ~ waits for an event, r retry, >\n\
         in progress\n"
    );
    let shaded = chart(&timeline, 60, ChartStyle::Unicode);
    assert!(shaded.contains("look │████████↻░░░░░░░░█████"), "{shaded}");
    assert!(chart(&timeline, 60, ChartStyle::Ascii).is_ascii());
}

#[test]
fn short_segment_is_drawn_at_any_width() {
    let events = [resumed(0, FIRST), done(0, 0, FIRST), waits(0, SECOND)];
    let timeline = timeline(&events, 86_400_000, None);
    for width in [0, 1, 20, 200] {
        let text = chart(&timeline, width, ChartStyle::Ascii);
        assert!(text.contains('#') && text.contains('~'), "{text}");
    }
}
