-- Messages whose index entry has only the first words of their text. A job adds the others, oldest first.
create table search_backlog (
    message_id uuid primary key references messages (id) on delete cascade,
    queued_at timestamptz not null
);
create index search_backlog_order on search_backlog (queued_at, message_id);
