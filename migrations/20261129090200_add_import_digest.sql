-- SHA-256 of an archive as its sender states it, by which the sender finds an import that was interrupted.
alter table imports add column digest text;
