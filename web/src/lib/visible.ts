/** White space, controls, format characters, and letters that are blank (src/visible.rs). */
const INVISIBLE =
  /[\s\p{Cc}\p{Cf}\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0\ufe00-\ufe0f\u{e0100}-\u{e01ef}]/gu;

/** Checks whether a text shows anything. */
export const hasVisible = (text: string): boolean => text.replace(INVISIBLE, '') !== '';
