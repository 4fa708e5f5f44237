//! Turns of a runner without a sandbox, with a scripted server and a scripted agent.

#![allow(clippy::unwrap_used, reason = "test helpers")]

mod support;

use openvibe_runner::RunnerError;
use serde_json::json;
use support::{Server, Setup, git, setting, text_of, until};

const NONE: &str = "sandbox = 'none'\n[repository.api]\ncheck = 'test ! -e broken'";

#[tokio::test]
async fn a_turn_reports_its_text_steps_changes_and_check() {
    let mut server = Server::start().await;
    let setup = Setup::new(&server, NONE);
    let _running = setup.run();
    let mut connection = server.connect(&json!({})).await;
    assert_eq!(
        connection.hello["repositories"],
        json!([{"name": "api", "base": "trunk", "can_push": false}])
    );
    let opened = connection.open(1, "scripted").await;
    assert_eq!((&opened["type"], &opened["n"]), (&json!("opened"), &json!(1)));
    connection.prompt(2, "task_1", "say Hello\nsh echo two >> README.md; echo new > a.txt; echo seen\nunknown x\ngarbage {\nsay Bye").await;
    let events = connection.until("done").await;
    assert_eq!(text_of(&events), "Hello\n\n-32601Bye");
    let numbers: Vec<u64> = events.iter().map(|event| event["n"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (2..2 + numbers.len() as u64).collect::<Vec<_>>());
    let step = events.iter().rfind(|event| event["type"] == "step").unwrap();
    assert_eq!(step["steps"][0]["state"], "done");
    let done = events.last().unwrap();
    assert_eq!(done["stop"], "complete");
    assert_eq!(done["check"]["state"], "passed");
    let paths: Vec<_> =
        done["files"].as_array().unwrap().iter().map(|file| &file["path"]).collect();
    assert_eq!(paths, ["README.md", "a.txt"]);
    assert_eq!((&done["additions"], &done["deletions"]), (&json!(2), &json!(0)));
    assert!(server.file("/v1/runner/sessions/code_1/patch").contains("+two"));
    assert!(server.file("/v1/runner/sessions/code_1/log").contains("seen"));
}

#[tokio::test]
async fn a_failed_check_and_an_empty_turn_are_reported() {
    let mut server = Server::start().await;
    let setup = Setup::new(&server, NONE);
    let _running = setup.run();
    let mut connection = server.connect(&json!({})).await;
    connection.open(1, "scripted").await;
    connection.prompt(2, "task_1", "say Nothing to do").await;
    let done = connection.until("done").await.pop().unwrap();
    assert_eq!((&done["files"], &done["check"]["state"]), (&json!([]), &json!("none")));
    connection.prompt(3, "task_2", "sh touch broken").await;
    let done = connection.until("done").await.pop().unwrap();
    assert_eq!(done["check"]["state"], "failed");
    connection.prompt(4, "task_3", "stop refusal").await;
    let refused = connection.until("failed").await.pop().unwrap();
    assert_eq!((&refused["code"], &refused["message"]), (&json!("refused"), &json!("")));
    connection.prompt(5, "task_4", "stop max").await;
    assert_eq!(connection.until("done").await.pop().unwrap()["stop"], "truncated");
}

#[tokio::test]
async fn changes_that_the_server_does_not_store_cannot_be_pushed() {
    let mut server = Server::start().await;
    let setup = Setup::new(&server, NONE);
    let _running = setup.run();
    let mut connection = server.connect(&json!({})).await;
    connection.open(1, "scripted").await;
    server.refuse_files(413);
    connection.prompt(2, "task_1", "sh echo two >> README.md").await;
    let done = connection.until("done").await.pop().unwrap();
    assert_eq!((&done["tree"], &done["file_count"]), (&json!(null), &json!(1)));
    let note = done["notes"][0].as_str().unwrap();
    assert!(note.contains("cannot be pushed") && note.contains("413"), "{note}");
}

#[tokio::test]
async fn a_server_that_cannot_store_files_does_not_keep_a_turn_from_ending() {
    let mut server = Server::start().await;
    let setup = Setup::new(&server, NONE);
    let _running = setup.run();
    let mut connection = server.connect(&json!({})).await;
    connection.open(1, "scripted").await;
    server.refuse_files(500);
    connection.prompt(2, "task_1", "sh echo two >> README.md").await;
    server.refused().await;
    connection.command(3, json!({"type": "cancel", "task": "task_1"})).await;
    let done = connection.until("done").await.pop().unwrap();
    assert_eq!((&done["tree"], &done["file_count"]), (&json!(null), &json!(1)));
    assert!(done["notes"][0].as_str().unwrap().contains("500"), "{done}");
}

#[tokio::test]
async fn events_are_sent_again_until_they_are_acknowledged() {
    let mut server = Server::start().await;
    let setup = Setup::new(&server, NONE);
    let _running = setup.run();
    let mut connection = server.connect(&json!({})).await;
    connection.acks = false;
    connection.open(1, "scripted").await;
    connection.prompt(2, "task_1", "say One").await;
    let before = connection.until("done").await;
    drop(connection);
    // The server stored the first event only.
    let mut connection = server.connect(&json!({"code_1": 1})).await;
    assert_eq!(connection.hello["sessions"], json!({"code_1": 2}));
    assert_eq!(connection.until("done").await, before);
    // Known commands are acknowledged, and not executed again.
    connection.prompt(2, "task_1", "say One").await;
    connection.prompt(3, "task_2", "say Two").await;
    assert_eq!(text_of(&connection.until("done").await), "Two");
}

#[tokio::test]
async fn sessions_of_another_server_stay_on_the_runner() {
    let mut server = Server::start().await;
    let setup = Setup::new(&server, NONE);
    let _running = setup.run();
    let mut connection = server.connect(&json!({})).await;
    connection.acks = false;
    assert_eq!(connection.open(1, "scripted").await["type"], "opened");
    drop(connection);
    let mut connection = server.connect(&json!({})).await;
    for _ in 0..5 {
        connection.send_text("{}").await;
    }
    assert!(connection.frame().await.is_null());
    let mut connection = server.connect(&json!({"code_1": 0})).await;
    assert_eq!(connection.event().await["type"], "opened");
}

#[tokio::test]
async fn a_gap_in_the_commands_is_asked_for() {
    let mut server = Server::start().await;
    let setup = Setup::new(&server, NONE);
    let _running = setup.run();
    let mut connection = server.connect(&json!({})).await;
    connection.open(1, "scripted").await;
    connection.prompt(3, "task_2", "say Two").await;
    loop {
        let frame = connection.frame().await;
        if frame["type"] == "resend" {
            assert_eq!(frame["n"], 1);
            break;
        }
    }
}

#[tokio::test]
async fn bad_frames_close_the_connection() {
    let mut server = Server::start().await;
    let setup = Setup::new(&server, NONE);
    let _running = setup.run();
    let mut connection = server.connect(&json!({})).await;
    for _ in 0..5 {
        connection.send_text("{}").await;
    }
    assert!(connection.frame().await.is_null());
    server.connect(&json!({})).await;
}

#[tokio::test]
async fn a_turn_continues_after_the_end_of_the_runner_and_of_the_agent() {
    let mut server = Server::start().await;
    let setup = Setup::new(&server, NONE);
    let mut running = setup.run();
    let mut connection = server.connect(&json!({})).await;
    connection.open(1, "scripted").await;
    connection.prompt(2, "task_1", "say Begin\nhang").await;
    let text = connection.until("text").await;
    assert_eq!(text_of(&text), "Begin");
    drop(connection);
    running.stop().await.unwrap();
    running = setup.run();
    let mut connection = server.connect(&json!({"code_1": 2})).await;
    let events = connection.until("done").await;
    assert_eq!(text_of(&events), "[You were interrupted. Continue.]");
    connection.prompt(3, "task_2", "die").await;
    // The processes after the first one get another prompt, and succeed.
    let events = connection.until("done").await;
    assert_eq!(text_of(&events), "[You were interrupted. Continue.]");
    connection.prompt(4, "task_3", "sh touch die-always\ndie").await;
    assert_eq!(connection.until("failed").await.pop().unwrap()["code"], "worker_lost");
    drop(running);
}

/// Kills in the suite, each in a turn of its own.
const KILLS: u64 = 6;

#[tokio::test]
async fn a_killed_runner_sends_each_event_once_and_ends_each_turn() {
    let mut server = Server::start().await;
    let setup = Setup::new(&server, NONE);
    let mut runner = setup.spawn();
    let mut connection = server.connect(&json!({})).await;
    connection.open(1, "scripted").await;
    let mut last = 1;
    for kill in 0..setting("OPENVIBE_TEST_RUNNER_KILLS").unwrap_or(KILLS) {
        let (n, task) = (2 + kill, format!("task_{kill}"));
        let script = format!(
            "say One\nsh echo {kill} >> a.txt; sleep 0.1\nsay Two\nsh sleep 0.6\nsay Three"
        );
        connection.prompt(n, &task, &script).await;
        // One more event with each turn, then again none.
        let before = kill % 6;
        let mut count = 0;
        let mut is_done = false;
        while !is_done {
            if count == before {
                drop(connection);
                drop(runner);
                runner = setup.spawn();
                connection = server.connect(&json!({"code_1": last})).await;
                if connection.hello["sessions"]["code_1"] != n {
                    connection.prompt(n, &task, &script).await;
                }
            }
            let event = connection.event().await;
            (last, count) = (last + 1, count + 1);
            assert_eq!(event["n"], last, "{event}");
            assert_eq!(event["task"], task, "{event}");
            assert_ne!(event["type"], "failed", "{event}");
            is_done = event["type"] == "done";
        }
    }
}

#[tokio::test]
async fn a_canceled_turn_stops_and_keeps_its_changes() {
    let mut server = Server::start().await;
    let setup = Setup::new(&server, NONE);
    let _running = setup.run();
    let mut connection = server.connect(&json!({})).await;
    connection.open(1, "scripted").await;
    // One agent stops by itself, the other one is killed.
    for (n, word) in [(2, "wait"), (4, "hang")] {
        let task = format!("task_{n}");
        connection.prompt(n, &task, &format!("sh touch {word}\nsay Ready\n{word}")).await;
        connection.until("text").await;
        connection.command(n + 1, json!({"type": "cancel", "task": task})).await;
        let done = connection.until("done").await.pop().unwrap();
        assert_eq!(done["stop"], "canceled");
        let mut files = done["files"].as_array().unwrap().iter();
        assert!(files.any(|file| file["path"] == word), "{done}");
    }
}

#[tokio::test]
async fn a_canceled_turn_does_not_wait_for_its_check() {
    let mut server = Server::start().await;
    let more = "sandbox = 'none'\n[repository.api]\ncheck = 'touch ../../../checked; sleep 300'";
    let setup = Setup::new(&server, more);
    let _running = setup.run();
    let mut connection = server.connect(&json!({})).await;
    connection.open(1, "scripted").await;
    connection.prompt(2, "task_1", "sh touch a.txt").await;
    until(|| setup.path().join("data/checked").exists()).await;
    connection.command(3, json!({"type": "cancel", "task": "task_1"})).await;
    let done = connection.until("done").await.pop().unwrap();
    assert_eq!((&done["check"]["state"], &done["file_count"]), (&json!("none"), &json!(1)));
}

#[tokio::test]
async fn tokens_of_other_models_than_the_servers_are_reported_once() {
    let mut server = Server::start().await;
    let more = "sandbox = 'none'\n[engine.paid]\ncommand = ['$PROGRAM', 'scripted']\nto = 'https://api.example'\n[repository.api]";
    let setup = Setup::new(&server, more);
    let _running = setup.run();
    let mut connection = server.connect(&json!({})).await;
    connection.open(1, "paid").await;
    for (n, expected) in [(2, [5, 2]), (3, [70, 1])] {
        let usage = json!({"inputTokens": expected[0], "outputTokens": expected[1]});
        connection.prompt(n, &format!("task_{n}"), &format!("usage {usage}")).await;
        let events = connection.until("done").await;
        let usage = events.iter().filter(|event| event["type"] == "usage");
        let tokens = usage.map(|usage| [&usage["input_tokens"], &usage["output_tokens"]]);
        assert_eq!(tokens.collect::<Vec<_>>(), [[&json!(expected[0]), &json!(expected[1])]]);
    }
}

#[tokio::test]
async fn a_steer_joins_the_running_turn() {
    let mut server = Server::start().await;
    let setup = Setup::new(&server, NONE);
    let _running = setup.run();
    let mut connection = server.connect(&json!({})).await;
    connection.open(1, "scripted").await;
    connection.prompt(2, "task_1", "say Ready\nwait").await;
    connection.until("text").await;
    connection
        .command(3, json!({"type": "steer", "task": "task_1", "text": "say Other way"}))
        .await;
    let events = connection.until("done").await;
    assert_eq!(text_of(&events), "\n\nOther way");
    assert_eq!(events.last().unwrap()["unread_steers"], json!([]));
}

#[tokio::test]
async fn a_question_and_a_permission_wait_for_an_answer() {
    let mut server = Server::start().await;
    let setup = Setup::new(&server, NONE);
    let _running = setup.run();
    let mut connection = server.connect(&json!({})).await;
    connection.open(1, "scripted").await;
    connection.prompt(2, "task_1", "ask Which one?\npermit execute").await;
    let ask = connection.until("ask").await.pop().unwrap();
    assert_eq!((&ask["kind"], &ask["title"]), (&json!("question"), &json!("Which one?")));
    connection
        .command(3, json!({"type": "answer", "ask": ask["ask"], "value": {"answer": "B"}}))
        .await;
    let ask = connection.until("ask").await.pop().unwrap();
    assert_eq!(ask["options"], json!([{"id": "once", "name": "Once"}]));
    connection.command(4, json!({"type": "answer", "ask": ask["ask"], "value": "once"})).await;
    let events = connection.until("done").await;
    assert!(text_of(&events).contains("\"once\""), "{events:?}");
    // The request is all that the agent sends of this call.
    let step = events.iter().find(|event| event["type"] == "step").unwrap();
    assert_eq!(
        (&step["steps"][0]["title"], &step["steps"][0]["kind"]),
        (&json!("Do it"), &json!("execute"))
    );
}

#[tokio::test]
async fn sessions_run_in_the_mode_of_their_engine() {
    let mut server = Server::start().await;
    let engine = |name: &str, mode: &str| {
        format!("[engine.{name}]\ncommand = ['$PROGRAM', 'scripted']\nmode = '{mode}'\n")
    };
    let engines = [engine("careful", "ask"), engine("other", "missing")].concat();
    let more = format!("sandbox = 'none'\n{engines}[repository.api]");
    let setup = Setup::new(&server, &more);
    let _running = setup.run();
    let mut connection = server.connect(&json!({})).await;
    connection.open(1, "careful").await;
    // The second session is resumed.
    for n in [2, 3] {
        connection.prompt(n, &format!("task_{n}"), "mode").await;
        assert_eq!(text_of(&connection.until("done").await), "ask");
    }
    // Without its mode, an agent could change things that nobody allowed.
    connection.open(4, "other").await;
    connection.prompt(5, "task_5", "mode").await;
    let failed = connection.until("failed").await.pop().unwrap();
    let message = failed["message"].as_str().unwrap();
    assert!(message.contains("session/set_mode: there is no such mode"), "{message}");
    let lines = openvibe_runner::check(&setup.config).await;
    let line = |name: &str| lines.iter().find(|line| line.text.starts_with(name)).unwrap();
    assert!(line("engine careful").is_ok, "{}", line("engine careful").text);
    assert!(line("engine other").text.contains("no such mode"), "{}", line("engine other").text);
}

#[tokio::test]
async fn what_an_agent_replays_of_its_session_is_not_new() {
    let mut server = Server::start().await;
    let mut setup = Setup::new(&server, NONE);
    let engine = setup.config.engines.get_mut("scripted").unwrap();
    engine.command.push("load".to_owned());
    let _running = setup.run();
    let mut connection = server.connect(&json!({})).await;
    connection.open(1, "scripted").await;
    for (n, word) in [(2, "One"), (3, "Two")] {
        let prompt = json!({"type": "prompt", "task": format!("task_{n}"), "key": "turn-key",
            "text": format!("say {word}"), "full": format!("say Full\nsay {word}")});
        connection.command(n, prompt).await;
        let expected = if n == 2 { "FullOne" } else { "Two" };
        assert_eq!(text_of(&connection.until("done").await), expected);
    }
}

#[tokio::test]
async fn agents_reach_the_door_without_its_proxy_and_npm_tries_no_other_host() {
    for (network, offline) in [(false, "true"), (true, "")] {
        let mut server = Server::start().await;
        let more = format!(
            "sandbox = 'none'\n[repository.api]\nnetwork = {network}\nallow = ['packages.example.org']"
        );
        let setup = Setup::new(&server, &more);
        let _running = setup.run();
        let mut connection = server.connect(&json!({})).await;
        connection.open(1, "scripted").await;
        let script = "sh echo \"[$HTTPS_PROXY $NO_PROXY $no_proxy $npm_config_offline]\"";
        connection.prompt(2, "task_1", script).await;
        connection.until("done").await;
        let log = server.file("/v1/runner/sessions/code_1/log");
        let expected = format!(" 127.0.0.1,localhost 127.0.0.1,localhost {offline}]");
        assert!(log.contains(&expected) && log.contains("[http://127.0.0.1:"), "{log}");
    }
}

#[tokio::test]
async fn an_answer_after_a_restart_resumes_the_agent() {
    let mut server = Server::start().await;
    let setup = Setup::new(&server, NONE);
    let running = setup.run();
    let mut connection = server.connect(&json!({})).await;
    connection.open(1, "scripted").await;
    connection.prompt(2, "task_1", "ask Which one?").await;
    let ask = connection.until("ask").await.pop().unwrap();
    drop(connection);
    running.stop().await.unwrap();
    let _running = setup.run();
    let mut connection = server.connect(&json!({"code_1": ask["n"]})).await;
    connection
        .command(3, json!({"type": "answer", "ask": ask["ask"], "value": {"answer": "B"}}))
        .await;
    let events = connection.until("done").await;
    assert!(
        text_of(&events).contains("“Which one?” was answered: {\"answer\":\"B\"}"),
        "{events:?}"
    );
}

#[tokio::test]
async fn a_flood_is_cut_and_the_turn_completes() {
    let mut server = Server::start().await;
    let setup = Setup::new(&server, NONE);
    let _running = setup.run();
    let mut connection = server.connect(&json!({})).await;
    connection.open(1, "scripted").await;
    connection.prompt(2, "task_1", "long\nflood 1100\nsh echo kept > a.txt").await;
    let events = connection.until("done").await;
    assert!(text_of(&events).len() <= 1 << 20);
    let steps = events.iter().filter(|event| event["type"] == "step");
    for step in steps.flat_map(|event| event["steps"].as_array().unwrap()) {
        assert!(step["step"].as_u64().unwrap() < 1000, "{step}");
        assert!(step["title"].as_str().unwrap().len() <= 300);
    }
    let done = events.last().unwrap();
    assert_eq!((&done["stop"], &done["files"][0]["path"]), (&json!("truncated"), &json!("a.txt")));
}

#[tokio::test]
async fn an_agent_that_stalls_or_floods_ends_at_the_limit_of_a_turn() {
    let mut server = Server::start().await;
    let more = "sandbox = 'none'\nlimits = {turn = '3s'}\n[repository.api]";
    let setup = Setup::new(&server, more);
    let _running = setup.run();
    let mut connection = server.connect(&json!({})).await;
    connection.open(1, "scripted").await;
    for (n, word) in [(2, "hang"), (3, "flood")] {
        let task = format!("task_{n}");
        connection.prompt(n, &task, &format!("sh touch {word}\n{word}")).await;
        let failed = connection.until("failed").await.pop().unwrap();
        assert_eq!((&failed["code"], &failed["task"]), (&json!("timeout"), &json!(task)));
    }
    // The session goes on.
    connection.prompt(4, "task_4", "say Here").await;
    let events = connection.until("done").await;
    assert!(text_of(&events).ends_with("Here"));
    let files = events.last().unwrap()["files"].as_array().unwrap().clone();
    let paths: Vec<_> = files.iter().map(|file| &file["path"]).collect();
    assert_eq!(paths, ["flood", "hang"]);
}

#[tokio::test]
async fn an_agent_that_reads_nothing_is_stopped() {
    let mut server = Server::start().await;
    let setup = Setup::new(&server, NONE);
    let _running = setup.run();
    let mut connection = server.connect(&json!({})).await;
    connection.open(1, "scripted").await;
    connection.prompt(2, "task_1", "deaf").await;
    let failed = connection.until("failed").await.pop().unwrap();
    assert_eq!(failed["code"], "agent_failed");
    assert!(failed["message"].as_str().unwrap().contains("does not read"), "{failed}");
}

/// Lines of an agent that are wrong, or that it must not send.
const LIES: &[&str] = &[
    "",
    "null",
    "[{}]",
    "\u{0}\u{1b}[2J",
    "{\"jsonrpc\":\"2.0\"}",
    "{\"method\":7,\"params\":[]}",
    // Responses to requests that nobody has sent, or that have ended.
    r#"{"id":1,"result":{"protocolVersion":9}}"#,
    r#"{"id":99,"result":{"stopReason":"end_turn"}}"#,
    r#"{"id":-1,"error":{"message":"no"}}"#,
    r#"{"id":"3","result":{"stopReason":"refusal"}}"#,
    // Updates with parts that are missing, have other types, or are absurd.
    r#"{"method":"session/update"}"#,
    r#"{"method":"session/update","params":{"update":{"sessionUpdate":"tool_call"}}}"#,
    r#"{"method":"session/update","params":{"update":{"sessionUpdate":"tool_call_update","toolCallId":7,"status":"completed"}}}"#,
    r#"{"method":"session/update","params":{"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":["Lie"]}}}}"#,
    r#"{"method":"session/update","params":{"update":{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"Lie"}}}}"#,
    r#"{"method":"session/update","params":{"update":{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"Lie"}}}}"#,
    r#"{"method":"session/update","params":{"update":{"sessionUpdate":"plan","entries":"Lie"}}}"#,
    r#"{"method":"session/update","params":{"update":{"sessionUpdate":"usage_update","cost":{"currency":"USD","amount":-5}}}}"#,
    r#"{"method":"session/update","params":{"update":{"sessionUpdate":"usage_update","cost":{"currency":"Lie","amount":5}}}}"#,
    // Requests for what is not offered.
    r#"{"id":1001,"method":"fs/write_text_file","params":{"path":"/etc/lie","content":"Lie"}}"#,
    r#"{"id":1002,"method":"terminal/create","params":{"command":"touch","args":["lie"]}}"#,
    r#"{"id":{"a":1},"method":"session/prompt","params":{}}"#,
    r#"{"id":1003,"method":"elicitation/create","params":{"mode":"url","url":"https://example.com","message":"Sign in"}}"#,
    r#"{"id":1004,"method":"elicitation/create","params":{"mode":"form","message":"Sign in","requestedSchema":7}}"#,
];

#[tokio::test]
async fn lies_of_an_agent_change_nothing() {
    let mut server = Server::start().await;
    let setup = Setup::new(&server, NONE);
    let _running = setup.run();
    let mut connection = server.connect(&json!({})).await;
    connection.open(1, "scripted").await;
    let lies: Vec<String> = LIES.iter().map(|lie| format!("garbage {lie}")).collect();
    let script = format!("say True\n{}\nsay .", lies.join("\n"));
    connection.prompt(2, "task_1", &script).await;
    let events = connection.until("done").await;
    assert_eq!(text_of(&events).replace('\n', ""), "True.");
    let done = events.last().unwrap();
    assert_eq!((&done["stop"], &done["files"]), (&json!("complete"), &json!([])));
    for event in &events {
        let kind = event["type"].as_str().unwrap();
        assert!(matches!(kind, "text" | "plan" | "done"), "{event}");
    }
    assert!(!std::path::Path::new("/etc/lie").exists());
    // It asks for a permission that would hold for longer, and does not wait for the answer.
    let always = r#"{"id":1005,"method":"session/request_permission","params":{"options":[{"optionId":"a","name":"Always","kind":"allow_always"}],"toolCall":{"kind":"execute","title":7}}}"#;
    connection.prompt(3, "task_2", &format!("garbage {always}\nsh sleep 1\nsay End")).await;
    let ask = connection.until("ask").await.pop().unwrap();
    assert_eq!(ask["options"], json!([]));
    connection.until("done").await;
    connection.command(4, json!({"type": "answer", "ask": ask["ask"], "value": "a"})).await;
    // It ends its turn before the work is done: what follows is not counted.
    let early = r#"{"id":3,"result":{"stopReason":"end_turn"}}"#;
    connection.prompt(5, "task_3", &format!("say Early\ngarbage {early}\nhang")).await;
    let events = connection.until("done").await;
    assert_eq!(text_of(&events), "Early");
    connection.prompt(6, "task_4", "say Next").await;
    assert_eq!(text_of(&connection.until("done").await), "Next");
}

#[tokio::test]
async fn an_agent_that_does_not_begin_fails_with_its_reason() {
    for (script, reason) in [
        ("read line", "ended before it was ready"),
        ("read line; echo 'Error: no key' >&2; echo v1 >&2; exit 3", "ready (Error: no key)"),
        ("exec no-such-agent", "no-such-agent"),
        // It sends each message back.
        ("cat", "initialize is not offered"),
        (
            "read line; echo '{\"id\":1,\"result\":{\"protocolVersion\":2}}'; cat >/dev/null",
            "does not speak version 1",
        ),
        (
            "read line; echo '{\"id\":1,\"error\":{\"message\":\"no license\"}}'; cat >/dev/null",
            "no license",
        ),
        (
            "read line; echo '{\"id\":1,\"result\":{\"protocolVersion\":1}}'; read line; echo '{\"id\":2,\"result\":{}}'; cat >/dev/null",
            "returned no session",
        ),
    ] {
        let mut server = Server::start().await;
        let mut setup = Setup::new(&server, NONE);
        let command = ["sh", "-c", script].map(str::to_owned);
        setup.config.engines.get_mut("scripted").unwrap().command = command.to_vec();
        let _running = setup.run();
        let mut connection = server.connect(&json!({})).await;
        connection.open(1, "scripted").await;
        connection.prompt(2, "task_1", "say Hello").await;
        let failed = connection.until("failed").await.pop().unwrap();
        assert_eq!(failed["code"], "agent_failed", "{script}");
        let message = failed["message"].as_str().unwrap();
        assert!(message.contains(reason), "{script}: {message}");
    }
}

#[tokio::test]
async fn a_turn_can_be_canceled_while_its_agent_begins_or_its_changes_are_read() {
    let mut server = Server::start().await;
    let mut setup = Setup::new(&server, NONE);
    let command = ["sh", "-c", "touch began; cat >/dev/null"].map(str::to_owned);
    let engine = openvibe_runner::Engine {
        command: command.to_vec(),
        ..setup.config.engines["scripted"].clone()
    };
    setup.config.engines.insert("silent".to_owned(), engine);
    let _running = setup.run();
    let mut connection = server.connect(&json!({})).await;
    connection.open(1, "silent").await;
    connection.prompt(2, "task_1", "say Here").await;
    let copy = setup.path().join("data/sessions/code_1/copy");
    support::until(|| copy.join("began").exists()).await;
    connection.command(3, json!({"type": "cancel", "task": "task_1"})).await;
    let done = connection.until("done").await.pop().unwrap();
    assert_eq!((&done["stop"], &done["file_count"]), (&json!("canceled"), &json!(1)));
    connection.open(4, "scripted").await;
    let filter = "sh echo '* filter=slow' > .gitattributes; git config filter.slow.clean 'touch ~/reading; sleep 300'";
    connection.prompt(5, "task_2", filter).await;
    let reading = setup.path().join("data/sessions/code_1/home/reading");
    support::until(|| reading.exists()).await;
    connection.command(6, json!({"type": "cancel", "task": "task_2"})).await;
    let failed = connection.until("failed").await.pop().unwrap();
    assert_eq!(failed["message"], "the changes could not be read in time");
}

#[tokio::test]
async fn a_setup_that_fails_is_explained_and_tried_again() {
    let mut server = Server::start().await;
    let more = "sandbox = 'none'\n[repository.api]\nsetup = 'test -e ../../../ready'";
    let setup = Setup::new(&server, more);
    let _running = setup.run();
    let mut connection = server.connect(&json!({})).await;
    let failed = connection.open(1, "scripted").await;
    assert_eq!(failed["code"], "sandbox_failed");
    let message = failed["message"].as_str().unwrap();
    assert!(message.contains("api could not be prepared: test -e ../../../ready ended with 1"));
    std::fs::write(setup.path().join("data/ready"), "").unwrap();
    connection.prompt(2, "task_1", "say Here").await;
    let events = connection.until("done").await;
    assert_eq!((&events[0]["type"], text_of(&events).as_str()), (&json!("opened"), "Here"));
}

#[tokio::test]
async fn a_commit_without_end_is_not_written_to_the_disk() {
    let mut server = Server::start().await;
    let more = "sandbox = 'none'\nlimits = {disk_mb = 1}\n[repository.api]";
    let setup = Setup::new(&server, more);
    let origin = setup.path().join("origin");
    // A small commit with 4 MiB of files.
    std::fs::write(origin.join("large"), vec![b'x'; 4 << 20]).unwrap();
    git(&origin, &["add", "-A"]);
    git(&origin, &["commit", "--quiet", "-m", "Add a large file"]);
    let _running = setup.run();
    let mut connection = server.connect(&json!({})).await;
    let failed = connection.open(1, "scripted").await;
    let message = failed["message"].as_str().unwrap();
    assert!(message.starts_with("api could not be prepared: git checkout "), "{message}");
}

#[tokio::test]
async fn a_turn_can_be_canceled_while_its_copy_is_prepared() {
    let mut server = Server::start().await;
    let more = "sandbox = 'none'\n[repository.api]\nsetup = 'test -e ../../../ready || sleep 300'";
    let setup = Setup::new(&server, more);
    let _running = setup.run();
    let mut connection = server.connect(&json!({})).await;
    let open = json!({"type": "open", "repository": "api", "number": 7, "engine": "scripted"});
    connection.command(1, open.clone()).await;
    // The first one waits for the copy, and the second one prepares it.
    for (n, task) in [(2, "task_1"), (4, "task_2")] {
        connection.prompt(n, task, "say Here").await;
        connection.command(n + 1, json!({"type": "cancel", "task": task})).await;
        let done = connection.event().await;
        assert_eq!((&done["type"], &done["task"]), (&json!("done"), &json!(task)), "{done}");
        assert_eq!(done["stop"], "canceled");
    }
    connection.prompt(6, "task_3", "say Here").await;
    connection.command(7, json!({"type": "close"})).await;
    assert_eq!(connection.until("done").await.pop().unwrap()["stop"], "canceled");
    std::fs::write(setup.path().join("data/ready"), "").unwrap();
    connection.command(8, open).await;
    assert_eq!(connection.event().await["type"], "opened");
    connection.prompt(9, "task_4", "say Here").await;
    assert_eq!(text_of(&connection.until("done").await), "Here");
}

#[tokio::test]
async fn a_closed_session_is_deleted_and_its_patch_starts_the_next_copy() {
    let mut server = Server::start().await;
    let setup = Setup::new(&server, NONE);
    let _running = setup.run();
    let mut connection = server.connect(&json!({})).await;
    connection.open(1, "scripted").await;
    connection.prompt(2, "task_1", "sh echo kept > a.txt").await;
    let first = connection.until("done").await.pop().unwrap();
    connection.command(3, json!({"type": "close"})).await;
    let command = json!({"type": "open", "repository": "api", "number": 7, "engine": "scripted", "patch": true});
    connection.command(4, command).await;
    assert_eq!(connection.event().await["type"], "opened");
    connection.prompt(5, "task_2", "sh cat a.txt").await;
    let second = connection.until("done").await.pop().unwrap();
    assert_eq!(first["tree"], second["tree"]);
    assert!(server.file("log?task_id=task_2").contains("kept"));
}

#[tokio::test]
async fn a_session_that_the_runner_has_forgotten_continues_its_events() {
    let mut server = Server::start().await;
    let setup = Setup::new(&server, NONE);
    let _running = setup.run();
    let mut connection = server.connect(&json!({})).await;
    let command = json!({"type": "open", "repository": "api", "number": 7, "engine": "scripted", "last_event": 12});
    connection.command(5, command).await;
    let opened = connection.event().await;
    assert_eq!((&opened["type"], &opened["n"]), (&json!("opened"), &json!(13)));
}

#[tokio::test]
async fn a_closed_session_that_hides_files_does_not_keep_the_runner_from_starting() {
    use std::os::unix::fs::PermissionsExt;
    let mut server = Server::start().await;
    let setup = Setup::new(&server, NONE);
    let running = setup.run();
    let mut connection = server.connect(&json!({})).await;
    connection.open(1, "scripted").await;
    connection.command(2, json!({"type": "close"})).await;
    let session = setup.path().join("data/sessions/code_1");
    let journal = || std::fs::read_to_string(session.join("journal")).unwrap();
    until(|| journal().contains("\"closed\":true")).await;
    running.stop().await.unwrap();
    let hidden = session.join("home/hidden");
    std::fs::create_dir_all(&hidden).unwrap();
    std::fs::write(hidden.join("file"), "").unwrap();
    std::fs::set_permissions(&hidden, PermissionsExt::from_mode(0o000)).unwrap();
    let _running = setup.run();
    server.connect(&json!({})).await;
    assert!(!session.exists());
}

#[tokio::test]
async fn a_lost_copy_continues_with_the_last_changes() {
    let mut server = Server::start().await;
    let setup = Setup::new(&server, NONE);
    let _running = setup.run();
    let mut connection = server.connect(&json!({})).await;
    connection.open(1, "scripted").await;
    connection.prompt(2, "task_1", "sh echo kept > a.txt").await;
    let first = connection.until("done").await.pop().unwrap();
    std::fs::remove_dir_all(setup.path().join("data/sessions/code_1/copy")).unwrap();
    connection.prompt(3, "task_2", "sh cat a.txt").await;
    let second = connection.until("done").await.pop().unwrap();
    assert_eq!(first["tree"], second["tree"]);
    assert!(server.file("log?task_id=task_2").contains("kept"));
}

#[tokio::test]
async fn a_turn_that_fills_the_disk_does_not_stop_the_next_one() {
    let mut server = Server::start().await;
    let more = "sandbox = 'none'\nlimits = {disk_mb = 2, turn = '3s'}\n[repository.api]";
    let setup = Setup::new(&server, more);
    let _running = setup.run();
    let mut connection = server.connect(&json!({})).await;
    connection.open(1, "scripted").await;
    connection.prompt(2, "task_1", "sh echo kept > a.txt").await;
    let first = connection.until("done").await.pop().unwrap();
    let fill = "sh for n in 1 2 3 4; do head -c 1000000 /dev/zero > big$n; done\nhang";
    connection.prompt(3, "task_2", fill).await;
    connection.until("failed").await;
    connection.prompt(4, "task_3", "sh cat a.txt").await;
    let last = connection.until("done").await.pop().unwrap();
    assert_eq!((&first["tree"], &first["files"]), (&last["tree"], &last["files"]));
    assert!(server.file("log?task_id=task_3").contains("kept"));
}

#[tokio::test]
async fn a_turn_leaves_no_temporary_files() {
    let mut server = Server::start().await;
    let setup = Setup::new(&server, NONE);
    let _running = setup.run();
    let mut connection = server.connect(&json!({})).await;
    connection.open(1, "scripted").await;
    connection.prompt(2, "task_1", "sh echo x > a.txt; echo x > $TMPDIR/left").await;
    let done = connection.until("done").await.pop().unwrap();
    assert_eq!(done["file_count"], 1);
    let session = setup.path().join("data/sessions/code_1");
    assert_eq!(std::fs::read_dir(session.join("tmp")).unwrap().count(), 0);
    for name in ["changes", "index"] {
        assert!(!session.join("scratch").join(name).exists(), "{name}");
    }
}

#[tokio::test]
async fn processes_that_leave_their_group_end_with_the_turn() {
    let mut server = Server::start().await;
    let setup = Setup::new(&server, NONE);
    let _running = setup.run();
    let mut connection = server.connect(&json!({})).await;
    connection.open(1, "scripted").await;
    let mark = setup.path().join("left").display().to_string();
    let script =
        format!("sh (setsid sh -c 'sleep 300; :' {mark} > /dev/null 2>&1 &); touch started");
    let copy = setup.path().join("data/sessions/code_1/copy");
    // The agent ends by itself, and is stopped.
    for (n, end) in [(2, ""), (4, "\nhang")] {
        let task = format!("task_{n}");
        connection.prompt(n, &task, &format!("{script}{end}")).await;
        support::until(|| copy.join("started").exists()).await;
        connection.command(n + 1, json!({"type": "cancel", "task": task})).await;
        connection.until("done").await;
        std::fs::remove_file(copy.join("started")).unwrap();
        let is_left = || {
            let entries = std::fs::read_dir("/proc").unwrap().flatten();
            let mut arguments =
                entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
            arguments.any(|bytes| String::from_utf8_lossy(&bytes).contains(&mark))
        };
        support::until(|| !is_left()).await;
    }
}

#[tokio::test]
async fn locks_that_killed_commands_have_left_do_not_stop_the_next_turn() {
    let mut server = Server::start().await;
    let setup = Setup::new(&server, NONE);
    let _running = setup.run();
    let mut connection = server.connect(&json!({})).await;
    connection.open(1, "scripted").await;
    connection.prompt(2, "task_1", "sh echo kept > a.txt").await;
    connection.until("done").await;
    let scratch = setup.path().join("data/sessions/code_1/scratch");
    std::fs::write(scratch.join("index.lock"), "").unwrap();
    connection.prompt(3, "task_2", "sh touch .git/index.lock; echo kept > b.txt").await;
    let done = connection.until("done").await.pop().unwrap();
    assert_eq!(done["file_count"], 2, "{done}");
}

#[tokio::test]
async fn a_directory_in_the_place_of_a_renamed_link_starts_the_next_copy() {
    let mut server = Server::start().await;
    let setup = Setup::new(&server, NONE);
    let origin = setup.path().join("origin");
    std::os::unix::fs::symlink("README.md", origin.join("link")).unwrap();
    git(&origin, &["add", "-A"]);
    git(&origin, &["commit", "--quiet", "-m", "Link"]);
    let _running = setup.run();
    let mut connection = server.connect(&json!({})).await;
    connection.open(1, "scripted").await;
    connection.prompt(2, "task_1", "sh mv link moved; mkdir link; echo kept > link/a").await;
    let first = connection.until("done").await.pop().unwrap();
    connection.command(3, json!({"type": "close"})).await;
    let command = json!({"type": "open", "repository": "api", "number": 7, "engine": "scripted", "patch": true});
    connection.command(4, command).await;
    assert_eq!(connection.event().await["type"], "opened");
    connection.prompt(5, "task_2", "sh cat link/a").await;
    let second = connection.until("done").await.pop().unwrap();
    assert_eq!(first["tree"], second["tree"]);
    assert!(server.file("log?task_id=task_2").contains("kept"));
}

#[tokio::test]
async fn changes_that_cannot_be_applied_are_reported_once() {
    let mut server = Server::start().await;
    let setup = Setup::new(&server, NONE);
    let _running = setup.run();
    let mut connection = server.connect(&json!({})).await;
    connection.open(1, "scripted").await;
    connection.prompt(2, "task_1", "sh echo mine > README.md").await;
    connection.until("done").await;
    connection.command(3, json!({"type": "close"})).await;
    let origin = setup.path().join("origin");
    std::fs::write(origin.join("README.md"), "theirs\n").unwrap();
    git(&origin, &["commit", "--quiet", "-am", "Change"]);
    let command = json!({"type": "open", "repository": "api", "number": 7, "engine": "scripted", "patch": true});
    connection.command(4, command).await;
    let failed = connection.event().await;
    assert!(failed["message"].as_str().unwrap().contains("the base has changed"), "{failed}");
    connection.prompt(5, "task_2", "say Again").await;
    let failed = connection.until("failed").await.pop().unwrap();
    assert_eq!((&failed["task"], &failed["code"]), (&json!("task_2"), &json!("sandbox_failed")));
    // The server still has the patch.
    let command = json!({"type": "open", "repository": "api", "number": 7, "engine": "scripted", "patch": true});
    connection.command(6, command).await;
    assert_eq!(connection.event().await["type"], "opened");
    connection.prompt(7, "task_3", "sh cat README.md").await;
    let done = connection.until("done").await.pop().unwrap();
    assert_eq!(done["files"], json!([]));
    assert!(server.file("log?task_id=task_3").contains("theirs"));
}

#[tokio::test]
async fn unpushed_changes_are_not_in_the_mirror_that_all_agents_can_read() {
    let mut server = Server::start().await;
    let setup = Setup::new(&server, NONE);
    let _running = setup.run();
    let mut connection = server.connect(&json!({})).await;
    connection.open(1, "scripted").await;
    connection.prompt(2, "task_1", "sh echo private > a.txt").await;
    let done = connection.until("done").await.pop().unwrap();
    let mut command = std::process::Command::new("git");
    command.args(["cat-file", "-e", done["tree"].as_str().unwrap()]);
    let found = command.current_dir(setup.path().join("data/mirrors/api")).output().unwrap();
    assert!(!found.status.success());
    // The session has them until they are forgotten.
    let scratch = setup.path().join("data/sessions/code_1/scratch");
    assert!(scratch.join("objects").exists());
    connection.command(3, json!({"type": "forget"})).await;
    connection.prompt(4, "task_2", "stop refusal").await;
    connection.until("failed").await;
    assert!(!scratch.join("objects").exists());
}

#[tokio::test]
async fn forgotten_texts_leave_the_disk() {
    let mut server = Server::start().await;
    let more =
        "sandbox = 'none'\n[repository.api]\nsetup = 'mkdir ~/tools && echo kept > ~/tools/tool'";
    let setup = Setup::new(&server, more);
    let _running = setup.run();
    let mut connection = server.connect(&json!({})).await;
    connection.open(1, "scripted").await;
    let histories = "sh mkdir -p ~/.claude/projects ~/tools/.own && \
        echo private | tee ~/.claude/projects/a ~/.codex ~/tools/.own/b && chmod 500 ~/tools/.own && chmod 0 ~/.claude; \
        d=$(printf '%200s' '' | tr ' ' d); cd ~; for n in $(seq 30); do mkdir $d && cd $d; done; echo private > deep";
    connection.prompt(2, "task_1", &format!("say private\n{histories}")).await;
    connection.until("done").await;
    connection.command(3, json!({"type": "forget"})).await;
    connection.prompt(4, "task_2", "say Next").await;
    connection.until("done").await;
    let session = setup.path().join("data/sessions/code_1");
    let journal = std::fs::read_to_string(session.join("journal")).unwrap();
    assert!(!journal.contains("private") && journal.contains("Next"), "{journal}");
    assert!(!session.join("log.task_1").exists());
    let home = session.join("home");
    for history in [".claude/projects/a", ".codex", "tools/.own/b"] {
        assert!(!home.join(history).exists(), "{history}");
    }
    // Its path is too long to be opened.
    let deep = std::process::Command::new("find").arg(&home).args(["-name", "deep"]).output();
    assert!(deep.unwrap().stdout.is_empty());
    assert_eq!(std::fs::read_to_string(home.join("tools/tool")).unwrap(), "kept\n");
}

#[tokio::test]
async fn skills_are_folders_that_follow_the_server_at_each_turn() {
    let mut server = Server::start().await;
    let setup = Setup::new(&server, NONE);
    let mut running = setup.run();
    server.offer_skills(&[("moon", 1, "echo new moon"), ("tides", 1, "echo low water")]);
    let mut connection = server.connect(&json!({})).await;
    connection.open(1, "scripted").await;
    let script = "sh cat ~/.agents/skills/moon/SKILL.md; ~/.claude/skills/tides/scripts/run.sh";
    connection.prompt(2, "task_1", script).await;
    let done = connection.until("done").await.pop().unwrap();
    assert_eq!(done["files"], json!([]));
    let log = server.file("log?task_id=task_1");
    assert!(log.contains("Text of moon") && log.contains("low water"), "{log}");
    // One is gone, and one has changed.
    server.offer_skills(&[("tides", 2, "echo high water")]);
    let script = "sh ~/.agents/skills/tides/scripts/run.sh; test -e ~/.claude/skills/moon || printf 'mis%s' sing";
    connection.prompt(3, "task_2", script).await;
    let last = connection.until("done").await.pop().unwrap();
    let log = server.file("log?task_id=task_2");
    assert!(log.contains("high water") && log.contains("missing"), "{log}");
    // Also after a restart, and without any.
    drop(connection);
    running.stop().await.unwrap();
    running = setup.run();
    server.offer_skills(&[]);
    let mut connection = server.connect(&json!({"code_1": last["n"]})).await;
    let script = "sh test -e ~/.agents/skills/tides || printf 'mis%s' sing";
    connection.prompt(4, "task_3", script).await;
    connection.until("done").await;
    assert!(server.file("log?task_id=task_3").contains("missing"));
    drop(running);
}

#[tokio::test]
async fn bad_skills_are_reported_and_do_not_end_the_turn() {
    let mut server = Server::start().await;
    let setup = Setup::new(&server, NONE);
    let _running = setup.run();
    server.offer_skills(&[("tides", 1, "echo low water")]);
    let mut connection = server.connect(&json!({})).await;
    connection.open(1, "scripted").await;
    let route = "/v1/runner/sessions/code_1/skills";
    let folder = json!({"version": 2, "files": [{"path": "../../mark", "content": "x"}]});
    for (n, path, text) in [
        (2, format!("{route}/skill_tides"), folder.to_string()),
        (
            3,
            route.to_owned(),
            json!({"skills": [{"id": "skill_a", "name": "..", "version": 1}]}).to_string(),
        ),
        (4, route.to_owned(), "no JSON".to_owned()),
    ] {
        server.set_file(&path, &text);
        let task = format!("task_{n}");
        connection
            .prompt(n, &task, "say Here\nsh ls ~/.agents/skills/* && printf 'fou%s' nd")
            .await;
        let events = connection.until("done").await;
        assert_eq!(text_of(&events), "Here");
        let log = server.file(&format!("log?task_id={task}"));
        assert!(log.contains("Skills could not be read") && !log.contains("found"), "{log}");
    }
    assert!(!setup.path().join("data/sessions/mark").exists());
    assert!(!setup.path().join("data/sessions/code_1/mark").exists());
}

#[tokio::test]
async fn a_folder_of_the_newest_base_commit_is_sent_to_the_server() {
    let mut server = Server::start().await;
    let setup = Setup::new(&server, NONE);
    let _running = setup.run();
    let mut connection = server.connect(&json!({})).await;
    let origin = setup.path().join("origin");
    std::fs::create_dir_all(origin.join("skills/tides")).unwrap();
    std::fs::write(origin.join("skills/tides/SKILL.md"), "Text\n").unwrap();
    git(&origin, &["add", "-A"]);
    git(&origin, &["commit", "--quiet", "-m", "Add a skill"]);
    for (id, repository, path, start) in [
        ("read-1", "api", "skills/tides", "PK"),
        ("read-2", "api", "skills/none", "api has no folder skills/none on trunk"),
        ("read-3", "web", "skills/tides", "web is not in the runner's configuration"),
    ] {
        let frame = json!({"type": "read", "id": id, "repository": repository, "path": path});
        connection.send(&frame).await;
        let answer = server.stored(&format!("/v1/runner/reads/{id}")).await;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.starts_with(start), "{answer}");
    }
    // The ID is a part of a path.
    let frame = json!({"type": "read", "id": "../x", "repository": "api", "path": "skills/tides"});
    connection.send(&frame).await;
    assert_eq!(connection.open(1, "scripted").await["type"], "opened");
}

