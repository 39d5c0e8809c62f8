/**
 * The functions and layer classes that heed/train calls. Calls whose results need gradients are recorded; all others go
 * straight to the WebAssembly module.
 */
import type { Calls, RawFunctions, RawLayer, RawTensor } from '../../base/wasm/core.js';
import { FreeParameter, type LayerTraits, layers } from '../inference.js';
import { RecordedLayer } from './recorded.js';
import type { Tape } from './tape.js';
import type { TrainCore } from './train-core.js';

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
