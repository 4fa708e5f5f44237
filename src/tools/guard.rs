//! The loop guard: a score for each tree of tasks, computed without a model. The score rises when agents repeat themselves. It falls
//! to 0 with any other event, except that an answer after a rejected delegation leaves it unchanged. The values were tuned on agents
//! that delegate in circles and on runs without repetition.
//!
//! Two texts count as the same if they have the same set of words. Numbers that agents increment themselves are ignored; numbers that
//! belong to the task are not.

use std::collections::BTreeSet;

use sha2::{Digest, Sha256};

use crate::{
    chat::search::folded,
    db::{Conn, Db, DbError},
    ids::{AgentId, TaskId, UserId},
    tasks::{
        GUARD_MIN, Task,
        queue::{self, GUARD_OPTION},
        slow,
    },
};

/// Minimum number of words for a text to count as a real answer to a delegation.
const ANSWER_WORDS_MIN: i64 = 3;

/// A delegation of a round.
pub struct Delegation {
    /// Key of the call: `ROUND.CALL`.
    pub key: String,
    /// Handle as the model wrote it.
    pub target: String,
    /// All arguments, as text.
    pub text: String,
    /// True if the target is the caller or an agent above it, so that the delegation is rejected.
    pub is_on_path: bool,
}

/// An event in a tree that changes its score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    /// A round with delegations.
    Round { is_on_path: bool, is_repeated: bool },
    /// The answer to a delegation.
    Answer {
        is_repeated: bool,
        /// True if a delegation was rejected in the answering task or below it.
        is_after_refusal: bool,
    },
    /// A turn of a collaboration.
    Turn { is_repeated: bool },
}

impl Event {
    fn score_after(self, score: i64) -> i64 {
        match self {
            Self::Round {
                is_on_path: true, ..
            }
            | Self::Turn { is_repeated: true } => score + 2,
            Self::Round {
                is_repeated: true, ..
            }
            | Self::Answer {
                is_repeated: true, ..
            } => score + 1,
            Self::Answer {
                is_after_refusal: true,
                ..
            } => score,
            Self::Round { .. } | Self::Answer { .. } | Self::Turn { .. } => 0,
        }
    }
}

/// Set of the words of a text.
struct Words {
    plain: BTreeSet<String>,
    with_digits: BTreeSet<String>,
}

impl Words {
    fn of(text: &str) -> Self {
        let folded = folded(text);
        let words = folded.split_whitespace().map(str::to_owned);
        let (with_digits, plain) = words.partition(|word| word.chars().any(char::is_numeric));
        Self { plain, with_digits }
    }

    /// Hash of the words, including only those numbers that are `known`.
    fn hash(&self, known: &BTreeSet<String>) -> String {
        let numbers = self.with_digits.intersection(known);
        let words: BTreeSet<&String> = self.plain.iter().chain(numbers).collect();
        let mut hash = Sha256::new();
        for word in words {
            hash.update(word);
            hash.update(" ");
        }
        hex::encode(hash.finalize())
    }

    fn hash_of_all(&self) -> String {
        self.hash(&self.with_digits)
    }

    fn hash_without_numbers(&self) -> String {
        self.hash(&BTreeSet::new())
    }
}

/// Hash of the target of a delegation. Only the hash is stored, because a model can write any text as the target.
fn target_hash(target: &str) -> String {
    hex::encode(Sha256::digest(folded(target)))
}

/// Condition for earlier delegations of the tree `$1` with the same caller `$2`, target `$3`, and words `$4`. If the answer had
/// too few words, numbers matter as well, so all words `$5` are compared.
macro_rules! is_same_delegation {
    () => {
        "root_task_id = $1 and caller_id = $2 and target = $3 and words = $4 and (coalesce(answer_words, $6) >= $6 or all_words = $5)"
    };
}

