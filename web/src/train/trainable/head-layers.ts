/** Layers that the heads of a checkpoint share. */
import type { Runtime } from '../../base/owned.js';
import type { RawLayers, RawTensorLayer } from '../../base/wasm/core.js';
import { filled, type Head, type HeadContext } from '../../models/heads/task-heads.js';
import type { RecordedModule } from '../graph/recorded-module.js';

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
    return Object.create(runtime, { calls: { get: () => ({ ...runtime.calls, ...own }) } });
  }

  #layer(name: string, make: () => RawTensorLayer): RawTensorLayer {
    const found = this.made.get(name) as RecordedModule | undefined;
    if (found && !found.deleted) return found.retain() as unknown as RawTensorLayer;
    const layer = make();
    this.made.set(name, layer);
    return layer;
  }
}

/**
 * Makes the bias of an MLM decoder whose weight is that of the token embeddings a parameter of its own: the bias of a
 * linear layer whose inputs are zeros, which the head then uses. Returns null if the head has no bias.
 */
export function makeWordBias(head: Head | undefined, { calls, tensors }: HeadContext): RawTensorLayer | null {
  const found = head?.isTied && [...tensors].find(([, { data }]) => data === head.bias);
  if (!found) return null;
  const [file, value] = found;
  const name = file.replace(/\.bias$/, '');
  const options = { inFeatures: 1, outFeatures: value.data.length, bias: true, activation: 'identity', name };
  const layer = filled(new calls.Linear(options), [undefined, value]);
  Object.defineProperty(head, 'bias', { get: () => layer.readParameter(1) });
  return layer;
}
