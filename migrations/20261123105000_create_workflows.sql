-- Workflows: lists of steps that people start. One text for SQLite and PostgreSQL.

-- Current state of each workflow. `content` holds its description, agents, trigger, and steps. Messages in
-- `trigger_channel_id` can start runs; `dropped` counts those that started no run because too many had started in their minute.
create table workflows (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    name text not null,
    content jsonb not null,
    status text not null,
    paused_reason text,
    owner_id uuid not null,
    trigger_channel_id uuid,
    dropped bigint not null,
    version bigint not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    unique (workspace_id, name)
);
create index workflows_order on workflows (workspace_id, id);
create index workflows_trigger on workflows (trigger_channel_id, id) where trigger_channel_id is not null;

-- Every version of a workflow, complete. `bytes` is what the version counts in the storage quota.
create table workflow_versions (
    workflow_id uuid not null references workflows (id) on delete cascade,
    version bigint not null,
    name text not null,
    content jsonb not null,
    status text not null,
    bytes bigint not null,
    change_summary text not null,
    changed_by uuid not null,
    changed_at timestamptz not null,
    primary key (workflow_id, version)
);