#[tokio::test]
async fn requests_for_folders_are_dropped_above_their_limit() {
    let mut server = Server::start().await;
    let setup = Setup::new(&server, NONE);
    let _running = setup.run();
    let mut connection = server.connect(&json!({})).await;
    server.refuse_files(500);
    for n in 0..40 {
        let id = format!("read-{n}");
        let frame = json!({"type": "read", "id": id, "repository": "web", "path": "skills"});
        connection.send(&frame).await;
    }
    connection.open(1, "scripted").await;
    server.accept_files();
    until(|| server.count_files("/reads/") >= 32).await;
    // The answer to a request is sent again after a second.
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(server.count_files("/reads/"), 32);
}

#[tokio::test]
async fn a_runner_without_a_sandbox_does_not_push() {
    let mut server = Server::start().await;
    let setup = Setup::new(&server, NONE);
    let _running = setup.run();
    let mut connection = server.connect(&json!({})).await;
    connection.open(1, "scripted").await;
    let push = json!({"type": "push", "action": "act_1", "tree": "t", "parent": "p", "branch": "vibe/7", "title": "T", "body": "", "at": "2030-01-01T00:00:00Z"});
    connection.command(2, push).await;
    let failed = connection.event().await;
    assert_eq!((&failed["action"], &failed["code"]), (&json!("act_1"), &json!("push_failed")));
}

