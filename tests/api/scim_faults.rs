//! The server is killed while a provider deactivates a person: everything happens, or nothing.

use serde_json::json;

use crate::{
    faults::{Prepared, prepared},
    oidc::{Browser, person, provide},
    support::{OidcServer, Person, SECRET_KEY, TestProcess, id, text, visitor},
};

const SECRET: (&str, &str) = ("SECRET_KEY", SECRET_KEY);

/// A member whom a provider sent, with a session, a key, and an open invite.
struct Sent {
    /// SCIM client of the provider.
    scim: Person,
    /// Address of the person there.
    path: String,
    cy: Person,
    robot: Person,
}

async fn sent(ada: &Person) -> Sent {
    let corp = OidcServer::start().await;
    let open = json!([{"workspace_id": ada.workspace, "join": "everyone"}]);
    let provider = provide(ada, &corp, json!({"workspaces": open})).await;
    let tokens = format!("/v1/identity-providers/{provider}/scim-tokens");
    let made = ada.post(&tokens, json!({})).await.is(201);
    let scim = visitor(&ada.base).with_key(&text(&made, "/token"));
    let form = json!({"userName": "cy@example.org"});
    let user = scim.post("/scim/v2/Users", form).await.is(201);
    let mut browser = Browser::new(&ada.base);
    let claims = person("cy", "cy@example.org");
    let there = browser.pass(&corp, &provider, json!({}), &claims).await;
    assert_eq!(there.path, "/", "{there:?}");
    let cy = browser.person().in_workspace(&ada.workspace);
    let (robot, _) = cy.make_key(&["chat:read"]).await;
    let for_them = json!({"email": "cy@example.org"});
    ada.post("/v1/invites", for_them).await.is(201);
    Sent {
        path: format!("/scim/v2/Users/{}", id(&user)),
        scim,
        cy,
        robot,
    }
}

impl Sent {
    /// Deactivates the person on a server that dies at a failpoint. Returns the server after a restart, and its admin.
    async fn killed_at(&self, p: &Prepared, failpoint: &str) -> (TestProcess, Person) {
        let (server, _) = p.start(&[SECRET, ("FAILPOINT", failpoint)]).await;
        let scim = self.scim.at(&server.base);
        assert!(scim.try_delete(&self.path).await.is_none(), "{failpoint}");
        server.exited().await;
        p.start(&[SECRET]).await
    }
}

#[tokio::test]
async fn a_kill_deactivates_a_person_completely_or_not_at_all() {
    let p = prepared().await;
    let (server, ada) = p.start(&[SECRET]).await;
    let sent = sent(&ada).await;
    server.kill().await;
    for (failpoint, status) in [("suspending", 200), ("deactivated", 401)] {
        let (server, ada) = sent.killed_at(&p, failpoint).await;
        for who in [&sent.cy, &sent.robot] {
            let reply = who.at(&server.base).get("/v1/channels").await;
            assert_eq!(reply.status, status, "{failpoint} {}", reply.text);
        }
        let is_out = status == 401;
        let invites = ada.every("/v1/invites").await;
        assert_eq!(invites.is_empty(), is_out, "{failpoint} {invites:?}");
        let known = sent.scim.at(&server.base).get(&sent.path).await;
        assert_eq!(known.status == 404, is_out, "{failpoint} {}", known.text);
        server.kill().await;
    }
}
