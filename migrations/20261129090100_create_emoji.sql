-- Custom emoji of workspaces. The file is a picture that all members can see (`is_avatar`), as long as an emoji or an agent uses it.
create table emoji (
    workspace_id uuid not null references workspaces (id) on delete cascade,
    -- As in `:name:`.
    name text not null,
    file_id uuid not null references files (id),
    created_by uuid not null,
    created_at timestamptz not null,
    primary key (workspace_id, name)
);
create index emoji_file on emoji (file_id);
