/** Plans an embedding: reads the corpus once, and writes the manifest. */
import * as fs from 'node:fs';
import { resolve } from 'node:path';
import { turn } from '../base/event-loop.js';
import {
  callback,
  integer,
  oneOf,
  optional,
  signal as optionalSignal,
  readOptions,
  type Schema,
} from '../base/options.js';
import { version } from '../base/wasm/version.js';
import { type Build, HeedError, load, type VectorOutput } from '../index.js';
import { embedSchema, OUTPUTS, readRole, SHIPPED_DTYPE } from '../models/index.js';
import {
  encodingOf,
  formatOf,
  invalid,
  makeFolderOf,
  namesIn,
  readRange,
  requireWritable,
  statusOf,
  writeWhole,
} from '../node/index.js';
import { chunksOf } from './lines.js';
import { hashBuild, hashModel, openModel, probe } from './machine.js';
import { type Chunk, type EmbeddingSettings, type Manifest, manifestPath, type PartFormat } from './manifest.js';
import { nonempty, type Signal, string } from './plan-options.js';

export interface PlanOptions extends EmbeddingSettings {
  /** Folder for the manifest and the parts, which all workers must be able to access. Created if missing. */
  out: string;
  /**
   * A model's folder or .safetensors file. Workers need it at the same path, or at their `WorkOptions.model`. Default:
   * the model in the package.
   */
  model?: string | undefined;
  /** Type of the model's weights. Default: 'q8' for the model in the package, 'fp32' for others. */
  dtype?: 'fp32' | 'q8' | undefined;
  /**
   * The build of heed that all workers run. 'simd128' computes the same vectors on every machine. Default 'auto': the
   * fastest build that this machine supports.
   */
  build?: 'auto' | Build | undefined;
  /** Format of the files. Default: chosen by each file's extension, 'lines' for unknown ones. */
  format?: 'lines' | 'jsonl' | undefined;
  /** Key of the text in JSON lines. Default 'text'. */
  field?: string | undefined;
  /** Key of the id in JSON lines. Default 'id'. */
  id?: string | undefined;
  /** Maximum number of lines per chunk. Chunks of long lines have fewer. Default 10,000. */
  chunk?: number | undefined;
  /** Format of the parts. Default 'jsonl'. */
  parts?: PartFormat | undefined;
  /**
   * How vectors are stored. 'float32' (default): as they are. 'int8': int8 with one scale per row (value = int8 *
   * scale). 'binary': one bit per entry, 1 where it is positive, eight per byte, the first entry in the highest bit.
   */
  output?: VectorOutput | undefined;
  /** Called with the number of bytes that have been read, and that the files have. */
  onProgress?: ((progress: { done: number; total: number | null }) => void) | undefined;
  /** Stops planning and leaves no files behind. */
  signal?: Signal | undefined;
}

/** A chunk ends after the line with which it reaches this many bytes. */
const CHUNK_BYTES = 32 << 20;

const { pooling, dimensions, normalize, prompt } = embedSchema;

const schema = {
  ...{ pooling, dimensions, normalize, prompt },
  role: optional(readRole, undefined),
  out: nonempty,
  model: string,
  dtype: optional(oneOf(['fp32', 'q8']), undefined),
  build: optional(oneOf(['auto', 'simd128', 'relaxed-simd']), 'auto' as const),
  format: optional(oneOf(['lines', 'jsonl']), undefined),
  field: optional(nonempty, 'text'),
  id: optional(nonempty, 'id'),
  chunk: optional((value, name) => integer(value, name, 1, 1_000_000), 10_000),
  parts: optional(oneOf(['jsonl', 'npy', 'parquet']), 'jsonl' as const),
  output: optional(oneOf(OUTPUTS), 'float32' as const),
  onProgress: callback<NonNullable<PlanOptions['onProgress']>>,
  signal: optionalSignal,
} satisfies Schema<PlanOptions>;

/**
 * Plans the embedding of files with one text per line, either plain lines or JSON lines, and writes `manifest.json` to
 * a new folder. Every line becomes one row.
 *
 * @example
 * await planEmbedding(['corpus/a.jsonl', 'corpus/b.jsonl'], { out: 'vectors' });
 * await workEmbedding('vectors', { shard: { index: 0, count: 2 } });
 * @throws HeedError INVALID_ARGUMENT if the folder has a plan already; NOT_FOUND for a missing file; UNSUPPORTED for a
 *   file that cannot be split into lines
 */
