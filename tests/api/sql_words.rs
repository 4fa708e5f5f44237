//! Words in SQL must be words of the enums into which the columns are read. If a variant is renamed, a statement that still compares
//! a column with its former word fails here, with its file and line.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    sync::LazyLock,
};

use regex::Regex;

/// Columns with words of a `text_enum!`, by table.
const COLUMNS: &[(&str, &[(&str, &str)])] = &[
    ("action_needs", &[("who", "NeededPerson")]),
    (
        "actions",
        &[
            ("effect", "Effect"),
            ("granted_by", "GrantedBy"),
            ("kind", "ActionKind"),
            ("state", "ActionState"),
        ],
    ),
    ("agents", &[("status", "AgentStatus")]),
    ("bindings", &[("bound_by", "BoundBy")]),
    ("audit_log", &[("actor_kind", "AuditActorKind")]),
    ("audit_log_copy", &[("actor_kind", "AuditActorKind")]),
    ("blobs", &[("store", "BlobStore")]),
    (
        "budgets",
        &[
            ("period", "BudgetPeriod"),
            ("scope", "BudgetScope"),
            ("unit", "BudgetUnit"),
        ],
    ),
    ("channel_agents", &[("mode", "ChannelAgentMode")]),
    ("bots", &[("status", "BotStatus")]),
    (
        "bot_subscriptions",
        &[
            ("paused_reason", "SubscriptionPause"),
            ("status", "SubscriptionStatus"),
            ("transport", "BotTransport"),
        ],
    ),
    ("channels", &[("kind", "ChannelKind")]),
    ("citations", &[("source_type", "SourceType")]),
    ("compactions", &[("state", "CompactionState")]),
    ("context_parts", &[("source_type", "SourceType")]),
    ("documents", &[("state", "DocumentState")]),
    ("events", &[("type", "EventType")]),
    ("channel_members", &[("level", "FollowLevel")]),
    (
        "follows",
        &[("cause", "FollowCause"), ("level", "FollowLevel")],
    ),
    ("forks", &[("status", "ForkStatus")]),
    ("handles", &[("owner_type", "OwnerType")]),
    (
        "inbox_items",
        &[
            ("reason", "InboxReason"),
            ("state", "InboxState"),
            ("subject_type", "InboxSubjectKind"),
        ],
    ),
    (
        "deliveries",
        &[("kind", "DeliveryKind"), ("state", "DeliveryState")],
    ),
    ("mails", &[("purpose", "MailPurpose")]),
    ("exports", &[("state", "ExportState")]),
    (
        "imports",
        &[
            ("format", "ImportFormat"),
            ("phase", "ImportPhase"),
            ("state", "ImportState"),
        ],
    ),
    ("members", &[("role", "Role"), ("status", "MemberStatus")]),
    (
        "memories",
        &[
            ("kind", "MemoryKind"),
            ("origin", "MemoryOrigin"),
            ("scope", "MemoryScope"),
            ("status", "MemoryStatus"),
            ("visibility", "Visibility"),
        ],
    ),
    (
        "messages",
        &[
            ("author_type", "AuthorKind"),
            ("kind", "MessageKind"),
            ("state", "MessageState"),
        ],
    ),
    ("notification_settings", &[("mail", "MailNotifications")]),
    ("model_calls", &[("outcome", "CallOutcome")]),
    ("persona_versions", &[("pipeline_status", "PipelineStatus")]),
    (
        "resolutions",
        &[
            ("publisher_type", "ParticipantKind"),
            ("status", "ResolutionStatus"),
        ],
    ),
    ("run_steps", &[("state", "StepState")]),
    ("runs", &[("cause", "CauseType")]),
    (
        "schedules",
        &[
            ("paused_reason", "PausedReason"),
            ("status", "ScheduleStatus"),
            ("target_type", "TargetType"),
        ],
    ),
    ("task_taints", &[("kind", "TaintKind")]),
    (
        "tasks",
        &[
            ("kind", "TaskKind"),
            ("lane", "Lane"),
            ("status", "TaskStatus"),
            ("wait_reason", "WaitReason"),
        ],
    ),
    (
        "threads",
        &[("memory", "ThreadMemory"), ("status", "ThreadStatus")],
    ),
    ("users", &[("kind", "UserKind")]),
    ("workflows", &[("status", "WorkflowStatus")]),
    (
        "workspace_policies",
        &[
            ("group_mentions", "GroupMentions"),
            ("hooks", "HookCreators"),
            ("show_costs", "CostVisibility"),
        ],
    ),
];

