//! Reply styles: a workspace's prompt profiles, and the preset that a reply uses.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    compaction::{compacted, segment},
    support::{Person, Reply, Team, id, list, team, team_with, text, unknown_id, within},
};

const PROFILES: &str = "/v1/prompt-profiles";

/// Prompt profiles with the presets `plan` (for a rule with the keyword "plan"), `calm` (for the mode `fork`), and `brief`.
fn document() -> Value {
    let addon = |id: &str| json!({"id": id, "text": format!("Style marker {id}.")});
    let preset = |id: &str| json!({"id": id, "name": id, "description": "", "addons": [id]});
    let ids = ["plan", "calm", "brief"];
    let (addons, presets) = (ids.map(addon), ids.map(preset));
    json!({
        "addons": addons,
        "presets": presets,
        "routing": {"review_every_n_turns": 2, "force_review_on_compaction": true,
            "default_preset_by_mode": {"fork": "calm"}},
        "rules": [{"keywords": ["plan"], "min_length": null, "max_length": null, "preset": "plan", "priority": 1}],
    })
}

async fn put_if(who: &Person, version: i64, form: &Value) -> Reply {
    let etag = format!("\"{version}\"");
    let body = Some(form.to_string().into_bytes());
    who.send(Method::PUT, PROFILES, &[("if-match", &etag)], body)
        .await
}

/// A team with these prompt profiles, and Vibe's ID.
async fn styled(settings: &[(&str, &str)]) -> (Team, String) {
    let t = team_with(settings).await;
    t.ada.put(PROFILES, document()).await.is(200);
    let vibe = id(&t.ada.agent("vibe").await);
    (t, vibe)
}

async fn set_profile(who: &Person, agent: &str, profile: Value) -> Reply {
    let fields = json!({"prompting": {"profile": profile}});
    who.patch(&format!("/v1/agents/{agent}"), fields).await
}

async fn choose(who: &Person, conversation: &str, agent: &str, preset: &str) -> Reply {
    let form = json!({"agent_id": agent, "preset": preset});
    who.put(&format!("/v1/{conversation}/preset"), form).await
}

async fn reset(who: &Person, conversation: &str, agent: &str) -> Reply {
    who.delete(&format!("/v1/{conversation}/preset?agent_id={agent}"))
        .await
}

/// Asks in a thread; returns the preset of the reply as `ID by ORIGIN`, or an empty text if there is none.
async fn used(t: &Team, thread: &str, question: &str) -> String {
    let task = t.ada.ask(thread, question).await;
    used_by(t, &task).await
}

/// Returns the preset of a reply, after checking that exactly its add-ons were sent.
async fn used_by(t: &Team, task: &str) -> String {
    t.ada.completed(task).await;
    let seen = t.ada.task_context(task).await;
    let system = text(&seen, "/system/text");
    let preset = &seen["preset"];
    for known in ["plan", "calm", "brief"] {
        let is_sent = system.contains(&format!("Style marker {known}."));
        assert_eq!(is_sent, preset["id"] == known, "{known}: {system}");
    }
    let parts = list(&seen, "/system/parts");
    assert_eq!(
        parts.last().unwrap()["name"] == "addons",
        !preset.is_null(),
        "{parts:?}"
    );
    if preset.is_null() {
        return String::new();
    }
    format!("{} by {}", text(preset, "/id"), text(preset, "/chosen_by"))
}

async fn presets(who: &Person, conversation: &str) -> Value {
    who.get(&format!("/v1/{conversation}")).await.ok()["presets"].clone()
}

/// Number of `thread.updated` and `fork.updated` events so far.
async fn updates(who: &Person) -> usize {
    let events = who.events().await;
    let is_update =
        |event: &&Value| event["type"] == "thread.updated" || event["type"] == "fork.updated";
    events.iter().filter(is_update).count()
}

