/**
 * The encoder of a model that embeds images: its own stack of layers and, in CLIP and SigLIP, that of texts. To what loads and runs encoders of texts it is one of them.
 * Notation: L rows of an image (its patches, after the class's row and registers if there are such), E width, H heads, P side of a patch.
 */
import type {
  Core,
  RawAttended,
  RawEncoderLayer,
  RawEncoderModel,
  RawEncoderModelConfig,
  RawEncoding,
  RawModule,
  RawTensor,
  RawTensorLayer,
} from '../core.js';
import { allocating, calling, formatShape, invalid, invalidFile } from '../error.js';
import { makeYield } from '../event-loop.js';
import { readAll } from '../io/files.js';
import { Settings } from '../models/config.js';
import type { Completion, ImageEncoder, ImagesOf } from '../models/image-encoder.js';
import type { Row } from '../models/input.js';
import { makeDense, makeNorm } from '../models/task-heads.js';
import type { SignalLike } from '../platform.js';
import { AttentionPooling } from './attention-pooling.js';
import { ImageCalls, type LayerHooks, type Values } from './calls.js';
import type { ImageFamily } from './family.js';
import { interpolated, patchAngles } from './positions.js';
import { Preprocessing } from './preprocessing.js';

const PREPROCESSOR = 'preprocessor_config.json';
/** Of quick_gelu, x sigmoid(1.702 x). */
const QUICK = 1.702;
/** Options of a layer's call without masks. */
const UNMASKED = { mask: null, causal: false, window: null, keyMask: null, headMask: null };

export class ImageTextEncoder implements RawEncoderModel, ImageEncoder {
  readonly images: ImageCalls;
  readonly about: ImageFamily;
  readonly #core: Core;
  readonly #config: RawEncoderModelConfig;
  #text: RawEncoderModel | null = null;
  readonly #layers: RawEncoderLayer[] = [];
  /** All that have parameters; first those whose rows are loaded. */
  readonly #modules: { module: RawModule; prefix: string; count: number }[] = [];
  /** The padding of SigLIP's texts. */
  #padId = 0;
  #padToken = '';
  #patch!: RawTensorLayer;
  #firstNorm: RawTensorLayer | null = null;
  #lastNorm!: RawTensorLayer;
  #projection: RawTensorLayer | null = null;
  #pooling: AttentionPooling | null = null;
  #classRow: Float32Array | null = null;
  #registers: Float32Array | null = null;
  /** Null: rotary. */
  #positions: RawTensor | null = null;
  #vectorWidth = 0;
  #interpolated: { key: string; rows: Float32Array } | null = null;
  /** null: the folder has no preprocessor_config.json. */
  preprocessing: Preprocessing | null = null;

  constructor(core: Core, about: ImageFamily, config: RawEncoderModelConfig, makeText: Parameters<ImagesOf>[2]) {
    this.#core = core;
    this.about = about;
    this.#config = config;
    const { vision } = about;
    try {
      if (about.text) {
        this.#text = makeText(core, config);
        this.#add(this.#text, '');
      }
      const { embedDim, feedForwardDim } = vision;
      const options = {
        ...vision,
        keyDim: 0,
        valueDim: 0,
        normFirst: true,
        dropout: 0,
        bias: true,
        rotary: null,
        int8: config.int8,
      };
      for (let i = 0; i < vision.numLayers; i++) {
        const shape = [feedForwardDim, embedDim];
        const bytes = feedForwardDim * embedDim * (config.int8 ? 1 : 4);
        const layer = allocating(`vision.${i}.linear1.weight`, shape, bytes, () => new core.EncoderLayer(options));
        layer.setTraining(false);
        this.#layers.push(layer);
        this.#add(layer, `vision.${i}.`);
      }
    } catch (error) {
      this.delete();
      throw error;
    }
    this.images = new ImageCalls(this);
  }

  /** The width of images' vectors. */
  get vectorWidth(): number {
    return this.#vectorWidth;
  }

