//! Turns of agents on runners: prompts, replies, steps, ends, and lost connections.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    code::{allow, team_with_runner},
    support::{
        Person, ScriptedRunner, Team, greeting, id, list, new_runner, number, pause, team, text,
    },
};

/// Commit on which the work begins.
pub const COMMIT: &str = "1111111111111111111111111111111111111111";
/// Tree of the changes.
pub const TREE: &str = "2222222222222222222222222222222222222222";

/// A turn in #general that Ada has started, and whose prompt the runner has.
pub struct Turn {
    pub t: Team,
    pub runner: ScriptedRunner,
    pub thread: String,
    pub task: String,
    pub session: String,
    pub prompt: Value,
}

/// Starts a turn.
pub async fn started() -> Turn {
    let (t, runner) = team_with_runner().await;
    begun(t, runner, |t| &t.ada).await
}

/// Starts a turn of someone in a team.
pub async fn begun(t: Team, mut runner: ScriptedRunner, who: fn(&Team) -> &Person) -> Turn {
    let thread = who(&t).thread(&t.general, "Root").await;
    let task = who(&t).ask(&thread, "@coder fix the login").await;
    let open = runner.command("open").await;
    let session = text(&open, "/session");
    let prompt = runner.command("prompt").await;
    let opened = json!({"type": "opened", "commit": COMMIT});
    runner.event(&session, opened).await;
    Turn {
        t,
        runner,
        thread,
        task,
        session,
        prompt,
    }
}

/// The end of a turn that has changed this number of files.
pub fn done(task: &str, files: usize) -> Value {
    let file = json!({
        "path": "src/login.rs", "old_path": null, "status": "modified", "additions": 2, "deletions": 1, "binary": false,
    });
    json!({
        "type": "done", "task": task, "stop": "complete", "tree": TREE, "too_large": false, "files": vec![file; files],
        "file_count": files, "additions": 2 * files, "deletions": files, "notes": [],
        "check": {"state": "passed", "ms": 1200}, "unread_steers": [],
    })
}

impl Turn {
    /// Sends an event of the turn.
    pub async fn event(&mut self, mut event: Value) -> u64 {
        event["task"] = self.task.as_str().into();
        self.runner.event(&self.session, event).await
    }

    pub async fn write(&mut self, text: &str) {
        self.event(json!({"type": "text", "text": text})).await;
    }

    /// Ends the turn, and waits until its task has completed.
    pub async fn finish(&mut self, files: usize) {
        let end = done(&self.task, files);
        self.runner.event(&self.session, end).await;
        self.t.ada.completed(&self.task).await;
    }

    /// The session, as Ada sees it.
    pub async fn session(&self) -> Value {
        let path = format!("/v1/code-sessions/{}", self.session);
        self.t.ada.get(&path).await.ok()
    }

    pub async fn last_message(&self) -> Value {
        let mut all = self.t.ada.messages(&self.thread).await;
        all.pop().unwrap()
    }
}

/// Waits until a task runs.
async fn until_running(person: &Person, task: &str) {
    loop {
        let found = person.task(task).await;
        if found["status"] == "running" {
            return;
        }
        assert_eq!(found["status"], "queued", "{found}");
        pause().await;
    }
}

#[tokio::test]
async fn an_agent_works_on_a_runner_and_its_text_is_the_reply() {
    let (t, mut runner) = team_with_runner().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let mut watching = t.bo.socket().await;
    watching.subscribe(&thread).await;
    let task = t.ada.ask(&thread, "@coder fix the login").await;
    let open = runner.next_command().await;
    assert_eq!(
        (&open["type"], &open["repository"], &open["engine"]),
        (&json!("open"), &json!("api"), &json!("builtin"))
    );
    assert_eq!(
        (&open["number"], &open["patch"]),
        (&json!(1), &json!(false))
    );
    let session = text(&open, "/session");
    // The runner does not have the prompt yet.
    let parked = t.ada.task(&task).await;
    assert_eq!(
        (&parked["status"], &parked["wait_reason"]),
        (&json!("queued"), &json!("runner"))
    );
    runner.acknowledge(&open).await;
    let prompt = runner.command("prompt").await;
    assert_eq!(prompt["task"], json!(task));
    assert!(
        text(&prompt, "/text").ends_with("fix the login"),
        "{prompt}"
    );
    assert!(text(&prompt, "/text").contains("You are Coder"), "{prompt}");
    assert!(text(&prompt, "/key").starts_with("ovt_"));
    until_running(&t.ada, &task).await;
    let opened = json!({"type": "opened", "commit": COMMIT});
    runner.event(&session, opened).await;
    let words = json!({"type": "text", "task": task, "text": "Fix the login"});
    runner.event(&session, words).await;
    watching.streamed("Fix the login").await;
    let step = json!({"step": 0, "title": "Edit src/login.rs", "kind": "edit", "state": "failed", "ms": 40});
    let steps = json!({"type": "step", "task": task, "steps": [step]});
    runner.event(&session, steps).await;
    let shown = watching.of("code.step").await;
    assert_eq!(shown["task_id"], json!(task), "{shown}");
    assert_eq!(shown["steps"][0]["title"], "Edit src/login.rs");
    let plan = json!({"type": "plan", "task": task, "entries": [{"content": "Test it", "status": "pending"}]});
    runner.event(&session, plan).await;
    assert_eq!(
        watching.of("code.step").await["plan"],
        json!([{"content": "Test it", "status": "pending"}])
    );
    let words = json!({"type": "text", "task": task, "text": "\n\nThe cookie was missing.\n"});
    runner.event(&session, words).await;
    runner.event(&session, done(&task, 1)).await;
    t.ada.completed(&task).await;
    assert_eq!(
        t.bo.contents(&thread).await,
        [
            "Root",
            "@coder fix the login",
            "Fix the login\n\nThe cookie was missing."
        ]
    );
    let reply = t.bo.messages(&thread).await.pop().unwrap();
    assert_eq!(reply["state"], "complete");
    assert_eq!(reply["metadata"]["code"]["session_id"], json!(session));
    assert_eq!(reply["metadata"]["steps"], 1);
    assert_eq!(reply["metadata"]["steps_failed"], 1);
    let path = format!("/v1/code-sessions/{session}");
    let shown = t.bo.get(&path).await.ok();
    for (field, value) in [
        ("number", json!(1)),
        ("thread_id", json!(thread)),
        ("engine", json!("builtin")),
        ("base_commit", json!(COMMIT)),
        ("state", json!("ready")),
        ("tree", json!(TREE)),
        ("additions", json!(2)),
        ("deletions", json!(1)),
        ("check", json!({"state": "passed", "ms": 1200})),
        ("title", json!("Fix the login")),
        ("branch", json!("vibe/1")),
        ("pushed", Value::Null),
        ("reply_id", reply["id"].clone()),
    ] {
        assert_eq!(shown[field], value, "{field}");
    }
    assert_eq!(shown["files"][0]["path"], "src/login.rs");
    let all = t.bo.get("/v1/code-sessions").await.ok();
    assert_eq!(all["data"], json!([shown]));
    let other = format!(
        "/v1/code-sessions?thread_id={}",
        t.bo.thread(&t.general, "Other").await
    );
    assert_eq!(t.bo.get(&other).await.ok()["data"], json!([]));
}

