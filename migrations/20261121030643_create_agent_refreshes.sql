-- Background refreshes of agents after a change of their base. One text for SQLite and PostgreSQL.

-- Bases whose children are to follow them. `after_id` is the last child that does; the row ends with the last one.
create table agent_refreshes (
    base_id uuid primary key references agents (id) on delete cascade,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    requested_by uuid not null,
    after_id uuid not null,
    created_at timestamptz not null
);
create index agent_refreshes_workspace on agent_refreshes (workspace_id, created_at);

-- Size of an agent's own instructions, so that a base can be checked against all of its children without reading them.
alter table agents add column instructions_bytes bigint not null default 0;
update agents set instructions_bytes = coalesce(octet_length(profile ->> 'instructions'), 0);