#[tokio::test]
async fn a_workspace_has_the_servers_reply_styles_until_an_admin_replaces_them() {
    let t = team().await;
    let reply = t.bo.get(PROFILES).await;
    assert_eq!(reply.header("etag").as_deref(), Some("\"0\""));
    let seeded = reply.is(200);
    assert_eq!(
        (&seeded["object"], &seeded["version"]),
        (&json!("prompt_profiles"), &json!(0))
    );
    let names: Vec<String> = list(&seeded, "/presets")
        .iter()
        .map(|preset| text(preset, "/name"))
        .collect();
    assert_eq!(names, ["Brief", "In depth", "Plan", "Review"]);
    assert_eq!(
        t.bo.put(PROFILES, document()).await.refused(403),
        "role_too_low"
    );

    // Prompt profiles can be sent back as they were returned.
    let reply = put_if(&t.ada, 0, &seeded).await;
    assert_eq!(reply.header("etag").as_deref(), Some("\"1\""));
    assert_eq!(reply.is(200)["presets"], seeded["presets"]);
    let stale = put_if(&t.ada, 0, &document()).await;
    assert_eq!(stale.json()["error"]["current"]["version"], 1);
    assert_eq!(stale.refused(409), "version_conflict");
    assert_eq!(put_if(&t.ada, 1, &document()).await.is(200)["version"], 2);
    assert_eq!(t.ada.put(PROFILES, document()).await.is(200)["version"], 3);
    let log = t.ada.get("/v1/audit-log?order=newest").await.ok();
    let entry = &list(&log, "/data")[0];
    assert_eq!(entry["action"], "prompt_profiles.changed");
    assert_eq!(
        entry["data"],
        json!({"version": 3, "presets": ["plan", "calm", "brief"]})
    );
    let other = t.app.join(&t.ada, "Vi", "viewer").await;
    assert_eq!(other.get(PROFILES).await.ok()["version"], 3);
}

#[tokio::test]
async fn an_invalid_document_changes_nothing() {
    let t = team().await;
    let with = |pointer: &str, value: Value| {
        let mut form = document();
        *form.pointer_mut(pointer).unwrap() = value;
        form
    };
    for (form, param) in [
        (with("/addons/0/id", json!("auto")), "addons"),
        (with("/addons/0/id", json!("A")), "addons"),
        (with("/addons/0/text", json!("x".repeat(4097))), "addons"),
        (with("/presets/0/addons", json!(["gone"])), "presets"),
        (with("/presets/0/addons", json!(vec!["plan"; 9])), "presets"),
        (with("/presets/0/id", json!("none")), "presets"),
        (with("/presets/1/id", json!("plan")), "presets"),
        (with("/routing/review_every_n_turns", json!(0)), "routing"),
        (with("/routing/review_every_n_turns", json!(101)), "routing"),
        (
            with("/routing/default_preset_by_mode", json!({"direct": "gone"})),
            "routing",
        ),
        (with("/rules/0/preset", json!("gone")), "rules"),
        (with("/rules/0/priority", json!(1001)), "rules"),
        (with("/rules/0/keywords", json!(["x".repeat(61)])), "rules"),
    ] {
        let reply = t.ada.put(PROFILES, form.clone()).await;
        assert_eq!(reply.json()["error"]["param"], param, "{form}");
        assert_eq!(reply.refused(422), "invalid_value");
    }
    let mut odd = document();
    odd["styles"] = json!([]);
    let mut odder = document();
    odder["rules"][0]["regex"] = json!("x");
    for form in [odd, odder, json!({}), json!([])] {
        t.ada.put(PROFILES, form).await.refused(400);
    }
    assert_eq!(t.ada.get(PROFILES).await.ok()["version"], 0);
}

#[tokio::test]
async fn an_agent_names_a_preset_auto_or_none() {
    let (t, vibe) = styled(&[]).await;
    for profile in ["auto", "none", "plan"] {
        let agent = set_profile(&t.ada, &vibe, json!(profile)).await.is(200);
        assert_eq!(agent["prompting"]["profile"], profile);
        assert_eq!(agent["not_in_force"], json!([]));
    }
    set_profile(&t.ada, &vibe, Value::Null).await.is(200);
    for profile in ["concise", "", "Plan"] {
        let reply = set_profile(&t.ada, &vibe, json!(profile)).await;
        assert_eq!(reply.json()["error"]["param"], "prompting.profile");
        assert_eq!(reply.refused(422), "invalid_value");
    }
}

