-- Skills: folders with instructions that agents read when they need them. `for_all` is true if everyone in the workspace except for
-- guests can read a skill; otherwise the readers of its channels can. `written_by` last changed the texts.
create table skills (
    id uuid primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    name text not null,
    description text not null,
    for_all boolean not null,
    version bigint not null,
    created_by uuid not null,
    written_by uuid not null,
    created_at timestamptz not null,
    updated_at timestamptz not null
);
create unique index skills_name on skills (workspace_id, name);

create table skill_channels (
    skill_id uuid not null references skills (id) on delete cascade,
    channel_id uuid not null references channels (id) on delete cascade,
    primary key (skill_id, channel_id)
);
create index skill_channels_channel on skill_channels (channel_id);

create table skill_files (
    skill_id uuid not null references skills (id) on delete cascade,
    path text not null,
    content text not null,
    primary key (skill_id, path)
);
