/**
 * Keeps the state in the URL's fragment, such as `#see?word=star&layer=2`, so that any view can be shared as a link. Each `urlState` is
 * a signal bound to one parameter of one page. Parameters that have their initial value are left out.
 */

import { batch, computed, effect, type ReadonlySignal, type Signal, signal } from '@preact/signals';
import { redirected } from './redirects';

export const pages = ['see', 'compute', 'learn', 'teach', 'meaning', 'inside', 'speed'] as const;
export type Page = (typeof pages)[number];
/** The pages that a parameter belongs to. */
export type Scope = Page | readonly Page[] | 'all';

const isIn = (scope: Scope, target: Page): boolean =>
  scope === 'all' || (typeof scope === 'string' ? scope === target : scope.includes(target));

const initials = new Map<Signal<unknown>, unknown>();

/** Sets signals to their initial values. */
export function reset(states: Signal<unknown>[]): void {
  batch(() => {
    for (const state of states) state.value = initials.get(state);
  });
}

/** Converts a value to and from text in the URL. `read` returns undefined for invalid text. */
export interface Codec<T> {
  read(text: string): T | undefined;
  write(value: T): string;
}

interface Field {
  scope: Scope;
  name: string;
  state: Signal<unknown>;
  initial: unknown;
  codec: Codec<unknown>;
}

/** Some browsers and chat programs truncate longer links, so a longer state is not written to the address. */
const longestLink = 8000;

const fields: Field[] = [];
const registered = signal(0);
export const page = signal<Page>('see');

export function urlState<T>(scope: Scope, name: string, initial: T, codec: Codec<T>): Signal<T> {
  const state = signal(initial);
  initials.set(state as Signal<unknown>, initial);
  fields.push({ scope, name, state, initial, codec } as unknown as Field);
  readInto(fields.slice(-1));
  registered.value++;
  return state;
}

function link(target: Page): string {
  void registered.value;
  const parameters = new URLSearchParams();
  for (const { scope, name, state, initial, codec } of fields) {
    if (!isIn(scope, target)) continue;
    const text = codec.write(state.value);
    if (text !== codec.write(initial)) parameters.set(name, text);
  }
  // Fragments may contain commas, semicolons and bars; unescaped, matrices remain readable.
  const query = parameters.toString().replace(/%2C/g, ',').replace(/%3B/g, ';').replace(/%7C/g, '|');
  return `#${target}${query && `?${query}`}`;
}

/** The link to each page in its current state. */
export const links = Object.fromEntries(pages.map((target) => [target, computed(() => link(target))])) as Record<
  Page,
  ReadonlySignal<string>
>;

export const currentLink = computed(() => links[page.value].value);

/** Whether a page's state is short enough for a link. */
export const fitsLink = (target: Page): boolean => links[target].value.length <= longestLink;
export const linkIsComplete = computed(() => fitsLink(page.value));

function parameters(): { target: Page; query: URLSearchParams } {
  const [name, query = ''] = location.hash.slice(1).split('?', 2);
  return { target: pages.find((candidate) => candidate === name) ?? 'see', query: new URLSearchParams(query) };
}

function readInto(targets: Field[]): void {
  const { target, query } = parameters();
  for (const { scope, name, state, initial, codec } of targets) {
    if (!isIn(scope, target)) continue;
    const text = query.get(name);
    const value = text === null ? initial : (codec.read(text) ?? initial);
    if (codec.write(value) !== codec.write(state.peek())) state.value = value;
  }
}

/** Pages whose scripts, and with them their parameters, are still to be loaded; until then, the address is left as it is. */
const unregistered = signal<ReadonlySet<Page>>(new Set(['compute', 'meaning', 'inside', 'speed']));

/** Called when all parameters of a page are registered. */
export function completeState(target: Page): void {
  unregistered.value = new Set([...unregistered.peek()].filter((other) => other !== target));
}

/** The fragment that was last read or written. */
let known = '';

function readLocation(): void {
  const moved = redirected(location.hash);
  if (moved) history.replaceState(null, '', moved);
  known = location.hash;
  batch(() => {
    page.value = parameters().target;
    readInto(fields);
  });
}

/**
 * Makes a change to which the browser's Back button returns, such as choosing another example. Other changes, such as typing, replace the entry in the
 * history.
 */
export function asEntry(change: () => void): void {
  const before = currentLink.peek();
  const canWrite = () => linkIsComplete.peek() && !unregistered.peek().has(page.peek());
  if (canWrite() && location.hash === known && known !== before) history.replaceState(null, '', before);
  batch(change);
  const after = currentLink.peek();
  if (!canWrite() || after === before) return;
  history.pushState(null, '', after);
  known = location.hash;
}

/** Synchronizes the state with the address. Browsers limit how often the address may change, hence the delay. */
export function followUrl(): void {
  readLocation();
  addEventListener('hashchange', readLocation);
  let timer: ReturnType<typeof setTimeout> | undefined;
  effect(() => {
    const link = currentLink.value;
    clearTimeout(timer);
    if (!linkIsComplete.value || unregistered.value.has(page.value)) return;
    timer = setTimeout(() => {
      // An address that has changed meanwhile is read when its event arrives, and must not be overwritten before.
      if (location.hash !== known || known === link) return;
      history.replaceState(null, '', link);
      known = location.hash;
    }, 200);
  });
}
