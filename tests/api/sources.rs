//! Sources of a prompt: everything that an agent is told or could be told, with the reason why something is missing.
//!
//! A few configurations are part of the suite; `SOURCES=2000 SEED=7 cargo test --test api sources::` makes more.

use std::path::{Path, PathBuf};

use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::{Value, json};

use crate::support::{
    Answer, Person, Team, id, instructions_of, list, number, setting, team_with, text,
};

const NAMES: [&str; 25] = [
    "preamble",
    "required",
    "base",
    "instructions",
    "identity",
    "persona",
    "agency",
    "agents_md",
    "tools_md",
    "skills",
    "addons",
    "adaptation",
    "conversation",
    "workspace",
    "notes",
    "fork_header",
    "summary",
    "messages",
    "about",
    "memories",
    "knowledge",
    "files",
    "requester",
    "trigger",
    "tools",
];
/// Number of names that belong to the system text.
const SYSTEM: usize = 12;
/// Configurations in the suite.
const CASES: usize = 24;

/// Sources of a response, after checking that all names are there and that their tokens add up to `budget.used`.
fn sources(seen: &Value) -> Vec<Value> {
    let sources = list(seen, "/sources");
    let names: Vec<String> = sources.iter().map(|source| text(source, "/name")).collect();
    assert_eq!(names, NAMES);
    let tokens: i64 = sources.iter().map(|source| number(source, "/tokens")).sum();
    assert_eq!(tokens, number(seen, "/budget/used"), "{seen}");
    sources
}

fn named<'a>(sources: &'a [Value], name: &str) -> &'a Value {
    let mut sources = sources.iter();
    sources.find(|source| source["name"] == name).unwrap()
}

/// `STATE BECAUSE` of a source.
fn state(sources: &[Value], name: &str) -> String {
    let source = named(sources, name);
    let because = source["because"].as_str().unwrap_or("-");
    format!("{} {because}", text(source, "/state"))
}

async fn dry_run(person: &Person, thread: &str, agent: &str) -> Value {
    let path = format!("/v1/threads/{thread}/context?agent_id={agent}");
    person.get(&path).await.ok()
}

async fn set_policy(t: &Team, patch: Value) {
    let path = format!("/v1/workspaces/{}/policy", t.ada.workspace);
    t.ada.patch(&path, patch).await.is(200);
}

async fn write(person: &Person, path: &str, content: &str) {
    person.put(path, json!({"content": content})).await.is(200);
}

async fn approved_persona(t: &Team, name: &str, text: &str) -> String {
    let form = json!({"name": name, "compressed": text});
    let persona = id(&t.ada.post("/v1/personas", form).await.is(201));
    let patch = json!({"pipeline_status": "approved"});
    let path = format!("/v1/personas/{persona}");
    t.ada.patch(&path, patch).await.is(200);
    persona
}

/// Texts of the sources, as they are joined in the request.
fn joined(sources: &[Value]) -> String {
    let texts = sources.iter().map(|source| text(source, "/text"));
    let texts: Vec<String> = texts
        .map(|text| text.trim_end().to_owned())
        .filter(|text| !text.is_empty())
        .collect();
    texts.join("\n\n")
}

/// A random configuration of the workspace and of an agent.
struct Case<'a> {
    t: &'a Team,
    rng: StdRng,
    n: usize,
}

