//! Prompts and records do not contain entries that their reader must not see: tests with three people, two agents, and public,
//! private, and direct channels.

use serde_json::{Value, json};

use super::remember;
use crate::support::{Person, TestApp, id, list, team, text};

/// An entry: its unique word, and the people, agents, and channels whose prompts can use it.
struct Planted {
    word: &'static str,
    scope: &'static str,
    /// Name of the only person whose prompts use it; `None` for everyone.
    person: Option<&'static str>,
    agent: Option<&'static str>,
    /// Name of the only channel in which it is used; `None` for all channels.
    channel: Option<&'static str>,
    /// People who may see the entry.
    seen_by: &'static [&'static str],
}

const EVERYONE: &[&str] = &["Ada", "Bo", "Cy"];

const fn planted(word: &'static str, scope: &'static str) -> Planted {
    Planted {
        word,
        scope,
        person: None,
        agent: None,
        channel: None,
        seen_by: EVERYONE,
    }
}

fn entries() -> Vec<Planted> {
    vec![
        Planted {
            person: Some("Ada"),
            seen_by: &["Ada"],
            ..planted("w1ada", "user")
        },
        Planted {
            person: Some("Bo"),
            seen_by: &["Bo"],
            ..planted("w2bo", "user")
        },
        Planted {
            person: Some("Cy"),
            seen_by: &["Cy"],
            ..planted("w3cy", "user")
        },
        Planted {
            person: Some("Ada"),
            agent: Some("vibe"),
            seen_by: &["Ada"],
            ..planted("w4adavibe", "persona")
        },
        Planted {
            person: Some("Bo"),
            agent: Some("coder"),
            seen_by: &["Bo"],
            ..planted("w5bocoder", "persona")
        },
        planted("w6everywhere", "conversation"),
        Planted {
            channel: Some("lounge"),
            ..planted("w7lounge", "conversation")
        },
        Planted {
            channel: Some("closed"),
            seen_by: &["Ada", "Bo"],
            ..planted("w8closed", "conversation")
        },
        Planted {
            channel: Some("direct"),
            seen_by: &["Ada", "Cy"],
            ..planted("w9direct", "conversation")
        },
        Planted {
            agent: Some("vibe"),
            ..planted("wavibe", "agent")
        },
        Planted {
            agent: Some("coder"),
            ..planted("wbcoder", "agent")
        },
        // An entry's sources limit where it is used, even if it is personal and its owner asks.
        Planted {
            person: Some("Ada"),
            channel: Some("closed"),
            seen_by: &["Ada"],
            ..planted("wcsource", "user")
        },
        // Written by hand for one's own chats with agents.
        Planted {
            person: Some("Ada"),
            channel: Some("alone"),
            seen_by: &["Ada"],
            ..planted("wdalone", "user")
        },
    ]
}

struct World {
    people: Vec<Person>,
    /// Name of the channel, ID of a thread in it, and names of its members.
    places: Vec<(&'static str, String, &'static [&'static str])>,
}

impl World {
    fn person(&self, name: &str) -> &Person {
        self.people
            .iter()
            .find(|person| person.name == name)
            .unwrap()
    }

    fn thread(&self, channel: &str) -> &str {
        &self
            .places
            .iter()
            .find(|(name, ..)| *name == channel)
            .unwrap()
            .1
    }
}

async fn world(app: &TestApp, ada: &Person, bo: &Person, general: &str) -> World {
    let cy = app.join(ada, "Cy", "member").await;
    let lounge = id(&ada
        .post("/v1/channels", json!({"name": "lounge"}))
        .await
        .is(201));
    let closed = ada.private_channel("closed", &[bo]).await;
    let direct = id(&ada
        .post("/v1/direct", json!({"member_ids": [cy.id]}))
        .await
        .ok());
    let alone = ada.agent("vibe").await;
    let alone = id(&ada
        .post("/v1/direct", json!({"agent_id": alone["id"]}))
        .await
        .ok());
    let mut places = Vec::new();
    for (name, channel, people) in [
        ("general", general, EVERYONE),
        ("lounge", &lounge, EVERYONE),
        ("closed", &closed, &["Ada", "Bo"]),
        ("direct", &direct, &["Ada", "Cy"]),
        ("alone", &alone, &["Ada"]),
    ] {
        let form = json!({"content": "Root", "agent_id": null});
        let started = ada
            .post(&format!("/v1/channels/{channel}/threads"), form)
            .await
            .is(201);
        places.push((name, text(&started, "/thread/id"), people));
    }
    World {
        people: vec![ada.clone(), bo.clone(), cy],
        places,
    }
}

async fn plant(w: &World, entry: &Planted) {
    let text = format!("The lighthouse budget is {}", entry.word);
    let agent = match entry.agent {
        Some(name) => id(&w.people[0].agent(name).await),
        None => String::new(),
    };
    let who = w.person(entry.person.unwrap_or("Ada"));
    let mut fields = match entry.scope {
        "conversation" => json!({"thread_id": w.thread(entry.channel.unwrap_or("general"))}),
        "user" => json!({}),
        scope => json!({"scope": scope, "agent_id": agent}),
    };
    if entry.word == "w6everywhere" {
        fields["visibility"] = "workspace".into();
    }
    if entry.word == "wdalone" {
        fields["visibility"] = "direct".into();
    }
    if entry.word == "wcsource" {
        let source = who.tell(w.thread("closed"), "The source").await;
        fields["source_message_ids"] = json!([source]);
    }
    let made = remember(who, &text, fields).await;
    assert_eq!(made["scope"], entry.scope);
}

fn words_in(text: &str) -> Vec<&'static str> {
    let all = entries().into_iter();
    all.filter(|entry| text.contains(entry.word))
        .map(|entry| entry.word)
        .collect()
}

/// Returns the words of the entries that a reply can use.
fn usable(person: &str, agent: &str, channel: &str) -> Vec<&'static str> {
    let fits = |entry: &Planted| {
        entry.person.is_none_or(|name| name == person)
            && entry.agent.is_none_or(|name| name == agent)
            && entry.channel.is_none_or(|name| name == channel)
    };
    entries()
        .iter()
        .filter(|entry| fits(entry))
        .map(|entry| entry.word)
        .collect()
}

