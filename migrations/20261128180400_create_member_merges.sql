-- Placeholders that become a member. The channels move at once; a job moves what the placeholder wrote, from `position` on.
create table member_merges (
    placeholder_id uuid primary key references users (id) on delete cascade,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    into_id uuid not null references users (id) on delete cascade,
    position bigint not null,
    created_at timestamptz not null
);
create index member_merges_workspace on member_merges (workspace_id);
create index member_merges_into on member_merges (into_id);