impl Case<'_> {
    fn pick(&mut self) -> bool {
        self.rng.random_bool(0.5)
    }

    fn maybe(&mut self, value: Value) -> Value {
        if self.pick() { value } else { Value::Null }
    }

    async fn configure_workspace(&mut self) {
        let policy = json!({
            "required_text": self.maybe(json!("Be kind to each other.")),
            "adaptation_allowed": self.pick(),
            "memory": {"enabled": self.pick(), "user": self.pick()},
            "compaction": {"default": if self.pick() { "off" } else { "standard" }},
            "workspace_context": {"enabled": self.pick(), "text": "We build harbors."},
            "trust_level": self.rng.random_range(0..=3),
        });
        set_policy(self.t, policy).await;
        let shared = format!("/v1/workspaces/{}/files", self.t.ada.workspace);
        for file in ["AGENTS.md", "TOOLS.md"] {
            let path = format!("{shared}/{file}");
            if self.pick() {
                write(&self.t.ada, &path, &format!("Shared {file} of the team.")).await;
            } else {
                self.t.ada.delete(&path).await;
            }
        }
        let visibility = if self.pick() { "direct" } else { "workspace" };
        let about = json!({"content": "I like tea.", "visibility": visibility});
        self.t
            .bo
            .put("/v1/members/me/files/USER.md", about)
            .await
            .is(200);
        let own = json!({"enabled": self.pick(), "adapt": self.pick()});
        self.t.bo.patch("/v1/memory-settings", own).await.is(200);
    }

    async fn make_agent(&mut self, base: &str, persona: &str) -> String {
        let name = format!("case{}", self.n);
        let tools = if self.pick() {
            json!([{"type": "file_search"}])
        } else {
            json!([])
        };
        let styles = ["none", "concise", "auto"];
        let style = styles[self.rng.random_range(0..styles.len())];
        let form = json!({
            "name": name,
            "instructions": instructions_of(&name),
            "identity": self.maybe(json!("Calm and exact.")),
            "agency": self.maybe(json!({"role_description": "Watches the build."})),
            "base_profile_id": self.maybe(json!(base)),
            "persona_id": self.maybe(json!(persona)),
            "prompting": {"profile": style},
            "tools": tools,
            "sentiment": self.maybe(json!({"enabled": true})),
            "memory": {"scopes": {"conversation": self.pick(), "agent": self.pick()}},
        });
        let agent = id(&self.t.ada.post("/v1/agents", form).await.is(201));
        for file in ["AGENTS.md", "TOOLS.md", "MEMORY.md"] {
            if self.pick() {
                let path = format!("/v1/agents/{agent}/files/{file}");
                write(&self.t.ada, &path, &format!("Own {file} of the agent.")).await;
            }
        }
        agent
    }

    /// Posts messages; returns the path of the conversation's context, and the path of its messages.
    async fn make_conversation(&mut self) -> (String, String) {
        let bo = &self.t.bo;
        let started = bo.start(&self.t.general, "The harbor ferry is late").await;
        let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
        for n in 0..self.rng.random_range(0..4) {
            bo.say(&thread, &format!("Note {n}")).await;
        }
        if self.pick() {
            let off = json!({"memory": "off"});
            bo.patch(&format!("/v1/threads/{thread}"), off)
                .await
                .is(200);
        }
        if self.pick() {
            return (
                format!("/v1/threads/{thread}/context"),
                format!("/v1/threads/{thread}/messages"),
            );
        }
        let fork = bo
            .start_fork(
                &thread,
                &root,
                json!({"title": "The day", "agent_id": null}),
            )
            .await;
        let fork = id(&fork);
        (
            format!("/v1/forks/{fork}/context"),
            format!("/v1/forks/{fork}/messages"),
        )
    }
}

#[tokio::test]
async fn generated_sources_are_the_request_in_its_order_and_add_up() {
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    let persona = approved_persona(&t, "Calm", "You are calm: name the risk first.").await;
    let base = id(&t.ada.make_agent("base").await);
    let fact = json!({"text": "The harbor ferry starts at Pier 4711", "kind": "fact"});
    t.bo.post("/v1/memories", fact).await.is(201);
    let seed = setting::<usize>("SEED").unwrap_or(1);
    for n in 0..setting::<usize>("SOURCES").unwrap_or(CASES) {
        let mut case = Case {
            t: &t,
            rng: StdRng::seed_from_u64((seed + n) as u64),
            n,
        };
        case.configure_workspace().await;
        let agent = case.make_agent(&base, &persona).await;
        let (context, messages) = case.make_conversation().await;
        let before = t.bo.get(&format!("{context}?agent_id={agent}")).await.ok();
        let planned = sources(&before);
        let question = format!("@case{n} where does the harbor ferry start?");
        let posted =
            t.bo.post(&messages, json!({"content": question}))
                .await
                .is(201);
        let task = text(&posted, "/tasks/0/id");
        t.bo.completed(&task).await;
        let request = t.model().requests().pop().unwrap();
        let seen = t.bo.task_context(&task).await;
        let sent = sources(&seen);

        let system = text(&request.body, "/messages/0/content");
        assert_eq!(joined(&sent[..SYSTEM]), system.trim_end(), "case {n}");
        let turns = list(&request.body, "/messages");
        let turns: Vec<String> = turns[1..].iter().map(|m| text(m, "/content")).collect();
        let told = joined(&sent[SYSTEM..NAMES.len() - 1]);
        assert_eq!(told, turns.join("\n\n").trim_end(), "case {n}");
        let offered = request.offered();
        let definitions = text(named(&sent, "tools"), "/text");
        assert_eq!(definitions.lines().count(), offered.len(), "case {n}");
        assert!(offered.iter().all(|name| definitions.contains(name)));

        // The plan differs only in what the question adds.
        for name in NAMES.iter().filter(|name| **name != "trigger") {
            // A style can depend on the question, too.
            if !["memories", "addons"].contains(name) {
                assert_eq!(
                    state(&planned, name),
                    state(&sent, name),
                    "case {n}: {name}"
                );
            }
        }
        for source in &sent {
            let is_there = number(source, "/tokens") > 0;
            let is_sent = source["state"] == "sent" || source["state"] == "cut";
            assert_eq!(is_there, is_sent, "case {n}: {source}");
        }
        check_for_others(&t, &task, n).await;
    }
}

