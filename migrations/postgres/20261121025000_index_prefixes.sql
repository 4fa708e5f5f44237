-- Search while typing: a document also holds the beginnings of its words, of two and three letters, as words that begin with `^`.

-- The program writes them at the next start.
delete from meta where key = 'search';
