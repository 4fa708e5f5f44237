-- Catch-ups and suggestions. One text for SQLite and PostgreSQL.

-- What a model wrote for one person about the messages of a thread from `from_seq` to `to_seq`, for a day. The lines are one
-- context text (JSON) that cites every message and author the model read, so it can be gone. `lines_left` counts lines without
-- room, `messages_left` older messages that were not read.
create table catch_ups (
    thread_id uuid not null references threads (id) on delete cascade,
    user_id uuid not null,
    workspace_id uuid not null references workspaces (id) on delete cascade,
    from_seq bigint not null,
    to_seq bigint not null,
    message_count bigint not null,
    text_id uuid not null,
    model text not null,
    lines_left bigint not null,
    messages_left bigint not null,
    created_at timestamptz not null,
    primary key (thread_id, user_id)
);
create index catch_ups_person on catch_ups (workspace_id, user_id, thread_id);
create index catch_ups_age on catch_ups (created_at);

-- Whether the client suggests a deep dive to the person.
alter table users add column suggestions boolean not null default TRUE;