  parameters() {
    return this.#modules.flatMap(({ module, prefix }) =>
      module.parameters().map((parameter) => ({ ...parameter, name: prefix + parameter.name })),
    );
  }

  /** Counted once, as each chunk of a file asks for it. */
  #add(module: RawModule, prefix: string): void {
    this.#modules.push({ module, prefix, count: module.parameters().length });
  }

  #at(index: number): [RawModule, number] {
    let own = index;
    for (const { module, count } of this.#modules) {
      if (own < count) return [module, own];
      own -= count;
    }
    throw invalid('parameter', 'the index of a parameter', `${index}`);
  }

  readParameter(index: number): Float32Array {
    const [module, own] = this.#at(index);
    return module.readParameter(own);
  }

  writeParameter(
    index: number,
    ...rest: Parameters<RawModule['writeParameter']> extends [number, ...infer R] ? R : never
  ): void {
    const [module, own] = this.#at(index);
    module.writeParameter(own, ...rest);
  }

  setTraining(): void {}
  seed(): void {}
  initialize(): void {}

  begin(...batch: Parameters<RawEncoderModel['begin']>): RawEncoding {
    return this.#requireText().begin(...batch);
  }

  wordLogits(x: RawTensor): RawTensor {
    return this.#requireText().wordLogits(x);
  }

  #requireText(): RawEncoderModel {
    if (this.#text) return this.#text;
    throw invalid(
      'texts',
      'images, with embedImage(), for a model without an encoder of texts',
      `'${this.about.type}'`,
      'UNSUPPORTED',
    );
  }

  delete(): void {
    for (const { module } of this.#modules.splice(0)) module.delete();
  }

  /** The rows of texts as the family runs them; `isText`: not token ids, which are run as they are; `isPooled`: only the last row matters. */
  *textRows(rows: Iterable<Row>, isText: boolean, isPooled: boolean): Iterable<Row> {
    this.#requireText();
    const { end } = this.about.text!;
    for (const row of rows) {
      if (end === undefined) yield isText ? this.#padded(row) : row;
      else yield isPooled ? cutAtEnd(row, end) : row;
    }
  }

  /** SigLIP's texts are filled up with the padding token, which is attended to. */
  #padded(row: Row): Row {
    const { maxPositions } = this.#config;
    const filler = <T>(value: T) => new Array<T>(Math.max(0, maxPositions - row.ids.length)).fill(value);
    const token = this.#padToken;
    return {
      ...row,
      ids: [...row.ids, ...filler(this.#padId)],
      columns: Array.from({ length: maxPositions }, (_, i) => i),
      length: maxPositions,
      tokens: [...row.tokens, ...filler(token)],
      offsets: [...row.offsets, ...filler<[number, number]>([0, 0])],
      parts: [...row.parts, ...filler(null)],
    };
  }

  /** After the layers' rows have been written: makes what surrounds them, and folds factors into weights. */
  async complete({ heads, folder, signal, sentence, tokenizer, tokenizerSettings }: Completion): Promise<void> {
    const { type, text, vision, names, pooling } = this.about;
    const { embedDim, patch } = vision;
    const take = (name: string, shape?: number[]): RawTensor => {
      const tensor = heads.get(name);
      const expected = shape ? formatShape(shape) : 'a tensor';
      if (!tensor)
        throw invalidFile('model.safetensors', `'${name}' of shape ${expected}, as config.json says`, 'none');
      if (shape && tensor.data.length !== shape.reduce((a, b) => a * b))
        throw invalidFile(`tensor '${name}'`, `${expected}, as config.json says`, formatShape(tensor.shape));
      return shape ? { ...tensor, shape } : tensor;
    };
    /** Its width is that of the tensor, if none is given. */
    const dense = (name: string, inFeatures: number, outFeatures = take(`${name}.weight`).shape[0] ?? 0) => {
      const weight = take(`${name}.weight`, [outFeatures, inFeatures]);
      return this.#owned(makeDense(this.#core, { name, weight, bias: heads.get(`${name}.bias`) }, 'identity'));
    };
    const norm = (name: string) => {
      const tensors = { name, weight: take(`${name}.weight`, [embedDim]), bias: take(`${name}.bias`, [embedDim]) };
      return this.#owned(makeNorm(this.#core, tensors, vision.eps));
    };
    const side = Math.floor(vision.image / patch);
    this.#patch = dense(names.patch, 3 * patch * patch, embedDim);
    if (names.classRow) this.#classRow = take(names.classRow, [embedDim]).data;
    if (names.registers) this.#registers = take(names.registers.name, [names.registers.count, embedDim]).data;
    if (names.positions) this.#positions = take(names.positions, [side * side + (names.classRow ? 1 : 0), embedDim]);
    if (names.firstNorm) this.#firstNorm = norm(names.firstNorm);
    this.#lastNorm = norm(names.lastNorm);
    if (names.projection) this.#projection = dense(names.projection, embedDim);
    this.#vectorWidth = names.projection ? take(`${names.projection}.weight`).shape[0]! : embedDim;
    if (names.head)
      this.#pooling = new AttentionPooling(this.#core, vision, names.head, take, (layer) => this.#owned(layer));
    await this.#fold(take, signal);
    sentence.pooling = [pooling];
    if (text) {
      const bias = heads.get(`${text.projection}.bias`);
      const [outFeatures, inFeatures] = [this.#vectorWidth, this.#config.embedDim]; // one space with images
      const tensors = [take(`${text.projection}.weight`, [outFeatures, inFeatures]), ...(bias ? [bias] : [])];
      sentence.layers = [
        {
          kind: 'dense',
          weights: '',
          inFeatures,
          outFeatures,
          bias: bias !== undefined,
          activation: 'identity',
          residual: false,
          tensors,
        },
      ];
      const given = tokenizerSettings?.get('pad_token') as string | { content?: string } | undefined;
      const token = typeof given === 'object' ? given.content : given;
      this.#padId = (typeof token === 'string' ? tokenizer?.idOf(token) : undefined) ?? text.padId ?? 0;
      this.#padToken = tokenizer?.token(this.#padId) ?? '';
    }
    heads.clear();
    const file = await folder.open(sentence.modelFolder + PREPROCESSOR, { signal });
    if (file) this.preprocessing = new Preprocessing(Settings.parse(await readAll(file), file.name), type);
  }

  #owned<Layer extends RawModule>(layer: Layer): Layer {
    this.#add(layer, `${this.#modules.length}.`);
    return layer;
  }

  /** quick_gelu(x) = silu(1.702 x) / 1.702, and the factors on the outputs of blocks, as factors on rows of weights. */
  async #fold(take: (name: string, shape?: number[]) => RawTensor, signal: SignalLike): Promise<void> {
    const { text, vision, names } = this.about;
    const yieldToEventLoop = makeYield(signal);
    const scale = async (module: RawModule, suffix: string, factorOf: (row: number) => number) => {
      for (const [index, { name, shape }] of module.parameters().entries()) {
        if (!name.endsWith(suffix)) continue;
        await yieldToEventLoop();
        const values = module.readParameter(index);
        const width = values.length / shape[0]!;
        for (let row = 0, i = 0; i < values.length; row++) {
          const factor = factorOf(row);
          for (const end = i + width; i < end; i++) values[i]! *= factor;
        }
        const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
        module.writeParameter(index, 0, bytes, 'F32', null);
      }
    };
    const quickModules = [...(this.#text && text?.quick ? [this.#text] : []), ...(vision.quick ? this.#layers : [])];
    for (const module of quickModules) {
      for (const part of ['weight', 'bias']) await scale(module, `linear1.${part}`, () => QUICK);
      await scale(module, 'linear2.weight', () => 1 / QUICK);
    }
    if (!names.layerScales) return;
    for (const [i, layer] of this.#layers.entries()) {
      for (const [block, name] of names.layerScales(i).entries()) {
        const { data } = take(name, [vision.embedDim]);
        for (const part of ['weight', 'bias'])
          await scale(layer, `${block === 0 ? 'self_attn.out_proj' : 'linear2'}.${part}`, (row) => data[row]!);
      }
    }
  }

  /** Rows [L,E] of a preprocessed image, before the layers. */
  #embedded({ values, height, width }: Values): Float32Array {
    const { embedDim, patch } = this.about.vision;
    const [rows, columns] = [Math.floor(height / patch), Math.floor(width / patch)];
    this.#requireSize(height, width, rows, columns);
    const size = 3 * patch * patch;
    const patches = new Float32Array(rows * columns * size);
    for (let row = 0, at = 0; row < rows; row++)
      for (let column = 0; column < columns; column++)
        for (let c = 0; c < 3; c++)
          for (let y = 0; y < patch; y++, at += patch) {
            const from = (c * height + row * patch + y) * width + column * patch;
            patches.set(values.subarray(from, from + patch), at);
          }
    const { data } = this.#patch.forward({ data: patches, shape: [rows * columns, size] });
    const positions = this.#positionsFor(rows, columns);
    const registers = this.#registers ?? [];
    const first = this.#classRow ? embedDim : 0;
    const out = new Float32Array(first + registers.length + data.length);
    this.#classRow?.forEach((value, i) => (out[i] = value + (positions?.[i] ?? 0)));
    out.set(registers, first);
    for (let i = 0; i < data.length; i++)
      out[first + registers.length + i] = data[i]! + (positions ? positions[first + i]! : 0);
    return this.#firstNorm
      ? this.#firstNorm.forward({ data: out, shape: [out.length / embedDim, embedDim] }).data
      : out;
  }

  #requireSize(height: number, width: number, rows: number, columns: number): void {
    const { names, vision } = this.about;
    const isRight = names.interpolates ? rows > 0 && columns > 0 : height === vision.image && width === vision.image;
    if (isRight) return;
    const expected = names.interpolates
      ? `at least ${vision.patch} x ${vision.patch}`
      : `${vision.image} x ${vision.image}`;
    throw invalid('images', `${expected} pixels after the preprocessing`, `${width} x ${height}`, 'SHAPE_MISMATCH');
  }

  /** The rows of positions for a grid of patches. */
  #positionsFor(rows: number, columns: number): Float32Array | null {
    if (!this.#positions) return null;
    const { names, vision } = this.about;
    const { data, shape } = this.#positions;
    const first = this.#classRow ? 1 : 0;
    const side = Math.round(Math.sqrt(shape[0]! - first));
    if (rows === side && columns === side) return data;
    const key = `${rows} ${columns}`;
    if (this.#interpolated?.key !== key)
      this.#interpolated = {
        key,
        rows: interpolated(data, first, side, rows, columns, vision.embedDim, names.interpolates!.antialias),
      };
    return this.#interpolated.rows;
  }

  /** The angles of rotary positions for an image of `length` rows, the last of which are its patches; null: there are none. */
  #anglesFor({ height, width }: Values, length: number): RawTensor | null {
    const { names, vision } = this.about;
    if (names.rotaryBase === undefined) return null;
    const [rows, columns] = [Math.floor(height / vision.patch), Math.floor(width / vision.patch)];
    const pairs = vision.embedDim / vision.numHeads / 2;
    const data = new Float32Array(length * pairs); // the other rows are not rotated
    data.set(patchAngles(rows, columns, pairs, names.rotaryBase), (length - rows * columns) * pairs);
    return { data, shape: [length, pairs] };
  }

  /** Runs one image: the last layer's rows [L,E] as the model returns them, the pooled row [E], and the vector. */
  async run(image: Values, { yieldToEventLoop, onLayer, returnWeights = false }: LayerHooks) {
    const { embedDim } = this.about.vision;
    const step = <T>(body: () => T) => calling('model', body);
    let rows = step(() => this.#embedded(image));
    onLayer?.(-1, rows, null);
    const shape = [rows.length / embedDim, embedDim];
    const angles = this.#anglesFor(image, shape[0]!);
    for (const [i, layer] of this.#layers.entries()) {
      await yieldToEventLoop();
      const { output, weights }: RawAttended = step(() =>
        layer.forward({ data: rows, shape }, { ...UNMASKED, returnWeights, angles }),
      );
      rows = output.data;
      if (i === this.#layers.length - 1 && !this.about.names.normsPooled)
        rows = step(() => this.#lastNorm.forward({ data: rows, shape }).data);
      onLayer?.(i, rows, weights?.data ?? null);
    }
    return step(() => {
      const row = { data: rows.slice(0, embedDim), shape: [1, embedDim] };
      let pooled: RawTensor = row;
      if (this.#pooling) pooled = this.#pooling.forward({ data: rows, shape });
      else if (this.about.names.normsPooled) pooled = this.#lastNorm.forward(row);
      return { rows, pooled: pooled.data, vector: (this.#projection?.forward(pooled) ?? pooled).data };
    });
  }
}

/** CLIP's texts end at the first end token, or, for old files, at the first of the largest ids; later ones are not seen, as attention is causal. */
function cutAtEnd(row: Row, end: number | null): Row {
  const { ids } = row;
  const last = Math.max(0, end === null ? ids.indexOf(Math.max(...ids)) : ids.indexOf(end)) + 1;
  const cut = <T>(list: T[]) => list.slice(0, last);
  return {
    ...row,
    ids: cut(ids),
    types: row.types && cut(row.types),
    positions: row.positions && cut(row.positions),
    columns: cut(row.columns),
  };
}
