/** The layer classes by name, not yet bound to a runtime. */
import { Decoder, DecoderLayer } from './decoder.js';
import { Dropout } from './dropout.js';
import { Embedding } from './embedding.js';
import { Encoder, EncoderLayer } from './encoder.js';
import { FeedForward } from './feed-forward.js';
import { Linear } from './linear.js';
import { MultiHeadAttention } from './multi-head-attention.js';
import { BatchNorm, LayerNorm } from './norms.js';
import { PositionalEncoding } from './positional-encoding.js';
import { Transformer } from './transformer.js';

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
};
