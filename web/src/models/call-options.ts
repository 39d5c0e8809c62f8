/** The schemas of the options of `fromPretrained` and of a model's calls. */
import { describe, formatShape, invalid } from '../base/error.js';
import { cacheOption, hubToken } from '../base/hub-options.js';
import {
  callback,
  flag,
  headMask,
  integer,
  listOf,
  oneOf,
  optional,
  type Read,
  type Reader,
  readOptions,
  type Schema,
  signal,
  size,
  sizeOrInfinity,
  text,
  texts,
} from '../base/options.js';
import type { FetchLike } from '../base/platform.js';
import { editSchema, siteSchema } from '../base/site-options.js';
import type { RawTensor } from '../base/wasm/core.js';
import type { IntegrityOption } from '../io/integrity.js';
import type { RemoteOptions } from '../io/source.js';
import { POOLINGS, type Pooling } from './families/steps.js';
import { weightsPath } from './families/weight-files.js';
import { isTexts, type ModelInput } from './input.js';
import type { LoadModelOptions } from './loaded-model.js';
import type { DecodeOptions, EncodeOptions, ModelConfig } from './model.js';
import { OUTPUTS } from './quantized.js';

const pooling = oneOf(POOLINGS);
const poolings: Reader<readonly Pooling[]> = (value, name) => {
  if (!Array.isArray(value)) return [pooling(value, name)];
  const list = listOf(pooling, 'a pooling or an array of them')(value, name);
  if (list.length === 0) throw invalid(name, 'at least one pooling', 'an empty array');
  return list;
};

const inputSchema = {
  textPairs: optional(texts, undefined),
  truncation: optional(flag, undefined),
  maxLength: optional(size, undefined),
};
export const callSchema = {
  ...inputSchema,
  signal,
  onProgress: callback<NonNullable<EncodeOptions['onProgress']>>,
  headMask: optional(headMask, null),
  ...editSchema,
};
const taskSchema = { task: optional(text, undefined) };
const promptSchema = { prompt: optional(text, undefined), promptName: optional(text, undefined) };
const encodeSiteSchema = { ...callSchema, ...siteSchema, ...taskSchema };
const predictSchema = { ...encodeSiteSchema, ...promptSchema };
const role = oneOf(['query', 'document']);
const tokenizeSchema = { ...inputSchema, ...taskSchema, maxLength: optional(sizeOrInfinity, undefined), signal };
const encodeSchema = {
  ...encodeSiteSchema,
  outputAttentions: optional(flag, false),
  outputHiddenStates: optional(flag, false),
  outputProjections: optional(flag, false),
};
export const embedSchema = {
  ...callSchema,
  pooling: optional(poolings, undefined),
  normalize: optional(flag, undefined),
  dimensions: optional(size, undefined),
  ...promptSchema,
  ...taskSchema,
  output: optional(oneOf(OUTPUTS), 'float32' as const),
};
const embedTokensSchema = {
  ...callSchema,
  promptName: optional(role, 'document' as const),
};
const embedSparseSchema = { ...callSchema, promptName: optional(role, undefined) };
const scoreSpansSchema = { signal, onProgress: callSchema.onProgress };

/** A model's methods that take texts, with the schemas of their options: for models in this thread and in workers. */
const TEXT_METHODS = {
  encode: encodeSchema,
  embed: embedSchema,
  embedSparse: embedSparseSchema,
  embedTokens: embedTokensSchema,
  scoreSpans: scoreSpansSchema,
  tokenize: tokenizeSchema,
  predict: predictSchema,
};
export type TextMethod = keyof typeof TEXT_METHODS;
/** The options of a method after they have been read. */
export type OptionsOf<M extends TextMethod> = Read<(typeof TEXT_METHODS)[M]>;

export const readCall = <M extends TextMethod>(method: M, options: object | undefined): OptionsOf<M> =>
  readOptions(method, TEXT_METHODS[method] as Record<string, Reader<unknown>>, options) as OptionsOf<M>;

/** Token ids to decode. */
export const decodeIds = listOf((value, name) => integer(value, name, 0), 'an array of token ids');
export const decodeSchema = {
  skipSpecialTokens: optional(flag, true),
  cleanUpTokenizationSpaces: optional(flag, undefined),
} satisfies Schema<DecodeOptions>;

/** Splits the option `headMask` into the factors of each layer's heads; checks it against the model's sizes. */
export function headMaskRows(
  mask: RawTensor | null | undefined,
  { numLayers, numHeads }: Pick<ModelConfig, 'numLayers' | 'numHeads'>,
): Float32Array[] | null {
  if (!mask) return null;
  const expected = formatShape([numLayers, numHeads]);
  const got = formatShape(mask.shape);
  if (got !== expected) throw invalid('headMask', `shape ${expected} (layers and heads)`, got, 'SHAPE_MISMATCH');
  return Array.from({ length: numLayers }, (_, i) => mask.data.slice(i * numHeads, (i + 1) * numHeads));
}

/** Rejects options for texts if the input is token ids, which are run as given. */
export function requireTexts(input: ModelInput, options: object): void {
  if (isTexts(input)) return;
  for (const name of ['textPairs', 'prompt', 'promptName'])
    if ((options as Record<string, unknown>)[name] !== undefined)
      throw invalid(name, 'undefined together with token ids', describe((options as Record<string, unknown>)[name]));
}

/** Options for where a model is read from. */
export const remoteSchema = {
  remoteHost: optional(text, undefined),
  revision: optional(text, undefined),
  token: optional(hubToken, undefined),
  fetch: callback<FetchLike>,
  cache: cacheOption,
  refresh: optional(flag, undefined),
  integrity: optional((value: unknown, name: string) => {
    if (typeof value !== 'object' || value === null)
      throw invalid(name, "{ 'model.safetensors': 'sha256-...' }", describe(value));
    return { ...(value as IntegrityOption) };
  }, undefined),
} satisfies Schema<RemoteOptions>;

export const loadSchema = {
  dtype: optional(oneOf(['fp32', 'q8']), 'fp32' as const),
  weights: optional(weightsPath, undefined),
  strict: optional(flag, undefined),
  onProgress: callback<NonNullable<LoadModelOptions['onProgress']>>,
  signal,
  ...remoteSchema,
};