#[tokio::test]
async fn the_preset_of_a_reply_is_a_persons_then_the_agents_then_a_rules_then_the_modes() {
    let (t, vibe) = styled(&[("RATE_LIMITS", "off")]).await;
    let fork_of = async || {
        let started = t.ada.start(&t.general, "Root").await;
        let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
        id(&t
            .ada
            .start_fork(&thread, &root, json!({"agent_id": vibe}))
            .await)
    };
    for (person, profile, question, thread_preset, fork_preset) in [
        (
            Some("brief"),
            json!("auto"),
            "plan",
            "brief by person",
            "brief by person",
        ),
        (
            Some("brief"),
            json!("none"),
            "plan",
            "brief by person",
            "brief by person",
        ),
        (
            Some("brief"),
            json!("calm"),
            "plan",
            "brief by person",
            "brief by person",
        ),
        (
            Some("brief"),
            Value::Null,
            "plan",
            "brief by person",
            "brief by person",
        ),
        (
            None,
            json!("calm"),
            "plan",
            "calm by agent",
            "calm by agent",
        ),
        (None, json!("none"), "plan", "", ""),
        (
            None,
            json!("auto"),
            "The Plán?",
            "plan by rule",
            "plan by rule",
        ),
        (None, json!("auto"), "planning", "", "calm by mode"),
        (None, Value::Null, "plan", "", "calm by mode"),
    ] {
        set_profile(&t.ada, &vibe, profile.clone()).await.is(200);
        let thread = t.ada.thread(&t.general, "Root").await;
        let fork = fork_of().await;
        let conversations = [format!("threads/{thread}"), format!("forks/{fork}")];
        if let Some(preset) = person {
            for conversation in &conversations {
                choose(&t.bo, conversation, &vibe, preset).await.is(200);
            }
        }
        let case = format!("{person:?} {profile} {question}");
        let found = used(&t, &thread, &format!("@vibe {question}")).await;
        assert_eq!(found, thread_preset, "{case}");
        let task = t.ada.ask_in(&fork, question).await;
        assert_eq!(used_by(&t, &task).await, fork_preset, "{case}");
        for (conversation, wanted) in conversations.iter().zip([thread_preset, fork_preset]) {
            let wanted = match wanted.split_once(" by ") {
                Some((preset, by)) => {
                    json!([{"agent_id": vibe, "preset": preset, "chosen_by": by}])
                }
                None => json!([]),
            };
            assert_eq!(presets(&t.bo, conversation).await, wanted, "{case}");
        }
    }
}

