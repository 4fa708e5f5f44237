-- Subscriptions of browsers to push messages. A device belongs to its session and ends with it.
create table push_devices (
    id uuid primary key,
    user_id uuid not null references users (id) on delete cascade,
    session_id uuid not null references sessions (id) on delete cascade,
    -- Address at the push service, which identifies the subscription; `origin` is its scheme, host, and port.
    endpoint text not null unique,
    origin text not null,
    -- Public key and secret of the browser, in base64url.
    p256dh text not null,
    auth text not null,
    label text not null,
    created_at timestamptz not null,
    -- After the push service refused this server: end of the pause, and the identity (key and subject) that it refused.
    refused_until timestamptz,
    refused_identity text
);
create index push_devices_user on push_devices (user_id, id);
create index push_devices_session on push_devices (session_id);

-- One inbox item for one device, kept for a week. `item_id` and `changed_seq` are those of the item; a summary has the person's ID and
-- the time at which it was due.
create table deliveries (
    id uuid primary key,
    item_id uuid not null,
    changed_seq bigint not null,
    user_id uuid not null references users (id) on delete cascade,
    -- Null for a summary.
    workspace_id uuid references workspaces (id) on delete cascade,
    target_id uuid not null,
    kind text not null,
    -- Reason of the item; null for a summary.
    reason text,
    origin text not null,
    state text not null,
    attempt integer not null,
    -- Time of the next attempt; during one, the time at which it counts as lost. Null once it has ended.
    due_at timestamptz,
    -- Status and answer of the push service.
    status integer,
    answer text,
    -- Time at which the item opened, or the first one that a summary counts.
    since timestamptz,
    created_at timestamptz not null
);
create unique index deliveries_target on deliveries (item_id, changed_seq, target_id);
create index deliveries_due on deliveries (origin, due_at) where due_at is not null;
create index deliveries_user on deliveries (user_id, created_at);
create index deliveries_workspace on deliveries (workspace_id);
create index deliveries_created on deliveries (created_at);

-- A person's notification settings; without a row, the defaults apply.
create table notification_settings (
    user_id uuid primary key references users (id) on delete cascade,
    push boolean not null,
    preview text not null,
    -- {from, to, days}; null without quiet hours.
    quiet jsonb,
    paused_until timestamptz,
    timezone text not null,
    version bigint not null,
    -- First item that was held back by quiet hours or a pause, and the end of these.
    held_since timestamptz,
    next_due_at timestamptz
);
create index notification_settings_due on notification_settings (next_due_at) where next_due_at is not null;

-- Time of a person's latest input in a visible window on this node.
alter table presence add column active_at timestamptz;
create index presence_active on presence (user_id) where active_at is not null;
