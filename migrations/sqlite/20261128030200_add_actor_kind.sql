-- Actions of the operator on the command line have no actor. SQLite cannot make a column nullable, so the table is copied.
create table audit_log_copy (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    actor_id uuid,
    action text not null,
    target text,
    data jsonb not null,
    created_at timestamptz not null,
    actor_kind text not null default 'user'
);
insert into audit_log_copy (id, workspace_id, actor_id, action, target, data, created_at)
    select id, workspace_id, actor_id, action, target, data, created_at from audit_log;
drop table audit_log;
alter table audit_log_copy rename to audit_log;
create index audit_log_workspace on audit_log (workspace_id, id);
