-- Search on PostgreSQL, after the tables of both engines; the program writes the documents (src/chat/search).

-- The words of each message, folded, its filterable properties, which begin with `=`, and the beginnings of its words, of two
-- and three letters, which begin with `^`.
create table search_index (
    workspace_id uuid not null references workspaces (id) on delete cascade,
    seq bigint not null,
    words tsvector not null,
    primary key (workspace_id, seq)
);
create index search_index_words on search_index using gin (words);

-- Stems of the entries' words with their number in the entry, and the entry's number of words, for the ranking. The
-- numbers are in the index that the ranking reads: one lookup for each word of a question.
create table memory_words (
    workspace_id uuid not null references workspaces (id) on delete cascade,
    word text not null,
    memory_id uuid not null references memories (id) on delete cascade,
    count bigint not null,
    words bigint not null,
    primary key (workspace_id, word, memory_id) include (count, words)
);
create index memory_words_memory on memory_words (memory_id);
