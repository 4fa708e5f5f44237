-- The words of passages, like those of messages in `search_index`: rowid = (no of the workspace << 40) + no of the passage.
create virtual table search_passages using fts5 (words, tokenize = "ascii tokenchars '='", prefix = '2 3', columnsize = 0);
insert into search_passages (search_passages, rank) values ('secure-delete', 1);
