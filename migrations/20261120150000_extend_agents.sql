-- Agents as teammates: inheritance, access lists, files, policies. One text for SQLite and PostgreSQL.

-- `base_id` is the agent whose profile comes first. `summary` is the profile without its long texts, for lists and names.
-- `access` says who may use the agent, with the base's word where it has none of its own; null is everyone.
alter table agents add column base_id uuid;
alter table agents add column summary jsonb;
alter table agents add column access jsonb;
update agents set summary = profile;
create index agents_base on agents (base_id) where base_id is not null;
create index agents_status on agents (workspace_id, status, id);

-- What a version keeps beside the profile. `bases` names the agents that were merged in, each with its version.
alter table agent_versions add column name text;
alter table agent_versions add column mentionable boolean;
alter table agent_versions add column status text;
alter table agent_versions add column bases jsonb;

-- The pairs of each agent's metadata, to find agents by them: `pair` is the SHA-256 of key and value.
create table agent_metadata (
    workspace_id uuid not null references workspaces (id) on delete cascade,
    pair text not null,
    agent_id uuid not null references agents (id) on delete cascade,
    primary key (workspace_id, pair, agent_id)
);
create index agent_metadata_agent on agent_metadata (agent_id);

-- An event that only some people of the workspace may see, such as one of an agent that is not for everyone.
alter table events add column only_users jsonb;

-- Files of an agent, or of a workspace for all its agents (`owner_id` is the workspace then). SOUL.md and IDENTITY.md are
-- no rows: they are views of the profile. A deleted one keeps its row without content, so that its version goes on.
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

-- Every state of a file.
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

-- Limits for code that agents run: what a workspace allows, and what an agent asks for.
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

-- What holds for every agent of a workspace. No row: nothing does.
create table workspace_policies (
    workspace_id uuid primary key references workspaces (id) on delete cascade,
    required_text text,
    allowed_tools jsonb,
    sandbox_policy_id uuid,
    members_write_agents boolean not null,
    updated_by uuid not null,
    updated_at timestamptz not null
);
