//! Fixtures: the server (in this process, or as a separate process that can be killed), people who use it over HTTP, their sockets,
//! and the model server.

mod app;
mod authority;
mod cluster;
mod database;
mod disk;
mod dives;
mod mail_server;
mod mcp_server;
mod model_server;
mod models_file;
mod nats;
mod nodes;
mod oidc_server;
mod pebble;
mod person;
mod process;
mod program_server;
mod push_server;
mod relay;
mod s3_server;
mod scripted_runner;
mod socket;

use std::{str::FromStr, time::Duration};

pub use app::{Team, TestApp, team, team_of, team_with};
pub use authority::{OrderRefusal, RefusingAuthority};
pub use cluster::Cluster;
pub use database::TestDatabase;
pub use disk::Disk;
pub use dives::{ROOT, TestFork, drafting, texts_of};
pub use mail_server::{MailBehavior, MailServer};
pub use mcp_server::{McpServer, Revision, ToolAnswer, function};
pub use model_server::{Answer, Gate, ModelServer, Request};
pub use models_file::ModelsFile;
pub use nats::{NatsServer, SECRET_KEY};
pub use nodes::is_shared_engine;
pub use oidc_server::{CLIENT_ID, CLIENT_SECRET, Canned, OidcServer, Signer};
pub use pebble::{Pebble, https_client, own_port};
pub use person::{
    MULTIPART, PASSWORD, Person, Reply, multipart, sign_up, sign_up_with, sign_up_with_workspace,
    visitor,
};
pub use process::{Hold, TestProcess, command, in_own_mounts, refusal};
pub use program_server::{ProgramAnswer, ProgramServer, ReceivedEvent};
pub use push_server::{PushAnswer, PushServer};
pub use relay::{Relay, Target};
pub use s3_server::S3;
pub use scripted_runner::{
    RunnerSocket, ScriptedRunner, greeting, new_runner, open_runner, upload,
};
use serde_json::{Value, json};
pub use socket::Socket;

/// Timeout of everything that a test waits for.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// Waits for `future` and returns its result; panics after `DEADLINE`.
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let waited = tokio::time::timeout(DEADLINE, future).await;
    waited.unwrap_or_else(|_| panic!("waited too long for {what}"))
}

/// Waits between two checks of a state that no event reports. Tests that check without a pause take processor time from all others.
pub async fn pause() {
    tokio::time::sleep(Duration::from_millis(10)).await;
}

/// Makes a test of each failpoint, so that they run side by side: `turn_call_1` calls the function with `turn_call:1`, and with the
/// arguments that follow.
macro_rules! at_points {
    ($test:ident, $check:ident: $($point:ident $(($argument:expr))?),+ $(,)?) => {
        mod $test {
            $(
                #[tokio::test]
                async fn $point() {
                    let point = crate::support::failpoint(stringify!($point));
                    super::$check(&point $(, $argument)?).await;
                }
            )+
        }
    };
}
pub(crate) use at_points;

/// Returns the value of `FAILPOINT` for the name of a test: `turn_call:1` for `turn_call_1`.
pub fn failpoint(test: &str) -> String {
    let (name, nth) = test.rsplit_once('_').unwrap();
    format!("{name}:{nth}")
}

/// Number in an environment variable; `None` if it is empty or not set.
pub fn setting<T: FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    let value = text.parse().ok();
    assert!(value.is_some(), "{name} must be a number, not {text:?}");
    value
}

/// Contents of the messages that a run posted, in order.
pub fn contents_of_run(messages: &[Value], run: &str) -> Vec<String> {
    let own = messages
        .iter()
        .filter(|message| message["metadata"]["run_id"] == json!(run));
    own.map(|message| text(message, "/content")).collect()
}

/// The string at a JSON pointer.
pub fn text(value: &Value, pointer: &str) -> String {
    let found = value.pointer(pointer).and_then(Value::as_str);
    found
        .unwrap_or_else(|| panic!("no string at {pointer} of {value}"))
        .to_owned()
}

/// The number at a JSON pointer.
pub fn number(value: &Value, pointer: &str) -> i64 {
    let found = value.pointer(pointer).and_then(Value::as_i64);
    found.unwrap_or_else(|| panic!("no number at {pointer} of {value}"))
}

/// The list at a JSON pointer.
pub fn list(value: &Value, pointer: &str) -> Vec<Value> {
    let found = value.pointer(pointer).and_then(Value::as_array);
    found
        .unwrap_or_else(|| panic!("no list at {pointer} of {value}"))
        .clone()
}

/// The `id` of an object.
pub fn id(value: &Value) -> String {
    text(value, "/id")
}

/// Length of a text in UTF-16 code units, the unit of lengths and offsets in the API.
pub fn units(text: &str) -> i64 {
    i64::try_from(text.encode_utf16().count()).unwrap()
}

/// A well-formed, unused ID of this kind.
pub fn unknown_id(prefix: &str) -> String {
    format!("{prefix}_01k5t00000e008000000000000")
}

/// The date in two weeks as `YYYY-MM-DD`, used as a due date that is always in the future.
pub fn soon() -> String {
    let day = chrono::Utc::now() + chrono::Days::new(14);
    day.format("%Y-%m-%d").to_string()
}

/// Instructions of a test agent, by whose beginning the model server distinguishes agents.
pub fn instructions_of(name: &str) -> String {
    let mut letters = name.chars();
    let first = letters.next().unwrap().to_uppercase();
    format!("You are {first}{}, made for a test.", letters.as_str())
}
