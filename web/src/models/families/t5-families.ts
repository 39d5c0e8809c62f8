/** The encoders of T5 models, which families.ts imports when a model has one of their names. */
import type { Settings } from '../../io/settings.js';
import {
  activation,
  type Config,
  type Family,
  keyRows,
  MAX_LAYERS,
  MAX_WIDTH,
  queryRows,
  secondHalf,
  type T5FamilyName,
  valueRows,
} from './family.js';

/** The limit of a text's length: distances have biases at any length, so the models have no limit of their own. */
const MAX_POSITIONS = 2 ** 24;
/** The largest distance with a bias of its own that is supported. */
const MAX_DISTANCE = 2 ** 16;
const BIAS = 'layer.0.SelfAttention.relative_attention_bias';

/** Values for absent settings. */
const T5 = { vocabSize: 32128, feedForwardDim: 2048, numLayers: 6, numHeads: 8, feedForward: 'relu' };
const MT5 = { vocabSize: 250112, feedForwardDim: 1024, numLayers: 8, numHeads: 6, feedForward: 'gated-gelu' };

function configOf(s: Settings, fallback: typeof T5): Config {
  if (s.flag('is_decoder', false)) throw s.unsupported('is_decoder', 'false, as in an encoder', 'true');
  const numHeads = s.count(['num_attention_heads', 'num_heads'], fallback.numHeads, 1, MAX_WIDTH);
  const relativeBuckets = s.count('relative_attention_num_buckets', 32, 4, 1024);
  return {
    vocabSize: s.count('vocab_size', fallback.vocabSize, 1),
    embedDim: s.count(['hidden_size', 'd_model'], 512, 1, MAX_WIDTH),
    numHeads,
    keyValueHeads: numHeads,
    headDim: s.count(['head_dim', 'd_kv'], 64, 1, MAX_WIDTH),
    numLayers: s.count(['num_hidden_layers', 'num_layers'], fallback.numLayers, 0, MAX_LAYERS),
    feedForwardDim: s.count('d_ff', fallback.feedForwardDim, 1, 4 * MAX_WIDTH),
    maxPositions: MAX_POSITIONS,
    ...feedForwardOf(s, fallback.feedForward),
    eps: s.between('layer_norm_epsilon', 0, 1, 1e-6),
    positions: 'relative',
    relativeBuckets,
    // Half of the buckets on each side hold a single distance.
    relativeDistance: s.count(
      'relative_attention_max_distance',
      128,
      Math.floor(relativeBuckets / 4) + 1,
      MAX_DISTANCE,
    ),
    attentionScale: 1,
    normFirst: true,
    embeddingNorm: false,
    finalNorm: true,
    bias: false,
    normBias: false,
    rmsNorm: true,
  };
}

/**
 * `feed_forward_proj` is an activation, or 'gated-' and an activation. Files that transformers writes also have its two
 * parts, which take precedence.
 */
function feedForwardOf(s: Settings, fallback: string): Pick<Config, 'activation' | 'gated'> {
  const key = 'feed_forward_proj';
  const parts = s.text(key, fallback).split('-');
  if (parts.length > 2 || (parts.length === 2 && parts[0] !== 'gated'))
    throw s.wrong(key, "an activation, or 'gated-' and an activation", parts.join('-'));
  const own = parts.join('-') === 'gated-gelu' ? 'gelu_new' : parts.at(-1)!;
  const actKey = 'dense_act_fn';
  const named = s.get(actKey) === undefined ? key : actKey;
  return {
    activation: activation(named === key ? s.with({ [key]: own }) : s, named, own),
    gated: s.flag('is_gated_act', parts[0] === 'gated'),
  };
}

/** `names`: the names of the biases of distances. */
const familyOf = (
  fallback: typeof T5,
  names: Pick<Family, 'layerBias'> & { modules?: Family['modules'] | undefined },
): Family => ({
  prefix: 'transformer.',
  config: (s) => ({ ...configOf(s, fallback), relativePerLayer: names.layerBias !== undefined }),
  modules: {
    shared: 'embeddings.word.',
    'encoder.embed_tokens': 'embeddings.word.',
    'encoder.final_layer_norm': 'norm.',
    ...names.modules,
  },
  layerPrefix: 'encoder.block.{i}.',
  layer: {
    'layer.0.layer_norm': 'norm1.',
    'layer.0.SelfAttention.q': queryRows,
    'layer.0.SelfAttention.k': keyRows,
    'layer.0.SelfAttention.v': valueRows,
    'layer.0.SelfAttention.o': 'self_attn.out_proj.',
    'layer.1.layer_norm': 'norm2.',
    'layer.1.DenseReluDense.wi': 'linear1.', // with a gate, the following two instead
    'layer.1.DenseReluDense.wi_0': 'linear1.',
    'layer.1.DenseReluDense.wi_1': secondHalf,
    'layer.1.DenseReluDense.wo': 'linear2.',
  },
  layerBias: names.layerBias,
  // transformers makes the first a copy of the second only if the file lacks it, or if they are equal.
  copies: { 'shared.weight': 'encoder.embed_tokens.weight' },
  headTensors: /^classifier\./,
});

/** All layers share the biases of the first one. */
const shared = { modules: { [`encoder.block.0.${BIAS}`]: 'relative_attention_bias.' } };

export const t5Families: Readonly<Record<T5FamilyName, Family>> = {
  t5: familyOf(T5, shared),
  mt5: familyOf(MT5, shared),
  umt5: familyOf(MT5, { layerBias: BIAS }),
};
