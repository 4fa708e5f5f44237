import type { FileHit } from '../api/search';

type Named = Pick<FileHit, 'file' | 'label'>;

/** "Handbook.pdf, page 12"; only the name of a text without parts. */
export const passageTitle = (hit: Named): string =>
  hit.label === hit.file.name ? hit.file.name : `${hit.file.name}, ${hit.label}`;
