-- Subscriptions of bots to events. Each is a position in the event log of its workspace, so that a post costs nothing and no event is lost.
create table bot_subscriptions (
    bot_id uuid primary key references bots (id) on delete cascade,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    transport text not null,
    -- Address of the program, and its scheme, host, and port; null if the program opens a socket.
    url text,
    origin text,
    format text not null,
    events jsonb not null,
    -- Null for all channels that the bot is in.
    channel_ids jsonb,
    with_bots boolean not null,
    -- Number of the last event that was handled, and of the events that the log no longer contained.
    cursor_seq bigint not null,
    missed bigint not null,
    -- Raised by each change, so that work that began before it has no effect.
    version bigint not null,
    status text not null,
    paused_reason text,
    -- Time of the first failure since the last success.
    failing_since timestamptz,
    -- Until then, requests are also signed with the previous secret.
    previous_until timestamptz,
    created_at timestamptz not null
);
create index bot_subscriptions_workspace on bot_subscriptions (workspace_id);

-- Events for bots, kept for a week. Their texts are read from the log when they are sent, so that a deleted text is not sent.
create table bot_deliveries (
    id uuid primary key,
    bot_id uuid not null references bot_subscriptions (bot_id) on delete cascade,
    seq bigint not null,
    event text not null,
    state text not null,
    -- Number of failed attempts.
    attempt bigint not null,
    -- Time of the next attempt; during one, the time at which it counts as lost. Null once it has ended.
    due_at timestamptz,
    -- Status and answer of the program.
    status bigint,
    answer text,
    created_at timestamptz not null
);
create unique index bot_deliveries_event on bot_deliveries (bot_id, seq, event);
create index bot_deliveries_bot on bot_deliveries (bot_id, id);
create index bot_deliveries_due on bot_deliveries (bot_id, due_at) where due_at is not null;
create index bot_deliveries_age on bot_deliveries (created_at);
