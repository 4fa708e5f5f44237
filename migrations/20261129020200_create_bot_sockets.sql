-- Sockets of bots' programs (Slack's Socket Mode), and the tickets that open them, once and within a minute. The rows count the sockets of
-- a bot on all nodes, and end with the key.
create table bot_sockets (
    id uuid primary key,
    bot_id uuid not null references bots (id) on delete cascade,
    key_id uuid not null references bot_keys (id) on delete cascade,
    ticket_hash text not null unique,
    is_open boolean not null,
    -- Time at which the ticket was made, or the socket was last found open.
    seen_at timestamptz not null
);
create index bot_sockets_bot on bot_sockets (bot_id);
create index bot_sockets_key on bot_sockets (key_id);
create index bot_sockets_age on bot_sockets (seen_at);
