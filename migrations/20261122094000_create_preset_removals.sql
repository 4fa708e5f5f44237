-- Deleted presets that agents may still name: these get a version without it in the background; as `persona_refreshes`.
-- One text for SQLite and PostgreSQL.
create table preset_removals (
    workspace_id uuid not null references workspaces (id) on delete cascade,
    preset text not null,
    requested_by uuid not null,
    after_id uuid not null,
    created_at timestamptz not null,
    primary key (workspace_id, preset)
);
