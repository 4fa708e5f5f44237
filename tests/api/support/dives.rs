//! Forks and their resolutions.

use serde_json::{Value, json};

use super::{Answer, Person, Team, id, list, number, person::Reply, text};

/// A fork that Ada started without an agent, from her only message of a thread in #general.
pub struct TestFork {
    pub thread: String,
    /// Message that the fork starts from.
    pub root: String,
    pub fork: String,
}

/// Text of the message that a `TestFork` starts from.
pub const ROOT: &str = "Friday or Monday?";

impl Team {
    pub async fn dive(&self) -> TestFork {
        let started = self.ada.start(&self.general, ROOT).await;
        let (thread, root) = (text(&started, "/thread/id"), text(&started, "/message/id"));
        let fork = self
            .ada
            .start_fork(
                &thread,
                &root,
                json!({"title": "The day", "agent_id": null}),
            )
            .await;
        TestFork {
            thread,
            root,
            fork: id(&fork),
        }
    }

    /// Creates a fork and publishes a resolution with this headline. Returns the fork and the response to the publication.
    pub async fn resolved(&self, headline: &str) -> (TestFork, Value) {
        let dive = self.dive().await;
        self.bo.say_in(&dive.fork, "Monday suits everybody.").await;
        let published = self
            .ada
            .publish_as(&dive.fork, json!({"headline": headline}))
            .await;
        (dive, published)
    }
}

/// A model response to a resolve request.
pub fn drafting(resolution: &Value) -> Answer {
    Answer::text(&resolution.to_string())
}

impl Person {
    /// Starts a fork with these additional fields.
    pub async fn start_fork(&self, thread: &str, message: &str, fields: Value) -> Value {
        self.try_fork(thread, message, fields).await.is(201)["fork"].clone()
    }

    pub async fn try_fork(&self, thread: &str, message: &str, fields: Value) -> Reply {
        let mut form = fields;
        form["message_id"] = message.into();
        self.post(&format!("/v1/threads/{thread}/forks"), form)
            .await
    }

    /// A fork as everyone sees it.
    pub async fn fork(&self, fork: &str) -> Value {
        let mut fork = self.my_fork(fork).await;
        let fields = fork.as_object_mut().unwrap();
        for own in ["follow", "read_seq", "unread_count", "first_unread_id"] {
            assert!(fields.remove(own).is_some(), "{own}");
        }
        fork
    }

    /// A fork with the person's own level and marker.
    pub async fn my_fork(&self, fork: &str) -> Value {
        self.get(&format!("/v1/forks/{fork}")).await.ok()
    }

    pub async fn try_say_in(&self, fork: &str, content: &str) -> Reply {
        let path = format!("/v1/forks/{fork}/messages");
        self.post(&path, json!({"content": content})).await
    }

    /// Posts to a fork. Returns `{message,tasks}`.
    pub async fn say_in(&self, fork: &str, content: &str) -> Value {
        self.try_say_in(fork, content).await.is(201)
    }

    /// Posts to a fork. Returns the message ID.
    pub async fn tell_in(&self, fork: &str, content: &str) -> String {
        text(&self.say_in(fork, content).await, "/message/id")
    }

    /// Posts a message to which one agent replies to a fork. Returns the task ID.
    pub async fn ask_in(&self, fork: &str, content: &str) -> String {
        let posted = self.say_in(fork, content).await;
        assert_eq!(list(&posted, "/tasks").len(), 1, "{posted}");
        text(&posted, "/tasks/0/id")
    }

    /// The newest messages of a fork, oldest first.
    pub async fn messages_in(&self, fork: &str) -> Vec<Value> {
        let path = format!("/v1/forks/{fork}/messages?limit=100");
        list(&self.get(&path).await.ok(), "/data")
    }

    pub async fn contents_in(&self, fork: &str) -> Vec<String> {
        let messages = self.messages_in(fork).await;
        messages.iter().map(|m| text(m, "/content")).collect()
    }

    pub async fn try_resolve(&self, fork: &str, form: Value) -> Reply {
        self.post(&format!("/v1/forks/{fork}/resolve"), form).await
    }

    /// Requests a draft. Returns the task ID.
    pub async fn resolve(&self, fork: &str) -> String {
        text(&self.try_resolve(fork, json!({})).await.is(202), "/task/id")
    }

    /// Requests a draft and waits for it. Returns the draft.
    pub async fn drafted(&self, fork: &str) -> Value {
        let task = self.resolve(fork).await;
        self.completed(&task).await;
        self.resolution(fork).await
    }

    /// Returns the draft of a fork, or its resolution if there is no draft.
    pub async fn resolution(&self, fork: &str) -> Value {
        self.get(&format!("/v1/forks/{fork}/resolution")).await.ok()
    }

    /// Edits the draft if it has this revision.
    pub async fn edit_draft(&self, fork: &str, revision: i64, fields: Value) -> Reply {
        let path = format!("/v1/forks/{fork}/resolution");
        self.patch_if(&path, &format!("\"{revision}\""), fields)
            .await
    }

    /// Creates a draft by hand in a fork that has none.
    pub async fn begin_draft(&self, fork: &str, fields: Value) -> Value {
        self.edit_draft(fork, 0, fields).await.is(200)
    }

    /// Edits the current draft.
    pub async fn change_draft(&self, fork: &str, fields: Value) -> Value {
        let revision = number(&self.resolution(fork).await, "/revision");
        self.edit_draft(fork, revision, fields).await.is(200)
    }

    pub async fn try_publish(&self, fork: &str, form: Value) -> Reply {
        self.post(&format!("/v1/forks/{fork}/publish"), form).await
    }

    /// Publishes the draft. Returns `{fork,message,resolution}`.
    pub async fn publish(&self, fork: &str) -> Value {
        self.try_publish(fork, json!({})).await.is(200)
    }

    /// Publishes this content instead of the draft.
    pub async fn publish_as(&self, fork: &str, resolution: Value) -> Value {
        let form = json!({"resolution": resolution});
        self.try_publish(fork, form).await.is(200)
    }

    pub async fn reopen(&self, fork: &str) -> Value {
        self.act(&format!("/v1/forks/{fork}/reopen")).await.is(200)["fork"].clone()
    }

    pub async fn abandon(&self, fork: &str) -> Value {
        self.act(&format!("/v1/forks/{fork}/abandon")).await.is(200)["fork"].clone()
    }
}

/// All texts of a resolution that readers see. IDs and times are excluded, because they can contain any word by chance.
pub fn texts_of(resolution: &Value) -> Vec<String> {
    let mut texts = vec![
        text(resolution, "/headline"),
        text(resolution, "/conclusion"),
    ];
    for field in [
        "key_points",
        "action_items",
        "open_questions",
        "deferred_items",
    ] {
        let points = list(resolution, &format!("/{field}"));
        texts.extend(points.iter().map(|point| text(point, "/text")));
    }
    texts
}
