-- Work of workflows that does not grow with their runs. One text for SQLite and PostgreSQL.

-- Runs that have not ended, by their root tasks.
create index tasks_runs on tasks (workspace_id, id) where kind = 'workflow' and status in ('queued', 'running');

-- Messages that start runs: a copy from `content`, so that a post reads no steps of workflows that it does not start.
alter table workflows add column on_message jsonb;
update workflows set on_message = content -> 'on_message' where trigger_channel_id is not null;
