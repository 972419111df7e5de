//! The report: the same bundle, for people.
//!
//! One page that needs nothing else: no script, no request to anywhere, light and dark. Whatever somebody
//! else wrote is escaped, and what a reader could not see in it is made visible, so that a ticket cannot
//! make the report say something that the bundle does not.

mod sections;
mod text;
mod words;

use maud::{DOCTYPE, Markup, html};

use crate::verify::Verified;
use text::Seen;

const STYLE: &str = include_str!("style.css");

/// Nothing may be loaded and nothing may run, even if something slipped in.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// The report of a verified bundle.
pub fn html(verified: &Verified) -> String {
    page(verified).into_string()
}

fn page(verified: &Verified) -> Markup {
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
                header {
                    h1 { (Seen(run.workflow.as_str())) " v" (run.version) " " span.status { (run.status.as_str()) } }
                    p { (Seen(&verified.summary())) }
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