export async function planEmbedding(files: readonly string[], given: PlanOptions): Promise<Manifest> {
  const options = readOptions('planEmbedding', schema, given);
  const { out, signal, onProgress, field, id, parts, output, chunk } = options;
  const { pooling, dimensions, prompt, role, normalize } = options;
  if (role !== undefined && prompt !== undefined)
    throw invalid('planEmbedding.role', 'only one of role and prompt', 'both');
  signal?.throwIfAborted();
  const root = process.cwd();
  const corpus = corpusOf(files, options.format, root);
  requireNew(out);
  requireWritable(out);
  const dtype = options.dtype ?? (options.model === undefined ? SHIPPED_DTYPE : 'fp32'); // as fromPretrained
  const model = { source: options.model === undefined ? null : resolve(options.model), sha256: '' };
  model.sha256 = hashModel(model.source);
  const heed = await load({ build: options.build });
  const { build } = heed.info;
  heed.dispose();
  const embedding = { pooling, dimensions, prompt, role, normalize };
  using encoder = await openModel({ build, model, dtype });
  const { width, probe: vectors } = await probe(encoder, embedding);
  signal?.throwIfAborted();

  const chunks: Chunk[] = [];
  const total = corpus.reduce((sum, { bytes }) => sum + bytes, 0);
  let done = 0;
  for (const { file, encoding } of corpus) {
    for (const each of chunksOf(resolve(root, file), file, { rows: chunk, bytes: CHUNK_BYTES }, encoding)) {
      chunks.push(each);
      done += each.bytes;
      onProgress?.({ done, total });
      await turn(); // lets pending signals be handled
      signal?.throwIfAborted();
    }
  }
  const manifest: Manifest = {
    version: 1,
    heed: version,
    build,
    wasm: hashBuild(build),
    model,
    dtype,
    embedding,
    width,
    probe: vectors,
    output,
    parts,
    root,
    field,
    id,
    files: corpus,
    rows: chunks.reduce((sum, { rows }) => sum + rows, 0),
    chunks,
  };
  makeFolderOf(manifestPath(out));
  if (!writeWhole(manifestPath(out), `${JSON.stringify(manifest, null, 1)}\n`)) throw hasPlan(out);
  return manifest;
}

function hasPlan(out: string): HeedError {
  const got = `'${out}', which has one. Go on with \`heed corpus work\`, or choose another folder`;
  return invalid('out', 'a folder without a plan', got);
}

function requireNew(out: string): void {
  if (fs.existsSync(manifestPath(out))) throw hasPlan(out);
  const status = statusOf(out);
  if (status && !status.isDirectory()) throw invalid('out', 'a folder', `'${out}', which is a file`);
  const part = status && namesIn(out).find((name) => /^(part-\d+|_SUCCESS)/.test(name));
  if (part) throw invalid('out', 'a folder without parts', `'${out}', which has ${part}`);
}

/** The files with their lengths and formats. */
function corpusOf(files: readonly string[], given: PlanOptions['format'], root: string): Manifest['files'] {
  if (!Array.isArray(files) || files.length === 0 || files.some((file) => typeof file !== 'string'))
    throw invalid('files', 'at least one path of a file', Array.isArray(files) ? 'none' : typeof files);
  const seen = new Set<string>();
  return files.map((file) => {
    const path = resolve(root, file);
    if (file === '-') throw invalid('files', 'paths of files, which workers can read', "'-' (standard input)");
    if (seen.has(path)) throw invalid('files', 'each file once', `'${file}' again`);
    seen.add(path);
    const status = statusOf(path);
    if (!status) throw new HeedError('NOT_FOUND', `${file}: cannot be read (no such file)`);
    if (!status.isFile()) throw invalid('files', 'files', `'${file}', which is not a file`);
    const format = given ?? formatOf(file) ?? 'lines';
    if ((format !== 'lines' && format !== 'jsonl') || (given === undefined && /\.(gz|zst|parquet)$/i.test(file))) {
      const hint = 'Convert it to JSON lines, or use --format lines';
      throw invalid('files', 'files of lines or JSON lines', `'${file}'. ${hint}`, 'UNSUPPORTED');
    }
    const encoding = encodingOf(readRange(path, 0, 2));
    return { file, bytes: status.size, format, ...(encoding !== 'utf-8' && { encoding }) };
  });
}
