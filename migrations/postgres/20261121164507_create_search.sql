-- Full-text search on PostgreSQL; the program writes the documents (src/chat/search).

-- The words of each message, folded, its filterable properties, which begin with `=`, and the beginnings of its words, of two
-- and three letters, which begin with `^`.
create table search_index (
    workspace_id uuid not null references workspaces (id) on delete cascade,
    seq bigint not null,
    words tsvector not null,
    primary key (workspace_id, seq)
);
create index search_index_words on search_index using gin (words);
