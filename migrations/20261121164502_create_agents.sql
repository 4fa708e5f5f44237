-- Agents. One text for SQLite and PostgreSQL.

-- Current state of each agent. `base_id` is the agent whose profile comes first. `summary` is the profile without its long
-- texts, for lists and names. `access` lists who may use the agent, from its base if it has no list of its own; null means
-- everyone. `instructions_bytes` and `profile_bytes` are sizes of its own texts: a change of a base is checked against all of
-- its children without reading those.
create table agents (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    name text not null,
    status text not null,
    is_system boolean not null,
    mentionable boolean not null,
    version bigint not null,
    base_id uuid,
    profile jsonb not null,
    summary jsonb,
    access jsonb,
    instructions_bytes bigint not null default 0,
    profile_bytes bigint not null default 0,
    created_by uuid,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    unique (workspace_id, name)
);
create index agents_order on agents (workspace_id, id);
create index agents_status on agents (workspace_id, status, id);
-- Sizes follow the long texts in a row: the index spares reading those.
create index agents_children on agents (base_id, id, instructions_bytes, profile_bytes) where base_id is not null;

-- Every version of an agent, complete: as written (`profile`) and merged with its bases (`resolved`). `bases` names those,
-- each with its version. `bytes` is what the version counts in the storage quota.
create table agent_versions (
    agent_id uuid not null references agents (id) on delete cascade,
    version bigint not null,
    name text,
    mentionable boolean,
    status text,
    profile jsonb not null,
    resolved jsonb not null,
    bases jsonb,
    bytes bigint not null default 0,
    change_summary text,
    changed_by uuid,
    changed_at timestamptz not null,
    primary key (agent_id, version)
);

-- Names of agents that were deleted permanently, for the messages that they wrote.
create table agent_names (
    agent_id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    name text not null
);
create index agent_names_workspace on agent_names (workspace_id);

-- Metadata pairs of each agent, to find agents by them: `pair` is the SHA-256 of key and value.
create table agent_metadata (
    workspace_id uuid not null references workspaces (id) on delete cascade,
    pair text not null,
    agent_id uuid not null references agents (id) on delete cascade,
    primary key (workspace_id, pair, agent_id)
);
create index agent_metadata_agent on agent_metadata (agent_id);

-- Bases whose children get a new version in the background. `after_id` is the last child that has one; the row is deleted
-- after the last child. `reserved_bytes` is what the versions of the remaining children will take; it counts until those are
-- stored.
create table agent_refreshes (
    base_id uuid primary key references agents (id) on delete cascade,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    requested_by uuid not null,
    after_id uuid not null,
    reserved_bytes bigint not null default 0,
    created_at timestamptz not null
);
create index agent_refreshes_workspace on agent_refreshes (workspace_id, created_at);

-- Files of an agent, or of a workspace for all its agents (`owner_id` is the workspace then). SOUL.md and IDENTITY.md have no
-- rows: they are views of the profile. A deleted file keeps its row without content, so that its version numbers continue.
create table agent_files (
    workspace_id uuid not null references workspaces (id) on delete cascade,
    owner_id uuid not null,
    path text not null,
    content text,
    version bigint not null,
    updated_by uuid not null,
    updated_at timestamptz not null,
    primary key (owner_id, path)
);
create index agent_files_workspace on agent_files (workspace_id);

-- Every version of a file.
create table agent_file_versions (
    owner_id uuid not null,
    path text not null,
    version bigint not null,
    content text,
    changed_by uuid not null,
    changed_at timestamptz not null,
    primary key (owner_id, path, version),
    foreign key (owner_id, path) references agent_files (owner_id, path) on delete cascade
);

-- Limits for code that agents run: what a workspace allows, and what an agent requests.
create table sandbox_policies (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    name text not null,
    limits jsonb not null,
    created_by uuid not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    unique (workspace_id, name)
);
create index sandbox_policies_order on sandbox_policies (workspace_id, id);

-- Rules for every agent of a workspace; without a row there are none.
create table workspace_policies (
    workspace_id uuid primary key references workspaces (id) on delete cascade,
    required_text text,
    allowed_tools jsonb,
    sandbox_policy_id uuid,
    members_write_agents boolean not null,
    updated_by uuid not null,
    updated_at timestamptz not null
);
