//! The tool `remember`, with which an agent stores a sentence that people's messages in the conversation support. The
//! sentence is checked like those of a pass.

use std::sync::Arc;

use futures::{FutureExt, future::BoxFuture};
use serde_json::json;

use crate::{
    agents::{
        derived::SourceId,
        profiles::{self, Resolved, Tool},
        system,
    },
    db::{Conn, Db, DbError},
    ids::{BEFORE_ALL_SEQS, MemoryId, MessageId},
    mcp::{Effect, Risk},
    memory::{
        content::Content,
        remember::{self, Remembered, Remembering},
    },
    model::FunctionTool,
    realtime::hub::Conversation,
    replies::history::{self, Row},
    secrets::Keyring,
    tasks::slow,
    tool_fault::{ToolErrorCode, ToolFault},
    tools::{
        arguments::Arguments,
        function::{Reach, ToolFunction, definition_hash},
        handles,
        output::{Handled, ToolOutput},
        rights,
        runner::{Call, CallError, ToolRunner, ToolTask},
    },
};

use super::{
    check::{ITEM_CHARS_MAX, Source},
    draft::RawItem,
    item::{Item, KINDS},
    pass::{lines_of, recalled},
};

const NAME: &str = "remember";
const TITLE: &str = "Remember";
const SOURCES_MAX: usize = 4;
/// Number of the most recent messages that can be sources even if the call does not name them.
const READ_MAX: usize = 48;

/// Runs `remember`.
#[derive(Clone)]
pub struct RememberTool {
    pub db: Db,
    pub keyring: Arc<Keyring>,
}

fn function() -> ToolFunction {
    let kinds: Vec<&str> = KINDS.iter().map(|kind| kind.as_str()).collect();
    let definition = FunctionTool {
        name: NAME.to_owned(),
        description: Some(
            "Remember one sentence that people said in this conversation and that will matter later. Keep their numbers, names, \
             and words."
                .to_owned(),
        ),
        parameters: Some(json!({
            "type": "object",
            "properties": {
                "text": {"type": "string", "description": "One sentence that makes sense alone."},
                "kind": {"type": "string", "enum": kinds},
                "sources": {
                    "type": "array",
                    "items": {"type": "string"},
                    "maxItems": SOURCES_MAX,
                    "description": "Handles of people's messages in this conversation, such as S1; empty if they have none.",
                },
            },
            "required": ["text", "kind", "sources"],
            "additionalProperties": false,
        })),
        strict: None,
    };
    ToolFunction {
        action: NAME.to_owned(),
        title: TITLE.to_owned(),
        kind: None,
        server_function: None,
        effect: Effect::Read,
        reach: Reach::Inside,
        risk: Risk::Autonomous,
        trusts_reads: false,
        is_grantable: true,
        source: "this workspace".to_owned(),
        definition_hash: definition_hash(&definition, TITLE),
        definition,
    }
}

fn conversation_of(task: &ToolTask) -> Conversation {
    let thread = Conversation::Thread(task.thread);
    task.fork.map_or(thread, Conversation::Fork)
}

fn refusal(code: ToolErrorCode, text: &str) -> CallError {
    ToolFault::new(code, text).into()
}

/// Checks the memory switches of the person, the workspace, the thread, and the agent.
async fn is_on(c: &mut Conn, task: &ToolTask, agent: &Resolved) -> Result<bool, DbError> {
    let memory = agent.profile.memory.as_ref();
    let scopes = memory.and_then(|memory| memory.scopes.as_ref());
    remember::is_on(c, task.workspace, task.requester, task.thread, scopes).await
}

/// Data that a call is checked against.
struct Grounds {
    /// Messages of the conversation, oldest first.
    rows: Vec<Row>,
    /// Memory texts that agents knew when they wrote a message, with the position of the message.
    recalled: Vec<(usize, String)>,
    /// System prompt of the agent.
    system: String,
    /// Messages that the call names as sources.
    named: Vec<MessageId>,
}

impl Grounds {
    /// Loads the most recent messages up to the trigger message, and those that the call names, in this conversation.
    async fn read(
        c: &mut Conn,
        task: &ToolTask,
        agent: &Resolved,
        handles: &[&str],
    ) -> Result<Self, DbError> {
        let mut named = Vec::new();
        for handle in handles {
            match MessageId::parse(handle) {
                Ok(id) => named.push(id),
                Err(_) => {
                    if let Some(Handled::Message(id)) = handles::find(c, task.task, handle).await? {
                        named.push(id);
                    }
                }
            }
        }
        let conversation = conversation_of(task);
        let trigger: Option<(i64,)> = c
            .q("select seq from messages where id = $1")
            .bind(task.trigger)
            .opt()
            .await?;
        let below = trigger.map_or(BEFORE_ALL_SEQS, |(seq,)| seq + 1);
        let mut rows = history::before(c, conversation, below, READ_MAX).await?;
        let mut seqs = Vec::new();
        for id in &named {
            let seq: Option<(i64,)> = c
                .q("select seq from messages where id = $1")
                .bind(*id)
                .opt()
                .await?;
            seqs.extend(seq.map(|(seq,)| seq));
        }
        seqs.retain(|seq| rows.iter().all(|row| row.seq != *seq));
        rows.extend(history::list(c, conversation, seqs).await?);
        rows.sort_by_key(|row| row.seq);
        Ok(Self {
            recalled: recalled(c, &rows).await?,
            system: system::in_conversation(c, task.workspace, agent)
                .await?
                .text(),
            rows,
            named,
        })
    }

