//! Messages with negative sequence numbers, as an import inserts them, on every route that compares numbers.

use openvibe::{
    auth::{
        AuthError,
        placeholders::{NewPlaceholder, insert_placeholder},
    },
    chat::{
        ChatError,
        imported::{
            ImportedAs, ImportedAuthorKind, ImportedMessage, ImportedPlace, insert_imported,
        },
        plain::to_plain,
        search::index::SearchDocument,
    },
    db::{Conn, Engine, dialect::search::make_room},
    ids::{ChannelId, ImportId, MessageId, ThreadId, UserId, WorkspaceId},
    time::Timestamp,
};
use serde_json::{Value, json};

use crate::{
    documents::{found as passages, read},
    support::{Answer, Person, Team, id, list, number, team, text},
};

/// Imports messages into threads of #general: thread, author, time in seconds, and text. The first message of a thread starts it.
async fn import(t: &Team, messages: &[(ThreadId, &Person, i64, &str)]) -> Vec<String> {
    let (workspace, channel): (WorkspaceId, ChannelId) =
        (t.ada.workspace.parse().unwrap(), t.general.parse().unwrap());
    let import = ImportId::new();
    let mut threads = Vec::new();
    let mut ids = Vec::new();
    for (thread, author, at, content) in messages {
        let place = if threads.contains(thread) {
            ImportedPlace::Reply
        } else {
            threads.push(*thread);
            ImportedPlace::Root
        };
        let author: UserId = author.id.parse().unwrap();
        let plain = to_plain(content);
        let at = chrono::DateTime::from_timestamp(*at, 0).unwrap();
        let new = ImportedMessage {
            id: MessageId::new(),
            import: Some(import),
            format: None,
            channel,
            thread: *thread,
            title: None,
            base: None,
            place,
            author_type: ImportedAuthorKind::Human,
            author: author.0,
            shown_as: None,
            search_document: SearchDocument::of(content, &plain),
            content: (*content).to_owned(),
            plain,
            mentions: Vec::new(),
            reactions: Vec::new(),
            attachments: Vec::new(),
            created_at: Timestamp::within_years(at).unwrap(),
            edited_at: None,
        };
        ids.push(new.id.to_string());
        let stored: Result<ImportedAs, ChatError> = t
            .app
            .db()
            .write(workspace.0, async move |c: &mut Conn| {
                make_room(c, workspace.0).await?;
                insert_imported(c, workspace, &new).await
            })
            .await;
        assert_eq!(stored.unwrap(), ImportedAs::New);
    }
    ids
}

fn contents(page: &Value) -> Vec<String> {
    let data = list(page, "/data");
    data.iter().map(|row| text(row, "/content")).collect()
}

const MAY_2021: i64 = 1_620_000_000;

