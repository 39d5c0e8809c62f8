/** What the reader's device can do, for texts that say how to use the page. */
const matches = (query: string): boolean => globalThis.matchMedia?.(query).matches ?? true;

/** A finger can neither point without touching nor, on most phones, press arrow keys or drop files. */
export const canHover = matches('(hover: hover)');

/** For example `${pointAt} a cell`. */
export const pointAt = canHover ? 'Point at' : 'Tap';
export const click = canHover ? 'Click' : 'Tap';
