import { vi } from 'vitest';

/** Timeout of a wait in a test. A machine that is also compiling may pause a test for seconds. */
export const WAIT_MS = 10_000;

const waitFor = vi.waitFor.bind(vi);
vi.waitFor = (callback, options = WAIT_MS) => waitFor(callback, options);
