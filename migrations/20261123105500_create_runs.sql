-- Runs of workflows. One text for SQLite and PostgreSQL.

-- The run that a task belongs to, which has the UUID of the run's root task, and the step that the task works for.
alter table tasks add column run_id uuid;
alter table tasks add column step_id text;

-- One execution of a workflow in its version then. `cause_id` is the message or schedule that started it, `message_id` the message
-- that its first texts come from. `agents` has the versions of the workflow's agents, `local_date` the day on which it started there.
-- Its state is that of its root task.
create table runs (
    id uuid primary key references tasks (id) on delete cascade,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    workflow_id uuid not null references workflows (id) on delete cascade,
    workflow_version bigint not null,
    cause text not null,
    cause_id text,
    requested_by uuid not null,
    channel_id uuid references channels (id) on delete cascade,
    thread_id uuid references threads (id) on delete cascade,
    message_id uuid,
    input text not null,
    agents jsonb not null,
    local_date text not null,
    created_at timestamptz not null
);
create index runs_workspace on runs (workspace_id, id);
create index runs_workflow on runs (workflow_id, created_at);
create index runs_channel on runs (channel_id) where channel_id is not null;
create index runs_thread on runs (thread_id) where thread_id is not null;

-- Steps of a run, each once. `attempt` counts resumed steps; `jump` is the step that a condition leads to. The output is a context
-- text, so it can be gone. At `due_at`, a step that waits is looked at again.
create table run_steps (
    run_id uuid not null references runs (id) on delete cascade,
    step_id text not null,
    position bigint not null,
    kind text not null,
    state text not null,
    attempt bigint not null,
    task_id uuid,
    fork_id uuid,
    action_id uuid,
    jump text,
    output_id uuid,
    error text,
    due_at timestamptz,
    started_at timestamptz,
    ended_at timestamptz,
    primary key (run_id, step_id)
);
create index run_steps_due on run_steps (due_at) where due_at is not null;
create index run_steps_fork on run_steps (fork_id) where fork_id is not null;