    /// Checks a sentence. Returns the sentence with the messages that support it, or `None` if there are none or if any of them is
    /// not from a person.
    fn check(&self, text: &str, kind: &str) -> Option<(Item, Vec<MessageId>)> {
        let position = |id: &MessageId| self.rows.iter().position(|row| row.id == *id);
        let raw = RawItem {
            text: text.to_owned(),
            kind: kind.to_owned(),
            sources: (self.named.iter())
                .filter_map(position)
                .map(|at| format!("m{}", at + 1))
                .collect(),
            about: None,
            for_agent: false,
        };
        let (lines, people) = lines_of(&self.rows);
        let item = Source::new(&lines, &people, &self.recalled).check_one(&raw, &self.system)?;
        let is_of_person = |at: &usize| lines[*at].person.is_some();
        item.sources.iter().all(is_of_person).then(|| {
            let sources = item.sources.iter().map(|at| self.rows[*at].id).collect();
            (item, sources)
        })
    }
}

/// Converts the result of storing an entry to the output of the call, or to an error if the entry could not be stored.
fn output_of(
    stored: Remembering,
    id: MemoryId,
    sources: Vec<MessageId>,
    text: String,
) -> Result<ToolOutput, CallError> {
    let mut output = ToolOutput {
        messages: sources,
        ..ToolOutput::default()
    };
    match stored {
        Remembering::Stored => {
            output.cites.push(SourceId::Memory(id));
            output.own("Remembered: ");
        }
        Remembering::Known => output.own("It was known already: "),
        Remembering::Forgotten => {
            let text = "a person asked to forget this";
            return Err(refusal(ToolErrorCode::NotAllowed, text));
        }
        Remembering::SourceGone => {
            let text = "a message was deleted";
            return Err(refusal(ToolErrorCode::NotFound, text));
        }
        Remembering::Full => {
            let text = "the memory of this conversation is full";
            return Err(refusal(ToolErrorCode::ToolFailed, text));
        }
    }
    output.data(text);
    Ok(output)
}

impl RememberTool {
    async fn offered(&self, task: &ToolTask) -> Result<Vec<ToolFunction>, DbError> {
        let mut c = self.db.read().await?;
        let agent = profiles::find_resolved(&mut c, task.agent, task.agent_version).await?;
        let is_on = match &agent {
            Some(agent) => is_on(&mut c, task, agent).await?,
            None => false,
        };
        Ok(if is_on { vec![function()] } else { Vec::new() })
    }

    async fn call(&self, call: Call<'_>) -> Result<ToolOutput, CallError> {
        let task = call.task;
        let arguments = Arguments::of(&call.arguments, &["text", "kind", "sources"])?;
        let text = arguments.required("text")?.to_owned();
        if text.chars().count() > ITEM_CHARS_MAX {
            let rule = format!("`text` has more than {ITEM_CHARS_MAX} characters");
            return Err(refusal(ToolErrorCode::BadArguments, &rule));
        }
        let kind = arguments.text("kind")?.unwrap_or_default().to_owned();
        let handles = arguments.texts("sources", SOURCES_MAX)?;
        let mut c = self.db.read().await?;
        if rights::find(&mut c, task).await?.is_none() {
            return Err(rights::refusal().into());
        }
        let agent = profiles::find_resolved(&mut c, task.agent, task.agent_version).await?;
        let off = || refusal(ToolErrorCode::NotAllowed, "memory is off here");
        let agent = agent.ok_or_else(off)?;
        if !is_on(&mut c, task, &agent).await? {
            return Err(off());
        }
        let grounds = Grounds::read(&mut c, task, &agent, &handles).await?;
        drop(c);
        // The checks process all of the messages, so they run in a blocking thread.
        let work = slow::run(task.requester, move |_| grounds.check(&text, &kind));
        let Some((item, sources)) = work.await.unwrap_or_default() else {
            return Err(refusal(
                ToolErrorCode::BadArguments,
                "no messages of people in this conversation say this: use their words, names, and numbers",
            ));
        };
        let content = Content::parse(&item.text, task.workspace, &self.keyring)
            .map_err(|e| refusal(ToolErrorCode::BadArguments, &e.to_string()))?;
        let id = MemoryId(call.action.0);
        let new = Remembered {
            id,
            workspace: task.workspace,
            thread: task.thread,
            conversation: conversation_of(task).id(),
            kind: item.kind,
            content,
            sources: sources.clone(),
        };
        let stored = self
            .db
            .write(task.workspace.0, async move |c: &mut Conn| {
                remember::store(c, &new).await
            })
            .await?;
        output_of(stored, id, sources, item.text)
    }
}

impl ToolRunner for RememberTool {
    fn functions<'a>(
        &'a self,
        task: &'a ToolTask,
        tools: &'a [Tool],
    ) -> BoxFuture<'a, Result<Vec<ToolFunction>, DbError>> {
        async move {
            // `remember` is offered only together with other tools.
            if tools.is_empty() {
                return Ok(Vec::new());
            }
            self.offered(task).await
        }
        .boxed()
    }

    fn run<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Result<ToolOutput, CallError>> {
        self.call(call).boxed()
    }
}
