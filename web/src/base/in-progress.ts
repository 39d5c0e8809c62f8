/**
 * The calls of the core that are in progress. A callback of one, such as an edit's `map`, may call the core in turn, and runs while the core still uses the objects of the
 * outer call. What it disposes of is therefore freed when the outermost call has returned, and what the outer call runs cannot be changed.
 */

import { invalid } from './error.js';
import type { RawModule } from './wasm/core.js';

let depth = 0;
const waiting: (() => void)[] = [];

/** Runs `body`, which calls the core. */
export function inCall<T>(body: () => T): T {
  depth++;
  try {
    return body();
  } finally {
    if (--depth === 0) for (const free of waiting.splice(0)) free();
  }
}

/** Calls `free`, which deletes objects of the core, once no call is in progress. */
export function whenIdle(free: () => void): void {
  if (depth > 0) waiting.push(free);
  else free();
}

/** Requires that no call of these modules is in progress. `call` would change them. @throws HeedError `INVALID_ARGUMENT` */
export function requireIdle(call: string, modules: Iterable<RawModule>): void {
  if (depth === 0) return;
  for (const module of modules) {
    if (module.isRunning())
      throw invalid(call, 'a module that no call is running', 'one whose call is in progress', 'INVALID_ARGUMENT', {
        hint: 'A callback, such as the map of an edit, may call the module but not change it',
      });
  }
}
