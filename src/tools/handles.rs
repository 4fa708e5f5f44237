//! Short names of messages, files, and passages for models, such as `S1`, `F2`, and `P3`. They stay the same within a task.

use std::{
    collections::{HashMap, HashSet},
    sync::LazyLock,
};

use regex::{Match, Regex};
use uuid::Uuid;

use super::output::{Handled, PassagePlace};
use crate::{
    collections,
    db::{Conn, DbError, dialect::insert_handles},
    ids::{FileId, MessageId, TaskId},
    text_enum::text_enum,
};

text_enum! {
    /// Kind of a handle.
    enum HandleKind {
        Message = "message",
        File = "file",
        /// In a table of its own.
        Passage = "passage",
    }
}

impl HandleKind {
    fn letter(self) -> char {
        match self {
            Self::Message => 'S',
            Self::File => 'F',
            Self::Passage => 'P',
        }
    }

    /// The object with an ID; `None` for passages, which have none.
    fn source(self, id: Uuid) -> Option<Handled> {
        match self {
            Self::Message => Some(Handled::Message(MessageId(id))),
            Self::File => Some(Handled::File(FileId(id))),
            Self::Passage => None,
        }
    }
}

impl Handled {
    fn kind(self) -> HandleKind {
        match self {
            Self::Message(_) => HandleKind::Message,
            Self::File(_) => HandleKind::File,
            Self::Passage(_) => HandleKind::Passage,
        }
    }

    /// Letter of the object's handles.
    pub fn letter(self) -> char {
        self.kind().letter()
    }

    fn uuid(self) -> Uuid {
        match self {
            Self::Message(id) => id.0,
            Self::File(id) => id.0,
            Self::Passage(place) => place.file.0,
        }
    }

    fn passage(self) -> Option<PassagePlace> {
        match self {
            Self::Passage(place) => Some(place),
            Self::Message(_) | Self::File(_) => None,
        }
    }
}

/// The row of a passage with a handle.
#[derive(sqlx::FromRow)]
struct PassageRow {
    number: i64,
    file_id: FileId,
    part: i64,
    from_unit: i64,
    to_unit: i64,
}

impl PassageRow {
    fn source(&self) -> Handled {
        Handled::Passage(PassagePlace {
            file: self.file_id,
            part: self.part,
            from: self.from_unit,
            to: self.to_unit,
        })
    }
}

/// Stores the numbers of passages that an agent gets, and notes the use of their vector stores. Passages that have another number, and
/// numbers of other passages, stay.
pub async fn insert_passages(
    c: &mut Conn,
    task: TaskId,
    passages: impl Iterator<Item = (i64, PassagePlace)>,
) -> Result<(), DbError> {
    let mut files: Vec<FileId> = Vec::new();
    for (number, place) in passages {
        if !files.contains(&place.file) {
            files.push(place.file);
        }
        c.q("insert into task_passages (task_id, number, file_id, part, from_unit, to_unit) values ($1, $2, $3, $4, $5, $6) \
             on conflict do nothing")
            .bind(task)
            .bind(number)
            .bind(place.file)
            .bind(place.part)
            .bind(place.from)
            .bind(place.to)
            .run()
            .await?;
    }
    for file in files {
        for last in collections::list_uses(c, file).await? {
            collections::note_use(c, last).await?;
        }
    }
    Ok(())
}

/// Assigns handles to the distinct sources of a result. Sources that already have a handle keep it. The caller must hold the task's
/// lease.
pub async fn assign(
    c: &mut Conn,
    task: TaskId,
    sources: &[Handled],
) -> Result<HashMap<Handled, String>, DbError> {
    if sources.is_empty() {
        return Ok(HashMap::new());
    }
    let known = list(c, task).await?;
    let mut numbers: HashMap<Handled, i64> = known
        .iter()
        .map(|((_, number), of)| (*of, *number))
        .collect();
    for kind in HandleKind::ALL {
        let of_kind = known.keys().filter(|(of, _)| of == kind);
        let newest = of_kind.map(|(_, number)| *number).max().unwrap_or(0);
        let is_new = |of: &&Handled| of.kind() == *kind && !numbers.contains_key(*of);
        let new: Vec<Handled> = sources.iter().filter(is_new).copied().collect();
        if !new.is_empty() {
            if *kind == HandleKind::Passage {
                let passages = new.iter().filter_map(|of| of.passage());
                insert_passages(c, task, (newest + 1..).zip(passages)).await?;
            } else {
                let ids = new.iter().map(|of| of.uuid());
                insert_handles(c, task.0, kind.as_str(), newest, ids).await?;
            }
            numbers.extend(new.into_iter().zip(newest + 1..));
        }
    }
    let handle = |of: &Handled| (*of, format!("{}{}", of.letter(), numbers[of]));
    Ok(sources.iter().map(handle).collect())
}

/// Numbers for the handles of passages in a task, without storing them: those that have a handle keep it, and the others follow.
pub async fn number_passages(
    c: &mut Conn,
    task: TaskId,
    places: &[PassagePlace],
) -> Result<Vec<i64>, DbError> {
    if places.is_empty() {
        return Ok(Vec::new());
    }
    let rows = list_passages(c, task).await?;
    let mut newest = rows.iter().map(|row| row.number).max().unwrap_or(0);
    let mut numbers = Vec::with_capacity(places.len());
    for place in places {
        let known = rows
            .iter()
            .find(|row| row.source() == Handled::Passage(*place));
        if known.is_none() {
            newest += 1;
        }
        numbers.push(known.map_or(newest, |row| row.number));
    }
    Ok(numbers)
}

