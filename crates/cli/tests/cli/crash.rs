//! A worker that kills itself at a numbered call to the store, and the take-over by another.

use crate::env::CliEnv;
use crate::http_stub::HttpStub;

#[test]
fn killed_worker_loses_and_repeats_nothing() {
    for point in ["0:before", "2:after", "4:after", "6:before", "7:after"] {
        let (env, stub) = (CliEnv::new(), HttpStub::open());
        let address = stub.address();
        let post = format!("{{ method: PUT, url: 'http://{address}/notes', effect: native_key }}");
        let run = env.start(&format!(
            "{{workflow: w, version: 1, environment: dev, steps: [{{id: a, tool: http.request, with: {post}}}, \
             {{id: b, tool: transform, with: {{value: 1}}}}]}}"
        ));
        let options = format!("--lease 500ms --allow-host {address}");
        let worker = env.worker(&format!("{options} --until-idle --concurrency 1 --crash-at {point}"));
        assert_eq!(worker.exit_code(), None, "the worker was not killed at {point}");
        env.work(&options);

        assert_eq!(env.show(&run)["status"], "succeeded", "{point}");
        let mut keys: Vec<_> = stub.requests().into_iter().filter_map(|request| request.key).collect();
        keys.dedup();
        assert_eq!(keys.len(), 1, "repeated requests of one effect have one key: {point}");
    }
}

#[test]
fn crash_option_is_hidden_from_help() {
    let help = CliEnv::new().run("worker --help").expect(0);
    assert!(!help.out.contains("crash"), "{}", help.out);
}
