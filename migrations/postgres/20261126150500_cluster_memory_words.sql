-- The numbers of the ranking in the index that it reads: one lookup for each word of a question.
alter table memory_words drop constraint memory_words_pkey;
alter table memory_words add primary key (workspace_id, word, memory_id) include (count, words);
