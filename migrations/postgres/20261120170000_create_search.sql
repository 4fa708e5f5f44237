-- Full-text search on PostgreSQL; what it holds is written by the program (src/chat/search).

-- The words of each message, folded, and facts about it, which begin with `=`.
create table search_index (
    workspace_id uuid not null references workspaces (id) on delete cascade,
    seq bigint not null,
    words tsvector not null,
    primary key (workspace_id, seq)
);
create index search_index_words on search_index using gin (words);
