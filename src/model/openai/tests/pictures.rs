//! Pictures in requests, and servers that reject them.

use serde_json::json;

use super::*;
use crate::model::{PictureUse, ToolCall, ToolResult, TurnPicture};

const LINE: &str = "(picture cat.png, 30 × 20)";

/// A request with a picture between two texts.
fn showing() -> ChatRequest {
    let before = format!("[Bo]: Look\n\n{LINE}");
    let picture = TurnPicture {
        at: before.len(),
        url: "data:image/png;base64,AAAA".into(),
        tokens: 1,
        unsent: ", not shown".to_owned(),
        unsent_at: before.len() - 1,
    };
    let turn = ChatMessage {
        pictures: vec![picture],
        ..ChatMessage::new(Role::User, format!("{before}\n\nWhat is it?"))
    };
    ChatRequest {
        turns: vec![turn],
        ..request()
    }
}

fn done() -> Vec<u8> {
    events(&[said("A cat."), finished("stop")].concat())
}

fn refused(status: &str, message: &str) -> Vec<u8> {
    let body = json!({"error": {"message": message}}).to_string();
    raw(status, "content-type: application/json\r\n", &body)
}

fn has_picture(body: &Value) -> bool {
    body.to_string().contains("image_url")
}

/// For each request, true if it contained the picture.
fn sent(script: &Script) -> Vec<bool> {
    script.bodies().iter().map(has_picture).collect()
}

#[tokio::test]
async fn a_picture_follows_its_line() {
    let script = Script::new(vec![done()]).await;
    run(&script.client(), showing()).await.unwrap();
    let body = &script.bodies()[0];
    assert_eq!(
        body["messages"][1],
        json!({"role": "user", "content": [
            {"type": "text", "text": format!("[Bo]: Look\n\n{LINE}")},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            {"type": "text", "text": "What is it?"},
        ]})
    );
}

#[tokio::test]
async fn a_picture_stays_in_its_place_if_the_system_text_is_put_before_it() {
    let no_system = refused("400 Bad Request", "system role is not supported");
    let script = Script::new(vec![no_system, done()]).await;
    run(&script.client(), showing()).await.unwrap();
    let parts = &script.bodies()[1]["messages"][0]["content"];
    assert_eq!(
        parts[0]["text"],
        format!("Be brief.\n\n[Bo]: Look\n\n{LINE}")
    );
    assert_eq!(parts[1]["type"], "image_url");
}

#[tokio::test]
async fn a_model_that_cannot_see_gets_text_at_once_and_no_more_pictures() {
    for (status, message) in [
        (
            "500 Internal Server Error",
            "image input is not supported - hint: you may need to provide the mmproj",
        ),
        (
            "400 Bad Request",
            "At most 0 image(s) may be provided in one prompt.",
        ),
        (
            "400 Bad Request",
            "Invalid content type. image_url is only supported by certain models.",
        ),
        (
            "404 Not Found",
            "No endpoints found that support image input",
        ),
        (
            "422 Unprocessable Entity",
            "messages[1]: unknown variant `image_url`, expected `text` at line 1",
        ),
        ("400 Bad Request", "messages[1].content must be a string"),
        ("422 Unprocessable Entity", "Input should be a valid string"),
        (
            "400 Bad Request",
            "This model does not support multimodal content",
        ),
    ] {
        let script = Script::new(vec![refused(status, message), done(), done()]).await;
        let client = script.client();
        assert!(client.takes_pictures("m"));
        for _ in 0..2 {
            run(&client, showing()).await.unwrap();
        }
        assert_eq!(sent(&script), [true, false, false], "{message}");
        assert!(!client.takes_pictures("m"), "{message}");
        assert!(client.takes_pictures("another"));
        let text = script.bodies()[2]["messages"][1]["content"].clone();
        let wanted = "[Bo]: Look\n\n(picture cat.png, 30 × 20, not shown)\n\nWhat is it?";
        assert_eq!(text, wanted);
    }
}

#[tokio::test]
async fn a_model_keeps_getting_pictures_after_an_error_about_one_of_them() {
    let broken = || refused("400 Bad Request", "Could not process image");
    let replies = vec![broken(), done(), done(), broken(), done(), broken(), done()];
    let script = Script::new(replies).await;
    let client = script.client();
    for _ in 0..3 {
        assert!(client.takes_pictures("m"));
        run(&client, showing()).await.unwrap();
    }
    assert_eq!(sent(&script), [true, false, true, true, false]);
    run(&client, showing()).await.unwrap();
    assert!(!client.takes_pictures("m"), "twice without a success");
}

