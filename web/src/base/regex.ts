/** Parts of regular expressions. */

/** Unicode's word characters, for use in a class. */
export const WORD = '\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\u200C\\u200D';

/** Escapes a text so that a regular expression with the flag `u` matches it literally. */
export const regexEscaped = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');