#[tokio::test]
async fn an_agent_that_writes_nothing_has_a_short_reply() {
    let mut turn = started().await;
    turn.finish(0).await;
    let reply = turn.last_message().await;
    assert_eq!(reply["content"], "Nothing was changed.");
    let session = turn.session().await;
    assert_eq!(
        (&session["title"], &session["action_id"]),
        (&Value::Null, &Value::Null)
    );
}

#[tokio::test]
async fn each_event_counts_once_and_missing_ones_are_sent_again() {
    let mut turn = started().await;
    let (task, session) = (turn.task.clone(), turn.session.clone());
    let words = |text: &str| json!({"type": "text", "task": task, "text": text});
    for _ in 0..2 {
        let known = turn.runner.event_at(&session, 2, words("Once.")).await;
        assert_eq!((&known["type"], &known["n"]), (&json!("ack"), &json!(2)));
    }
    let known = turn.runner.event_at(&session, 5, words("Never.")).await;
    assert_eq!((&known["type"], &known["n"]), (&json!("resend"), &json!(2)));
    turn.write(" Twice.").await;
    turn.finish(0).await;
    assert_eq!(turn.last_message().await["content"], "Once. Twice.");
}

#[tokio::test]
async fn the_key_of_a_turn_calls_models_and_ends_with_it() {
    let mut turn = started().await;
    let key = text(&turn.prompt, "/key");
    let program = turn.t.ada.with_key(&key);
    let call = json!({"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]});
    // Also if people cannot call models without an agent.
    let policy = format!("/v1/workspaces/{}/policy", turn.t.ada.workspace);
    turn.t
        .ada
        .patch(&policy, json!({"bare_model": false}))
        .await
        .is(200);
    program
        .post("/v1/chat/completions", call.clone())
        .await
        .is(200);
    // The server does not load pages for the agent, and continues nothing.
    let picture =
        json!([{"type": "image_url", "image_url": {"url": "https://example.org/?secret"}}]);
    let look = json!({"model": "tiny", "messages": [{"role": "user", "content": picture}]});
    let refused = program.post("/v1/chat/completions", look).await;
    assert_eq!(refused.status, 400, "{}", refused.text);
    let agent = json!({"model": "agent:vibe", "messages": call["messages"]});
    let refused = program.post("/v1/chat/completions", agent).await;
    assert_eq!(refused.status, 400, "{}", refused.text);
    let threads = format!("/v1/channels/{}/threads", turn.t.general);
    for path in ["/v1/members", &threads, "/v1/code-sessions"] {
        assert_eq!(
            program.get(path).await.refused(403),
            "not_for_turns",
            "{path}"
        );
    }
    let posted = program.post(&threads, json!({"content": "Hi"})).await;
    assert_eq!(posted.refused(403), "not_for_turns");
    turn.finish(0).await;
    assert_eq!(program.post("/v1/chat/completions", call).await.status, 401);
}

#[tokio::test]
async fn stop_cancels_the_turn_and_late_changes_still_count() {
    let mut turn = started().await;
    turn.write("I will").await;
    let path = format!("/v1/tasks/{}/cancel", turn.task);
    turn.t.ada.act(&path).await.is(200);
    let cancel = turn.runner.command("cancel").await;
    assert_eq!(cancel["task"], json!(turn.task));
    let mut end = done(&turn.task, 1);
    end["stop"] = "canceled".into();
    turn.runner.event(&turn.session, end).await;
    let session = turn.session().await;
    assert_eq!(
        (&session["state"], &session["tree"], &session["action_id"]),
        (&json!("ready"), &json!(TREE), &Value::Null)
    );
    assert_eq!(turn.t.ada.task(&turn.task).await["status"], "cancelled");
    let reply = turn.last_message().await;
    assert_eq!(
        (&reply["content"], &reply["state"]),
        (&json!("I will"), &json!("interrupted"))
    );
}

#[tokio::test]
async fn the_changes_of_a_stopped_turn_are_too_late_while_the_next_one_works() {
    let mut turn = started().await;
    let stopped = turn.task.clone();
    let path = format!("/v1/tasks/{stopped}/cancel");
    turn.t.ada.act(&path).await.is(200);
    turn.runner.command("cancel").await;
    turn.task = turn.t.ada.ask(&turn.thread, "@coder rename it").await;
    turn.runner.command("prompt").await;
    let late = format!("{}/patch?task_id={stopped}", turn.session);
    assert_eq!(turn.runner.put(&late, "late").await, 204);
    turn.runner.event(&turn.session, done(&stopped, 1)).await;
    let session = turn.session().await;
    assert_eq!(
        (&session["state"], &session["tree"], &session["files"]),
        (&json!("working"), &Value::Null, &json!([]))
    );
    let patch = format!("/v1/code-sessions/{}/patch", turn.session);
    turn.t.ada.get(&patch).await.ok_text("");
    turn.finish(1).await;
    let session = turn.session().await;
    assert_eq!(
        (&session["state"], &session["tree"]),
        (&json!("ready"), &json!(TREE))
    );
}

#[tokio::test]
async fn a_failure_of_the_runner_fails_the_task_with_its_cause() {
    let mut turn = started().await;
    let failed = json!({"type": "failed", "action": null, "code": "refused", "message": "api has no agent."});
    turn.event(failed).await;
    let (ended, code) = turn.t.ada.failed(&turn.task).await;
    assert_eq!(code, "refused");
    assert_eq!(ended["error"]["message"], "api has no agent.");
    assert_eq!(turn.last_message().await["content"], "api has no agent.");
    assert_eq!(turn.session().await["state"], "ready");
}

#[tokio::test]
async fn a_refusal_names_the_agent() {
    let mut turn = started().await;
    let failed = json!({"type": "failed", "action": null, "code": "refused", "message": ""});
    turn.event(failed).await;
    turn.t.ada.failed(&turn.task).await;
    assert_eq!(
        turn.last_message().await["content"],
        "Coder refused to do this. Please ask for something else."
    );
}

#[tokio::test]
async fn a_reply_fails_at_once_if_no_runner_is_connected() {
    let (t, runner) = team_with_runner().await;
    drop(runner);
    t.app
        .place
        .run(&["update runners set seen_at = null"])
        .await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.ada.ask(&thread, "@coder fix the login").await;
    let (ended, code) = t.ada.failed(&task).await;
    assert_eq!(code, "runner_offline");
    assert_eq!(
        ended["error"]["message"],
        "No runner is connected for api. Start it with `openvibe runner`."
    );
}

#[tokio::test]
async fn a_turn_that_waits_has_the_number_of_all_turns_ahead_of_it() {
    let (t, mut runner) = team_with_runner().await;
    let private = t.ada.private_channel("secret", &[]).await;
    allow(&t.ada, "api", &[&t.general, &private]).await;
    let hidden = t.ada.thread(&private, "Root").await;
    t.ada.ask(&hidden, "@coder fix the logout").await;
    while runner.next_command().await["type"] != "prompt" {}
    let thread = t.bo.thread(&t.general, "Root").await;
    t.bo.ask(&thread, "@coder fix the login").await;
    let mut prompt = runner.next_command().await;
    while prompt["type"] != "prompt" {
        prompt = runner.next_command().await;
    }
    let path = format!("/v1/code-sessions/{}", text(&prompt, "/session"));
    assert_eq!(t.bo.get(&path).await.ok()["ahead"], 1);
    runner.acknowledge(&prompt).await;
    while t.bo.get(&path).await.ok()["ahead"] != 0 {
        pause().await;
    }
}

/// Number of events about a session.
async fn updates(person: &Person, session: &str) -> usize {
    let all = person.events().await;
    let own = all.iter().filter(|event| {
        event["type"] == "code_session.updated" && event["data"]["code_session_id"] == session
    });
    own.count()
}

#[tokio::test]
async fn turns_wait_in_order_while_their_runner_is_busy() {
    let t = team().await;
    let (_, key) = new_runner(&t.ada, "build-1").await;
    let mut hello = greeting(&["api"]);
    hello["turns"] = json!(1);
    let runner = ScriptedRunner::greet(&t.app.base, &key, hello).await;
    allow(&t.ada, "api", &[&t.general]).await;
    let mut turn = begun(t, runner, |t| &t.ada).await;
    let (mut tasks, mut waiting) = (Vec::new(), String::new());
    for ahead in [1, 2] {
        let thread = turn.t.bo.thread(&turn.t.general, "Root").await;
        let task = turn.t.bo.ask(&thread, "@coder fix the logout").await;
        // Not the prompt of the turn before.
        let open = turn.runner.next_command().await;
        assert_eq!(open["type"], "open");
        turn.runner.acknowledge(&open).await;
        let path = format!("/v1/code-sessions/{}", text(&open, "/session"));
        assert_eq!(turn.t.bo.get(&path).await.ok()["ahead"], ahead);
        let found = turn.t.bo.task(&task).await;
        assert_eq!(
            (&found["status"], &found["wait_reason"]),
            (&json!("queued"), &json!("runner"))
        );
        tasks.push(task);
        waiting = text(&open, "/session");
    }
    let before = updates(&turn.t.bo, &waiting).await;
    turn.finish(0).await;
    // One turn less is ahead of it.
    assert!(updates(&turn.t.bo, &waiting).await > before);
    let prompt = turn.runner.command("prompt").await;
    assert_eq!(prompt["task"], json!(tasks[0]));
    until_running(&turn.t.bo, &tasks[0]).await;
    // A turn that was stopped makes room, too.
    let path = format!("/v1/tasks/{}/cancel", tasks[0]);
    turn.t.bo.act(&path).await.is(200);
    let prompt = turn.runner.command("prompt").await;
    assert_eq!(prompt["task"], json!(tasks[1]));
}

#[tokio::test]
async fn a_runner_that_comes_back_gets_what_it_has_not_acknowledged() {
    let (t, mut runner) = team_with_runner().await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.ada.ask(&thread, "@coder fix the login").await;
    let open = runner.command("open").await;
    let first = runner.next_command().await;
    let mut runner = runner.reconnect(&["api"]).await;
    let second = runner.command("prompt").await;
    assert_eq!((&second["n"], &second["task"]), (&first["n"], &json!(task)));
    // The key of the frame that was lost is no longer valid.
    let call = json!({"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]});
    for (prompt, status) in [(&first, 401), (&second, 200)] {
        let program = t.ada.with_key(&text(prompt, "/key"));
        let reply = program.post("/v1/chat/completions", call.clone()).await;
        assert_eq!(reply.status, status);
    }
    let session = text(&open, "/session");
    let words = json!({"type": "text", "task": task, "text": "Here."});
    runner.event(&session, words).await;
    let mut runner = runner.reconnect(&["api"]).await;
    assert_eq!(runner.ready["sessions"][&session], 1);
    runner.event(&session, done(&task, 0)).await;
    t.ada.completed(&task).await;
    assert_eq!(t.ada.contents(&thread).await[2], "Here.");
}

#[tokio::test]
async fn commands_arrive_even_if_many_others_are_not_acknowledged() {
    let mut turn = started().await;
    let flood = "insert into runner_commands (session_id, n, command) with recursive x(n) as (select last_command + 1 from code_sessions \
                 union all select n + 1 from x where n < 1200) select s.id, x.n, '{\"type\":\"cancel\",\"task\":\"x\"}' from code_sessions s, x";
    let last = "update code_sessions set last_command = 1200";
    turn.t.app.place.run(&[flood, last]).await;
    let other = turn.t.ada.thread(&turn.t.general, "Other").await;
    turn.t.ada.ask(&other, "@coder fix the logout").await;
    while turn.runner.next_command().await["type"] != "open" {}
}

#[tokio::test]
async fn a_runner_without_its_copy_has_lost_the_turn() {
    let turn = started().await;
    let (base, key) = (turn.runner.base.clone(), turn.runner.key.clone());
    drop(turn.runner);
    let mut runner = ScriptedRunner::greet(&base, &key, greeting(&["api"])).await;
    let (_, code) = turn.t.ada.failed(&turn.task).await;
    assert_eq!(code, "worker_lost");
    let path = format!("/v1/code-sessions/{}", turn.session);
    assert_eq!(turn.t.ada.get(&path).await.ok()["state"], "lost");
    // The next turn begins with a new copy.
    turn.t.ada.ask(&turn.thread, "@coder again").await;
    assert_eq!(runner.command("open").await["session"], json!(turn.session));
}

#[tokio::test]
async fn a_message_steers_the_turn_and_an_unread_one_starts_another() {
    for is_on_its_way in [false, true] {
        let mut turn = started().await;
        let path = format!("/v1/threads/{}/messages", turn.thread);
        let mut numbers = Vec::new();
        for content in ["Only the cookie", "And test it"] {
            let form = json!({"content": content, "steer": turn.task});
            turn.t.ada.post(&path, form).await.is(201);
            let steer = turn.runner.command("steer").await;
            assert_eq!(
                (&steer["text"], &steer["task"]),
                (&json!(content), &json!(turn.task))
            );
            numbers.push(steer["n"].clone());
        }
        let mut end = done(&turn.task, 0);
        if is_on_its_way {
            end["received"] = numbers[0].clone();
        } else {
            end["unread_steers"] = json!([numbers[1]]);
        }
        turn.runner.event(&turn.session, end).await;
        turn.t.ada.completed(&turn.task).await;
        let next = turn.runner.command("prompt").await;
        assert_ne!(next["task"], json!(turn.task));
        assert!(text(&next, "/text").contains("And test it"), "{next}");
        assert!(!text(&next, "/text").contains("Only the cookie"), "{next}");
    }
}

#[tokio::test]
async fn a_message_that_steered_a_failed_or_stopped_turn_is_new_for_the_next_one() {
    for is_stopped in [false, true] {
        let mut turn = started().await;
        let path = format!("/v1/threads/{}/messages", turn.thread);
        let form = json!({"content": "Only the cookie", "steer": turn.task});
        turn.t.ada.post(&path, form).await.is(201);
        let steer = turn.runner.command("steer").await;
        if is_stopped {
            let path = format!("/v1/tasks/{}/cancel", turn.task);
            turn.t.ada.act(&path).await.is(200);
            turn.runner.command("cancel").await;
            let mut end = done(&turn.task, 0);
            end["stop"] = "canceled".into();
            end["unread_steers"] = json!([steer["n"]]);
            turn.runner.event(&turn.session, end).await;
        } else {
            let failed = json!({"type": "failed", "action": null, "code": "agent_failed", "message": "The agent ended."});
            turn.event(failed).await;
            turn.t.ada.failed(&turn.task).await;
        }
        turn.t.ada.ask(&turn.thread, "@coder try again").await;
        let next = turn.runner.command("prompt").await;
        assert!(text(&next, "/full").contains("try again"), "{next}");
        assert!(text(&next, "/text").contains("Only the cookie"), "{next}");
    }
}

#[tokio::test]
async fn a_later_turn_goes_on_in_the_same_copy_with_what_is_new() {
    let mut turn = started().await;
    turn.write("Fixed.").await;
    turn.finish(1).await;
    turn.t
        .bo
        .tell(&turn.thread, "The cookie has a bad name")
        .await;
    let task = turn.t.bo.ask(&turn.thread, "@coder rename it").await;
    let prompt = turn.runner.command("prompt").await;
    assert_eq!(
        (&prompt["session"], &prompt["task"]),
        (&json!(turn.session), &json!(task))
    );
    let (new, full) = (text(&prompt, "/text"), text(&prompt, "/full"));
    assert!(
        new.contains("bad name") && new.ends_with("rename it"),
        "{new}"
    );
    for old in ["You are Coder", "fix the login", "Fixed."] {
        assert!(full.contains(old) && !new.contains(old), "{old}");
    }
}

/// Changes the profile of Coder.
async fn change_coder(admin: &Person, change: Value) {
    let path = format!("/v1/agents/{}", id(&admin.agent("coder").await));
    let version = format!("\"{}\"", number(&admin.get(&path).await.ok(), "/version"));
    admin.patch_if(&path, &version, change).await.ok();
}

#[tokio::test]
async fn a_later_turn_has_the_instructions_that_have_changed() {
    let mut turn = started().await;
    turn.finish(0).await;
    let change = json!({"instructions": "Answer in French."});
    change_coder(&turn.t.ada, change).await;
    for (is_new, words) in [(true, "rename it"), (false, "test it")] {
        let ask = format!("@coder {words}");
        turn.task = turn.t.ada.ask(&turn.thread, &ask).await;
        let new = text(&turn.runner.command("prompt").await, "/text");
        assert_eq!(new.contains("Answer in French."), is_new, "{new}");
        assert!(new.ends_with(words) && !new.contains("You are Coder"));
        turn.finish(0).await;
    }
}

#[tokio::test]
async fn a_later_turn_uses_the_engine_that_is_chosen_now() {
    let mut turn = started().await;
    turn.finish(0).await;
    let repositories = turn.t.ada.get("/v1/repositories").await.ok();
    let path = format!("/v1/repositories/{}", id(&repositories["data"][0]));
    let change = json!({"engine": "claude"});
    turn.t.ada.patch(&path, change).await.ok();
    turn.t.ada.ask(&turn.thread, "@coder rename it").await;
    let open = turn.runner.command("open").await;
    assert_eq!(
        (&open["session"], &open["engine"]),
        (&json!(turn.session), &json!("claude"))
    );
    let prompt = turn.runner.command("prompt").await;
    assert!(text(&prompt, "/text").contains("You are Coder"));
    assert_eq!(turn.session().await["engine"], "claude");
}

#[tokio::test]
async fn a_turn_has_the_limits_of_the_sandbox_policy() {
    let mut turn = started().await;
    assert_eq!(turn.prompt["limits"], Value::Null);
    turn.finish(0).await;
    let policy = json!({"name": "small", "image": "python:3.13-slim", "cpu_max": 1.5, "memory_mb_max": 256,
        "network": "allowlist", "allowed_hosts": ["a.example"], "timeout_s_max": 30, "filesystem": "read_only"});
    let policy = turn
        .t
        .ada
        .post("/v1/sandbox-policies", policy)
        .await
        .is(201);
    let change = json!({"sandbox_policy_id": id(&policy)});
    change_coder(&turn.t.ada, change).await;
    turn.t.ada.ask(&turn.thread, "@coder rename it").await;
    let prompt = turn.runner.command("prompt").await;
    assert_eq!(
        prompt["limits"],
        json!({"seconds": 30, "memory_mb": 256, "cpu": 1, "writes": false, "hosts": ["a.example"]})
    );
}

#[tokio::test]
async fn a_turn_whose_calls_a_budget_does_not_allow_fails_with_the_reason() {
    let mut turn = started().await;
    let coder = id(&turn.t.ada.agent("coder").await);
    // The calls count for the agent of the turn.
    let budgets = json!({"data": [{"scope": "agent", "subject_id": coder, "period": "day", "limit_tokens": 1}]});
    turn.t.ada.put("/v1/budgets", budgets).await.is(200);
    let program = turn.t.ada.with_key(&text(&turn.prompt, "/key"));
    let call = json!({"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]});
    let refused = program.post("/v1/chat/completions", call).await;
    assert_eq!(text(&refused.is(429), "/error/code"), "insufficient_quota");
    let (ended, code) = turn.t.ada.failed(&turn.task).await;
    assert_eq!(code, "budget_exceeded");
    let message = text(&ended, "/error/message");
    assert!(message.contains("the agent has used its"), "{message}");
    let cancel = turn.runner.command("cancel").await;
    assert_eq!(cancel["task"], json!(turn.task));
}

#[tokio::test]
async fn a_turn_after_one_that_the_runner_did_not_receive_has_its_messages() {
    let mut turn = started().await;
    turn.finish(0).await;
    let lost = turn.t.ada.ask(&turn.thread, "@coder rename it").await;
    while turn.runner.next_command().await["type"] != "prompt" {}
    let path = format!("/v1/tasks/{lost}/cancel");
    turn.t.ada.act(&path).await.is(200);
    turn.t.ada.ask(&turn.thread, "@coder do it after all").await;
    let prompt = turn.runner.command("prompt").await;
    for words in ["rename it", "do it after all"] {
        assert!(text(&prompt, "/text").contains(words), "{words}");
    }
    assert!(!text(&prompt, "/text").contains("fix the login"));
}

#[tokio::test]
async fn the_message_names_the_repository_or_the_requester_chooses_it() {
    let t = team().await;
    let (_, key) = new_runner(&t.ada, "build-1").await;
    let mut runner = ScriptedRunner::connect(&t.app.base, &key, &["api", "web"]).await;
    allow(&t.ada, "api", &[&t.general]).await;
    let web = allow(&t.ada, "web", &[&t.general]).await;
    let thread = t.bo.thread(&t.general, "Root").await;
    t.bo.ask(&thread, "@coder fix the login in WEB").await;
    assert_eq!(runner.command("open").await["repository"], "web");
    let other = t.bo.thread(&t.general, "Root").await;
    let task = t.bo.ask(&other, "@coder fix the login").await;
    let action = crate::approvals::waiting(&t.bo, &task).await;
    assert_eq!(
        (&action["kind"], &action["title"]),
        (&json!("question"), &json!("Which repository?"))
    );
    let path = format!("/v1/actions/{}/answer", id(&action));
    let value = json!({"value": id(&web)});
    assert_eq!(
        t.ada.post(&path, value.clone()).await.refused(403),
        "not_your_approval"
    );
    let wrong = t.bo.post(&path, json!({"value": "other"})).await;
    assert_eq!(wrong.refused(422), "invalid_value");
    t.bo.post(&path, value).await.is(200);
    let prompt = loop {
        let prompt = runner.command("prompt").await;
        if prompt["task"] == json!(task) {
            break prompt;
        }
    };
    let path = format!("/v1/code-sessions/{}", text(&prompt, "/session"));
    assert_eq!(t.bo.get(&path).await.ok()["repository_id"], web["id"]);
}

#[tokio::test]
async fn an_agent_of_someone_who_must_not_start_work_replies_without_the_repository() {
    let (t, _runner) = team_with_runner().await;
    let all = t.ada.get("/v1/repositories").await.ok();
    let path = format!("/v1/repositories/{}", id(&all["data"][0]));
    t.ada.patch(&path, json!({"starters": "admins"})).await.ok();
    let thread = t.bo.thread(&t.general, "Root").await;
    let task = t.bo.ask(&thread, "@coder fix the login").await;
    t.bo.completed(&task).await;
    let reply = t.bo.messages(&thread).await.pop().unwrap();
    assert_eq!(reply["metadata"]["code"], json!({"without": "api"}));
    assert_eq!(
        list(&t.ada.get("/v1/code-sessions").await.ok(), "/data").len(),
        0
    );
    // Agents without this work chat as before.
    let task = t.ada.ask(&thread, "@vibe hello").await;
    t.ada.completed(&task).await;
}

#[tokio::test]
async fn the_cost_that_an_agent_reports_ends_its_turn_at_its_limit() {
    let t = team().await;
    change_coder(&t.ada, json!({"coding": {"usd_max": 2.0}})).await;
    let (_, key) = new_runner(&t.ada, "build-1").await;
    let mut runner = ScriptedRunner::connect(&t.app.base, &key, &["api"]).await;
    allow(&t.ada, "api", &[&t.general]).await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.ada.ask(&thread, "@coder fix the login").await;
    let session = text(&runner.command("prompt").await, "/session");
    for usd in [1.5, 2.5] {
        let cost = json!({"type": "usage", "task": task, "reported_cost_usd": usd});
        runner.event(&session, cost).await;
    }
    let (_, code) = t.ada.failed(&task).await;
    assert_eq!(code, "budget_exceeded");
    assert_eq!(runner.command("cancel").await["task"], json!(task));
}

#[tokio::test]
async fn a_task_has_the_tokens_that_an_agent_reports_of_its_own_model() {
    let mut turn = started().await;
    for (input, output) in [(100, 20), (7, 3)] {
        let usage = json!({"type": "usage", "input_tokens": input, "output_tokens": output});
        turn.event(usage).await;
    }
    turn.finish(0).await;
    let task = turn.t.ada.task(&turn.task).await;
    assert_eq!(
        task["token_usage"],
        json!({"input_tokens": 107, "output_tokens": 23, "model": "builtin", "cost_usd": null, "estimated": false})
    );
}

#[tokio::test]
async fn a_task_has_the_tokens_of_calls_with_the_key_of_its_turn() {
    let mut turn = started().await;
    let program = turn.t.ada.with_key(&text(&turn.prompt, "/key"));
    let call = json!({"model": "tiny", "messages": [{"role": "user", "content": "Hi"}]});
    for _ in 0..2 {
        program
            .post("/v1/chat/completions", call.clone())
            .await
            .is(200);
    }
    turn.finish(0).await;
    let usage = turn.t.ada.task(&turn.task).await["token_usage"].clone();
    assert_eq!(
        (
            &usage["input_tokens"],
            &usage["output_tokens"],
            &usage["model"]
        ),
        (&json!(22), &json!(14), &json!("tiny"))
    );
}

#[tokio::test]
async fn a_repository_that_is_no_longer_allowed_ends_its_turns() {
    let mut turn = started().await;
    let random = turn.t.ada.private_channel("other", &[]).await;
    allow(&turn.t.ada, "api", &[&turn.t.general, &random]).await;
    assert_eq!(turn.t.ada.task(&turn.task).await["status"], "running");
    allow(&turn.t.ada, "api", &[&random]).await;
    let (_, code) = turn.t.ada.failed(&turn.task).await;
    assert_eq!(code, "not_allowed");
    assert_eq!(
        turn.runner.command("cancel").await["task"],
        json!(turn.task)
    );
}

#[tokio::test]
async fn a_deleted_runner_ends_its_turns() {
    let turn = started().await;
    let all = turn.t.ada.get("/v1/runners").await.ok();
    let path = format!("/v1/runners/{}", id(&all["data"][0]));
    turn.t.ada.delete(&path).await.ok();
    let (_, code) = turn.t.ada.failed(&turn.task).await;
    assert_eq!(code, "runner_offline");
    let path = format!("/v1/code-sessions/{}", turn.session);
    assert_eq!(
        turn.t.ada.get(&path).await.refused(404),
        "code_session_not_found"
    );
}

#[tokio::test]
async fn a_runner_writes_only_in_its_own_sessions() {
    let mut turn = started().await;
    let (_, key) = new_runner(&turn.t.ada, "build-2").await;
    let mut other = ScriptedRunner::connect(&turn.t.app.base, &key, &["web"]).await;
    let words = json!({"type": "text", "task": turn.task, "text": "Foreign."});
    other.event_at(&turn.session, 2, words).await;
    let path = format!("{}/patch?task_id={}", turn.session, turn.task);
    assert_eq!(other.put(&path, "diff").await, 404);
    turn.write("Own.").await;
    turn.finish(0).await;
    assert_eq!(turn.last_message().await["content"], "Own.");
}

#[tokio::test]
async fn an_agent_on_a_runner_reads_what_all_readers_of_the_conversation_can_read() {
    let mut turn = started().await;
    let t = &turn.t;
    t.bo.thread(&t.general, "The cookie is called sid").await;
    let private = t.ada.private_channel("secret", &[]).await;
    t.ada.thread(&private, "The secret cookie").await;
    let program = t.ada.with_key(&text(&turn.prompt, "/key"));
    let mcp = async |method: &str, params: Value| {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let headers = [
            ("accept", "application/json, text/event-stream"),
            ("mcp-protocol-version", "2025-11-25"),
        ];
        let body = Some(message.to_string().into_bytes());
        let reply = program.send(Method::POST, "/mcp", &headers, body).await;
        reply.is(200)["result"].clone()
    };
    let listed = mcp("tools/list", json!({})).await;
    let names: Vec<String> = list(&listed, "/tools")
        .iter()
        .map(|tool| text(tool, "/name"))
        .collect();
    let expected = [
        "search_messages",
        "read_thread",
        "search_decisions",
        "list_action_items",
    ];
    assert_eq!(names, expected);
    let search = json!({"name": "search_messages", "arguments": {"query": "cookie"}});
    let found = mcp("tools/call", search).await;
    let found = text(&found, "/content/0/text");
    assert!(
        found.contains("sid") && !found.contains("secret"),
        "{found}"
    );
    let post =
        json!({"name": "post_message", "arguments": {"channel_id": t.general, "content": "Hi"}});
    assert_eq!(mcp("tools/call", post).await["isError"], true);
    turn.finish(1).await;
    // What the agent has read is named in the push that people approve.
    let session = turn.session().await;
    let path = format!("/v1/actions/{}", text(&session, "/action_id"));
    let push = turn.t.ada.get(&path).await.ok();
    let sources = push["sources"].to_string();
    assert!(
        sources.contains("api") && sources.contains("Bo"),
        "{sources}"
    );
}

/// Form of a skill with a script.
fn skill_form(name: &str, script: &str) -> Value {
    let main = format!("---\nname: {name}\ndescription: Reads the tide table\n---\nRun it.\n");
    json!({"files": [
        {"path": "SKILL.md", "content": main},
        {"path": "scripts/run.sh", "content": script},
    ]})
}

/// Starts a turn of Coder, which has a skill by Ada; returns its ID, too.
async fn started_with_skill(form: &Value) -> (Turn, String) {
    let (t, runner) = team_with_runner().await;
    let skill = id(&t.ada.post("/v1/skills", form.clone()).await.is(201));
    let path = format!("/v1/agents/{}", id(&t.ada.agent("coder").await));
    let coder = t.ada.get(&path).await.ok();
    let version = format!("\"{}\"", number(&coder, "/version"));
    let change = json!({"skills": "all"});
    t.ada.patch_if(&path, &version, change).await.ok();
    (begun(t, runner, |t| &t.ada).await, skill)
}

#[tokio::test]
async fn the_skills_of_a_turn_are_read_as_they_are_now() {
    let tides = skill_form("tides", "echo low water");
    let (mut turn, skill) = started_with_skill(&tides).await;
    let said = text(&turn.prompt, "/text");
    assert!(
        said.contains("- tides: Reads the tide table")
            && said.contains("read `~/.agents/skills/NAME/SKILL.md`"),
        "{said}"
    );
    let of_turn = format!("{}/skills?task_id={}", turn.session, turn.task);
    let of_skill = format!("{}/skills/{skill}?task_id={}", turn.session, turn.task);
    let listed = json!({"skills": [{"id": skill, "name": "tides", "version": 1}]});
    assert_eq!(turn.runner.skills(&of_turn).await, Ok(listed));
    let found = turn.runner.skills(&of_skill).await.unwrap();
    assert_eq!(found["version"], 1);
    assert_eq!(found["files"], tides["files"]);
    // It changes while the agent works, by someone whom the requester does not trust.
    let cy = turn.t.app.join(&turn.t.ada, "Cy", "member").await;
    let path = format!("/v1/skills/{skill}");
    let by_cy = skill_form("tides", "echo high water");
    cy.put(&path, by_cy.clone()).await.is(200);
    let listed = turn.runner.skills(&of_turn).await.unwrap();
    assert_eq!(listed["skills"][0]["version"], 2);
    let found = turn.runner.skills(&of_skill).await.unwrap();
    assert_eq!(found["files"], by_cy["files"]);
    turn.t.ada.delete(&path).await.ok();
    let none = turn.runner.skills(&of_turn).await;
    assert_eq!(none, Ok(json!({"skills": []})));
    assert_eq!(turn.runner.skills(&of_skill).await, Err(404));
    turn.write("Fixed.").await;
    turn.finish(1).await;
    assert_eq!(turn.runner.skills(&of_turn).await, Err(404));
    let session = turn.session().await;
    let path = format!("/v1/actions/{}", text(&session, "/action_id"));
    let push = turn.t.ada.get(&path).await.ok();
    let sources = push["sources"].to_string();
    assert!(sources.contains("skills, by Cy"), "{sources}");
}

#[tokio::test]
async fn a_turn_has_only_skills_that_all_readers_of_its_conversation_can_read() {
    let tides = skill_form("tides", "echo low water");
    let (turn, skill) = started_with_skill(&tides).await;
    let t = &turn.t;
    let of_turn = format!("{}/skills?task_id={}", turn.session, turn.task);
    let of_skill = format!("{}/skills/{skill}?task_id={}", turn.session, turn.task);
    let private = t.ada.private_channel("secret", &[]).await;
    let path = format!("/v1/skills/{skill}");
    for (channels, count) in [
        (json!([private]), 0),
        (json!([t.general]), 1),
        (json!(null), 1),
    ] {
        let change = json!({"channel_ids": channels});
        t.ada.put(&path, change).await.is(200);
        let listed = turn.runner.skills(&of_turn).await.unwrap();
        assert_eq!(list(&listed, "/skills").len(), count, "{channels}");
        assert_eq!(turn.runner.skills(&of_skill).await.is_ok(), count == 1);
    }
    // A guest reads #general from now on.
    t.app.join_as_guest(&t.ada, "Gus", &["general"]).await;
    let none = turn.runner.skills(&of_turn).await;
    assert_eq!(none, Ok(json!({"skills": []})));
    assert_eq!(turn.runner.skills(&of_skill).await, Err(404));
}

#[tokio::test]
async fn skills_are_only_for_the_runner_of_a_turn() {
    let tides = skill_form("tides", "echo low water");
    let (turn, skill) = started_with_skill(&tides).await;
    let (_, key) = new_runner(&turn.t.ada, "build-2").await;
    let other = ScriptedRunner::connect(&turn.t.app.base, &key, &["web"]).await;
    let elsewhere = turn.t.ada.thread(&turn.t.general, "Other").await;
    let foreign = turn.t.ada.ask(&elsewhere, "@vibe hi").await;
    turn.t.ada.completed(&foreign).await;
    for part in [String::new(), format!("/{skill}")] {
        let path = |task: &str| format!("{}/skills{part}?task_id={task}", turn.session);
        assert_eq!(other.skills(&path(&turn.task)).await, Err(404));
        assert_eq!(turn.runner.skills(&path(&foreign)).await, Err(404));
        assert!(turn.runner.skills(&path(&turn.task)).await.is_ok());
    }
}
