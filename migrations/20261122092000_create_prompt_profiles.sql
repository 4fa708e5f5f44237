-- Reply styles. One text for SQLite and PostgreSQL.

-- Add-ons, presets, and rules of a workspace, from the first change on; until then, it has those of the server.
create table prompt_profiles (
    workspace_id uuid primary key references workspaces (id) on delete cascade,
    document jsonb not null,
    version bigint not null,
    updated_by uuid not null,
    updated_at timestamptz not null
);

-- Preset of an agent in a conversation, and what chose it. `preset_turn` is the turn in which rules and mode default were
-- evaluated last; null if they are evaluated in the next one.
alter table conversation_agents add column preset text;
alter table conversation_agents add column chosen_by text;
alter table conversation_agents add column preset_turn bigint;
create index conversation_agents_preset on conversation_agents (preset) where preset is not null;

-- Version of a policy; 0 before the first change.
alter table workspace_policies add column version bigint not null default 0;
