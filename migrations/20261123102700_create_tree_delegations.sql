-- What the loop guard compares. One text for SQLite and PostgreSQL.

-- A delegation, by the task that made it and its key there. `words` and `answer` are hashes of sets of words; `all_words` has those
-- with digits, too. `answer_words` is the number of the answer's words.
create table tree_delegations (
    task_id uuid not null references tasks (id) on delete cascade,
    child_key text not null,
    root_task_id uuid not null,
    caller_id uuid not null,
    target text not null,
    words text not null,
    all_words text not null,
    is_on_path boolean not null,
    answer text,
    answer_words bigint,
    primary key (task_id, child_key)
);
create index tree_delegations_root on tree_delegations (root_task_id, caller_id, target);

-- Turns of collaborations, by the words of their texts.
create table tree_turns (
    task_id uuid primary key references tasks (id) on delete cascade,
    root_task_id uuid not null,
    agent_id uuid not null,
    words text not null
);
create index tree_turns_root on tree_turns (root_task_id, agent_id);
