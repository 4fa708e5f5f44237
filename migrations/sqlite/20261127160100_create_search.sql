-- Search on SQLite, after the tables of both engines; the program writes the documents (src/chat/search).

-- The number of a workspace in the index: rowid = (no << 40) + the message's seq. So each workspace has one range of rows, and
-- the order of rows is that of messages.
create table search_spaces (
    no integer primary key,
    workspace_id uuid not null unique references workspaces (id) on delete cascade
);
create trigger search_spaces_open after insert on workspaces begin
    insert into search_spaces (workspace_id) values (new.id);
end;

-- The words of each message, folded, and its filterable properties, which begin with `=`. `ascii` takes them as they come.
-- Search while typing uses the indexes of beginnings of two and three letters. Nothing ranks by length, so the sizes of rows
-- are not kept.
create virtual table search_index using fts5 (words, tokenize = "ascii tokenchars '='", prefix = '2 3', columnsize = 0);
-- Words of deleted messages leave the index at once, not when segments are merged.
insert into search_index (search_index, rank) values ('secure-delete', 1);

-- Stems of the entries' words with their number in the entry, and the entry's number of words, for the ranking. In the
-- order in which the ranking reads them: one lookup for each word of a question.
create table memory_words (
    workspace_id uuid not null references workspaces (id) on delete cascade,
    word text not null,
    memory_id uuid not null references memories (id) on delete cascade,
    count bigint not null,
    words bigint not null,
    primary key (workspace_id, word, memory_id)
) without rowid;
create index memory_words_memory on memory_words (memory_id);
