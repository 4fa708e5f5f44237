//! A person of the demo, signed in to the server over HTTP.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use reqwest::{Client, Method, RequestBuilder, header};
use serde_json::{Value, json};

use crate::config::Secret;

const LOOK_EVERY: Duration = Duration::from_millis(20);
const TASK_WITHIN: Duration = Duration::from_mins(1);

pub(super) struct Person {
    pub(super) id: String,
    http: Client,
    base: String,
    cookie: String,
}

/// The string at this JSON pointer.
pub(super) fn text(value: &Value, pointer: &str) -> anyhow::Result<String> {
    let found = value.pointer(pointer).and_then(Value::as_str);
    Ok(found
        .with_context(|| format!("no string at {pointer}"))?
        .to_owned())
}

impl Person {
    /// Creates an account; `more` contains the fields that authorize the sign-up.
    pub(super) async fn sign_up(
        base: &str,
        name: &str,
        email: &str,
        password: &Secret,
        more: Value,
    ) -> anyhow::Result<Self> {
        let mut person = Self {
            id: String::new(),
            http: Client::builder().no_proxy().build()?,
            base: base.to_owned(),
            cookie: String::new(),
        };
        let mut form = json!({"name": name, "email": email, "password": password.0});
        for (key, value) in more.as_object().into_iter().flatten() {
            form[key] = value.clone();
        }
        let response = person
            .request(Method::POST, "/v1/auth/signup")
            .json(&form)
            .send()
            .await?;
        let cookie = response.headers().get(header::SET_COOKIE);
        let cookie = cookie.and_then(|c| c.to_str().ok()).unwrap_or_default();
        person.cookie = cookie.split(';').next().unwrap_or_default().to_owned();
        let answer = read(response)
            .await
            .with_context(|| format!("cannot sign up {name}"))?;
        person.id = text(&answer, "/user/id")?;
        Ok(person)
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http
            .request(method, format!("{}{path}", self.base))
            .header(header::ORIGIN, &self.base)
            .header(header::COOKIE, &self.cookie)
    }

    pub(super) async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.send(Method::GET, path, None).await
    }

    pub(super) async fn put(&self, path: &str) -> anyhow::Result<Value> {
        self.send(Method::PUT, path, Some(json!({}))).await
    }

    pub(super) async fn post(&self, path: &str, form: Value) -> anyhow::Result<Value> {
        self.send(Method::POST, path, Some(form)).await
    }

    pub(super) async fn patch(&self, path: &str, form: Value) -> anyhow::Result<Value> {
        self.send(Method::PATCH, path, Some(form)).await
    }

    /// Waits until the task or run at `path` has one of these statuses, and returns it.
    pub(super) async fn wait_for(&self, path: &str, wanted: &[&str]) -> anyhow::Result<Value> {
        const ACTIVE: [&str; 3] = ["queued", "running", "waiting"];
        let reaching = async {
            loop {
                let now = self.get(path).await?;
                let status = text(&now, "/status")?;
                if wanted.contains(&status.as_str()) {
                    return Ok(now);
                }
                ensure!(
                    ACTIVE.contains(&status.as_str()),
                    "{path} of the demo ended with the status {status}: {now}"
                );
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        let reached = tokio::time::timeout(TASK_WITHIN, reaching).await;
        reached.with_context(|| format!("{path} of the demo does not end"))?
    }

    /// Uploads a text file and returns its ID.
    pub(super) async fn upload(&self, name: &str, content: &str) -> anyhow::Result<String> {
        const BOUNDARY: &str = "openvibe-demo-part";
        let body = format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n{content}\r\n--{BOUNDARY}--\r\n"
        );
        let request = self.request(Method::POST, "/v1/files").header(
            header::CONTENT_TYPE,
            format!("multipart/form-data; boundary={BOUNDARY}"),
        );
        let file = read(request.body(body).send().await?)
            .await
            .with_context(|| name.to_owned())?;
        text(&file, "/id")
    }

    async fn send(&self, method: Method, path: &str, form: Option<Value>) -> anyhow::Result<Value> {
        let mut request = self.request(method, path);
        if let Some(form) = form {
            request = request.json(&form);
        }
        read(request.send().await?)
            .await
            .with_context(|| path.to_owned())
    }
}

async fn read(response: reqwest::Response) -> anyhow::Result<Value> {
    let status = response.status();
    let body = response.text().await?;
    if !status.is_success() {
        bail!("{status}: {body}");
    }
    Ok(serde_json::from_str(&body).unwrap_or(Value::Null))
}
