-- Processes that share this database. One text for SQLite and PostgreSQL; SQLite belongs to one process, which writes none of these rows.

-- One row per node. `incarnation` changes at each start. `lease_until` is compared with the clock of the database; an expired node is lost.
-- `settings` has hashes of settings that all nodes need to share; `figures` is what the Nodes page shows.
create table nodes (
    id uuid primary key,
    name text not null,
    incarnation uuid not null,
    version text not null,
    schema_version bigint not null,
    mode text not null,
    state text not null,
    started_at timestamptz not null,
    lease_until timestamptz not null,
    settings jsonb not null,
    figures jsonb not null
);

-- People with a socket, by node. No foreign keys: rows are written often and replaced when a node starts.
create table presence (
    node_id uuid not null,
    workspace_id uuid not null,
    user_id uuid not null,
    primary key (node_id, workspace_id, user_id)
);
create index presence_workspace on presence (workspace_id);

-- The node that runs a job.
alter table jobs add column node_id uuid;
