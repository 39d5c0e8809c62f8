/** Layers that several heads of a checkpoint share. */
import type { RawTensorLayer } from '../core.js';
import type { Runtime } from '../owned.js';
import type { TrainCore } from './core.js';

/** Makes the layers of heads, each once: several heads may have a layer of the checkpoint, which they train together. */
export class HeadLayers {
  /** By their names in the checkpoint. */
  readonly made = new Map<string, RawTensorLayer>();
  readonly #uses = new Map<RawTensorLayer, number>();

  /** A runtime whose linear and norm layers are shared. */
  sharing(runtime: Runtime): Runtime {
    const layers = this;
    return Object.create(runtime, {
      core: {
        get: () => {
          const core = Object.create(runtime.core) as TrainCore;
          for (const kind of ['Linear', 'LayerNorm'] as const) {
            const Raw = runtime.core[kind] as unknown as new (options: object) => RawTensorLayer;
            // biome-ignore lint/complexity/useArrowFunction: called with `new`
            const Shared = function (options: { name: string }) {
              return layers.#layer(options.name, () => new Raw(options));
            };
            Object.defineProperty(core, kind, { value: Shared });
          }
          return core;
        },
      },
    });
  }

  /** Keeps the layers, which are among a model's parameters, when its heads are replaced; returns what ends that. */
  hold(): () => void {
    const held = [...this.made.values()];
    for (const raw of held) this.#uses.set(raw, this.#uses.get(raw)! + 1);
    return () => {
      for (const raw of held) raw.delete();
    };
  }

  #layer(name: string, make: () => RawTensorLayer): RawTensorLayer {
    const raw = this.made.get(name) ?? make();
    if (!this.made.has(name)) {
      const { delete: free } = raw;
      raw.delete = () => {
        const uses = this.#uses.get(raw)! - 1;
        this.#uses.set(raw, uses);
        if (uses > 0) return;
        this.made.delete(name);
        free.call(raw);
      };
      this.made.set(name, raw);
    }
    this.#uses.set(raw, (this.#uses.get(raw) ?? 0) + 1);
    return raw;
  }
}