/// Columns that are compared with other words than states, kinds, and roles.
const TEXTS: &[(&str, &str)] = &[
    ("actions", "function"),
    ("citations", "owner_type"),
    ("context_parts", "name"),
    ("meta", "key"),
];

/// Files with words that are neither compared with a column nor assigned to one, and the `text_enum!` that contains these words, if
/// any.
const RESULTS: &[(&str, Option<&str>)] = &[
    ("src/auth/demands.rs", Some("ProviderSecondFactor")),
    ("src/auth/invites.rs", Some("InviteDelivery")),
    ("src/auth/members.rs", Some("MemberStatus")),
    ("src/chat/inbox/following.rs", Some("FollowedKind")),
    ("src/chat/inbox/item.rs", Some("AuthorKind")),
    ("src/chat/inbox/rows.rs", None),
    ("src/exports/lists.rs", Some("MemberStatus")),
    ("src/memory/settings.rs", None),
    ("src/nodes/lease.rs", None),
    ("src/personal/export.rs", Some("FactorKind")),
    ("src/push/notify.rs", Some("FollowLevel")),
    ("src/replies/context.rs", Some("LeftOutReason")),
    ("src/tasks/budgets/reserve.rs", Some("BudgetUnit")),
    ("src/workflows/run.rs", Some("RunStatus")),
];

/// Quoted words of states, kinds, and roles; a wildcard for `like` can follow.
const WORD: &str = r"^[a-z][a-z0-9_]*(?:\.[a-z_]+)*(?:\.?%)?$";

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).unwrap()
}

/// Regular expressions of the scanner.
struct Patterns {
    /// Beginning of a comment, a string, a raw string, and a character or lifetime in Rust code.
    mark: Regex,
    character: Regex,
    /// A table and its alias, as in `from messages m` or `update tasks`.
    table: Regex,
    insert: Regex,
    values: Regex,
    quoted: Regex,
    word: Regex,
    /// Text before a word that is compared with a column, such as `m.kind = ` or `status not in ('queued', `.
    compared: Regex,
    /// Text before a column's default.
    default: Regex,
    case: Regex,
    /// Text that is part of a statement, not of a sentence.
    sql: Regex,
    /// The engines' own views, whose columns are not checked.
    system: Regex,
}