/// Records the delegations of a round, in the transaction that stores the round. `known` contains the numbers that belong to the
/// work. Returns true if the tree must stop.
pub async fn note_round(
    c: &mut Conn,
    task: &Task,
    delegations: &[Delegation],
    KnownNumbers(known): &KnownNumbers,
) -> Result<bool, DbError> {
    let Some(caller) = task.agent_id.filter(|_| !delegations.is_empty()) else {
        return Ok(false);
    };
    let texts: Vec<Words> = delegations.iter().map(|d| Words::of(&d.text)).collect();
    let mut is_repeated = true;
    for (delegation, words) in delegations.iter().zip(&texts) {
        let same: bool = c
            .q(concat!(
                "select exists (select 1 from tree_delegations where ",
                is_same_delegation!(),
                ")"
            ))
            .bind(task.root_task_id)
            .bind(caller)
            .bind(target_hash(&delegation.target))
            .bind(words.hash(known))
            .bind(words.hash_of_all())
            .bind(ANSWER_WORDS_MIN)
            .value()
            .await?;
        is_repeated &= same;
    }
    for (delegation, words) in delegations.iter().zip(&texts) {
        c.q("insert into tree_delegations (task_id, child_key, root_task_id, caller_id, target, words, all_words, is_on_path) \
             values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict do nothing")
            .bind(task.id)
            .bind(delegation.key.clone())
            .bind(task.root_task_id)
            .bind(caller)
            .bind(target_hash(&delegation.target))
            .bind(words.hash(known))
            .bind(words.hash_of_all())
            .bind(delegation.is_on_path)
            .run()
            .await?;
    }
    let event = Event::Round {
        is_on_path: delegations.iter().any(|d| d.is_on_path),
        is_repeated,
    };
    score(c, task.root_task_id, event).await
}

#[derive(sqlx::FromRow)]
struct Asked {
    child_key: String,
    caller_id: AgentId,
    target: String,
    words: String,
    all_words: String,
}

/// Records the answer to a delegation, in the transaction that ends its task. Returns true if the tree must stop.
pub async fn note_answer(c: &mut Conn, task: &Task, text: &str) -> Result<bool, DbError> {
    let Some(caller) = task.parent_task_id else {
        return Ok(false);
    };
    let asked: Option<Asked> = c
        .q("select d.child_key, d.caller_id, d.target, d.words, d.all_words from tree_delegations d \
            join tasks t on t.parent_task_id = d.task_id and t.child_key = d.child_key where t.id = $1")
        .bind(task.id)
        .opt()
        .await?;
    let Some(asked) = asked else { return Ok(false) };
    let words = Words::of(text);
    let answer = words.hash_without_numbers();
    let is_repeated: bool = c
        .q(concat!(
            "select exists (select 1 from tree_delegations where ",
            is_same_delegation!(),
            " and answer = $7)"
        ))
        .bind(task.root_task_id)
        .bind(asked.caller_id)
        .bind(asked.target)
        .bind(asked.words)
        .bind(asked.all_words)
        .bind(ANSWER_WORDS_MIN)
        .bind(answer.clone())
        .value()
        .await?;
    c.q("update tree_delegations set answer = $3, answer_words = $4 where task_id = $1 and child_key = $2")
        .bind(caller)
        .bind(asked.child_key)
        .bind(answer)
        .bind(i64::try_from(words.plain.len() + words.with_digits.len()).unwrap_or(i64::MAX))
        .run()
        .await?;
    let event = Event::Answer {
        is_repeated,
        is_after_refusal: has_refusal(c, task.id).await?,
    };
    score(c, task.root_task_id, event).await
}

/// Records a turn of a collaboration, in the transaction that ends its task. Returns true if the tree must stop.
pub async fn note_turn(c: &mut Conn, task: &Task, text: &str) -> Result<bool, DbError> {
    let Some(agent) = task.agent_id else {
        return Ok(false);
    };
    let words = Words::of(text).hash_without_numbers();
    let is_repeated: bool = c
        .q("select exists (select 1 from tree_turns where root_task_id = $1 and agent_id = $2 and words = $3)")
        .bind(task.root_task_id)
        .bind(agent)
        .bind(words.clone())
        .value()
        .await?;
    c.q("insert into tree_turns (task_id, root_task_id, agent_id, words) values ($1, $2, $3, $4) on conflict do nothing")
        .bind(task.id)
        .bind(task.root_task_id)
        .bind(agent)
        .bind(words)
        .run()
        .await?;
    score(c, task.root_task_id, Event::Turn { is_repeated }).await
}

/// Stores the score of a tree after an event. Returns true if the tree must stop.
async fn score(c: &mut Conn, root: TaskId, event: Event) -> Result<bool, DbError> {
    let score = event.score_after(queue::score_of(c, root).await?);
    queue::set_score(c, root, score).await?;
    let root = queue::find_task(c, root).await?;
    let options = root.and_then(|root| root.input.0.options);
    let limit = options.and_then(|options| options.get(GUARD_OPTION)?.as_i64());
    Ok(score >= limit.unwrap_or(GUARD_MIN))
}