#[tokio::test]
async fn the_name_of_a_model_that_can_see_does_not_make_an_error_one_about_pictures() {
    for message in [
        "registry.ollama.ai/library/llama3.2-vision:11b does not support the parameter temperature",
        "temperature is not supported with Llama3.2-Vision",
    ] {
        let refusal = refused("400 Bad Request", message);
        let script = Script::new(vec![refusal, done()]).await;
        let client = script.client();
        let model = "llama3.2-vision:11b".to_owned();
        let asked = ChatRequest { model, ..showing() };
        run(&client, asked).await.unwrap();
        assert_eq!(sent(&script), [true, true], "{message}");
        assert!(client.takes_pictures("llama3.2-vision:11b"), "{message}");
    }
}

#[tokio::test]
async fn failures_of_a_server_do_not_keep_pictures_from_a_model() {
    let oops = || refused("500 Internal Server Error", "internal error");
    let script = Script::new(vec![oops(), done(), oops(), done(), done()]).await;
    let client = script.client();
    for _ in 0..3 {
        run(&client, showing()).await.unwrap();
    }
    assert_eq!(sent(&script), [true, false, true, false, true]);
}

#[tokio::test]
async fn an_error_that_remains_without_pictures_is_reported_and_not_learned() {
    let oops = || refused("400 Bad Request", "image input is not supported");
    let script = Script::new(vec![oops(), oops(), done()]).await;
    let client = script.client();
    let error = run(&client, showing()).await.unwrap_err();
    assert!(matches!(error, ModelError::BadRequest(_)), "{error}");
    assert!(client.takes_pictures("m"));
    run(&client, showing()).await.unwrap();
    assert_eq!(sent(&script), [true, false, true]);
}

#[tokio::test]
async fn a_request_that_needs_its_pictures_fails_without_them() {
    let script = Script::new(vec![refused("400 Bad Request", "no images, please")]).await;
    let needed = ChatRequest {
        pictures: PictureUse::Required,
        ..showing()
    };
    let error = run(&script.client(), needed.clone()).await.unwrap_err();
    assert!(matches!(error, ModelError::BadRequest(_)), "{error}");
    // It is never answered without them either.
    let unable = || refused("400 Bad Request", "image input is not supported");
    let script = Script::new(vec![unable(), done(), unable()]).await;
    let client = script.client();
    run(&client, showing()).await.unwrap();
    assert!(!client.takes_pictures("m"));
    assert!(run(&client, needed).await.is_err());
    assert_eq!(sent(&script), [true, false, true]);
}

#[tokio::test]
async fn pictures_are_left_out_after_all_attempts_failed() {
    let script = Script::new(vec![done()]).await;
    let without = ChatRequest {
        pictures: PictureUse::LeftOut,
        ..showing()
    };
    let client = script.client();
    run(&client, without).await.unwrap();
    assert_eq!(sent(&script), [false]);
    assert!(client.takes_pictures("m"), "once is not enough");
}

#[tokio::test]
async fn credentials_and_limits_have_nothing_to_do_with_pictures() {
    for status in ["401 Unauthorized", "429 Too Many Requests"] {
        let script = Script::new(vec![refused(status, "image")]).await;
        assert!(run(&script.client(), showing()).await.is_err());
        assert_eq!(sent(&script), [true], "{status}");
    }
}

#[tokio::test]
async fn the_message_with_pictures_of_results_is_left_out_with_them() {
    let call = ToolCall {
        id: "c".to_owned(),
        name: "shot".to_owned(),
        arguments: "{}".to_owned(),
    };
    let result = ToolResult {
        call_id: "c".to_owned(),
        content: "[image, 1 KiB, attached]".to_owned(),
    };
    let picture = TurnPicture {
        at: 0,
        unsent: String::new(),
        unsent_at: 0,
        ..showing().turns[0].pictures[0].clone()
    };
    let turns = vec![
        ChatMessage::new(Role::User, "Look"),
        ChatMessage {
            calls: vec![call],
            ..ChatMessage::new(Role::Assistant, "")
        },
        ChatMessage {
            results: vec![result],
            pictures: vec![picture],
            ..ChatMessage::new(Role::User, "")
        },
    ];
    let script = Script::new(vec![refused("400 Bad Request", "Unexpected role"), done()]).await;
    let asked = ChatRequest { turns, ..request() };
    run(&script.client(), asked).await.unwrap();
    let roles = |body: &Value| -> Vec<String> {
        let messages = body["messages"].as_array().unwrap().iter();
        messages.map(|m| m["role"].to_string()).collect()
    };
    let bodies = script.bodies();
    assert_eq!(roles(&bodies[0]).len(), 5);
    assert_eq!(bodies[0]["messages"][4]["content"][0]["type"], "image_url");
    assert_eq!(roles(&bodies[1]), roles(&bodies[0])[..4]);
}

#[test]
fn the_model_table_knows_who_sees() {
    let client = client("http://127.0.0.1:9/v1", None);
    assert!(client.takes_pictures("claude-sonnet-4-5"));
    assert!(!client.takes_pictures("gpt-oss-20b"));
}
