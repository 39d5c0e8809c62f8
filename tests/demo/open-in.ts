/** Opens a page of the demo in any engine, with functions for the scripts of tests. */
import type { Engine } from '../browsers/engines.mjs';

declare global {
  // What `openIn` adds to a page for the scripts of the tests.
  /** Waits until `holds` returns something true. */
  function until<T>(holds: () => T): Promise<NonNullable<T>>;
  function buttonOf(name: string): HTMLButtonElement | undefined;
  /** Writes into the field that has this label. */
  function write(label: string, text: string): void;
}

let documents = 0;
/** The address of the demo at a hash that no document has had, so that the browser loads it anew. */
export const freshUrl = (url: string, hash: string): string => `${url}?${documents++}${hash}`;

/** Opens the demo at a hash in a new document, and waits until it is complete and `shown` are there, or until it shows an error. Returns the errors. */
export async function openIn(engine: Engine, url: string, hash: string, shown: string[]): Promise<string[]> {
  await engine.goto(freshUrl(url, hash));
  return engine.evaluate(async (selectors) => {
    globalThis.until = async (holds) => {
      for (;;) {
        const found = holds();
        if (found) return found;
        await new Promise(requestAnimationFrame);
      }
    };
    globalThis.buttonOf = (name) =>
      [...document.querySelectorAll('button')].find((button) => button.textContent === name);
    globalThis.write = (label, text) => {
      const field = document.querySelector<HTMLInputElement>(`[aria-label="${label}"], #${label}`)!;
      field.value = text;
      field.dispatchEvent(new InputEvent('input', { bubbles: true }));
    };
    const alerts = () => [...document.querySelectorAll('[role=alert]')].map(({ textContent }) => textContent!);
    const isComplete = () =>
      /Loaded:|Saved:/.test(document.querySelector('.status-line')?.textContent ?? '') &&
      !document.querySelector('.waiting, .plot:empty') && // a plot is empty until it has been drawn
      [...document.fonts].some(({ family, status }) => family.includes('Source Serif 4') && status === 'loaded') && // has other widths than what is shown until it has loaded
      selectors.every((selector) => document.querySelector(selector));
    await until(() => isComplete() || alerts().length > 0);
    return alerts();
  }, shown);
}
