-- Schedules can start workflows, which need no channel if they post nothing. One text for SQLite and PostgreSQL: the tables are made
-- again, because SQLite cannot change a column. Slots go first, since they would be deleted with the schedules.
create table old_slots as select * from schedule_slots;
drop table schedule_slots;
create table old_schedules as select * from schedules;
drop table schedules;

-- `target_id` is an agent or a workflow. `prompt` is the input of a workflow, and blank for a heartbeat, which reads a file of its agent.
-- Without `thread_id`, each slot starts a thread in the channel. `is_by_key`: an API key wrote the prompt. `failures` counts the tasks
-- that failed since the last one that completed. `last_task_id` is the newest task, of a slot or started by hand.
create table schedules (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    name text not null,
    cron text not null,
    timezone text not null,
    target_type text not null,
    target_id uuid not null,
    prompt text not null,
    channel_id uuid references channels (id) on delete cascade,
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
insert into schedules (id, workspace_id, name, cron, timezone, target_type, target_id, prompt, channel_id, thread_id, missed, status,
        paused_reason, owner_id, is_by_key, next_run_at, last_task_id, failures, version, created_at, updated_at)
    select id, workspace_id, name, cron, timezone, case when prompt is null then 'heartbeat' else 'agent' end, agent_id,
        coalesce(prompt, ''), channel_id, thread_id, missed, status, paused_reason, owner_id, is_by_key, next_run_at, last_task_id,
        failures, version, created_at, updated_at from old_schedules;
drop table old_schedules;
create index schedules_due on schedules (next_run_at) where status = 'active';
create index schedules_workspace on schedules (workspace_id, id);
create index schedules_channel on schedules (channel_id) where channel_id is not null;
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
insert into schedule_slots (schedule_id, slot_at, state, reason, task_id, slot_count)
    select schedule_id, slot_at, state, reason, task_id, slot_count from old_slots;
drop table old_slots;
create index schedule_slots_age on schedule_slots (slot_at);
