/**
 * Keeps objects alive while their calls are pending. Nothing else may refer to a model whose call waits for a worker or
 * for the event loop: its promise does not. The garbage collector would then end the worker, or free memory in
 * WebAssembly, that the call still uses.
 *
 * `heldByCalls` does so for all methods of a class, also for those that are added later. It is called for every class
 * whose instances own such resources and which has methods that return promises.
 */

/** What pending calls work on. Entries are objects of their own, because an object may have several calls. */
const held = new Set<{ readonly objects: unknown }>();

/** Holds `objects` until `work` settles, and settles as it does. */
async function pending<T>(objects: unknown, work: Promise<T>): Promise<T> {
  const entry = { objects };
  held.add(entry);
  try {
    return await work;
  } finally {
    held.delete(entry);
  }
}

/**
 * Changes all methods of `owner`, the prototype of a class or another object, so that a call that returns a promise
 * holds its object and its arguments. Returns `owner`.
 */
export function heldByCalls<T extends object>(owner: T): T {
  for (const [name, descriptor] of Object.entries(Object.getOwnPropertyDescriptors(owner))) {
    const { value } = descriptor;
    if (typeof value === 'function' && name !== 'constructor')
      Object.defineProperty(owner, name, { ...descriptor, value: holding(name, value) });
  }
  return owner;
}

function holding(name: string, method: (...args: unknown[]) => unknown): unknown {
  const own = {
    [name](this: unknown, ...args: unknown[]): unknown {
      const result: unknown = method.apply(this, args);
      return result instanceof Promise ? pending([this, args], result) : result;
    },
  };
  return own[name];
}
