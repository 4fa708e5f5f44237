-- Commands of bots, such as `/deploy`. A name is taken once in a workspace.
create table bot_commands (
    workspace_id uuid not null references workspaces (id) on delete cascade,
    name text not null,
    bot_id uuid not null references bots (id) on delete cascade,
    description text not null,
    usage text not null,
    primary key (workspace_id, name)
);
create index bot_commands_bot on bot_commands (bot_id);

-- Commands on their way to the socket of a program, on any node, for the seconds in which it answers.
create table bot_calls (
    id uuid primary key,
    bot_id uuid not null references bots (id) on delete cascade,
    body jsonb not null,
    is_taken boolean not null,
    answer text,
    created_at timestamptz not null
);
create index bot_calls_bot on bot_calls (bot_id);
create index bot_calls_age on bot_calls (created_at);
