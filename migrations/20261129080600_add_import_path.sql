-- Name of an archive in the server's directory for archives, whose pieces are copied.
alter table imports add column path text;
