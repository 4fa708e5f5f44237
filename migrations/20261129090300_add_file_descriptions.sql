-- Description of a picture for people who cannot see it, by its uploader.
alter table files add column alt text;