#[tokio::test]
async fn a_person_who_can_post_chooses_a_preset_and_only_a_change_sends_an_event() {
    let (t, vibe) = styled(&[]).await;
    let viewer = t.app.join(&t.ada, "Vi", "viewer").await;
    let dive = t.dive().await;
    for conversation in [
        format!("threads/{}", dive.thread),
        format!("forks/{}", dive.fork),
    ] {
        let before = updates(&t.ada).await;
        let refused = choose(&viewer, &conversation, &vibe, "brief").await;
        assert_eq!(refused.refused(403), "role_too_low");
        let unknown = choose(&t.bo, &conversation, &vibe, "auto").await;
        assert_eq!(unknown.json()["error"]["param"], "preset");
        assert_eq!(unknown.refused(422), "invalid_value");
        let nobody = unknown_id("agent");
        let absent = choose(&t.bo, &conversation, &nobody, "brief").await;
        assert_eq!(absent.refused(404), "agent_not_found");
        let absent = reset(&t.bo, &conversation, &nobody).await;
        assert_eq!(absent.refused(404), "agent_not_found");
        let unchanged = reset(&t.bo, &conversation, &vibe).await.is(200);
        assert_eq!(unchanged, json!({"presets": []}));
        assert_eq!(updates(&t.ada).await, before);

        let chosen = json!([{"agent_id": vibe, "preset": "brief", "chosen_by": "person"}]);
        for _ in 0..2 {
            let answer = choose(&t.bo, &conversation, &vibe, "brief").await.is(200);
            assert_eq!(answer["presets"], chosen);
        }
        assert_eq!(updates(&t.ada).await, before + 1);
        let events = t.ada.events().await;
        let data = &events.last().unwrap()["data"];
        let object = data.get("thread").unwrap_or(&data["fork"]);
        assert_eq!(object["presets"], chosen);
        assert_eq!(presets(&viewer, &conversation).await, chosen);
        assert_eq!(
            reset(&t.ada, &conversation, &vibe).await.is(200)["presets"],
            json!([])
        );
        assert_eq!(updates(&t.ada).await, before + 2);
    }
    let listed = t
        .ada
        .get(&format!("/v1/threads/{}/forks", dive.thread))
        .await
        .ok();
    assert_eq!(listed["data"][0]["presets"], json!([]));
    t.ada
        .patch(
            &format!("/v1/threads/{}", dive.thread),
            json!({"status": "archived"}),
        )
        .await
        .is(200);
    let archived = choose(&t.ada, &format!("threads/{}", dive.thread), &vibe, "brief").await;
    assert_eq!(archived.refused(409), "thread_archived");
}

#[tokio::test]
async fn rules_are_reviewed_every_n_turns_and_the_choice_holds_in_between() {
    let (t, vibe) = styled(&[]).await;
    set_profile(&t.ada, &vibe, json!("auto")).await.is(200);
    let thread = t.ada.thread(&t.general, "Root").await;
    let before = updates(&t.ada).await;
    for (question, wanted) in [
        ("@vibe the plan?", "plan by rule"),
        ("@vibe and now?", "plan by rule"),
        ("@vibe and now?", ""),
        ("@vibe the plan?", ""),
        ("@vibe the plan?", "plan by rule"),
    ] {
        assert_eq!(used(&t, &thread, question).await, wanted);
    }
    assert_eq!(updates(&t.ada).await, before + 3);
    // After a person's choice is removed, the rules apply again immediately.
    let conversation = format!("threads/{thread}");
    choose(&t.ada, &conversation, &vibe, "brief").await.is(200);
    assert_eq!(
        used(&t, &thread, "@vibe the plan?").await,
        "brief by person"
    );
    reset(&t.ada, &conversation, &vibe).await.is(200);
    assert_eq!(used(&t, &thread, "@vibe the plan?").await, "plan by rule");
}

#[tokio::test]
async fn a_pass_makes_the_next_reply_review_the_rules() {
    let (t, vibe) = styled(&[("RATE_LIMITS", "off")]).await;
    let mut rare = document();
    rare["routing"]["review_every_n_turns"] = json!(100);
    t.ada.put(PROFILES, rare.clone()).await.is(200);
    set_profile(&t.ada, &vibe, json!("auto")).await.is(200);
    for (forced, wanted) in [(true, ""), (false, "plan by rule")] {
        rare["routing"]["force_review_on_compaction"] = json!(forced);
        t.ada.put(PROFILES, rare.clone()).await.is(200);
        let thread = t.ada.thread(&t.general, "Root").await;
        assert_eq!(used(&t, &thread, "@vibe the plan?").await, "plan by rule");
        for n in 0..30 {
            t.ada.tell(&thread, &format!("message {n}")).await;
        }
        t.model().script("summary", [segment("They counted.", &[])]);
        t.ada
            .post(
                &format!("/v1/threads/{thread}/compactions"),
                json!({"keep": 10}),
            )
            .await
            .is(202);
        compacted(&t.ada, &thread).await;
        assert_eq!(used(&t, &thread, "@vibe and now?").await, wanted);
    }
}

