-- Words of entries in the order in which the ranking reads them, with its numbers: one lookup for each word of a question.
create table clustered_memory_words (
    workspace_id uuid not null references workspaces (id) on delete cascade,
    word text not null,
    memory_id uuid not null references memories (id) on delete cascade,
    count bigint not null,
    words bigint not null,
    primary key (workspace_id, word, memory_id)
) without rowid;
insert into clustered_memory_words (workspace_id, word, memory_id, count, words)
    select workspace_id, word, memory_id, count, words from memory_words order by workspace_id, word, memory_id;
drop table memory_words;
alter table clustered_memory_words rename to memory_words;
create index memory_words_memory on memory_words (memory_id);
