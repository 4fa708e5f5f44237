-- Schedules: prompts for agents at certain times. One text for SQLite and PostgreSQL.

-- `prompt` is null for a heartbeat, which reads a file of its agent. Without `thread_id`, each slot starts a thread in the channel.
-- `is_by_key`: an API key wrote the prompt. `failures` counts the tasks that failed since the last one that completed.
-- `last_task_id` is the newest task, of a slot or started by hand.
create table schedules (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    name text not null,
    cron text not null,
    timezone text not null,
    agent_id uuid not null,
    prompt text,
    channel_id uuid not null references channels (id) on delete cascade,
    thread_id uuid references threads (id) on delete cascade,
    missed text not null,
    status text not null,
    paused_reason text,
    owner_id uuid not null,
    is_by_key boolean not null,
    next_run_at timestamptz,
    last_task_id uuid,
    failures bigint not null,
    version bigint not null,
    created_at timestamptz not null,
    updated_at timestamptz not null
);
create index schedules_due on schedules (next_run_at) where status = 'active';
create index schedules_workspace on schedules (workspace_id, id);
create index schedules_channel on schedules (channel_id);
create index schedules_thread on schedules (thread_id) where thread_id is not null;

-- Times of schedules that came. The key makes a slot exist once, whoever claims it. `slot_count` is the number of slots that were
-- missed from `slot_at`, otherwise 1.
create table schedule_slots (
    schedule_id uuid not null references schedules (id) on delete cascade,
    slot_at timestamptz not null,
    state text not null,
    reason text,
    task_id uuid,
    slot_count bigint not null,
    primary key (schedule_id, slot_at)
);
create index schedule_slots_age on schedule_slots (slot_at);

-- Jobs that one server at a time runs, by the clock of the database.
create table jobs (
    name text primary key,
    due_at timestamptz not null,
    lease_until timestamptz
);