#[tokio::test]
async fn deleting_a_preset_unsets_it_in_agents_and_conversations() {
    let (t, vibe) = styled(&[]).await;
    let before = set_profile(&t.ada, &vibe, json!("brief")).await.is(200);
    let coder = id(&t.ada.agent("coder").await);
    let untouched = set_profile(&t.ada, &coder, json!("plan")).await.is(200);
    let child = json!({"name": "child", "instructions": "You are child.", "base_profile_id": vibe});
    let child = id(&t.ada.post("/v1/agents", child).await.is(201));
    let thread = t.ada.thread(&t.general, "Root").await;
    let bound = t.ada.start(&t.general, "Root").await;
    let bound = text(&bound, "/thread/id");
    t.ada
        .patch(&format!("/v1/threads/{bound}"), json!({"agent_id": vibe}))
        .await
        .is(200);
    let conversation = format!("threads/{thread}");
    choose(&t.ada, &conversation, &coder, "brief").await.is(200);
    let events = updates(&t.ada).await;

    let mut smaller = document();
    for lists in ["addons", "presets"] {
        smaller[lists].as_array_mut().unwrap().pop();
    }
    t.ada.put(PROFILES, smaller).await.is(200);
    let agent = t.ada.get(&format!("/v1/agents/{vibe}")).await.ok();
    assert_eq!(agent["prompting"]["profile"], Value::Null);
    assert_eq!(agent["version"], before["version"].as_i64().unwrap() + 1);
    let child = t
        .ada
        .get(&format!("/v1/agents/{child}?resolve=true"))
        .await
        .ok();
    assert_eq!(child["prompting"]["profile"], Value::Null);
    let agent = t.ada.get(&format!("/v1/agents/{coder}")).await.ok();
    assert_eq!(agent["version"], untouched["version"]);
    assert_eq!(presets(&t.ada, &conversation).await, json!([]));
    assert_eq!(updates(&t.ada).await, events + 1);
    // The conversation keeps its version of the agent, which refers to the deleted preset.
    assert_eq!(used(&t, &bound, "Hm?").await, "");
    assert_eq!(used(&t, &thread, "@coder hm?").await, "plan by agent");
}

#[tokio::test]
async fn a_rollback_leaves_out_a_preset_that_was_deleted_since() {
    let (t, vibe) = styled(&[]).await;
    let brief = set_profile(&t.ada, &vibe, json!("brief")).await.is(200);
    let plan = set_profile(&t.ada, &vibe, json!("plan")).await.is(200);
    let mut smaller = document();
    for lists in ["addons", "presets"] {
        smaller[lists].as_array_mut().unwrap().pop();
    }
    t.ada.put(PROFILES, smaller).await.is(200);
    for (version, wanted) in [
        (&brief["version"], Value::Null),
        (&plan["version"], json!("plan")),
    ] {
        let target = json!({"target_version": version});
        let path = format!("/v1/agents/{vibe}/rollback");
        let agent = t.ada.post(&path, target).await.is(200);
        assert_eq!(agent["prompting"]["profile"], wanted);
    }
    let thread = t.ada.thread(&t.general, "Root").await;
    assert_eq!(used(&t, &thread, "@vibe hm?").await, "plan by agent");
}

#[tokio::test]
async fn a_deleted_preset_of_many_agents_is_unset_a_few_agents_at_a_time() {
    let (t, _) = styled(&[("RATE_LIMITS", "off")]).await;
    let mut agents = Vec::new();
    for n in 0..45 {
        let prompting = json!({"profile": "brief"});
        let fields =
            json!({"name": format!("many{n}"), "instructions": "Help.", "prompting": prompting});
        agents.push(id(&t.ada.post("/v1/agents", fields).await.is(201)));
    }
    let mut smaller = document();
    smaller["presets"].as_array_mut().unwrap().pop();
    t.ada.put(PROFILES, smaller).await.is(200);
    let all = async {
        while t.app.place.count("preset_removals").await > 0 {
            crate::support::pause().await;
        }
    };
    within("all agents to have no preset", all).await;
    for agent in &agents {
        let agent = t.ada.get(&format!("/v1/agents/{agent}")).await.ok();
        let state = (&agent["prompting"]["profile"], &agent["version"]);
        assert_eq!(state, (&Value::Null, &json!(2)), "{agent}");
    }
}