static PATTERNS: LazyLock<Patterns> = LazyLock::new(|| Patterns {
    mark: regex(r#"//|(?-u:\b)r#*"|"|'"#),
    character: regex(r"^'(?:\\[^']*'|[^\\']')"),
    table: regex(r"\b(?:from|join|update|into|on|table)\s+([a-z_]+)(?:\s+(?:as\s+)?([a-z_]+))?"),
    insert: regex(r"insert into (\w+) \(([^)]*)\)"),
    values: regex(r"\bvalues\s*\(|\bselect (?:distinct )?"),
    quoted: regex(r"'([^']*)'"),
    word: regex(WORD),
    compared: regex(
        r"(?:(\w+)\.)?(\b[a-z_]+|\$\d+)\s*(?:=|<>|!=|\s(?:not )?like|\s(?:not )?in\s*\((?:\s*'[^']*'\s*,)*)\s*$",
    ),
    default: regex(r"\b([a-z_]+) text not null default $"),
    case: regex(r"\bcase\b(?: (?:(\w+)\.)?([a-z_]+))?|\bend\b"),
    sql: regex(r"\b(?:select|insert|update|delete|set|case|when|where|and|or|values|table)\b"),
    system: regex(r"\b(?:pg_\w+|sqlite_\w+|pragma_\w+|information_schema)\b"),
});

/// String literals of one statement, with spaces between them.
#[derive(Default)]
struct Statement {
    sql: String,
    /// Offset of each literal in `sql` and in the file.
    pieces: Vec<(usize, usize)>,
}

impl Statement {
    /// Returns the literal that contains an offset.
    fn piece(&self, at: usize) -> &str {
        let next = self.pieces.partition_point(|(start, _)| *start <= at);
        let to = self.pieces.get(next).map_or(self.sql.len(), |next| next.0);
        &self.sql[self.pieces[next - 1].0..to]
    }

    fn offset_in_file(&self, at: usize) -> usize {
        let next = self.pieces.partition_point(|(start, _)| *start <= at);
        let (start, in_file) = self.pieces[next - 1];
        in_file + at - start
    }

    /// Returns the quoted texts with their offsets. A literal with an unpaired single quote is a sentence, and is skipped.
    fn quoted(&self) -> Vec<(usize, &str)> {
        let mut found = Vec::new();
        for (start, _) in &self.pieces {
            let piece = self.piece(*start);
            if piece.matches('\'').count().is_multiple_of(2) {
                let quoted = PATTERNS.quoted.captures_iter(piece);
                let texts = quoted.map(|text| text.get(1).unwrap());
                found.extend(texts.map(|text| (start + text.start(), text.as_str())));
            }
        }
        found
    }
}

/// Returns the ranges of string literals in Rust code, without those in comments.
fn literals(code: &str) -> Vec<(usize, usize)> {
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(mark) = PATTERNS.mark.find_at(code, at) {
        at = mark.start();
        let rest = &code[at..];
        match mark.as_str() {
            "//" => at += rest.find('\n').unwrap_or(rest.len()),
            "\"" => {
                let mut to = at + 1;
                while !code[to..].starts_with('"') {
                    let count = 1 + usize::from(code[to..].starts_with('\\'));
                    to += code[to..]
                        .chars()
                        .take(count)
                        .map(char::len_utf8)
                        .sum::<usize>();
                }
                found.push((at + 1, to));
                at = to + 1;
            }
            "'" => {
                let literal = PATTERNS.character.find(rest);
                at += literal.map_or(1, |literal| literal.end());
            }
            raw => {
                let from = mark.end();
                let end = format!("\"{}", raw.trim_matches(['r', '"']));
                let to = from + code[from..].find(&end).unwrap();
                found.push((from, to));
                at = to + end.len();
            }
        }
    }
    found
}

/// Returns the statements in Rust code without its tests: string literals with no semicolon between them.
fn statements(code: &str) -> Vec<Statement> {
    let code = code.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let mut found: Vec<Statement> = Vec::new();
    let mut end = 0;
    for (from, to) in literals(code) {
        if found.is_empty() || code[end..from].contains(';') {
            found.push(Statement::default());
        }
        let last = found.last_mut().unwrap();
        last.pieces.push((last.sql.len(), from));
        // Escapes become spaces, so that offsets stay the same.
        let text = code[from..to].replace("\\\n", "  ").replace("\\\"", " \"");
        last.sql.push_str(&text);
        last.sql.push(' ');
        end = to;
    }
    found
}

/// Statements of a migration, with spaces in place of comments.
fn migration(text: &str) -> Vec<Statement> {
    let lines = text.split_inclusive('\n').map(|line| {
        let code = line.split("--").next().unwrap();
        code.to_owned() + &" ".repeat(line.len() - code.len())
    });
    let text: String = lines.collect();
    let mut at = 0;
    let parts = text.split_inclusive(';').map(|part| {
        let pieces = vec![(0, at)];
        at += part.len();
        let sql = part.to_owned();
        Statement { sql, pieces }
    });
    parts.collect()
}

/// Table names by alias and by name.
type Tables = BTreeMap<String, BTreeSet<String>>;

fn tables(sql: &str) -> Tables {
    let mut found = Tables::new();
    for table in PATTERNS.table.captures_iter(sql) {
        let alias = table.get(2).map_or(&table[1], |alias| alias.as_str());
        for key in [alias, &table[1]] {
            let tables = found.entry(key.to_owned()).or_default();
            tables.insert(table[1].to_owned());
        }
    }
    found
}

/// Returns the start and end of each item of a list.
fn items(sql: &str, from: usize) -> Vec<(usize, usize)> {
    let (mut found, mut start, mut depth, mut is_quoted) = (Vec::new(), from, 0, false);
    let mut end = sql.len();
    for (at, c) in sql.char_indices().skip_while(|(at, _)| *at < from) {
        match c {
            '\'' => is_quoted = !is_quoted,
            _ if is_quoted => {}
            '(' => depth += 1,
            ')' if depth > 0 => depth -= 1,
            _ if depth > 0 => {}
            ',' => {
                found.push((start, at));
                start = at + 1;
            }
            _ if c == ')' || sql[at..].starts_with(" from ") => {
                end = at;
                break;
            }
            _ => {}
        }
    }
    found.push((start, end));
    found
}

/// Returns the ranges of inserted values, each with its table and column.
fn inserted(sql: &str) -> Vec<((usize, usize), String, String)> {
    let mut found = Vec::new();
    for insert in PATTERNS.insert.captures_iter(sql) {
        let from = insert.get(0).unwrap().end();
        let end = sql[from..]
            .find("insert into")
            .map_or(sql.len(), |next| from + next);
        for start in PATTERNS.values.find_iter(&sql[from..end]) {
            let before = &sql[from..from + start.start()];
            if before.matches('(').count() == before.matches(')').count() {
                let values = items(&sql[..end], from + start.end());
                let columns = insert[2].split(',').map(|name| name.trim().to_owned());
                let values = values.into_iter().zip(columns);
                found.extend(values.map(|(range, column)| (range, insert[1].to_owned(), column)));
            }
        }
    }
    found
}

/// An alias, if any, and a column; a parameter such as `$1` in place of the column for a value that the statement binds.
type Compared<'a> = (Option<&'a str>, &'a str);

/// Returns the column of the `case m.kind when` that contains the end of a text.
fn case_column(before: &str) -> Option<Compared<'_>> {
    let mut ended = 0;
    let cases: Vec<_> = PATTERNS.case.captures_iter(before).collect();
    for case in cases.iter().rev() {
        match (&case[0] == "end", ended) {
            (true, _) => ended += 1,
            (false, 0) => {
                return Some((
                    case.get(1).map(|alias| alias.as_str()),
                    case.get(2)?.as_str(),
                ));
            }
            (false, _) => ended -= 1,
        }
    }
    None
}