/// Checks whether a delegation was rejected in a task or below it, because its target was on the path.
async fn has_refusal(c: &mut Conn, task: TaskId) -> Result<bool, DbError> {
    c.q("with recursive below (id) as (select id from tasks where id = $1 union \
         select t.id from tasks t join below b on t.parent_task_id = b.id) \
         select exists (select 1 from tree_delegations d join below b on b.id = d.task_id where d.is_on_path)")
        .bind(task)
        .value()
        .await
}

/// Numbers that belong to the work of a tree, as opposed to numbers that agents increment themselves.
#[derive(Debug, Default)]
pub struct KnownNumbers(BTreeSet<String>);

/// Finds the numbers in `text` that belong to the work of the task's tree, because they also occur in one of the following texts:
///
/// - the prompts of the task, of the root of its tree, or of a step of its run, except for briefs by agents
/// - the trigger messages of these tasks
/// - the result of a tool in the tree
///
/// Reads all of these texts, which takes too long for a write transaction.
pub async fn known_numbers(
    db: &Db,
    person: UserId,
    task: TaskId,
    text: &str,
) -> Result<KnownNumbers, DbError> {
    let numbers = Words::of(text).with_digits;
    if numbers.is_empty() {
        return Ok(KnownNumbers::default());
    }
    let texts: Vec<(String,)> = db
        .read()
        .await?
        .q("with here (id, root_task_id) as (select id, root_task_id from tasks where id = $1), \
            work (id, trigger_message_id, step_id) as \
            (select w.id, w.trigger_message_id, w.step_id from tasks w join here h on w.id in (h.id, h.root_task_id) \
            union select w.id, w.trigger_message_id, w.step_id from tasks w join here h on w.root_task_id = h.root_task_id \
            where w.parent_task_id is not null and w.step_id is not null) \
            select x.text from context_parts p join work w on w.id = p.task_id join context_texts x on x.id = p.text_id \
            where p.name not in ('round', 'call', 'result') and (p.name <> 'brief' or w.step_id is not null) \
            union all select m.content from messages m join work w on w.trigger_message_id = m.id \
            union all select x.text from tasks t join actions a on a.task_id = t.id join context_texts x on x.id = a.result_id \
            where (t.id = (select root_task_id from here) \
            or (t.root_task_id = (select root_task_id from here) and t.parent_task_id is not null)) \
            and a.function <> 'delegate' limit 1000")
        .bind(task)
        .all()
        .await?;
    let found = slow::run(person, move |_| numbers_in(&texts, numbers)).await;
    // If the search fails, no numbers are known and the guard is stricter.
    Ok(KnownNumbers(found.unwrap_or_default()))
}

/// Filters `numbers` by whether they occur in the texts.
fn numbers_in(texts: &[(String,)], mut numbers: BTreeSet<String>) -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    for (text,) in texts {
        let found = Words::of(text).with_digits;
        known.extend(found.into_iter().filter(|word| numbers.remove(word)));
        if numbers.is_empty() {
            break;
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(a: &str, b: &str, known: &str) -> bool {
        let known = Words::of(known).with_digits;
        Words::of(a).hash(&known) == Words::of(b).hash(&known)
    }

    #[test]
    fn texts_with_the_same_words_are_the_same_in_any_order() {
        assert!(same(
            "Check the plan, please.",
            "PLEASE check the the plan",
            ""
        ));
        assert!(!same("Check the plan", "Check the budget", ""));
    }

    #[test]
    fn numbers_count_only_if_the_task_contains_them() {
        assert!(same("Review, attempt 1", "Review, attempt 2", ""));
        assert!(!same("Review item 1", "Review item 2", "Items: 1, 2, 3"));
        assert!(same(
            "Review item 1, attempt 8",
            "Review item 1, attempt 9",
            "Items: 1, 2"
        ));
    }

    #[test]
    fn the_score_rises_with_repetitions_and_falls_with_everything_else() {
        let round = |is_on_path, is_repeated| Event::Round {
            is_on_path,
            is_repeated,
        };
        let answer = |is_repeated, is_after_refusal| Event::Answer {
            is_repeated,
            is_after_refusal,
        };
        for (event, expected) in [
            (round(true, false), 5),
            (round(true, true), 5),
            (round(false, true), 4),
            (round(false, false), 0),
            (answer(true, true), 4),
            (answer(true, false), 4),
            (answer(false, true), 3),
            (answer(false, false), 0),
            (Event::Turn { is_repeated: true }, 5),
            (Event::Turn { is_repeated: false }, 0),
        ] {
            assert_eq!(event.score_after(3), expected, "{event:?}");
        }
    }
}
