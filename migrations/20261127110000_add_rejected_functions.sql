-- Functions that a server lists and that cannot be used, as a JSON list of names and reasons. Null until the first list.
alter table tools add column rejected jsonb;