fn read(folder: &str, extension: &str, into: &mut Vec<(String, String)>) {
    let entries = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap();
    for entry in entries.map(Result::unwrap) {
        let path = format!("{folder}/{}", entry.file_name().to_str().unwrap());
        if entry.path().is_dir() {
            read(&path, extension, into);
        } else if path.ends_with(extension) {
            into.push((path, fs::read_to_string(entry.path()).unwrap()));
        }
    }
}

/// Columns of all tables, and words of all enums.
#[derive(Default)]
struct Schema {
    columns: BTreeMap<String, BTreeSet<String>>,
    enums: BTreeMap<String, BTreeSet<String>>,
    /// Table names by alias, collected from all statements.
    aliases: Tables,
}

impl Schema {
    fn read(migrations: &[(String, String)], source: &[(String, String)]) -> Self {
        let created = regex(r"(?s)create table (\w+) \((.*?)\n\)");
        let altered = regex(r"alter table (\w+) add column (\w+)");
        let column = regex(r"(?m)^\s+([a-z_0-9]+) ");
        let declared = regex(r"(?s)\benum (\w+) \{(.*?)\n    \}");
        let variant = regex(r#"(?m)^\s+\w+ = "([^"]*)","#);
        let mut schema = Self::default();
        for (_, text) in migrations {
            for table in created.captures_iter(text) {
                let names = column
                    .captures_iter(&table[2])
                    .map(|name| name[1].to_owned());
                let known = schema.columns.entry(table[1].to_owned()).or_default();
                known.extend(names);
            }
            for table in altered.captures_iter(text) {
                let known = schema.columns.entry(table[1].to_owned()).or_default();
                known.insert(table[2].to_owned());
            }
        }
        for (path, text) in source {
            for block in text.split("text_enum! {").skip(1) {
                let Some(declared) = declared.captures(block) else {
                    continue;
                };
                let words = variant
                    .captures_iter(&declared[2])
                    .map(|word| word[1].to_owned());
                let known = schema.enums.insert(declared[1].to_owned(), words.collect());
                assert!(
                    known.is_none(),
                    "{path}: another `text_enum!` is named {}",
                    &declared[1]
                );
            }
            for statement in statements(text) {
                for (alias, names) in tables(&statement.sql) {
                    schema.aliases.entry(alias).or_default().extend(names);
                }
            }
        }
        schema
    }

    /// Returns the tables that a column can belong to: those with its alias, or else those named nearest to it.
    fn owners(&self, (alias, column): Compared<'_>, near: &[&Tables]) -> Vec<String> {
        let has_column = |table: &&String| {
            let known = self.columns.get(*table);
            known.is_some_and(|known| known.contains(column))
        };
        // The alias of a subquery does not have columns here.
        let aliased = alias.and_then(|alias| near.iter().find_map(|tables| tables.get(alias)));
        let aliased = aliased.into_iter().map(|names| names.iter().collect());
        let named = near
            .iter()
            .map(|tables| tables.values().flatten().collect::<BTreeSet<_>>());
        let mut found = aliased.chain(named).map(|names| {
            let names = names.into_iter().filter(has_column);
            names.cloned().collect::<Vec<_>>()
        });
        found.find(|found| !found.is_empty()).unwrap_or_default()
    }

    /// The tables and the column that a quoted word is compared with or assigned to; `None` if it is neither.
    fn place(
        &self,
        statement: &Statement,
        at: usize,
        file: &Tables,
    ) -> Option<(Vec<String>, String)> {
        let sql = &statement.sql;
        let before = &sql[..at - 1];
        let compared = PATTERNS.compared.captures(before);
        let default = PATTERNS.default.captures(before);
        let mut column = if let Some(compared) = &compared {
            Some((
                compared.get(1).map(|alias| alias.as_str()),
                compared.get(2)?.as_str(),
            ))
        } else if let Some(default) = &default {
            Some((None, default.get(1)?.as_str()))
        } else if before.trim_end().ends_with("when") {
            case_column(before)
        } else {
            None
        };
        if let Some((None, value)) = column
            && value.starts_with('$')
        {
            let assigned = regex(&format!(r"\b([a-z_]+) = \{value}\b"));
            column = assigned
                .captures(sql)
                .map(|found| (None, found.extract::<1>().1[0]));
        }
        if let Some(column) = column {
            let (piece, whole) = (tables(statement.piece(at)), tables(sql));
            let owners = self.owners(column, &[&piece, &whole, file, &self.aliases]);
            return Some((owners, column.1.to_owned()));
        }
        let is_result = before.trim_end().ends_with("then") || before.trim_end().ends_with("else");
        let (_, table, column) = inserted(sql).into_iter().find(|((from, to), ..)| {
            (*from..*to).contains(&at) && (is_result || sql[*from..at - 1].trim().is_empty())
        })?;
        Some((vec![table], column))
    }

    /// Checks the words of a file; returns the errors. Adds the entries of the lists above that the file needs to `used`, as
    /// `table.column` or path.
    fn check(&self, path: &str, text: &str, used: &mut BTreeSet<String>) -> Vec<String> {
        let is_migration = Path::new(path).extension().is_some_and(|end| end == "sql");
        let found = if is_migration {
            migration(text)
        } else {
            statements(text)
        };
        let file = tables(
            &found
                .iter()
                .map(|found| found.sql.as_str())
                .collect::<String>(),
        );
        let mut wrong = Vec::new();
        for statement in &found {
            for (at, word) in statement.quoted() {
                let (piece, before) = (statement.piece(at), statement.sql[..at - 1].trim_end());
                let is_key =
                    before.ends_with("->") || before.ends_with("->>") || before.ends_with('(');
                let is_compared = PATTERNS.compared.is_match(&statement.sql[..at - 1]);
                if !PATTERNS.word.is_match(word)
                    || PATTERNS.system.is_match(piece)
                    || (is_key && !is_compared)
                    || !(is_compared || PATTERNS.sql.is_match(piece))
                {
                    continue;
                }
                let place = self.place(statement, at, &file);
                if let Err(problem) = self.check_word(path, word, place, used) {
                    let before = &text[..statement.offset_in_file(at)];
                    let line = before.matches('\n').count() + 1;
                    wrong.push(format!("{path}:{line}: {problem}"));
                }
            }
        }
        wrong
    }

    fn check_word(
        &self,
        path: &str,
        word: &str,
        place: Option<(Vec<String>, String)>,
        used: &mut BTreeSet<String>,
    ) -> Result<(), String> {
        let kinds: Vec<&str> = if let Some((owners, column)) = &place {
            let names = |owner: &&String| TEXTS.contains(&(owner.as_str(), column.as_str()));
            if let Some(owner) = owners.iter().find(names) {
                used.insert(format!("{owner}.{column}"));
                return Ok(());
            }
            let columns = COLUMNS.iter().flat_map(|(table, columns)| {
                columns
                    .iter()
                    .map(move |(column, kind)| (*table, *column, *kind))
            });
            let of = columns
                .filter(|(table, name, _)| name == column && owners.iter().any(|o| o == table));
            of.map(|(table, name, kind)| {
                used.insert(format!("{table}.{name}"));
                kind
            })
            .collect()
        } else if let Some((_, kind)) = RESULTS.iter().find(|(file, _)| *file == path) {
            used.insert(path.to_owned());
            let Some(kind) = kind else {
                return Ok(());
            };
            vec![kind]
        } else {
            Vec::new()
        };
        if kinds.is_empty() {
            let of = place.map_or_else(
                || "no column".to_owned(),
                |(owners, column)| format!("the column {}.{column}", owners.join("|")),
            );
            return Err(format!(
                "`{word}` is of {of}: add it to the lists of this test"
            ));
        }
        let is_of = |kind: &&str| {
            let words = self
                .enums
                .get(*kind)
                .unwrap_or_else(|| panic!("no `text_enum!` is named {kind}"));
            words.contains(word)
                || word
                    .strip_suffix('%')
                    .is_some_and(|start| words.iter().any(|w| w.starts_with(start)))
        };
        let is_known = kinds.iter().any(is_of);
        is_known
            .then_some(())
            .ok_or_else(|| format!("{} has no `{word}`", kinds.join(" or ")))
    }
}

fn schema_and_files() -> (Schema, Vec<(String, String)>) {
    let (mut files, mut migrations) = (Vec::new(), Vec::new());
    read("src", ".rs", &mut files);
    files.retain(|(path, _)| !path.contains("/tests"));
    read("migrations", ".sql", &mut migrations);
    let schema = Schema::read(&migrations, &files);
    files.extend(migrations);
    (schema, files)
}

#[test]
fn words_in_statements_are_those_of_the_enums() {
    let (schema, files) = schema_and_files();
    let mut used = BTreeSet::new();
    let wrong: Vec<String> = files
        .iter()
        .flat_map(|(path, text)| schema.check(path, text, &mut used))
        .collect();
    assert_eq!(wrong, Vec::<String>::new());
    let columns = COLUMNS.iter().flat_map(|(table, columns)| {
        columns
            .iter()
            .map(move |(column, _)| format!("{table}.{column}"))
    });
    let texts = TEXTS
        .iter()
        .map(|(table, column)| format!("{table}.{column}"));
    let results = RESULTS.iter().map(|(path, _)| (*path).to_owned());
    let listed: BTreeSet<String> = columns.chain(texts).chain(results).collect();
    let unused: Vec<_> = listed.difference(&used).collect();
    assert!(unused.is_empty(), "no statement needs {unused:?}");
}

#[test]
fn unknown_words_are_found_wherever_a_statement_has_them() {
    let (schema, _) = schema_and_files();
    let source = r#"
        c.q("select m.id from messages m join tasks t on t.id = m.task_id where m.kind <> 'text' and t.status = 'runing'")
        c.q(concat!(
            "select m.id from messages m \
             where m.state not in ('streaming', 'done') and ",
            is_quiet!(),
            " and case m.author_type when 'human' then 1 when 'robot' then 2 end = 1"
        ));
        // 'Comments' don't count: kind = 'comment'.
        let sentence = "the channel's kind = 'secret'";
        c.q("update tasks set status = $2, lane = case when $2 = 'waiting' then 'slow' else 'background' end where id = $1");
        c.q("insert into tasks (id, status, kind) select m.id, 'queued', case when m.seq > 1 then 'answer' else 'reply' end from messages m");
        c.q("select 1 from tasks where input ->> 'kind' = $1 and requested_by = 'somebody'");
        c.q("with path as (select kind from tasks) select 1 from path p where p.kind = 'path'");
    "#;
    let wrong = schema.check("src/sample.rs", source, &mut BTreeSet::new());
    let expected = [
        "2: TaskStatus has no `runing`",
        "5: MessageState has no `done`",
        "7: AuthorKind has no `robot`",
        "11: TaskStatus has no `waiting`",
        "11: `slow` is of no column: add it to the lists of this test",
        "11: `background` is of no column: add it to the lists of this test",
        "12: TaskKind has no `answer`",
        "13: `somebody` is of the column tasks.requested_by: add it to the lists of this test",
        "14: TaskKind has no `path`",
    ];
    assert_eq!(wrong, expected.map(|line| format!("src/sample.rs:{line}")));
    let migration = "create table x (\n    id uuid\n);\n-- tasks\nalter table tasks add column lane text not null default 'front';";
    let wrong = schema.check("migrations/x.sql", migration, &mut BTreeSet::new());
    assert_eq!(wrong, ["migrations/x.sql:5: Lane has no `front`"]);
}
