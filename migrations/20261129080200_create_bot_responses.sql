-- Addresses at which a program answers a command or the press of a button later, for half an hour. `message_id` is the message with the
-- button, or the one that such an answer posted.
create table bot_responses (
    token_hash text primary key,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    bot_id uuid not null references bots (id) on delete cascade,
    user_id uuid not null references users (id) on delete cascade,
    channel_id uuid not null references channels (id) on delete cascade,
    thread_id uuid references threads (id) on delete cascade,
    message_id uuid references messages (id) on delete set null,
    uses bigint not null,
    created_at timestamptz not null
);
create index bot_responses_workspace on bot_responses (workspace_id);
create index bot_responses_bot on bot_responses (bot_id);
create index bot_responses_user on bot_responses (user_id);
create index bot_responses_channel on bot_responses (channel_id);
create index bot_responses_thread on bot_responses (thread_id);
create index bot_responses_message on bot_responses (message_id);
create index bot_responses_age on bot_responses (created_at);
