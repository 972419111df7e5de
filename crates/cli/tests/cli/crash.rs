//! A worker that kills itself at a numbered call to the store, and what another makes of it.

use crate::outside::Outside;
use crate::shell::Shell;

#[test]
fn a_worker_killed_at_its_first_calls_loses_nothing_and_doubles_nothing() {
    for point in ["0:before", "2:after", "4:after", "6:before", "7:after"] {
        let (shell, outside) = (Shell::new(), Outside::open());
        let address = outside.address();
        let post = format!("{{ method: POST, url: 'http://{address}/notes', effect: native_key }}");
        let run = shell.start(&format!(
            "{{workflow: w, version: 1, environment: dev, steps: [{{id: a, tool: http.request, with: {post}}}, \
             {{id: b, tool: transform, with: {{value: 1}}}}]}}"
        ));
        let options = format!("--lease 500ms --allow-host {address}");
        let worker = shell.worker(&format!("{options} --until-idle --concurrency 1 --crash-at {point}"));
        assert_eq!(worker.ended(), None, "the worker was to be killed at {point}");
        shell.work(&options);

        assert_eq!(shell.show(&run)["status"], "succeeded", "{point}");
        let mut keys: Vec<_> = outside.asked().into_iter().filter_map(|asked| asked.key).collect();
        keys.dedup();
        assert_eq!(keys.len(), 1, "one effect has one key, however often it is asked for: {point}");
    }
}

#[test]
fn a_crash_point_is_not_offered_to_operators() {
    let help = Shell::new().run("worker --help").expect(0);
    assert!(!help.out.contains("crash"), "{}", help.out);
}
