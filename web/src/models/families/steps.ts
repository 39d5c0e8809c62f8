/**
 * What a sentence-transformers folder does with a text: a list of steps, in the order of modules.json. Each step takes
 * a named value and gives a named value, as the modules do with their `features`. Notation: N texts, T tokens of all
 * texts together, D width.
 */
import { invalidFile } from '../../base/error.js';
import type { RawTensor } from '../../base/wasm/core.js';
import type { Settings } from '../../io/settings.js';
import type { SparseSettings } from '../heads/sparse.js';

export const POOLINGS = ['mean', 'cls', 'last', 'max', 'mean_sqrt_len', 'weighted_mean'] as const;
/**
 * A pooling. 'mean_sqrt_len': the sum divided by the square root of the number of tokens. 'weighted_mean': the i-th
 * token has weight i.
 */
export type Pooling = (typeof POOLINGS)[number];

/** The names that modules use by default: a row per token [T, D], a vector per text [N, D], and logits [N, labels]. */
export const TOKENS = 'token_embeddings';
export const VECTORS = 'sentence_embedding';
export const SCORES = 'scores';

interface Named {
  /** The value that the step takes. */
  input: string;
  /** The value that it gives. It replaces an earlier value of this name. */
  output: string;
  /** The path of the module's folder: '' for the root, without a slash at the end. */
  path: string;
}

/** The encoder, or a table of static embeddings: from a text to rows of tokens, a vector, or logits. */
export interface ModelStep extends Named {
  kind: 'model';
  /** Whether the model is a StaticEmbedding: a tokenizer and an embedding table. */
  isStatic: boolean;
  /** sentence-transformers' `transformer_task`, which decides about the head of the model. */
  task: string;
  /** The method of transformers' class that is called. */
  method: string;
  /** The path of the value in the method's output, such as ['last_hidden_state'] or ['hidden_states', -2]. */
  from: readonly (string | number)[];
}

/** From rows of tokens to a vector per text. */
export interface PoolingStep extends Named {
  kind: 'pooling';
  /** The poolings, whose vectors are concatenated. */
  modes: readonly Pooling[];
  /** Whether the prompt's tokens are included. */
  poolsPrompt: boolean;
}

/** A layer that is applied to each row: y = activation(x W^T + b), or torch's LayerNorm. */
export interface LayerStep extends Named {
  kind: 'dense' | 'norm';
  inFeatures: number;
  outFeatures: number;
  bias: boolean;
  /** heed's name of the activation, or the name of a class of torch.nn for those in other-steps.ts. */
  activation: string;
  /**
   * Whether the input is added to the output; if their widths differ, after multiplication by `residual.weight`.
   */
  residual: boolean;
  /** The weight and bias, if they come from the model's own weights. */
  tensors?: RawTensor[] | undefined;
}

/** Scales each row to unit norm. */
export interface NormalizeStep extends Named {
  kind: 'normalize';
}

/** From the logits of a masked language model to a sparse vector per text (SpladePooling). */
export interface SpladeStep extends Named {
  kind: 'splade';
  settings: SparseSettings;
}

/** A step that other-steps.ts implements. `type`: the module's class. */
export interface OtherStep extends Named {
  kind: 'other';
  type: string;
  settings: Settings;
  /** The output's shape for that of the input. */
  shape: (given: ValueShape) => ValueShape;
}

/** Modules whose steps are of the kind 'other': which tokens have vectors, and which of them are joined. */
export const MASK = 'MultiVectorMask';
export const TOKEN_POOLING = 'HierarchicalTokenPooling';
/** The difference of two of a causal model's logits. */
export const LOGIT_SCORE = 'LogitScore';
/** Modules whose vectors are sparse; `embedSparse` runs them. */
export const SPARSE_MODULES: readonly string[] = ['SparseAutoEncoder', 'SparseStaticEmbedding'];

/**
 * Whether a reranker's score is the difference of two logits of a causal model: with the module, or without modules.json,
 * where sentence-transformers adds it. `architecture`: that of config.json.
 */
export const givesLogitScore = (
  { steps, texts }: { steps: readonly Step[]; texts: { chat: { onlyPairs: boolean } | null } },
  architecture: unknown,
): boolean =>
  steps.some((step) => step.kind === 'other' && step.type === LOGIT_SCORE) ||
  (texts.chat?.onlyPairs === true && isCausal(architecture));

const isCausal = (architecture: unknown) => /ForCausalLM$/.test(String([architecture].flat()[0]));

/**
 * Adds the pooling of a causal model without modules.json, for which sentence-transformers takes the last token.
 * `config`: config.json.
 */
export function addLastToken(
  { steps, texts }: { steps: Step[]; texts: { chat: { onlyPairs: boolean } | null } },
  config: Pick<Settings, 'get'>,
): void {
  if (!texts.chat?.onlyPairs || poolingOf(steps) || !isCausal(config.get('architectures'))) return;
  if (config.get('is_causal') === false) return;
  steps.push({ kind: 'pooling', path: '', input: TOKENS, output: VECTORS, modes: ['last'], poolsPrompt: true });
}

/** Whether a step gives a sparse vector. */
export const isSparse = (step: Step): boolean =>
  step.kind === 'splade' || (step.kind === 'other' && SPARSE_MODULES.includes(step.type));

export type Step = ModelStep | PoolingStep | LayerStep | NormalizeStep | SpladeStep | OtherStep;

/** The steps of one kind. */
export const ofKind = <K extends Step['kind']>(steps: readonly Step[], ...kinds: K[]) =>
  steps.filter((step): step is Extract<Step, { kind: K }> => (kinds as string[]).includes(step.kind));

