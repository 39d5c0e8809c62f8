/** Layers that the heads of a checkpoint share. */
import type { Runtime } from '../../base/owned.js';
import type { Calls, RawLayers, RawTensorLayer } from '../../base/wasm/core.js';
import type { RecordedLayer } from '../graph/recorded.js';

/**
 * Makes each layer of the heads once. Heads that use the same layer of the checkpoint share it, and train it jointly.
 */
export class HeadLayers {
  /** The layers, by their names in the checkpoint. */
  readonly made = new Map<string, RawTensorLayer>();

  /** A runtime in which linear and norm layers of the same name are shared. */
  sharing(runtime: Runtime): Runtime {
    const shared = (kind: 'Linear' | 'LayerNorm') => {
      const layers = this;
      // biome-ignore lint/complexity/useArrowFunction: called with `new`
      return function (options: { name: string }) {
        return layers.#layer(options.name, () => new (runtime.calls[kind] as RawLayers['LayerNorm'])(options as never));
      };
    };
    const own = { Linear: shared('Linear'), LayerNorm: shared('LayerNorm') };
    return {
      owned: runtime.owned,
      hub: runtime.hub,
      get core() {
        return runtime.core;
      },
      get calls() {
        return { ...runtime.calls, ...own } as unknown as Calls;
      },
    };
  }

  #layer(name: string, make: () => RawTensorLayer): RawTensorLayer {
    const found = this.made.get(name) as RecordedLayer | undefined;
    if (found && !found.deleted) return found.retain() as unknown as RawTensorLayer;
    const layer = make();
    this.made.set(name, layer);
    return layer;
  }
}
