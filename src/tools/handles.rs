//! Short names of messages and files for models, such as `S1` and `F2`. They stay the same within a task.

use std::{collections::HashMap, sync::LazyLock};

use regex::Regex;
use uuid::Uuid;

use super::output::Handled;
use crate::{
    db::{Conn, DbError},
    ids::{FileId, MessageId, TaskId},
    text_enum::text_enum,
};

text_enum! {
    /// Kind of a handle.
    enum HandleKind {
        Message = "message",
        File = "file",
    }
}

impl HandleKind {
    fn letter(self) -> char {
        match self {
            Self::Message => 'S',
            Self::File => 'F',
        }
    }
}

impl Handled {
    fn kind(self) -> HandleKind {
        match self {
            Self::Message(_) => HandleKind::Message,
            Self::File(_) => HandleKind::File,
        }
    }

    fn uuid(self) -> Uuid {
        match self {
            Self::Message(id) => id.0,
            Self::File(id) => id.0,
        }
    }
}

/// Gives handles to sources of a result; known ones keep theirs. The caller holds the task's lease.
pub async fn assign(
    c: &mut Conn,
    task: TaskId,
    sources: &[Handled],
) -> Result<HashMap<Handled, String>, DbError> {
    let mut handles = HashMap::new();
    for source in sources {
        let known: Option<(i64,)> = c
            .q("select number from task_handles where task_id = $1 and kind = $2 and source_id = $3")
            .bind(task)
            .bind(source.kind())
            .bind(source.uuid())
            .opt()
            .await?;
        let number = match known {
            Some((number,)) => number,
            None => {
                c.q("insert into task_handles (task_id, kind, number, source_id) \
                     values ($1, $2, (select coalesce(max(number), 0) + 1 from task_handles where task_id = $1 and kind = $2), $3) \
                     returning number")
                    .bind(task)
                    .bind(source.kind())
                    .bind(source.uuid())
                    .value()
                    .await?
            }
        };
        handles.insert(*source, format!("{}{number}", source.kind().letter()));
    }
    Ok(handles)
}

/// Handles within brackets, such as `[S1]` or `[S1, F2]`.
static BRACKETS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"\[[ \t]*[SF]\d{1,9}(?:[ \t]*[,;][ \t]*[SF]\d{1,9})*[ \t]*\]").ok()
});

/// Replaces the handles of one task in a text by those of another one, which gets the text. Unknown ones are removed.
pub async fn translate(
    c: &mut Conn,
    (from, to): (TaskId, TaskId),
    text: &str,
) -> Result<String, DbError> {
    let Some(brackets) = BRACKETS.as_ref() else {
        return Ok(text.to_owned());
    };
    let (mut translated, mut end) = (String::with_capacity(text.len()), 0);
    for found in brackets.find_iter(text) {
        translated.push_str(&text[end..found.start()]);
        end = found.end();
        let mut known = Vec::new();
        for handle in found.as_str().split([',', ';']) {
            let handle = handle.trim_matches(['[', ']', ' ', '\t']);
            known.extend(find(c, from, handle).await?);
        }
        let handles = assign(c, to, &known).await?;
        let handles: Vec<&str> = known.iter().map(|of| handles[of].as_str()).collect();
        if !handles.is_empty() {
            translated.push('[');
            translated.push_str(&handles.join(", "));
            translated.push(']');
        }
    }
    translated.push_str(&text[end..]);
    Ok(translated)
}

/// Finds the source that a handle names in a task. Brackets around it are ignored.
pub async fn find(c: &mut Conn, task: TaskId, handle: &str) -> Result<Option<Handled>, DbError> {
    let handle = handle.trim().trim_matches(['[', ']']);
    let mut letters = handle.chars();
    let letter = letters.next().map(|c| c.to_ascii_uppercase());
    let kinds = [HandleKind::Message, HandleKind::File];
    let kind = kinds.into_iter().find(|kind| Some(kind.letter()) == letter);
    let Some((kind, number)) = kind.zip(letters.as_str().parse::<i64>().ok()) else {
        return Ok(None);
    };
    let row: Option<(Uuid,)> = c
        .q("select source_id from task_handles where task_id = $1 and kind = $2 and number = $3")
        .bind(task)
        .bind(kind)
        .bind(number)
        .opt()
        .await?;
    Ok(row.map(|(id,)| match kind {
        HandleKind::Message => Handled::Message(MessageId(id)),
        HandleKind::File => Handled::File(FileId(id)),
    }))
}
