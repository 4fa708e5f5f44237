-- Names of the vector stores whose passages agents read for each question in the channel, as a JSON list.
alter table channels add column vector_store_ids text not null default '[]';
