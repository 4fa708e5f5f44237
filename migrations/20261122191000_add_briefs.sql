-- Brief and answer of a delegated task: context texts, so they can be gone.
alter table tasks add column brief_id uuid;
alter table tasks add column answer_id uuid;
