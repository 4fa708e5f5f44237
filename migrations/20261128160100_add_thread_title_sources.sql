-- Message from which a model made the title of a thread. Null if a person chose the title, or there is none.
alter table threads add column title_from uuid;
