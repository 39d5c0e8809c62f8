/** The layer classes by name. */
import { plainOptions, type Reader, readOptions } from '../base/options.js';
import type { Runtime } from '../base/owned.js';
import { Conv1D } from './convolution.js';
import { Decoder, DecoderLayer } from './decoder.js';
import { Dropout } from './dropout.js';
import { Embedding } from './embedding.js';
import { Encoder, EncoderLayer } from './encoder.js';
import { FeedForward } from './feed-forward.js';
import type { Layer, UnboundLayer } from './layer.js';
import { Linear } from './linear.js';
import { MultiHeadAttention } from './multi-head-attention.js';
import { BatchNorm, LayerNorm } from './norms.js';
import { PositionalEncoding } from './positional-encoding.js';
import { GRU, LSTM } from './recurrent.js';
import { Transformer } from './transformer.js';

/** The classes, not yet bound to a runtime. */
export const layers = {
  Linear,
  LayerNorm,
  BatchNorm,
  Dropout,
  PositionalEncoding,
  FeedForward,
  MultiHeadAttention,
  EncoderLayer,
  Encoder,
  DecoderLayer,
  Decoder,
  Transformer,
  Embedding,
  Conv1D,
  LSTM,
  GRU,
};

/** Returns a subclass of `Base` named `name` whose constructor takes only the caller's options. */
function bind(runtime: Runtime, name: string, Base: UnboundLayer<Layer, object>): object {
  const Bound = class extends Base {
    constructor(options?: object) {
      const given = options && plainOptions<{ seed?: unknown }>(name, options);
      super(runtime, name, readOptions(name, Base.schema as Record<string, Reader<unknown>>, given) as never);
      this.hasOwnDraws = (given?.seed ?? null) !== null;
    }
  };
  return Object.defineProperty(Bound, 'name', { value: name });
}

/** The classes of a runtime. */
export function boundLayers(runtime: Runtime): Record<string, object> {
  return Object.fromEntries(Object.entries(layers).map(([name, Base]) => [name, bind(runtime, name, Base)]));
}
