-- Whether a person still wants to see the first steps in a workspace.
alter table users add column checklist boolean not null default TRUE;