#[tokio::test]
async fn an_export_leaves_presets_out_that_other_workspaces_may_not_have() {
    let (t, _) = styled(&[]).await;
    let fields = json!({"name": "sage", "instructions": "Help."});
    let sage = id(&t.ada.post("/v1/agents", fields).await.is(201));
    for (profile, exported) in [("brief", Value::Null), ("auto", json!("auto"))] {
        set_profile(&t.ada, &sage, json!(profile)).await.is(200);
        let path = format!("/v1/agents/{sage}/export");
        let export = t.ada.get(&path).await.ok();
        assert_eq!(export["agent"]["prompting"]["profile"], exported);
        let mut agent = export["agent"].clone();
        agent["name"] = format!("copy-{profile}").into();
        let import = json!({"agent": agent});
        t.ada.post("/v1/agents/import", import).await.is(201);
    }
}

#[tokio::test]
async fn the_choices_in_one_thread_do_not_displace_those_in_another() {
    let (t, vibe) = styled(&[("RATE_LIMITS", "off")]).await;
    let full = t.ada.thread(&t.general, "Full").await;
    let other = t.ada.thread(&t.general, "Other").await;
    for n in 0..45 {
        let fields = json!({"name": format!("many{n}"), "instructions": "Help."});
        let agent = id(&t.ada.post("/v1/agents", fields).await.is(201));
        let conversation = format!("threads/{full}");
        choose(&t.ada, &conversation, &agent, "brief").await.is(200);
    }
    let conversation = format!("threads/{other}");
    choose(&t.ada, &conversation, &vibe, "calm").await.is(200);
    let path = format!("/v1/channels/{}/threads?limit=2", t.general);
    let listed = t.ada.get(&path).await.ok();
    let wanted = json!([{"agent_id": vibe, "preset": "calm", "chosen_by": "person"}]);
    let of = |id: &str| {
        let threads = list(&listed, "/data");
        let found = threads.iter().find(|thread| thread["id"] == id);
        found.unwrap()["presets"].clone()
    };
    assert_eq!(of(&other), wanted);
    assert_eq!(of(&full).as_array().unwrap().len(), 20);
}

#[tokio::test]
async fn a_preview_and_calls_of_programs_have_the_preset() {
    let (t, vibe) = styled(&[]).await;
    set_profile(&t.ada, &vibe, json!("brief")).await.is(200);
    let thread = t.ada.thread(&t.general, "Root").await;
    let path = format!("/v1/threads/{thread}/context?agent_id={vibe}");
    let seen = t.ada.get(&path).await.ok();
    assert_eq!(seen["preset"], json!({"id": "brief", "chosen_by": "agent"}));
    assert!(text(&seen, "/system/text").ends_with("Style marker brief."));
    assert_eq!(
        presets(&t.ada, &format!("threads/{thread}")).await,
        json!([])
    );
    t.ada
        .post(
            "/v1/responses",
            json!({"input": "Hi", "model": "agent:vibe"}),
        )
        .await
        .is(200);
    let asked = t.model().asked_once("vibe").await;
    assert!(
        asked.all().contains("Style marker brief."),
        "{}",
        asked.all()
    );
}

#[tokio::test]
async fn a_preset_of_a_private_channel_is_not_found_by_others() {
    let (t, vibe) = styled(&[]).await;
    let room = t.ada.private_channel("secret", &[]).await;
    let thread = t.ada.thread(&room, "Root").await;
    let conversation = format!("threads/{thread}");
    choose(&t.ada, &conversation, &vibe, "brief").await.is(200);
    let hidden = choose(&t.bo, &conversation, &vibe, "plan").await;
    assert_eq!(hidden.refused(404), "thread_not_found");
    let hidden = reset(&t.bo, &conversation, &vibe).await;
    assert_eq!(hidden.refused(404), "thread_not_found");
    let seen = t.bo.events().await;
    assert!(
        !json!(seen).to_string().contains("\"chosen_by\""),
        "{seen:?}"
    );
}
