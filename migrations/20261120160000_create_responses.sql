-- Answers of `/v1/responses`. One text for SQLite and PostgreSQL.

-- A task that records a call of `/v1/responses` has no place, and no agent unless the call named one, so these columns
-- become nullable. SQLite cannot change a column, so both tables are made anew; the child goes before its parent, because
-- dropping a parent deletes what hangs on it.
drop index tasks_queue;
drop index tasks_running;
drop index tasks_place;
drop index tasks_thread;
drop index tasks_workspace;
drop index tasks_agent;
drop index tasks_trigger;
drop index tasks_retry_of;
drop index tasks_resolve;
alter table task_contexts rename to old_task_contexts;
alter table tasks rename to old_tasks;

-- The one queue, and the record of calls that never were in it. `place_id` is the thread or fork: one task per agent runs
-- there at a time. A task that `holds_place` keeps its turn while it waits. Whoever writes for a running task must name its
-- `lease_token`.
create table tasks (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    kind text not null,
    status text not null,
    agent_id uuid,
    agent_version bigint,
    channel_id uuid references channels (id) on delete cascade,
    thread_id uuid references threads (id) on delete cascade,
    fork_id uuid,
    place_id uuid,
    trigger_message_id uuid,
    reply_message_id uuid,
    notice_message_id uuid,
    requested_by uuid not null,
    retry_of uuid,
    parent_task_id uuid,
    root_task_id uuid not null,
    depth bigint not null,
    attempt bigint not null,
    counts jsonb not null,
    retry_at timestamptz,
    wait_reason text,
    holds_place boolean not null,
    input jsonb not null,
    output jsonb,
    token_usage jsonb,
    error jsonb,
    worker_id uuid,
    lease_token uuid,
    lease_until timestamptz,
    queued_at timestamptz not null,
    started_at timestamptz,
    completed_at timestamptz
);
insert into tasks (id, workspace_id, kind, status, agent_id, agent_version, channel_id, thread_id, fork_id, place_id,
    trigger_message_id, reply_message_id, notice_message_id, requested_by, retry_of, parent_task_id, root_task_id, depth,
    attempt, counts, retry_at, wait_reason, holds_place, input, output, token_usage, error, worker_id, lease_token,
    lease_until, queued_at, started_at, completed_at)
select id, workspace_id, kind, status, agent_id, agent_version, channel_id, thread_id, fork_id, place_id,
    trigger_message_id, reply_message_id, notice_message_id, requested_by, retry_of, parent_task_id, root_task_id, depth,
    attempt, counts, retry_at, wait_reason, holds_place, input, output, token_usage, error, worker_id, lease_token,
    lease_until, queued_at, started_at, completed_at
from old_tasks;

-- Exactly what a task's model was sent last, with ids and estimates; and how each call ended.
create table task_contexts (
    task_id uuid primary key references tasks (id) on delete cascade,
    manifest jsonb not null,
    attempts jsonb not null
);
insert into task_contexts (task_id, manifest, attempts) select task_id, manifest, attempts from old_task_contexts;

drop table old_task_contexts;
drop table old_tasks;

create index tasks_queue on tasks (workspace_id, id) where status = 'queued';
create index tasks_running on tasks (lease_until) where status = 'running';
create index tasks_place on tasks (place_id, agent_id) where status in ('queued', 'running');
create index tasks_thread on tasks (thread_id, id);
create index tasks_workspace on tasks (workspace_id, id);
create index tasks_agent on tasks (agent_id, id);
create index tasks_trigger on tasks (trigger_message_id);
create unique index tasks_retry_of on tasks (retry_of) where retry_of is not null;
create unique index tasks_resolve on tasks (fork_id) where kind = 'resolve' and status in ('queued', 'running');

-- Answers that are kept: `input` is what the request brought as items of a conversation, `response` the answer as it was
-- given. `previous_id` is the answer that it continues; that one may be gone already. Only `user_id` may see it, in this
-- workspace, until `expires_at`. The agent's version is kept, so that a continuation runs with the same.
create table responses (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    user_id uuid not null references users (id) on delete cascade,
    previous_id uuid,
    agent_id uuid,
    agent_version bigint,
    task_id uuid not null references tasks (id) on delete cascade,
    input jsonb not null,
    response jsonb not null,
    created_at timestamptz not null,
    expires_at timestamptz not null
);
create index responses_workspace on responses (workspace_id, id);
create index responses_user on responses (user_id, id);
create index responses_task on responses (task_id);
create index responses_expiry on responses (expires_at);
