/** What other pages know of the limits of “Compute”, whose settings are loaded with it. */

/** The largest number of words. */
export const mostWords = 12;
