/** A loaded model and the steps that its calls have in common: reading options, making rows, running them. */
import { invalid } from '../base/error.js';
import { makeYield } from '../base/event-loop.js';
import { Owned, type Runtime } from '../base/owned.js';
import { planSites, type SitePlan } from '../base/site-plan.js';
import { encoderSizes } from '../base/sites.js';
import { elementCount } from '../base/tensor.js';
import type { RawEncoderModelConfig, RawRows, RawTensor } from '../base/wasm/core.js';
import { headMaskRows, type OptionsOf, readCall, requireTexts, type TextMethod } from './call-options.js';
import { modelConfig } from './families/model-config.js';
import { type Pooling, promptOf, type SentenceConfig } from './families/sentence-transformers.js';
import { type Head, type HeadContext, type HeadName, makeHead, makePooler } from './heads/task-heads.js';
import {
  allRows,
  type InputContext,
  isTexts,
  longest,
  type ModelInput,
  positionLimit,
  type Row,
  type RowOptions,
  type RowSteps,
  rowsOf,
} from './input.js';
import type { LoadedModel } from './load.js';
import type { ModelConfig } from './model.js';
import type { FetchRows } from './paged-embeddings.js';
import type { Parts } from './parts.js';
import { normalized } from './quantized.js';
import {
  type DeviceLayers,
  type PieceHooks,
  type PieceOptions,
  piecesOf,
  poolRows,
  requireRows,
  runPiece,
} from './run.js';
import { STATIC } from './static-embedding.js';

/** The part of a pretrained encoder in this thread that its calls and its heads use. */
export class RunnableModel extends Owned<Parts> {
  readonly config: ModelConfig;
  protected readonly encoderConfig: RawEncoderModelConfig;
  readonly #fetchRows: FetchRows | null;
  /** @internal */
  readonly sentence: SentenceConfig;
  /** @internal */
  readonly context: InputContext;
  /** @internal */
  readonly headContext: HeadContext;
  /** @internal */
  readonly classPooling: Pooling;

  constructor(runtime: Runtime, loaded: LoadedModel, parts: Parts) {
    super('PretrainedModel', runtime, parts);
    const { config, settings, tokenizer, sentence, family, type, heads: tensors } = loaded;
    const { positionOffset, eps } = config;
    this.encoderConfig = config;
    this.#fetchRows = loaded.fetchRows;
    this.sentence = sentence;
    const maxLength = Math.min(positionLimit(config), tokenizer?.maxLength ?? Infinity, sentence.maxLength);
    const padId = settings.count('pad_token_id', Math.max(0, positionOffset - 1));
    this.context = { tokenizer, config, maxLength, padId };
    this.headContext = { core: runtime.core, calls: runtime.calls, tensors, settings, type, eps };
    this.classPooling = settings.get('classifier_pooling') === 'mean' ? 'mean' : 'cls';
    parts.pooler = makePooler(family.pooler, this.headContext);
    const parameterCount = parts.encoder.parameters().reduce((sum, { shape }) => sum + elementCount(shape), 0);
    this.config = modelConfig(loaded, maxLength, parameterCount);
  }

  /** @internal Reads the options of a call. Throws if the model has been disposed of or the signal has fired. */
  begin<M extends TextMethod>(method: M, options: object): [OptionsOf<M>, PieceOptions] {
    void this.raw;
    const read = readCall(method, options);
    const { signal, headMask = null } = read as Partial<OptionsOf<'encode'>>;
    return [
      read,
      { yieldToEventLoop: makeYield(signal), headMask: headMaskRows(headMask, this.encoderConfig), sites: null },
    ];
  }

  /** @internal Runs rows in pieces. `hooksOf` returns the hooks for a piece, whose first text is `first`. */
  async run(
    rows: RowSteps,
    total: number,
    { onProgress, signal }: Partial<Pick<OptionsOf<'encode'>, 'onProgress' | 'signal'>>,
    options: PieceOptions,
    hooksOf: (piece: Row[], first: number) => PieceHooks,
  ): Promise<void> {
    let done = 0;
    const { sites } = options;
    const all = sites?.needsAll ? allRows(rows) : [];
    const run = async (piece: Row[], layers: DeviceLayers | null) => {
      requireRows(piece, this.context, done);
      await this.#fetchRows?.(piece, () => void this.raw, signal);
      const raw = sites?.raw(done, piece) ?? null;
      await runPiece(
        () => this.raw.encoder,
        this.encoderConfig,
        piece,
        { ...options, layers },
        hooksOf(piece, done),
        raw,
      );
      done += piece.length;
      onProgress?.({ done, total });
    };
    const { device } = this.raw;
    const budget = options.small || sites ? undefined : device?.maxRows;
    for (const piece of all.length > 0 ? [all] : piecesOf(rows, this.encoderConfig, budget)) {
      await options.yieldToEventLoop();
      if (!piece) continue;
      if (!device) await run(piece, null);
      else {
        const tokens = piece.reduce((sum, { ids }) => sum + ids.length, 0);
        await device.attempt('text', tokens, async (layers) => {
          // Pieces for a GPU are larger than those for WebAssembly.
          const parts = layers || all.length > 0 ? [piece] : piecesOf(piece, this.encoderConfig);
          for (const part of parts) if (part) await run(part, layers);
        });
      }
    }
  }

