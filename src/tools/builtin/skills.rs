//! The function `read_skill`, with which agents read their skills.

use futures::{FutureExt, future::BoxFuture};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::places;
use crate::{
    agents::{
        profiles::{self, ActionName, Tool},
        skills::{READ_SKILL, SkillPlace, UsableSkill, find_usable_skills, read_skill_file},
    },
    db::{Conn, Db, DbError, Share},
    model::FunctionTool,
    tool_fault::{ToolErrorCode, ToolFault},
    tools::{
        arguments::Arguments,
        function::ToolFunction,
        output::{ToolOutput, one_line},
        rights::{self, Rights},
        runner::{Call, CallError, ToolRunner, ToolTask},
        taint::AuthoredText,
    },
};

/// Name of skills in `AuthoredText::part`.
pub const SKILLS: &str = "skills";
const TITLE: &str = "Read a skill";

/// Runs `read_skill`.
pub struct SkillTool {
    pub db: Db,
}

fn function() -> ToolFunction {
    let text = |description: &str| json!({"type": "string", "description": description});
    let definition = FunctionTool {
        name: READ_SKILL.to_owned(),
        description: Some("Read a file of a skill, up to 32 KiB.".to_owned()),
        parameters: Some(json!({
            "type": "object",
            "properties": {
                "name": text("Name of the skill."),
                "path": text("File of the skill; SKILL.md by default."),
            },
            "required": ["name"],
            "additionalProperties": false,
        })),
        strict: None,
    };
    ToolFunction {
        // Skills are instructions, whose author is known, and not data.
        source: String::new(),
        ..ToolFunction::built_in(ActionName::Read.as_str(), TITLE, definition)
    }
}

/// Skills of the agent that the task can use.
async fn usable(
    c: &mut Conn,
    task: &ToolTask,
    rights: &Rights,
) -> Result<Vec<UsableSkill>, DbError> {
    let Some(list) = &task.skills else {
        return Ok(Vec::new());
    };
    let place = SkillPlace {
        workspace: task.workspace,
        requester: rights.requester,
        channel: task.channel,
        shared_in: rights.shared_in,
    };
    find_usable_skills(c, &place, list).await
}

impl SkillTool {
    fn share(task: &ToolTask) -> Share {
        Share {
            person: task.requester.0,
            workspace: task.workspace.0,
        }
    }

    async fn offered(&self, task: &ToolTask) -> Result<Vec<ToolFunction>, DbError> {
        if task.skills.is_none() {
            return Ok(Vec::new());
        }
        let mut c = self.db.scan(Self::share(task)).await?;
        let skills = match rights::find(&mut c, task).await? {
            Some(rights) => usable(&mut c, task, &rights).await?,
            None => Vec::new(),
        };
        Ok(if skills.is_empty() {
            Vec::new()
        } else {
            vec![function()]
        })
    }

    async fn call(&self, call: Call<'_>) -> Result<ToolOutput, CallError> {
        let arguments = Arguments::of(&call.arguments, &["name", "path"])?;
        let (name, path) = (arguments.required("name")?, arguments.text("path")?);
        let task = call.task;
        let mut c = self.db.scan(Self::share(task)).await?;
        let Some(rights) = rights::find(&mut c, task).await? else {
            return Err(rights::refusal().into());
        };
        let skills = usable(&mut c, task, &rights).await?;
        let skill = skills
            .into_iter()
            .find(|skill| skill.name == name)
            .ok_or_else(|| places::missing(&format!("no skill `{}`", one_line(name))))?;
        read(&mut c, task, &skill, path).await
    }
}

async fn read(
    c: &mut Conn,
    task: &ToolTask,
    skill: &UsableSkill,
    path: Option<&str>,
) -> Result<ToolOutput, CallError> {
    let (content, paths) = read_skill_file(c, skill.id, path).await?;
    let files = paths.join(", ");
    let Some(content) = content else {
        let path = one_line(path.unwrap_or_default());
        let text = format!("the skill has no file `{path}`: it has {files}");
        return Err(ToolFault::new(ToolErrorCode::NotFound, text).into());
    };
    let owner = profiles::shown_name(c, task.agent).await?;
    let text = AuthoredText {
        agent_id: Some(task.agent),
        owner,
        part: SKILLS,
        author: Some(skill.written_by),
        text_hash: Sha256::digest(&content).into(),
    };
    let writer: Option<(String,)> = c
        .q("select name from users where id = $1")
        .bind(skill.written_by)
        .opt()
        .await?;
    let writer = writer.map_or_else(|| "a former member".to_owned(), |(name,)| name);
    let mut source = text.source();
    source.label = format!("{}, by {writer}", source.label);
    let mut output = ToolOutput::default();
    output.taints.push(source);
    if paths.len() > 1 {
        output.own("Files: ");
        output.data(files);
        output.own("\n\n");
    }
    output.data(content);
    Ok(output)
}

impl ToolRunner for SkillTool {
    fn functions<'a>(
        &'a self,
        task: &'a ToolTask,
        _tools: &'a [Tool],
    ) -> BoxFuture<'a, Result<Vec<ToolFunction>, DbError>> {
        self.offered(task).boxed()
    }

    fn run<'a>(&'a self, call: Call<'a>) -> BoxFuture<'a, Result<ToolOutput, CallError>> {
        self.call(call).boxed()
    }
}
