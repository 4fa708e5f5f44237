-- How closely people follow threads. One text for SQLite and PostgreSQL.

-- A person's level in a thread; without a row it is `mentions`. The server inserts a row when somebody takes part, and never
-- changes one; `cause` is `manual` once the person chose the level. Rows end with the membership of the channel.
create table follows (
    thread_id uuid not null references threads (id) on delete cascade,
    user_id uuid not null references users (id) on delete cascade,
    channel_id uuid not null references channels (id) on delete cascade,
    level text not null,
    cause text not null,
    created_at timestamptz not null,
    primary key (thread_id, user_id),
    foreign key (channel_id, user_id) references channel_members (channel_id, user_id) on delete cascade
);
create index follows_member on follows (channel_id, user_id);
create index follows_user on follows (user_id);
create index follows_all on follows (thread_id) where level = 'all';
-- Unread counts leave muted threads out.
create index follows_muted on follows (user_id, thread_id) where level = 'none';