  /** @internal Plans the sites that a call with these rows reads and edits. */
  sites(owner: string, read: Parameters<typeof planSites>[0], rows: readonly Row[]): SitePlan | null {
    return planSites(read, () => {
      if (this.config.family === STATIC)
        throw invalid(owner, 'a model with an encoder for `read` and `edit`', 'static embeddings', 'UNSUPPORTED');
      const sizes = encoderSizes(this.encoderConfig, rows.length, longest(rows));
      return { owner, stacks: [{ numLayers: this.encoderConfig.numLayers, sizesOf: () => sizes }] };
    });
  }

  /** @internal The rows of a call. If there are edits, tokenizes all rows first. */
  async withSites(
    owner: string,
    read: Parameters<typeof planSites>[0],
    rows: RowSteps,
    options: PieceOptions,
  ): Promise<RowSteps> {
    if (!read.edit) return rows;
    const all = await collected(rows, options);
    options.sites = this.sites(owner, read, all);
    return all;
  }

  /** The vectors that `embed` returns, [N, width], cut to the first `width` entries. Default: all entries. */
  protected vectors(
    encoding: RawRows,
    piece: Row[],
    pooling: readonly Pooling[],
    normalize: boolean,
    skipped: number,
    width?: number,
  ): RawTensor {
    const { data, shape } = this.raw.vectorLayers.forward(
      poolRows(encoding, piece.length, this.encoderConfig.embedDim, pooling, skipped),
    );
    const [count, full] = shape as [number, number];
    const kept = width ?? full;
    const out = new Float32Array(count * kept);
    for (let n = 0; n < count; n++) {
      const vector = data.subarray(n * full, n * full + kept);
      out.set(normalize ? normalized(vector) : vector, n * kept);
    }
    return { data: out, shape: [count, kept] };
  }

  /**
   * @internal The number of the prompt's tokens, including the special token before it, if the folder excludes the
   * prompt from pooling; otherwise 0.
   */
  tokensOf(prompt: string): number {
    const { tokenizer } = this.context;
    if (this.sentence.poolsPrompt || prompt === '' || !tokenizer) return 0;
    const { tokens } = tokenizer.tokenize(prompt, undefined, Infinity);
    return tokens.length - (tokens.at(-1)?.part === null ? 1 : 0);
  }

  /** The rows of an input as the model runs them. `isPooled`: only the pooled vectors are needed. */
  protected rows(input: ModelInput, options: RowOptions, isPooled = false): RowSteps {
    const rows = rowsOf(input, options, this.context);
    return this.raw.encoder.textRows?.(rows, isTexts(input), isPooled) ?? rows;
  }

  protected async allRows(
    input: ModelInput,
    options: RowOptions,
    pieceOptions: PieceOptions,
    prompt = '',
  ): Promise<Row[]> {
    requireTexts(input, options);
    return collected(this.rows(input, { ...options, prompt }), pieceOptions);
  }

  /** @internal */
  prompt(given: { prompt?: string | undefined; promptName?: string | undefined } = {}): string {
    return promptOf(this.sentence, given);
  }

  /** @internal */
  head(name: HeadName): Head {
    const { heads } = this.raw;
    const head = heads.get(name) ?? makeHead(name, this.headContext);
    if (head.isTied && this.#fetchRows)
      throw invalid('fromPretrained.embeddings', "'whole' for vocabulary logits", "'paged'", 'UNSUPPORTED');
    heads.set(name, head);
    return head;
  }
}

/** Collects all rows. Yields to the event loop between texts and within long ones. */
async function collected(rows: RowSteps, { yieldToEventLoop }: PieceOptions): Promise<Row[]> {
  const all: Row[] = [];
  for (const row of rows) {
    if (row) all.push(row);
    await yieldToEventLoop();
  }
  return all;
}