#[tokio::test]
async fn imported_messages_are_read_like_others() {
    let t = team().await;
    let native = t.ada.thread(&t.general, "Native apple").await;
    let (old, newer) = (ThreadId::new(), ThreadId::new());
    let ids = import(
        &t,
        &[
            (newer, &t.bo, MAY_2021 + 100, "Newer root"),
            (old, &t.bo, MAY_2021, "Old apple root"),
            (old, &t.ada, MAY_2021 + 1, "First reply"),
            (old, &t.bo, MAY_2021 + 1, "Second apple reply"),
            (old, &t.ada, MAY_2021 + 90_000, "Third reply"),
        ],
    )
    .await;

    // Lists, pages, and `around`.
    let threads = format!("/v1/channels/{}/threads?limit=1", t.general);
    let mut order = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = t.bo.get(&format!("{threads}{cursor}")).await.ok();
        order.extend(list(&page, "/data").iter().map(id));
        let Some(next) = page["next_cursor"].as_str() else {
            break;
        };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(order[0], native);
    assert_eq!(order[1..3], [old.to_string(), newer.to_string()]);
    let messages = format!("/v1/threads/{old}/messages");
    let all = t.bo.get(&messages).await.ok();
    let expected = [
        "Old apple root",
        "First reply",
        "Second apple reply",
        "Third reply",
    ];
    assert_eq!(contents(&all), expected);
    assert!(
        list(&all, "/data")
            .iter()
            .all(|row| number(row, "/seq") < 0)
    );
    assert_eq!(
        list(&all, "/data")[0]["created_at"],
        "2021-05-03T00:00:00.000Z"
    );
    let before =
        t.bo.get(&format!("{messages}?limit=2&before={}", ids[4]))
            .await
            .ok();
    assert_eq!(contents(&before), expected[1..3]);
    assert_eq!(before["has_more"], true);
    let after =
        t.bo.get(&format!("{messages}?limit=2&after={}", ids[1]))
            .await
            .ok();
    assert_eq!(contents(&after), expected[1..3]);
    let around =
        t.bo.get(&format!("{messages}?limit=3&around={}", ids[2]))
            .await
            .ok();
    assert!(contents(&around).contains(&expected[1].to_owned()));
    let thread = t.bo.get(&format!("/v1/threads/{old}")).await.ok();
    assert_eq!(thread["reply_count"], 3);
    assert_eq!(list(&thread, "/participants").len(), 2);

    // Nothing is unread, whatever mark is set.
    let unread = async |who: &Person| who.channel("general").await["unread_count"].clone();
    assert_eq!(unread(&t.bo).await, 1);
    let seq = number(&list(&all, "/data")[1], "/seq");
    let read = format!("/v1/threads/{old}/read");
    let mark = t.bo.put(&read, json!({"seq": seq})).await.ok();
    assert_eq!(
        (&mark["seq"], &mark["unread_count"]),
        (&json!(seq), &json!(0))
    );
    t.bo.put(&read, json!({"seq": -(1_i64 << 40) - 1}))
        .await
        .refused(422);
    assert_eq!(unread(&t.bo).await, 1);

    // Search: by word, page, order, and time.
    let search = async |question: &str| {
        let mut found = Vec::new();
        let mut cursor = String::new();
        loop {
            let page =
                t.bo.get(&format!("/v1/search?limit=1&q={question}{cursor}"))
                    .await
                    .ok();
            found.extend(contents(&page));
            let Some(next) = page["next_cursor"].as_str() else {
                return found;
            };
            cursor = format!("&cursor={next}");
        }
    };
    let [root, second, _] = [expected[0], expected[2], expected[3]];
    assert_eq!(search("apple").await, ["Native apple", second, root]);
    assert_eq!(
        search("apple&order=oldest").await,
        [root, second, "Native apple"]
    );
    assert_eq!(search("apple%20before%3A2022-01-01").await, [second, root]);
    assert_eq!(search("reply%20after%3A2021-05-04").await, ["Third reply"]);
    assert_eq!(search("apple%20after%3A2022-01-01").await, ["Native apple"]);
}

#[tokio::test]
async fn an_agent_reads_imported_messages_and_replies_below_them() {
    let t = team().await;
    let thread = ThreadId::new();
    let mut said = vec![(thread, &t.bo, MAY_2021, "The fair opens on Monday.")];
    said.extend((1..5).map(|n| (thread, &t.ada, MAY_2021 + n, "Noted.")));
    import(&t, &said).await;
    t.model().script("vibe", [Answer::text("On Monday.")]);
    let task =
        t.bo.ask(&thread.to_string(), "@vibe when does it open?")
            .await;
    t.bo.completed(&task).await;
    let turns = t.model().requests()[0].turns();
    let sent = turns.join("\n");
    assert!(sent.contains("The fair opens on Monday."), "{sent}");
    assert_eq!(sent.matches("Noted.").count(), 4, "{sent}");
    let contents = t.bo.contents(&thread.to_string()).await;
    assert_eq!(contents.last().unwrap(), "On Monday.");
    assert_eq!(contents.len(), 7);
    // A person's data contains them, and an erasure finds them.
    let export =
        t.bo.get(&format!("/v1/members/{}/export", t.bo.id))
            .await
            .ok();
    let exported = list(&export, "/messages");
    assert_eq!(exported[0]["content"], "The fair opens on Monday.");
    t.ada.erase(&t.bo).await;
    let left = t.ada.contents(&thread.to_string()).await;
    assert!(!left.join("\n").contains("The fair opens on Monday."));
}

#[tokio::test]
async fn imported_messages_are_found_only_in_their_workspace() {
    let t = team().await;
    let form = json!({"name": "Other"});
    let workspace = id(&t.ada.post("/v1/workspaces", form).await.is(201));
    let other = t.ada.in_workspace(&workspace);
    // A database from before imports: the numbers of workspaces follow each other.
    if t.app.db().engine() == Engine::Sqlite {
        let first: WorkspaceId = t.ada.workspace.parse().unwrap();
        let second: WorkspaceId = workspace.parse().unwrap();
        let renumber: Result<(), ChatError> = t
            .app
            .db()
            .write(first.0, async move |c: &mut Conn| {
                c.q("update search_spaces set no = 100 where workspace_id = $1")
                    .bind(second)
                    .run()
                    .await?;
                c.q("update search_spaces set no = 101 where workspace_id = $1")
                    .bind(first)
                    .run()
                    .await?;
                Ok(())
            })
            .await;
        renumber.unwrap();
    }
    let others = id(&other.channel("general").await);
    other.start(&others, "Pear of the other").await;
    t.bo.start(&t.general, "Native pear").await;
    let file = t.bo.upload("fruit.md", b"A passage about quinces").await;
    read(&t.bo, &file).await;
    passages(&t.bo, "q=quinces", 1).await;
    import(&t, &[(ThreadId::new(), &t.bo, MAY_2021, "Imported pear")]).await;
    let found = t.bo.get("/v1/search?q=pear").await.ok();
    assert_eq!(contents(&found), ["Native pear", "Imported pear"]);
    passages(&t.bo, "q=quinces", 1).await;
    passages(&other, "q=quinces", 0).await;
    let found = other.get("/v1/search?q=pear").await.ok();
    assert_eq!(contents(&found), ["Pear of the other"]);
}

