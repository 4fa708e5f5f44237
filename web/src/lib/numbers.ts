const whole = new Intl.NumberFormat('en-GB');
/** "12,345". */
export const count = (n: number): string => whole.format(n);