#[tokio::test]
async fn the_builtin_agent_works_with_the_model_of_the_workspace() {
    let mut server = Server::start().await;
    let setup = Setup::new(&server, NONE);
    let _running = setup.run();
    let edit = json!({"path": "b.txt", "new": "written"}).to_string();
    let call =
        json!({"id": "c1", "type": "function", "function": {"name": "edit", "arguments": edit}});
    server.answer_model(&[
        json!({"choices": [{"message": {"role": "assistant", "content": "I write.", "tool_calls": [call]}, "finish_reason": "tool_calls"}]}),
        json!({"choices": [{"message": {"role": "assistant", "content": "Written."}, "finish_reason": "stop"}]}),
    ]);
    let mut connection = server.connect(&json!({})).await;
    connection.open(1, "builtin").await;
    connection.prompt(2, "task_1", "Write b.txt").await;
    let ask = connection.until("ask").await.pop().unwrap();
    assert_eq!(ask["title"], "Edit b.txt");
    connection.command(3, json!({"type": "answer", "ask": ask["ask"], "value": "allow"})).await;
    let events = connection.until("done").await;
    assert_eq!(text_of(&events), "\n\nWritten.");
    assert_eq!(events.last().unwrap()["files"][0]["path"], "b.txt");
    let requests = server.model_requests();
    assert_eq!(requests.len(), 2);
    assert_eq!((&*requests[0].0, &*requests[0].1), ("/v1/chat/completions", "Bearer turn-key"));
    assert_eq!(requests[1].2["messages"][3]["content"], "created");
}

#[tokio::test]
async fn two_runners_cannot_share_a_directory() {
    let mut server = Server::start().await;
    let setup = Setup::new(&server, NONE);
    let _running = setup.run();
    server.connect(&json!({})).await;
    assert!(matches!(setup.run().ended().await, Err(RunnerError::InUse(_))));
}

#[tokio::test]
async fn a_check_names_what_works_and_what_is_missing() {
    let server = Server::start().await;
    let mut setup = Setup::new(&server, NONE);
    setup.config.engines.get_mut("scripted").unwrap().command = vec!["no-such-agent".to_owned()];
    let lines = openvibe_runner::check(&setup.config).await;
    let line = |name: &str| lines.iter().find(|line| line.text.starts_with(name)).unwrap();
    assert!(line("git").is_ok);
    assert!(line("repository api").text.contains("trunk can be fetched"));
    assert!(line("engine builtin").is_ok, "{}", line("engine builtin").text);
    assert!(!line("engine scripted").is_ok);
    assert!(line("engine scripted").text.contains("no-such-agent"));
}
