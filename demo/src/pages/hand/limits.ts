/** What other pages know of the limits of “By hand”, whose settings are loaded with it. */

/** The largest number of words. */
export const mostWords = 12;