/// Handles within brackets, such as `[S1]` or `[S1, F2]`.
static BRACKETS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"\[[ \t]*[SFP]\d{1,9}(?:[ \t]*[,;][ \t]*[SFP]\d{1,9})*[ \t]*\]").ok()
});

/// Replaces the handles of one task in a text with those of another task, which receives the text. Unknown handles
/// are removed.
pub async fn translate(
    c: &mut Conn,
    from: TaskId,
    to: TaskId,
    text: &str,
) -> Result<String, DbError> {
    let found = BRACKETS
        .iter()
        .flat_map(|brackets| brackets.find_iter(text));
    let found: Vec<Match<'_>> = found.collect();
    if found.is_empty() {
        return Ok(text.to_owned());
    }
    let sources = list(c, from).await?;
    let (mut seen, mut distinct) = (HashSet::new(), Vec::new());
    for brackets in &found {
        let named = named_in(brackets.as_str(), &sources).into_iter();
        distinct.extend(named.filter(|of| seen.insert(*of)));
    }
    let handles = assign(c, to, &distinct).await?;
    let (mut translated, mut end) = (String::with_capacity(text.len()), 0);
    for brackets in &found {
        translated.push_str(&text[end..brackets.start()]);
        end = brackets.end();
        let named = named_in(brackets.as_str(), &sources);
        let names: Vec<&str> = named.iter().map(|of| handles[of].as_str()).collect();
        if !names.is_empty() {
            translated.push('[');
            translated.push_str(&names.join(", "));
            translated.push(']');
        }
    }
    translated.push_str(&text[end..]);
    Ok(translated)
}

/// Sources of a task by kind and number of their handles.
type Sources = HashMap<(HandleKind, i64), Handled>;

/// Known sources to which the handles in brackets refer.
fn named_in(brackets: &str, sources: &Sources) -> Vec<Handled> {
    let handles = brackets.split([',', ';']).filter_map(parse);
    let found = handles.filter_map(|handle| sources.get(&handle).copied());
    found.collect()
}

async fn list_passages(c: &mut Conn, task: TaskId) -> Result<Vec<PassageRow>, DbError> {
    c.q("select number, file_id, part, from_unit, to_unit from task_passages where task_id = $1 order by number limit 10000")
        .bind(task)
        .all()
        .await
}

/// Sources that have handles in a task.
async fn list(c: &mut Conn, task: TaskId) -> Result<Sources, DbError> {
    let rows: Vec<(HandleKind, i64, Uuid)> = c
        .q("select kind, number, source_id from task_handles where task_id = $1 order by kind, number limit 10000")
        .bind(task)
        .all()
        .await?;
    let mut sources: Sources = rows
        .into_iter()
        .filter_map(|(kind, number, id)| Some(((kind, number), kind.source(id)?)))
        .collect();
    let rows = list_passages(c, task).await?;
    let passages = rows.iter();
    sources.extend(passages.map(|row| ((HandleKind::Passage, row.number), row.source())));
    Ok(sources)
}

/// Kind and number of a handle. Brackets around it are ignored.
fn parse(handle: &str) -> Option<(HandleKind, i64)> {
    let handle = handle.trim_matches(['[', ']', ' ', '\t']);
    let mut letters = handle.chars();
    let letter = letters.next()?.to_ascii_uppercase();
    let mut kinds = HandleKind::ALL.iter();
    let kind = kinds.find(|kind| kind.letter() == letter)?;
    Some((*kind, letters.as_str().parse().ok()?))
}

/// Finds the source to which a handle refers in a task. Brackets around it are ignored.
pub async fn find(c: &mut Conn, task: TaskId, handle: &str) -> Result<Option<Handled>, DbError> {
    let Some((kind, number)) = parse(handle.trim()) else {
        return Ok(None);
    };
    if kind == HandleKind::Passage {
        let row: Option<PassageRow> = c
            .q("select number, file_id, part, from_unit, to_unit from task_passages where task_id = $1 and number = $2")
            .bind(task)
            .bind(number)
            .opt()
            .await?;
        return Ok(row.map(|row| row.source()));
    }
    let row: Option<(Uuid,)> = c
        .q("select source_id from task_handles where task_id = $1 and kind = $2 and number = $3")
        .bind(task)
        .bind(kind)
        .bind(number)
        .opt()
        .await?;
    Ok(row.and_then(|(id,)| kind.source(id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_are_read_with_and_without_brackets() {
        for (handle, expected) in [
            ("S1", Some((HandleKind::Message, 1))),
            ("[f12]", Some((HandleKind::File, 12))),
            (" S3 ]", Some((HandleKind::Message, 3))),
            ("[P4]", Some((HandleKind::Passage, 4))),
            ("S", None),
            ("X1", None),
            ("", None),
        ] {
            assert_eq!(parse(handle), expected, "{handle:?}");
        }
    }

    #[test]
    fn only_known_sources_of_brackets_are_named_in_their_order() {
        let (first, second) = (
            Handled::Message(MessageId(Uuid::from_u128(1))),
            Handled::File(FileId(Uuid::from_u128(2))),
        );
        let sources = Sources::from([
            ((HandleKind::Message, 1), first),
            ((HandleKind::File, 1), second),
        ]);
        assert_eq!(named_in("[F1; S9, S1]", &sources), [second, first]);
        assert!(named_in("[S2]", &sources).is_empty());
    }
}