/// Checks what another member sees of Bo's task.
async fn check_for_others(t: &Team, task: &str, n: usize) {
    let seen = t.ada.task_context(task).await;
    let others = sources(&seen);
    for name in ["about", "adaptation"] {
        let source = named(&others, name);
        let is_public = source["state"] == "sent" && name == "about";
        let is_hidden = source["state"] == "hidden" && source["text"].is_null();
        assert!(is_public || is_hidden, "case {n}: {source}");
    }
    let entry = text(named(&others, "memories"), "/state");
    if entry != "hidden" {
        let memories = text(named(&others, "memories"), "/text");
        assert!(!memories.contains("Pier 4711"), "case {n}: {memories}");
    }
}

#[tokio::test]
async fn every_source_that_is_off_is_sent_after_its_switch() {
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    let policy = format!("/v1/workspaces/{}/policy", t.ada.workspace);
    let form = json!({
        "name": "sage", "instructions": instructions_of("sage"), "tools": [{"type": "file_search"}],
        "prompting": {"profile": "concise"}, "sentiment": {"enabled": true, "presets": []},
        "reflection": {"metaprompts": [{"id": "check-in", "template": "Look. {{evidence}}", "trigger": {"type": "manual"}}]},
    });
    let sage = id(&t.ada.post("/v1/agents", form).await.is(201));
    let agent = format!("/v1/agents/{sage}");
    let thread = t.ada.thread(&t.general, "The harbor ferry").await;
    let thread_path = format!("/v1/threads/{thread}");
    let context = json!({"enabled": true, "text": "We build harbors."});
    set_policy(
        &t,
        json!({"adaptation_allowed": true, "workspace_context": context}),
    )
    .await;
    let own = "/v1/memory-settings";
    t.ada.patch(own, json!({"adapt": true})).await.is(200);
    let about = json!({"content": "I like tea.", "visibility": "workspace"});
    t.ada
        .put("/v1/members/me/files/USER.md", about)
        .await
        .is(200);
    let fact = json!({"text": "The harbor ferry starts at Pier 4711", "kind": "fact", "thread_id": thread});
    t.ada.post("/v1/memories", fact).await.is(201);
    t.ada
        .say(&thread, "Where does the harbor ferry start?")
        .await;
    let task = t.ada.ask(&thread, "@sage hello harbor ferry").await;
    t.ada.completed(&task).await;
    t.model()
        .script("reflection", [Answer::text(r#"{"mood": "patient"}"#)]);
    let form = json!({"thread_id": thread, "metaprompt_id": "check-in"});
    let queued = t.ada.post(&format!("{agent}/reflect"), form).await.is(202);
    t.ada.completed(&text(&queued, "/task/id")).await;

    let file = "/v1/members/me/files/USER.md";
    let all_scopes = |on: Value| {
        let names = ["conversation", "user", "persona", "organization", "agent"];
        let scopes: Value = names.into_iter().map(|name| (name, on.clone())).collect();
        json!({"memory": {"scopes": scopes}})
    };
    let (put, patch) = (true, false);
    let rows = [
        (
            "adaptation",
            "off_workspace",
            patch,
            policy.as_str(),
            json!({"adaptation_allowed": false}),
            json!({"adaptation_allowed": true}),
        ),
        (
            "adaptation",
            "off_agent",
            patch,
            agent.as_str(),
            json!({"sentiment": {"enabled": false}, "reflection": null}),
            json!({"sentiment": {"enabled": true, "presets": []}}),
        ),
        (
            "adaptation",
            "off_person",
            patch,
            own,
            json!({"adapt": false}),
            json!({"adapt": true}),
        ),
        (
            "addons",
            "off_agent",
            patch,
            agent.as_str(),
            json!({"prompting": {"profile": "none"}}),
            json!({"prompting": {"profile": "concise"}}),
        ),
        (
            "workspace",
            "off_workspace",
            patch,
            policy.as_str(),
            json!({"workspace_context": {"enabled": false}}),
            json!({"workspace_context": {"enabled": true}}),
        ),
        (
            "about",
            "personal",
            put,
            file,
            json!({"content": "I like tea.", "visibility": "direct"}),
            json!({"content": "I like tea.", "visibility": "workspace"}),
        ),
        (
            "memories",
            "off_workspace",
            patch,
            policy.as_str(),
            json!({"memory": {"enabled": false}}),
            json!({"memory": {"enabled": true}}),
        ),
        (
            "memories",
            "off_agent",
            patch,
            agent.as_str(),
            all_scopes(json!(false)),
            all_scopes(Value::Null),
        ),
        (
            "memories",
            "off_thread",
            patch,
            thread_path.as_str(),
            json!({"memory": "off"}),
            json!({"memory": "on"}),
        ),
        (
            "tools",
            "off_workspace",
            patch,
            policy.as_str(),
            json!({"trust_level": 0}),
            json!({"trust_level": 2}),
        ),
        (
            "tools",
            "off_workspace",
            patch,
            policy.as_str(),
            json!({"allowed_tools": ["web_fetch"]}),
            json!({"allowed_tools": null}),
        ),
    ];
    for (name, because, is_put, path, off, on) in rows {
        let set = async |body: &Value| {
            let reply = if is_put {
                t.ada.put(path, body.clone()).await
            } else {
                t.ada.patch(path, body.clone()).await
            };
            reply.is(200);
            sources(&dry_run(&t.ada, &thread, &sage).await)
        };
        let without = set(&off).await;
        assert_eq!(state(&without, name), format!("off {because}"), "{off}");
        assert_eq!(named(&without, name)["tokens"], 0, "{off}");
        let with = set(&on).await;
        assert_eq!(state(&with, name), "sent -", "{name} {on}");
    }
    // Both switches stop memories; the first one is named.
    set_policy(&t, json!({"memory": {"enabled": false}})).await;
    t.ada
        .patch(&thread_path, json!({"memory": "off"}))
        .await
        .is(200);
    let seen = sources(&dry_run(&t.ada, &thread, &sage).await);
    assert_eq!(state(&seen, "memories"), "off off_workspace");
}

#[tokio::test]
async fn owners_authors_and_rights_of_sources() {
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    let base = id(&t.ada.make_agent("base").await);
    let form = json!({
        "name": "sage", "instructions": instructions_of("sage"), "identity": "Calm.", "base_profile_id": base,
        "access_control": {"denied_subjects": ["role:viewer"]},
    });
    let sage = id(&t.bo.post("/v1/agents", form).await.is(201));
    write(&t.bo, &format!("/v1/agents/{sage}/files/TOOLS.md"), "Own.").await;
    let shared = format!("/v1/workspaces/{}/files/AGENTS.md", t.ada.workspace);
    write(&t.ada, &shared, "Shared.").await;
    let cy = t.app.join(&t.ada, "Cy", "member").await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let seen = sources(&dry_run(&t.bo, &thread, &sage).await);
    let owner = |name: &str| {
        let owner = &named(&seen, name)["owner"];
        let id = owner["id"].as_str().unwrap_or("-");
        format!("{} {id}", text(owner, "/type"))
    };
    for (name, wanted, author, can_edit, by_api) in [
        ("preamble", "server -".to_owned(), None, false, true),
        ("base", format!("agent {base}"), Some(&t.ada.id), true, true),
        (
            "instructions",
            format!("agent {sage}"),
            Some(&t.bo.id),
            true,
            true,
        ),
        (
            "identity",
            format!("agent {sage}"),
            Some(&t.bo.id),
            true,
            true,
        ),
        (
            "tools_md",
            format!("agent {sage}"),
            Some(&t.bo.id),
            true,
            true,
        ),
        (
            "agents_md",
            format!("workspace {}", t.ada.workspace),
            None,
            false,
            true,
        ),
        (
            "addons",
            format!("workspace {}", t.ada.workspace),
            None,
            false,
            true,
        ),
        ("about", format!("person {}", t.bo.id), None, true, true),
        (
            "messages",
            format!("conversation {thread}"),
            None,
            false,
            false,
        ),
    ] {
        let source = named(&seen, name);
        assert_eq!(owner(name), wanted, "{name}");
        assert_eq!(source["author"], json!(author), "{name}");
        assert_eq!(source["can_edit"], can_edit, "{name}");
        assert_eq!(source["by_api"], by_api, "{name}");
    }
    // Only editors, who are the creators at first, and admins can edit an agent.
    let seen = sources(&dry_run(&cy, &thread, &sage).await);
    assert_eq!(named(&seen, "instructions")["can_edit"], false);
    let seen = sources(&dry_run(&t.ada, &thread, &sage).await);
    assert_eq!(named(&seen, "base")["can_edit"], true);
    assert_eq!(named(&seen, "agents_md")["can_edit"], true);
    // A base that the reader cannot see is hidden.
    let access = json!({"access_control": {"denied_subjects": ["role:member"]}});
    t.ada
        .patch(&format!("/v1/agents/{base}"), access)
        .await
        .is(200);
    let seen = sources(&dry_run(&cy, &thread, &sage).await);
    let hidden = named(&seen, "base");
    assert_eq!(state(&seen, "base"), "hidden -");
    let wanted = json!({"type": "agent", "id": null, "name": null});
    assert_eq!((&hidden["text"], &hidden["owner"]), (&Value::Null, &wanted));
}

#[tokio::test]
async fn the_sources_of_an_agent_that_the_reader_cannot_see_are_hidden() {
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    let sage = id(&t.ada.make_agent("sage").await);
    write(
        &t.ada,
        &format!("/v1/agents/{sage}/files/MEMORY.md"),
        "Own notes.",
    )
    .await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let task = t.ada.ask(&thread, "@sage hello").await;
    t.ada.completed(&task).await;
    let access = json!({"access_control": {"denied_subjects": ["role:member"]}});
    t.ada
        .patch(&format!("/v1/agents/{sage}"), access)
        .await
        .is(200);
    let seen = sources(&t.bo.task_context(&task).await);
    for source in &seen[..SYSTEM] {
        assert_eq!(source["state"], "hidden", "{source}");
        assert_eq!(source["text"], Value::Null, "{source}");
        let is_whole = source["name"] == "instructions";
        assert_eq!(number(source, "/tokens") > 0, is_whole, "{source}");
    }
    for name in ["notes", "tools"] {
        assert_eq!(state(&seen, name), "hidden -");
    }
    assert_eq!(state(&seen, "messages"), "sent -");
}

#[tokio::test]
async fn a_source_that_does_not_fit_is_cut() {
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    let sage = id(&t.ada.make_agent("sage").await);
    let long = "harbor ".repeat(4_000);
    write(&t.ada, &format!("/v1/agents/{sage}/files/MEMORY.md"), &long).await;
    let thread = t.ada.thread(&t.general, "Root").await;
    let seen = sources(&dry_run(&t.ada, &thread, &sage).await);
    assert_eq!(state(&seen, "notes"), "cut no_room");
    assert!(text(named(&seen, "notes"), "/text").chars().count() <= 8_000);
    let task = t.ada.ask(&thread, "@sage hello").await;
    t.ada.completed(&task).await;
    let sent = sources(&t.ada.task_context(&task).await);
    assert_eq!(state(&sent, "notes"), "cut no_room");
    for field in ["text", "tokens"] {
        assert_eq!(named(&sent, "notes")[field], named(&seen, "notes")[field]);
    }
}

#[tokio::test]
async fn a_new_thread_and_a_draft_have_sources() {
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    let vibe = id(&t.ada.agent("vibe").await);
    let rows = t.app.place.row_counts().await;
    let path = format!("/v1/channels/{}/context?agent_id={vibe}", t.general);
    let seen = t.bo.get(&path).await.ok();
    assert_eq!(t.app.place.row_counts().await, rows);
    assert_eq!(
        (&seen["may_ask"], &seen["dry_run"]),
        (&json!(true), &json!(true))
    );
    let planned = sources(&seen);
    for (name, wanted) in [
        ("instructions", "sent -"),
        ("conversation", "sent -"),
        ("messages", "empty no_text"),
        ("trigger", "empty no_text"),
        ("fork_header", "empty no_text"),
        ("tools", "sent -"),
    ] {
        assert_eq!(state(&planned, name), wanted, "{name}");
    }
    let harbor = t.ada.private_channel("harbor", &[]).await;
    let hidden = format!("/v1/channels/{harbor}/context?agent_id={vibe}");
    t.bo.get(&hidden).await.refused(404);
    let rows = t.app.place.row_counts().await;

    let form = json!({"instructions": "Be brief.", "tools": [{"type": "file_search"}]});
    let preview = async |fields: Value| {
        let mut body = json!({"agent": form});
        for (field, value) in fields.as_object().unwrap() {
            body[field] = value.clone();
        }
        sources(&t.bo.post("/v1/agents/preview", body).await.is(200))
    };
    let alone = preview(json!({})).await;
    assert_eq!(state(&alone, "instructions"), "sent -");
    assert_eq!(named(&alone, "instructions")["text"], "Be brief.");
    assert_eq!(state(&alone, "conversation"), "empty no_text");
    assert_eq!(state(&alone, "tools"), "sent -");
    let there = preview(json!({"channel_id": t.general})).await;
    assert_eq!(state(&there, "conversation"), "sent -");
    assert!(text(named(&there, "conversation"), "/text").contains("#general"));
    let body = json!({"agent": form, "channel_id": harbor});
    t.bo.post("/v1/agents/preview", body).await.refused(404);
    assert_eq!(t.app.place.row_counts().await, rows);
}

#[tokio::test]
async fn a_draft_that_does_not_fit_is_larger_than_the_window() {
    let t = team_with(&[("MODEL", "house"), ("CONTEXT_WINDOW", "9000")]).await;
    for (words, fits) in [(10, true), (20_000, false)] {
        let agent = json!({"instructions": "harbor ".repeat(words)});
        let form = json!({"agent": agent});
        let seen = t.bo.post("/v1/agents/preview", form).await.is(200);
        assert_eq!(state(&sources(&seen), "instructions"), "sent -");
        assert_eq!(seen["budget"]["context_window"], 9000);
        assert_eq!(number(&seen, "/budget/used") <= 9000, fits, "{words}");
    }
}

#[tokio::test]
async fn a_persona_without_approval_and_a_model_without_functions_are_named() {
    let t = team_with(&[("RATE_LIMITS", "off")]).await;
    let form = json!({"name": "Calm", "compressed": "You are calm."});
    let persona = id(&t.ada.post("/v1/personas", form).await.is(201));
    let form =
        json!({"name": "sage", "instructions": instructions_of("sage"), "persona_id": persona});
    let sage = id(&t.ada.post("/v1/agents", form).await.is(201));
    let thread = t.ada.thread(&t.general, "Root").await;
    let seen = sources(&dry_run(&t.ada, &thread, &sage).await);
    assert_eq!(state(&seen, "persona"), "empty not_approved");
    assert_eq!(state(&seen, "tools"), "empty no_text");
}

/// Texts of the repository below a folder, in lowercase and without line breaks.
fn texts_below(folder: &str) -> Vec<(PathBuf, String)> {
    let (mut folders, mut texts) = (vec![PathBuf::from(folder)], Vec::new());
    while let Some(folder) = folders.pop() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let name = path.to_string_lossy().into_owned();
            let is_text = [".md", ".yaml", ".svelte", ".ts"]
                .iter()
                .any(|end| name.ends_with(end));
            if path.is_dir() {
                folders.push(path);
            } else if is_text && !name.contains(".test.") {
                let text = std::fs::read_to_string(&path).unwrap().to_lowercase();
                let words: Vec<&str> = text.split_whitespace().collect();
                texts.push((path, words.join(" ")));
            }
        }
    }
    texts
}

/// Memories, the workspace's context, and searches bring texts of other conversations.
#[test]
fn no_text_denies_that_agents_are_told_of_other_conversations() {
    for folder in ["docs", "seeds", "web/src"] {
        let texts = texts_below(folder);
        assert!(!texts.is_empty(), "{folder}");
        for (path, text) in texts {
            for denial in ["this conversation only", "no access to other"] {
                assert!(!text.contains(denial), "{}: {denial}", path.display());
            }
            let denies = folder == "seeds" && text.contains("nothing else");
            assert!(!denies, "{}: nothing else", path.display());
        }
    }
}
