-- Channels that messages in Slack's format can name, a template for JSON, and whether programs must sign their requests (the secret
-- itself is in `secrets`).
alter table hooks add column other_channel_ids jsonb not null default '[]';
alter table hooks add column template jsonb;
alter table hooks add column secret_set boolean not null default false;

-- The newest requests to each webhook, for people who look for a missing message.
create table hook_requests (
    id uuid primary key,
    hook_id uuid not null references hooks (id) on delete cascade,
    created_at timestamptz not null,
    address text,
    agent text,
    product text,
    status bigint not null,
    error text,
    notes jsonb not null,
    head jsonb not null,
    body text,
    is_whole boolean not null,
    message_id uuid references messages (id) on delete set null
);

create index hook_requests_hook on hook_requests (hook_id, id);
create index hook_requests_age on hook_requests (created_at);
create index hook_requests_message on hook_requests (message_id);
