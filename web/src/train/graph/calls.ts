/**
 * The functions and layer classes that heed/train calls. Calls whose results need gradients are recorded; all others go
 * straight to the WebAssembly module.
 */
import { formatShape, invalid } from '../../base/error.js';
import { elementCount } from '../../base/tensor.js';
import type { Calls, RawFunctions, RawIncrementalDecoder, RawLayer, RawTensor } from '../../base/wasm/core.js';
import { layers } from '../../layers/classes.js';
import { FreeParameter } from '../../layers/composition/parameter.js';
import type { LayerTraits } from '../../layers/layer.js';
import { RecordedModule } from './recorded-module.js';
import type { Tape } from './tape.js';
import type { TrainCore } from './train-core.js';

class RecordedLayer extends RecordedModule<RawLayer> implements RawIncrementalDecoder {
  declare readonly tape: Tape;
  readonly #traits: LayerTraits;

  constructor(tape: Tape, name: string, inner: RawLayer, traits: LayerTraits) {
    super(tape, name, inner);
    this.#traits = traits;
  }

  forward(given: object): unknown {
    const values = Object.values(given);
    if (!this.tape.records(this, values)) return this.inner.forward(given);
    const position = values.length > 0 ? this.#positionOf(values[0].shape) : null;
    return this.tape.record(this, (call) => call.layer(this.inner, given, position));
  }

  makeCache(...given: Parameters<RawIncrementalDecoder['makeCache']>) {
    return (this.inner as RawIncrementalDecoder).makeCache(...given);
  }

  step(...given: Parameters<RawIncrementalDecoder['step']>) {
    return (this.inner as RawIncrementalDecoder).step(...given);
  }

  /**
   * For a part of a batch, the indices of its first sequence and its first row in the whole batch; otherwise null.
   * `shape`: the shape of the first input.
   */
  #positionOf(shape: readonly number[]): [sequence: number, row: number] | null {
    const { part } = this.tape;
    if (!part) return null;
    if (shape.length < 3 && this.#traits.relatesRows) {
      const got = `${formatShape(shape)} for ${this.name}`;
      throw invalid('fit.workers', 'sequences, [N, L, E], as examples', got, 'SHAPE_MISMATCH', {
        hint: 'Leave `workers` out',
      });
    }
    const positionOf = (axes: readonly number[]) => (elementCount(axes) / part.count) * part.first;
    return [shape.length < 3 ? 0 : positionOf(shape.slice(0, -2)), positionOf(shape.slice(0, -1))];
  }
}

/** Sums the gradients [H, L, S] of a relative bias into those of its table [buckets, H], given the bucket of each query and key. */
function tableGradient(gradient: Float32Array, buckets: Float32Array, [rows, heads]: readonly number[]): RawTensor {
  const data = new Float32Array(rows! * heads!);
  gradient.forEach((value, i) => {
    const at = buckets[i % buckets.length]! * heads! + Math.floor(i / buckets.length);
    data[at] = data[at]! + value;
  });
  return { data, shape: [rows!, heads!] };
}

/** Wraps the calls of `core` so that `tape` records them. */
export function recordingCalls(core: TrainCore, tape: Tape): Calls {
  const relativeBias: RawFunctions['relativeBias'] = (table, options) => {
    if (!tape.records(null, [table])) return core.relativeBias(table, options);
    const rows = table.shape[0] ?? 0;
    const numbers = { data: Float32Array.from({ length: rows }, (_, i) => i), shape: [rows, 1] };
    const { data: buckets } = core.relativeBias(numbers, options);
    return tape.record(null, (call) =>
      call.external(core.relativeBias(table, options), [call.input('table', table)], (gradient) => [
        tableGradient(gradient, buckets, table.shape),
      ]),
    );
  };
  const calls: Record<string, unknown> = {
    compute: (name: 'softmax', given: object) =>
      tape.records(null, Object.values(given))
        ? tape.record(null, (call) => call.function(name, given))
        : core.compute(name, given),
    positionalEncoding: core.positionalEncoding,
    alibi: core.alibi,
    relativeBias,
  };
  for (const [name, traits] of Object.entries({ ...layers, Parameter: FreeParameter })) {
    const Raw = core[name as 'Linear'] as unknown as new (options: object) => RawLayer;
    calls[name] = class extends RecordedLayer {
      constructor(options: object) {
        super(tape, name, new Raw(options), traits as LayerTraits);
      }
    };
  }
  return calls as unknown as Calls;
}
