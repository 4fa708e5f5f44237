-- Chains and trees of tasks. One text for SQLite and PostgreSQL.

-- A link of a chain is parked until the link `after_task_id` completes, and reads the messages before `before_seq`: its own start.
-- `child_key` names a child of a task, so that it exists once. `run_since` is the start of the current run (Unix time in ms);
-- `run_ms` adds up the runs that have ended.
alter table tasks add column after_task_id uuid;
alter table tasks add column child_key text;
alter table tasks add column before_seq bigint;
alter table tasks add column run_since bigint;
alter table tasks add column run_ms bigint not null default 0;
create index tasks_after on tasks (after_task_id) where after_task_id is not null;
create unique index tasks_child on tasks (parent_task_id, child_key) where child_key is not null;
create index tasks_tree on tasks (root_task_id, id) where parent_task_id is not null;

-- Trees in which agents work one after the other, or that were stopped. No task starts in a tree that was stopped.
create table task_trees (
    root_task_id uuid primary key references tasks (id) on delete cascade,
    score bigint not null default 0,
    stopped_at timestamptz
);
