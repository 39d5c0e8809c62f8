/** Escapes a text so that a regular expression with the flag `u` matches it literally. */
export const regexEscaped = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/]/g, '\\$&');
