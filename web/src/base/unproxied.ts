/**
 * The base of classes whose instances applications store. Vue makes a reactive proxy of every object in `ref()` and
 * `reactive()`, and private fields cannot be read through a proxy. It leaves out objects with the property `__v_skip`,
 * which is also what its `markRaw` sets.
 */
export abstract class Unproxied {
  /** @internal */
  get __v_skip(): true {
    return true;
  }
}
