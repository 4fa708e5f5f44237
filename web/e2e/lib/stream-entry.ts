// The parts of the client that the stream test needs, as one script for a blank page.
import { lex, NO_NAMES, render, type Names } from '../../src/lib/markdown';
import { StreamRenderer } from '../../src/lib/stream';

Object.assign(window, { ovtest: { StreamRenderer, render, lex, NO_NAMES } });
export type { Names };
