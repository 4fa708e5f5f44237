import { vi } from 'vitest';

/** Deadline of a wait in a test: a machine that also compiles may stop a test for seconds. */
export const WAIT_MS = 10_000;

const waitFor = vi.waitFor.bind(vi);
vi.waitFor = (callback, options = WAIT_MS) => waitFor(callback, options);
