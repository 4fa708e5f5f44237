-- Quotas. One text for SQLite and PostgreSQL.

-- Bytes that agents, their versions, and their files take; uploads are summed from their rows.
create table workspace_sizes (
    workspace_id uuid primary key references workspaces (id) on delete cascade,
    agent_bytes bigint not null
);
create index files_size on files (workspace_id, size_bytes);
alter table agent_versions add column bytes bigint not null default 0;
