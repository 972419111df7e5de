//! `countersign run timeline`.

use api_types::Run;
use domain::Event;

use crate::api_session::ApiSession;
use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;
use crate::run_name::RunName;
use crate::screen;
use views::time;
use views::timeline::{ChartStyle, LiveStep, Timeline, TimelineRow, chart, timeline_json};

/// The width if standard output is not a terminal.
const WIDTH_DEFAULT: u16 = 100;

const EXAMPLES: &str = "\
Examples:
  countersign run timeline RUN
  countersign run timeline RUN --plain             use ASCII only, for a ticket or a mail
  countersign run timeline RUN --json | jq '.steps[] | {id, bars}'

The chart is as wide as the terminal. If the chain of events is broken, nothing is drawn and the
exit code is 1.";

/// Draw the steps of a run over time, with waits, retries and take-overs
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The run
    run: RunName,
    /// Use ASCII characters only [default: if the locale is not UTF-8]
    #[arg(long)]
    plain: bool,
    /// The width of the chart [default: the width of the terminal]
    #[arg(long, value_name = "COLUMNS", value_parser = clap::value_parser!(u16).range(40..=1000))]
    width: Option<u16>,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let (session, run) = context.connect_to_run(&args.run)?;
    // Read the run first: the chain is then at least as new.
    let document = session.client.run(&run.run).await.map_err(ApiSession::run_error(&run))?;
    if !document.chain.verified {
        let show = session.hints.run("show", &run);
        let why = format!(
            "the chain of events of run {run} is broken, so its events are not trustworthy; see `{show}`"
        );
        return Err(CliError::Refused(why));
    }
    let chain = session.chain(&run.run).await?;
    let events: Vec<Event> = chain.into_iter().map(|entry| entry.event).collect();
    let timeline = Timeline::from_events(rows(&document), &events, &live_step(&document));
    context.print(&draw(&timeline, args, context), &timeline_json(&timeline))?;
    Ok(ExitStatus::Success)
}

fn rows(document: &Run) -> Vec<TimelineRow> {
    document
        .steps
        .iter()
        .map(|step| TimelineRow::new(step.seq, step.id.as_str(), step.tool.as_str()))
        .collect()
}

fn live_step(document: &Run) -> LiveStep {
    let lease = document.steps.iter().find_map(|step| step.lease.as_ref());
    let held = lease.and_then(|lease| Some((lease.worker.to_string(), time::parse(&lease.acquired_at)?)));
    LiveStep { at: ApiSession::now(), seq: document.current_step, held }
}

fn draw(timeline: &Timeline, args: &Args, context: &Context) -> String {
    let plain = args.plain || !context.env.utf8;
    let style = if plain { ChartStyle::Ascii } else { ChartStyle::Unicode };
    let width = args.width.or_else(screen::width).unwrap_or(WIDTH_DEFAULT);
    chart(timeline, width.into(), style)
}
