//! Skills from folders of repositories, which runners read.

use serde_json::{Value, json};

use crate::{
    code::{allow, team_with_runner},
    imports::zipped,
    support::{Person, Reply, ScriptedRunner, Team, id, list, new_runner, pause, text},
};

const MAIN: &[u8] = b"---\nname: tides\ndescription: Reads the tide table\n---\nCount the waves.\n";

async fn repository(by: &Person, name: &str) -> String {
    let all = by.get("/v1/repositories").await.ok();
    let all = list(&all, "/data");
    id(all.iter().find(|one| one["name"] == name).expect(name))
}

fn form(repository: &str) -> Value {
    json!({"repository_id": repository, "path": "skills/tides/"})
}

/// Imports a folder that the runner answers with this body.
async fn imported(t: &Team, runner: &mut ScriptedRunner, kind: &str, body: Vec<u8>) -> Reply {
    let repository = repository(&t.ada, "api").await;
    let importing = t.bo.post("/v1/skills/import", form(&repository));
    let answering = async {
        let asked = runner.next_command().await;
        assert_eq!(
            (&asked["type"], &asked["repository"], &asked["path"]),
            (&json!("read"), &json!("api"), &json!("skills/tides"))
        );
        let id = text(&asked, "/id");
        assert_eq!(runner.send_folder(&id, kind, body).await, 204);
        id
    };
    let (reply, request) = tokio::join!(importing, answering);
    // The request is over.
    let late = runner
        .send_folder(&request, "text/plain", b"late".to_vec())
        .await;
    assert_eq!(late, 404);
    reply
}

#[tokio::test]
async fn a_folder_of_a_repository_becomes_a_skill() {
    let (t, mut runner) = team_with_runner().await;
    let zip = zipped(&[
        ("tides/SKILL.md", MAIN.to_vec()),
        ("tides/scripts/run.sh", b"echo low water".to_vec()),
    ]);
    let reply = imported(&t, &mut runner, "application/zip", zip).await;
    let made = reply.is(201);
    assert_eq!(
        (&made["name"], &made["version"], &made["written_by"]),
        (&json!("tides"), &json!(1), &json!(t.bo.id))
    );
    assert_eq!(made["files"][1]["content"], "echo low water");
    assert_eq!(made["channel_ids"], Value::Null);
    let path = format!("/v1/skills/{}", id(&made));
    assert_eq!(t.ada.get(&path).await.ok()["name"], "tides");
}

#[tokio::test]
async fn a_skill_from_a_repository_of_private_channels_is_for_these() {
    let (t, mut runner) = team_with_runner().await;
    let private = t.ada.private_channel("secret", &[&t.bo]).await;
    let hidden = t.ada.private_channel("hidden", &[]).await;
    allow(&t.ada, "api", &[&private, &hidden]).await;
    let zip = zipped(&[("tides/SKILL.md", MAIN.to_vec())]);
    let reply = imported(&t, &mut runner, "application/zip", zip).await;
    assert_eq!(reply.is(201)["channel_ids"], json!([private]));
    // Without such a channel, the folder would have no readers.
    allow(&t.ada, "api", &[]).await;
    let api = repository(&t.ada, "api").await;
    let refused = t.ada.post("/v1/skills/import", form(&api)).await;
    assert_eq!(refused.refused(422), "invalid_value");
}

#[tokio::test]
async fn a_repository_that_is_withdrawn_during_the_import_gives_no_skill() {
    let (t, mut runner) = team_with_runner().await;
    let api = repository(&t.ada, "api").await;
    let importing = t.bo.post("/v1/skills/import", form(&api));
    let answering = async {
        let asked = runner.next_command().await;
        let path = format!("/v1/repositories/{api}");
        t.ada.patch(&path, json!({"state": "offered"})).await.ok();
        let zip = zipped(&[("tides/SKILL.md", MAIN.to_vec())]);
        let request = text(&asked, "/id");
        let status = runner.send_folder(&request, "application/zip", zip).await;
        assert_eq!(status, 204);
    };
    let (reply, ()) = tokio::join!(importing, answering);
    assert_eq!(reply.refused(422), "invalid_value");
}

