-- One text for SQLite and PostgreSQL.

-- Tasks in the background take no conversation's turn, run when nothing else is due, and do not count toward the queue's limit.
alter table tasks add column lane text not null default 'foreground';
-- Tasks that another one asked for are canceled with it.
create index tasks_parent on tasks (parent_task_id) where parent_task_id is not null;
