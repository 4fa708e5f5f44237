-- Calls of models. One text for SQLite and PostgreSQL.

-- One row for each call, stored before the request leaves, so that canceled, failed, and lost calls count. `input` and `output` are
-- tokens: estimates until the call ends, and afterwards if `estimated`. No foreign key for the task: the row of an API call's task is
-- written after its calls. Without a task: the test of a connection.
create table model_calls (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    task_id uuid,
    root_task_id uuid,
    attempt bigint not null,
    purpose text not null,
    user_id uuid not null,
    agent_id uuid,
    model text not null,
    input bigint not null,
    output bigint not null,
    cost_usd double precision,
    estimated boolean not null,
    outcome text not null,
    started_at timestamptz not null,
    ended_at timestamptz
);
create index model_calls_task on model_calls (task_id);
create index model_calls_user on model_calls (workspace_id, user_id, id);
create index model_calls_age on model_calls (started_at);
create index model_calls_open on model_calls (root_task_id) where outcome = 'running';
