-- True if the person's files are also removed from vector stores.
alter table erasures add column erases_collection_files boolean not null default FALSE;
