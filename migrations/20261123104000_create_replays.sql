-- Replays of replies with a draft of an agent. One text for SQLite and PostgreSQL.

-- A root task `replay` for one person, for 7 days. `draft` is the resolved profile with its names.
create table replays (
    task_id uuid primary key references tasks (id) on delete cascade,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    user_id uuid not null,
    agent_id uuid not null,
    draft jsonb not null,
    created_at timestamptz not null
);
create index replays_person on replays (workspace_id, user_id, task_id);
create index replays_age on replays (created_at);

-- A reply that the child `task_id` writes again. The answer is one context text (JSON) that cites the prompt of the reply, so it can be
-- gone. Without an answer, `skip_reason` or the error of the task is set once the task has ended.
create table replay_cases (
    task_id uuid primary key references tasks (id) on delete cascade,
    replay_id uuid not null references replays (task_id) on delete cascade,
    reply_task_id uuid not null,
    is_partial boolean not null default FALSE,
    skip_reason text,
    text_id uuid
);
create index replay_cases_replay on replay_cases (replay_id, reply_task_id);
