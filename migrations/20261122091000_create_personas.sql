-- Personas: reusable characters for agents. One text for SQLite and PostgreSQL.

-- Current state of each persona. `content` holds its texts and its picture. `approved_text` is the text of the last approval,
-- which agents receive.
create table personas (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    name text not null,
    content jsonb not null,
    pipeline_status text not null,
    approved_text text,
    version bigint not null,
    created_by uuid not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    unique (workspace_id, name)
);
create index personas_order on personas (workspace_id, id);

-- Every version of a persona, complete. `bytes` is what the version counts in the storage quota.
create table persona_versions (
    persona_id uuid not null references personas (id) on delete cascade,
    version bigint not null,
    name text not null,
    content jsonb not null,
    pipeline_status text not null,
    bytes bigint not null,
    change_summary text not null,
    changed_by uuid not null,
    changed_at timestamptz not null,
    primary key (persona_id, version)
);

-- The persona that an agent itself names, not one of its bases.
alter table agents add column persona_id uuid;
create index agents_persona on agents (persona_id, id) where persona_id is not null;

-- Approved personas whose agents get a new version in the background; as `agent_refreshes`.
create table persona_refreshes (
    persona_id uuid primary key references personas (id) on delete cascade,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    requested_by uuid not null,
    after_id uuid not null,
    reserved_bytes bigint not null,
    created_at timestamptz not null
);
create index persona_refreshes_workspace on persona_refreshes (workspace_id, created_at);
