-- Calls of tools. One text for SQLite and PostgreSQL.

-- A task that waits for a person is `parked`: it is queued, but not due, takes no turn, and does not count toward the queue's
-- limit. `round` counts model calls that were followed by calls of tools.
alter table tasks add column round bigint not null default 0;
alter table tasks add column parked boolean not null default FALSE;
-- The next task is found without reading those that wait for people.
create index tasks_due on tasks (workspace_id, id) where status = 'queued' and not parked;
create index tasks_parked on tasks (workspace_id, id) where parked;
-- Only tasks with rounds have actions.
create index tasks_requester on tasks (workspace_id, requested_by) where round > 0;

-- Text that the model wrote in a round, for its next call. Rows end with the task, whose reply has the text.
create table task_rounds (
    task_id uuid not null references tasks (id) on delete cascade,
    round bigint not null,
    text text not null,
    calls bigint not null,
    primary key (task_id, round)
);

-- What a task has seen besides its requester's own messages. `source_id` is the author of messages, or the file; `label` names
-- it on the card of an approval.
create table task_taints (
    task_id uuid not null references tasks (id) on delete cascade,
    kind text not null,
    source_id uuid not null,
    label text not null,
    primary key (task_id, kind, source_id)
);
create index task_taints_source on task_taints (source_id);

-- Short names of messages and files in the results of a task's calls.
create table task_handles (
    task_id uuid not null references tasks (id) on delete cascade,
    kind text not null,
    number bigint not null,
    source_id uuid not null,
    primary key (task_id, kind, number),
    unique (task_id, kind, source_id)
);

-- Calls of tools. Arguments and result are context texts, so they can be gone. `call_hash` finds equal calls; the approver's
-- `arguments_hash` also covers task, round, and definition. Only the holder of `lease_token` stores the result. `hits` counts what
-- a search found.
create table actions (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    task_id uuid not null references tasks (id) on delete cascade,
    kind text not null,
    round bigint not null,
    call bigint not null,
    call_id text not null,
    name text not null,
    function text not null,
    title text not null,
    tool_id uuid,
    host text,
    effect text not null,
    state text not null,
    definition_hash text not null,
    arguments_hash text not null,
    call_hash text not null,
    arguments_id uuid not null,
    result_id uuid,
    sources jsonb not null,
    needs jsonb not null,
    granted_by text,
    is_grantable boolean not null,
    grant_id uuid,
    hits bigint,
    error text,
    note text,
    runs bigint not null,
    lease_token uuid,
    timeout_s bigint not null,
    is_extended boolean not null,
    expires_at timestamptz,
    granted_at timestamptz,
    repeats jsonb,
    created_at timestamptz not null,
    started_at timestamptz,
    ended_at timestamptz,
    unique (task_id, round, call)
);
create index actions_workspace on actions (workspace_id, id);
create index actions_open on actions (workspace_id, id) where state in ('waiting', 'unknown');
create index actions_expiry on actions (expires_at) where state = 'waiting';
create index actions_running on actions (started_at) where state = 'running';

-- Permissions for calls of a function without a question, for an hour. `uses` counts the calls.
create table grants (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    agent_id uuid not null references agents (id) on delete cascade,
    requested_by uuid not null,
    thread_id uuid not null references threads (id) on delete cascade,
    fork_id uuid,
    tool_id uuid,
    function text not null,
    title text not null,
    host text,
    sources jsonb not null,
    uses bigint not null,
    created_at timestamptz not null,
    expires_at timestamptz not null
);
create index grants_person on grants (workspace_id, requested_by, id);
create index grants_agent on grants (agent_id);
create index grants_thread on grants (thread_id);

-- Who must approve actions of agents: a default for the workspace, and rules for single actions.
alter table workspace_policies add column trust_level bigint not null default 2;
alter table workspace_policies add column approval_rules jsonb not null default '[]';
alter table workspace_policies add column trusted_domains jsonb not null default '[]';

-- Earlier versions did not record what a reply was made of.
insert into task_taints (task_id, kind, source_id, label)
    select id, 'reply', id, 'earlier replies' from tasks where kind = 'reply' and reply_message_id is not null;