#[tokio::test]
async fn a_placeholder_is_an_author_and_a_mention_but_not_a_person() {
    let t = team().await;
    let workspace: WorkspaceId = t.ada.workspace.parse().unwrap();
    let channel: ChannelId = t.general.parse().unwrap();
    let placeholder = UserId::new();
    let thread = ThreadId::new();
    let inserted: Result<(), AuthError> = t
        .app
        .db()
        .write(workspace.0, async move |c: &mut Conn| {
            // Its name is that of an agent.
            let new = NewPlaceholder {
                user: placeholder,
                name: "Vibe",
            };
            insert_placeholder(c, workspace, new).await?;
            insert_placeholder(c, workspace, new).await?;
            c.q("insert into channel_members (channel_id, user_id, joined_seq, read_seq, joined_at) values ($1, $2, 0, 0, $3)")
                .bind(channel)
                .bind(placeholder)
                .bind(Timestamp::now())
                .run()
                .await?;
            Ok(())
        })
        .await;
    inserted.unwrap();
    let mut gone = t.bo.clone();
    gone.id = placeholder.to_string();
    import(&t, &[(thread, &gone, MAY_2021, "I was here.")]).await;
    let messages =
        t.bo.get(&format!("/v1/threads/{thread}/messages"))
            .await
            .ok();
    let author = &list(&messages, "/data")[0]["author"];
    assert_eq!(
        (&author["name"], &author["id"]),
        (&json!("Vibe 2"), &json!(gone.id))
    );
    // It is in no list and no count.
    let member = t.ada.get(&format!("/v1/members/{}", gone.id)).await.ok();
    let handle = text(&member, "/handle");
    let lists = [
        "/v1/members".to_owned(),
        format!("/v1/channels/{}/members", t.general),
    ];
    for path in lists {
        let all = t.ada.get(&path).await.ok();
        assert!(
            list(&all, "/data")
                .iter()
                .all(|row| row["user_id"] != gone.id.as_str()),
            "{path}"
        );
    }
    assert_eq!(t.ada.channel("general").await["member_count"], 2);
    // A mention of it is one, but makes no item.
    let said =
        t.bo.say(&thread.to_string(), &format!("@{handle} look"))
            .await;
    assert_eq!(said["message"]["mentions"][0]["id"], gone.id.as_str());
    let items = "select count(*) from inbox_items i join members m on m.user_id = i.recipient_id where m.status = 'placeholder'";
    assert_eq!(t.app.place.numbers(&[items.to_owned()]).await, [0]);
    // It cannot become the only admin.
    let role =
        |who: &Person, role: &str| (format!("/v1/members/{}", who.id), json!({"role": role}));
    let (path, form) = role(&gone, "admin");
    t.ada.patch(&path, form).await.is(200);
    let (path, form) = role(&t.ada, "member");
    t.ada.patch(&path, form).await.refused(409);
    // Nobody signs in as it.
    let visitor = t.bo.signed_out();
    let form = json!({"email": gone.id, "password": ""});
    assert!(visitor.post("/v1/auth/login", form).await.status >= 400);
}

#[tokio::test]
async fn messages_of_a_full_second_fill_the_next_ones() {
    let t = team().await;
    let workspace: WorkspaceId = t.ada.workspace.parse().unwrap();
    let mut first: Option<i64> = None;
    for n in 0..7 {
        let ids = import(&t, &[(ThreadId::new(), &t.bo, MAY_2021, "At once")]).await;
        let message = t.bo.get(&format!("/v1/messages/{}", ids[0])).await.ok();
        let seq = number(&message, "/seq");
        assert_eq!(seq, *first.get_or_insert(seq) + 512 * n);
        // The second of this number becomes full.
        let message: MessageId = ids[0].parse().unwrap();
        let filled: Result<(), ChatError> = t
            .app
            .db()
            .write(workspace.0, async move |c: &mut Conn| {
                c.q("update messages set seq = $2 where id = $1")
                    .bind(message)
                    .bind(seq + 511)
                    .run()
                    .await?;
                Ok(())
            })
            .await;
        filled.unwrap();
    }
}
