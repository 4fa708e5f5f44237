-- `active`, or `placeholder`: a person of an imported archive, who is an author, a mention, and a member of channels, but has no account.
alter table members add column status text not null default 'active';
