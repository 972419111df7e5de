//! The tools that touch the world.
//!
//! [`tool`] says what a tool is; every other module is one tool or a part of one. What a tool promises
//! about being asked again stands in its module's documentation, and in the class it declares.

mod fields;
pub mod http;
pub mod tool;
pub mod transform;

pub use http::HttpRequest;
pub use http::guard::{Allow, HostRule};
pub use tool::{Ask, Call, Done, LookUp, Outcome, Tool, Toolbox};
pub use transform::Transform;

/// The tools that every worker has. Inner addresses are out of reach but for the hosts in `allow`.
pub fn standard(allow: Allow) -> Toolbox {
    Toolbox::default().with(Transform).with(HttpRequest::new(allow))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_box_holds_every_tool() {
        let names: Vec<_> = standard(Allow::default()).names().map(ToString::to_string).collect();
        assert_eq!(names, ["http.request", "transform"]);
    }
}
