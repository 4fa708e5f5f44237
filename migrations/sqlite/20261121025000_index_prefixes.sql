-- Search while typing: beginnings of two and three letters have an index of their own.

-- The program fills it again at the next start.
drop table search_index;
create virtual table search_index using fts5 (words, tokenize = "ascii tokenchars '='", prefix = '2 3', columnsize = 0);
insert into search_index (search_index, rank) values ('secure-delete', 1);
delete from meta where key = 'search';