#[tokio::test]
async fn a_folder_that_is_not_a_skill_is_refused_with_its_file() {
    let (t, mut runner) = team_with_runner().await;
    let binary = zipped(&[
        ("tides/SKILL.md", MAIN.to_vec()),
        ("tides/a.txt", b"1\n\xff".to_vec()),
    ]);
    let missing = b"api has no folder skills/tides on main\n".to_vec();
    for (kind, body, part) in [
        ("application/zip", binary, "a.txt, line 2"),
        ("application/zip", b"no zip".to_vec(), "not a zip file"),
        ("text/plain", missing, "has no folder skills/tides"),
    ] {
        let reply = imported(&t, &mut runner, kind, body).await;
        assert!(reply.text.contains(part), "{}", reply.text);
        assert_eq!(reply.refused(422), "bad_skill");
    }
    let all = t.ada.get("/v1/skills").await.ok();
    assert_eq!(all["data"], json!([]));
}

#[tokio::test]
async fn only_allowed_repositories_of_connected_runners_are_read() {
    let (t, runner) = team_with_runner().await;
    let api = repository(&t.ada, "api").await;
    // Bo does not see what is allowed only elsewhere, or not at all.
    let private = t.ada.private_channel("secret", &[]).await;
    allow(&t.ada, "api", &[&private]).await;
    let import = async |by: &Person, form: Value| by.post("/v1/skills/import", form).await;
    let reply = import(&t.bo, form(&api)).await;
    assert_eq!(reply.refused(404), "repository_not_found");
    let (_, key) = new_runner(&t.ada, "build-2").await;
    let other = ScriptedRunner::connect(&t.app.base, &key, &["web"]).await;
    let web = repository(&t.ada, "web").await;
    let reply = import(&t.bo, form(&web)).await;
    assert_eq!(reply.refused(404), "repository_not_found");
    let reply = import(&t.ada, form(&web)).await;
    assert_eq!(reply.refused(422), "invalid_value");
    for path in ["", "/etc", "../x", "a//b", "a:b"] {
        let bad = json!({"repository_id": api, "path": path});
        assert_eq!(import(&t.ada, bad).await.refused(422), "invalid_value");
    }
    // A runner sends only folders of its own repositories.
    let unknown = "019a0000-0000-7000-8000-000000000000";
    let status = other
        .send_folder(unknown, "text/plain", b"x".to_vec())
        .await;
    assert_eq!(status, 404);
    drop(runner);
    loop {
        let all = t.ada.get("/v1/repositories").await.ok();
        let all = list(&all, "/data");
        let found = all.iter().find(|one| id(one) == api).unwrap();
        if found["runner"]["online"] == false {
            break;
        }
        pause().await;
    }
    let reply = import(&t.ada, form(&api)).await;
    assert!(reply.text.contains("no runner is connected for api"));
    assert_eq!(reply.refused(503), "unavailable");
}

#[tokio::test]
async fn a_folder_for_which_nobody_waits_expires() {
    let (t, mut runner) = team_with_runner().await;
    let repository = repository(&t.ada, "api").await;
    let importing = t.bo.post("/v1/skills/import", form(&repository));
    let expiring = async {
        runner.next_command().await;
        let old = "update repository_reads set created_at = '2020-01-02 03:04:05+00:00'";
        t.app.place.run(&[old]).await;
        let none = ("repository_reads".to_owned(), 0);
        while !t.app.place.row_counts().await.contains(&none) {
            pause().await;
        }
    };
    let (reply, ()) = tokio::join!(importing, expiring);
    assert_eq!(reply.refused(404), "repository_not_found");
}

#[tokio::test]
async fn a_runner_that_connects_again_is_asked_again() {
    let (t, mut runner) = team_with_runner().await;
    let repository = repository(&t.ada, "api").await;
    let importing = t.bo.post("/v1/skills/import", form(&repository));
    let answering = async {
        let asked = runner.next_command().await;
        let mut runner = runner.reconnect(&["api"]).await;
        let again = runner.next_command().await;
        assert_eq!(again, asked);
        let zip = zipped(&[("tides/SKILL.md", MAIN.to_vec())]);
        let id = text(&again, "/id");
        runner.send_folder(&id, "application/zip", zip).await
    };
    let (reply, status) = tokio::join!(importing, answering);
    assert_eq!(status, 204);
    assert_eq!(reply.is(201)["name"], "tides");
}
