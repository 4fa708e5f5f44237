-- Channels and keys of bots. A bot is not a member of a workspace, so neither membership nor API keys of people apply to it.

create table bot_channels (
    bot_id uuid not null references bots (id) on delete cascade,
    channel_id uuid not null references channels (id) on delete cascade,
    added_at timestamptz not null,
    primary key (bot_id, channel_id)
);

create index bot_channels_channel on bot_channels (channel_id);

create table bot_keys (
    id uuid primary key,
    bot_id uuid not null references bots (id) on delete cascade,
    name text not null,
    token_hash text not null unique,
    created_by uuid not null,
    created_at timestamptz not null,
    last_used_at timestamptz
);

create index bot_keys_bot on bot_keys (bot_id, id);

-- First messages of a channel's threads, newest first.
create index threads_root on threads (channel_id, root_message_id);
