-- Messages that people pinned in their channels. `metadata` of the message has who did it.
create table pins (
    message_id uuid primary key references messages (id) on delete cascade,
    channel_id uuid not null references channels (id) on delete cascade,
    pinned_at timestamptz not null
);
create index pins_channel on pins (channel_id, pinned_at);
