import { COMMENTS_MAX, type ReviewComment } from '../api/code';
import { anchorKey, type Anchor } from './rows';

/** Comments on lines that are not sent yet. They are kept while the page is open. */
export class ReviewDraft {
  readonly comments = $state<ReviewComment[]>([]);
  /** Key of the comment whose field gets the focus. */
  fresh = '';
  readonly written = $derived(this.comments.filter((comment) => comment.text.trim() !== ''));
  readonly isFull = $derived(this.comments.length >= COMMENTS_MAX);

  find(anchor: Anchor): ReviewComment | undefined {
    const key = anchorKey(anchor);
    return this.comments.find((comment) => anchorKey(comment) === key);
  }
  add(anchor: Anchor): void {
    this.fresh = anchorKey(anchor);
    if (!this.find(anchor) && !this.isFull) this.comments.push({ ...anchor, text: '' });
  }
  remove(anchor: Anchor): void {
    const at = this.comments.findIndex((comment) => anchorKey(comment) === anchorKey(anchor));
    if (at >= 0) this.comments.splice(at, 1);
  }
  /** Removes comments that were sent, unless they were changed since. */
  sent(comments: readonly ReviewComment[]): void {
    for (const comment of comments) if (this.find(comment)?.text === comment.text) this.remove(comment);
  }
}