/** Whether the folder's model is a table of static embeddings. */
export const isStaticIn = (config: { steps: readonly Step[] } | null): boolean =>
  config !== null && modelOf(config.steps).isStatic;

/** Whether the folder's model is a table with a weight for each token, for sparse vectors. */
export const isSparseTable = (config: { steps: readonly Step[] } | null): boolean =>
  config !== null && modelOf(config.steps).task === 'sparse';

/** Adds a normalization of the vectors as the last step, unless there is one. */
export function addNormalize(config: { steps: Step[] }): void {
  if (finalNormalize(vectorSteps(config.steps)) >= 0) return;
  config.steps = [...vectorSteps(config.steps), { kind: 'normalize', path: '', input: VECTORS, output: VECTORS }];
}

/** The step that runs the model. */
export const modelOf = (steps: readonly Step[]): ModelStep => ofKind(steps, 'model')[0]!;

/** The pooling whose vectors the folder's vectors are made of; undefined if the model itself gives them. */
export const poolingOf = (steps: readonly Step[]): PoolingStep | undefined => ofKind(steps, 'pooling').at(-1);

/** How vocabulary logits become a sparse vector; without SpladePooling, as its defaults. */
export const sparseIn = (steps: readonly Step[]): SparseSettings =>
  ofKind(steps, 'splade')[0]?.settings ?? { strategy: 'max', activation: 'relu' };

/** The layers among the steps. */
export const layersIn = (steps: readonly Step[]): LayerStep[] => ofKind(steps, 'dense', 'norm');

/** The layers that give the scores of a classifier or reranker. They do not affect the vectors. */
export const scoreLayers = (steps: readonly Step[]): LayerStep[] =>
  layersIn(steps).filter(({ output }) => output === SCORES);

/**
 * The steps of `embed`: those of the folder that give dense vectors. If it has none, as for rerankers, ColBERT and
 * SPLADE, the vectors are the mean of the tokens.
 */
export function vectorSteps(steps: readonly Step[]): Step[] {
  const sparse = steps.findIndex(isSparse);
  const dense = steps.filter((step, i) => step.output !== SCORES && (sparse < 0 || i < sparse));
  if (dense.some(({ output }) => output === VECTORS)) return dense;
  const { path } = modelOf(steps);
  const tokens: ModelStep = { ...modelOf(steps), from: ['last_hidden_state'], output: TOKENS };
  const others = dense.filter((step) => step.kind !== 'model' || step.from[0] !== 'logits');
  // After the others, so that the positions of the steps stay, unless the model itself is replaced.
  const added = others.length < dense.length ? [tokens, ...others] : [...others, tokens];
  const all = others.some(({ output }) => output === TOKENS) ? others : added;
  const mean: PoolingStep = {
    kind: 'pooling',
    input: TOKENS,
    output: VECTORS,
    path,
    modes: ['mean'],
    poolsPrompt: true,
  };
  return [...all, mean];
}

/**
 * The position of the step that normalizes the final vectors, which the option `normalize` of a call replaces; -1 if
 * they are not normalized.
 */
export function finalNormalize(steps: readonly Step[]): number {
  const last = steps.map(({ output }) => output).lastIndexOf(VECTORS);
  const step = steps[last];
  return step?.kind === 'normalize' && step.input === VECTORS ? last : -1;
}

/** The name of the pooling, for a description of the model: the modes, or the output of the model that is used. */
export function poolingName(steps: readonly Step[]): string {
  return poolingOf(steps)?.modes.join('+') ?? modelOf(steps).from.join('.');
}

/** Whether the folder's vectors are made of rows of tokens by a pooling, rather than by the model's pooler. */
export const readsTokens = (steps: readonly Step[]): boolean =>
  steps.some(({ kind }) => kind === 'pooling') && modelOf(steps).from[0] !== 'pooler_output';

/** A value between steps. */
export interface ValueShape {
  /** Whether it has a row per token, rather than one per text. */
  perToken: boolean;
  width: number;
}

/**
 * The values after all steps, by name.
 * @throws HeedError INVALID_FILE if a step takes a value that no step before it gives, or one of another width
 */
export function shapesOf(steps: readonly Step[], embedDim: number): Map<string, ValueShape> {
  const shapes = new Map<string, ValueShape>();
  for (const step of steps) {
    if (step.kind === 'model') {
      shapes.set(step.output, { perToken: step.from[0] !== 'pooler_output', width: embedDim });
      continue;
    }
    const given = shapes.get(step.input);
    if (!given) {
      const names = [...shapes.keys()].map((name) => `'${name}'`).join(', ');
      throw invalidFile('modules.json', `a module before '${step.path}' that gives '${step.input}'`, names || 'none');
    }
    if (step.kind === 'pooling') {
      if (!given.perToken)
        throw invalidFile('modules.json', `rows of tokens for '${step.path}'`, `'${step.input}', a vector per text`);
      shapes.set(step.output, { perToken: false, width: step.modes.length * given.width });
    } else if (step.kind === 'dense' || step.kind === 'norm') {
      const expected = `a layer for vectors of width ${given.width}, the output of the layer before`;
      if (step.inFeatures !== given.width)
        throw invalidFile(weightsOf(step), expected, `a layer for width ${step.inFeatures}`);
      shapes.set(step.output, { ...given, width: step.activation === 'GLU' ? step.outFeatures / 2 : step.outFeatures });
    } else if (step.kind === 'splade') {
      shapes.set(step.output, { perToken: false, width: given.width });
    } else {
      shapes.set(step.output, step.kind === 'other' ? step.shape(given) : given);
    }
  }
  return shapes;
}

/** The path of a layer's weights. */
export const weightsOf = ({ path }: Step): string => `${path}/model.safetensors`;
