-- Tools of workspaces: servers of the Model Context Protocol, and functions of clients. One text for SQLite and PostgreSQL.

-- The registry. `listed_at` is when the functions of a server were last read. Secrets are in `secrets`, under the ID of the tool.
create table tools (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    kind text not null,
    name text not null,
    title text not null,
    enabled boolean not null,
    config jsonb not null,
    channel_ids jsonb,
    trusted_reads boolean not null,
    status text not null,
    listed_at timestamptz,
    version bigint not null,
    created_by uuid not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    unique (workspace_id, name)
);
create index tools_order on tools (workspace_id, id);

-- Functions of servers: the definition that was last listed, and the one that an admin accepted. Only the accepted one is offered,
-- while the listed one has the same hash. A function that is no longer listed is kept only if it was accepted.
create table tool_functions (
    tool_id uuid not null references tools (id) on delete cascade,
    name text not null,
    definition jsonb not null,
    definition_hash text not null,
    is_listed boolean not null,
    accepted_definition jsonb,
    accepted_hash text,
    effect text,
    risk text,
    title text,
    accepted_by uuid,
    accepted_at timestamptz,
    primary key (tool_id, name)
);