/// Returns the words of the entries that a person can see.
fn visible(person: &str) -> Vec<&'static str> {
    let all = entries().into_iter();
    all.filter(|entry| entry.seen_by.contains(&person))
        .map(|entry| entry.word)
        .collect()
}

#[tokio::test]
async fn no_foreign_entry_is_in_a_prompt_or_a_record() {
    let t = team().await;
    let w = world(&t.app, &t.ada, &t.bo, &t.general).await;
    for entry in entries() {
        plant(&w, &entry).await;
    }
    let mut n = std::collections::HashMap::from([("vibe", 0), ("coder", 0)]);
    for (channel, thread, people) in &w.places {
        for name in *people {
            for agent in ["vibe", "coder"] {
                let person = w.person(name);
                let question = format!("@{agent} what is the lighthouse budget?");
                let task = person.ask(thread, &question).await;
                person.completed(&task).await;
                let count = n.get_mut(agent).unwrap();
                *count += 1;
                let request = t.model().asked(agent, *count).await.remove(*count - 1);
                let place = format!("{name} asks {agent} in {channel}");
                let wanted = usable(name, agent, channel);
                let mut sent = words_in(&request.all());
                // A prompt contains at most eight entries.
                assert!(
                    sent.len() == wanted.len().min(8),
                    "{place}: {sent:?}, not {wanted:?}"
                );
                sent.retain(|word| !wanted.contains(word));
                assert_eq!(sent, Vec::<&str>::new(), "{place}");
                for reader in *people {
                    let seen = w.person(reader).task_context(&task).await;
                    let mut shown = words_in(&seen.to_string());
                    let may = visible(reader);
                    shown.retain(|word| !may.contains(word));
                    assert_eq!(shown, Vec::<&str>::new(), "{place}, seen by {reader}");
                }
            }
        }
    }
}

#[tokio::test]
async fn nobody_lists_foreign_entries() {
    let t = team().await;
    let w = world(&t.app, &t.ada, &t.bo, &t.general).await;
    for entry in entries() {
        plant(&w, &entry).await;
    }
    for person in &w.people {
        let all = person.every("/v1/memories").await;
        let mut shown: Vec<&str> = words_in(&Value::from(all).to_string());
        shown.sort_unstable();
        let mut may = visible(&person.name);
        may.sort_unstable();
        assert_eq!(shown, may, "{}", person.name);
    }
}

#[tokio::test]
async fn an_entry_is_not_used_once_its_readers_differ() {
    let t = team().await;
    let closed = t.ada.private_channel("closed", &[&t.bo]).await;
    let source = text(&t.bo.start(&closed, "Root").await, "/message/id");
    let fields = json!({"source_message_ids": [source]});
    remember(&t.bo, "The lighthouse budget is 4711", fields).await;
    let thread = t.bo.thread(&closed, "Question").await;
    let asked = async |n: usize| {
        let task =
            t.bo.ask(&thread, "@vibe what is the lighthouse budget?")
                .await;
        t.bo.completed(&task).await;
        t.model().asked("vibe", n).await[n - 1]
            .all()
            .contains(" 4711")
    };
    assert!(asked(1).await);
    // The entry still belongs to Bo, who can delete it, but other conversations do not use it.
    let general = t.bo.thread(&t.general, "Root").await;
    let task =
        t.bo.ask(&general, "@vibe what is the lighthouse budget?")
            .await;
    t.bo.completed(&task).await;
    assert!(!t.model().asked("vibe", 2).await[1].all().contains(" 4711"));
    let path = format!("/v1/channels/{closed}/members/{}", t.bo.id);
    t.ada.delete(&path).await.ok();
    let own = t.bo.get("/v1/memories").await.ok();
    assert_eq!(list(&own, "/data").len(), 1);
}

#[tokio::test]
async fn entries_of_a_hidden_agent_are_hidden() {
    let t = team().await;
    let agent = id(&t.ada.make_agent("sage").await);
    let fields = json!({"scope": "agent", "agent_id": agent});
    let made = remember(&t.ada, "The lighthouse budget is 4711", fields).await;
    let path = format!("/v1/memories/{}", id(&made));
    t.bo.get(&path).await.is(200);
    let lists = json!({"access_control": {"allowed_subjects": ["role:admin"]}});
    t.ada
        .patch(&format!("/v1/agents/{agent}"), lists)
        .await
        .is(200);
    t.bo.get(&path).await.refused(404);
    assert_eq!(list(&t.bo.get("/v1/memories").await.ok(), "/data").len(), 0);
    t.ada.patch(&path, json!({"flagged": true})).await.is(200);
    let heard = t.bo.events().await.into_iter();
    let heard = heard.filter(|event| event["type"] == "memory.changed");
    assert_eq!(heard.count(), 1, "only that it was created");
}
