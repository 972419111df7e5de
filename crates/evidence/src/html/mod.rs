//! The HTML report of a bundle.
//!
//! The page is self-contained: no script, no external request, light and dark mode. Untrusted text is escaped and its
//! invisible characters are marked, so that text in a ticket cannot falsify the report.

mod describe;
mod sections;
mod visible;

use maud::{DOCTYPE, Markup, html};

use crate::verify::Verified;
use visible::Visible;

const STYLE: &str = include_str!("style.css");

/// Forbids scripts and external requests, in case untrusted markup gets through.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// Renders the report of a verified bundle.
pub fn html(verified: &Verified) -> String {
    page(verified, None).into_string()
}

/// Renders the report with `notice` above everything else.
pub fn html_with_notice(verified: &Verified, notice: &str) -> String {
    page(verified, Some(notice)).into_string()
}

fn page(verified: &Verified, notice: Option<&str>) -> Markup {
    let bundle = verified.bundle();
    let run = &bundle.run;
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "Evidence of " (run.run.as_str()) }
                style { (maud::PreEscaped(STYLE)) }
            }
            body {
                @if let Some(notice) = notice {
                    p.notice role="alert" { (Visible(notice)) }
                }
                header {
                    h1 { (Visible(run.workflow.as_str())) " v" (run.version) " " span.status { (run.status.as_str()) } }
                    p { (Visible(&verified.summary())) }
                }
                main {
                    (sections::run(run))
                    (sections::steps(bundle))
                    (sections::approvals(bundle))
                    (sections::receipts(bundle))
                    (sections::compensations(bundle))
                    (sections::costs(&bundle.costs))
                    (sections::chain(verified))
                    (sections::log(&bundle.log))
                }
            }
        }
    }
}
