/**
 * Everything besides the texts that vectors depend on: heed's version and build, the model's files, and how the machine
 * rounds. A plan records it, and workers must match.
 */
import { createHash } from 'node:crypto';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { version } from '../base/wasm/version.js';
import { type Build, load, type PretrainedModel } from '../index.js';
import { embedTexts, invalid, invalidFile, namesIn, pieces, statusOf } from '../node/index.js';
import type { EmbeddingSettings, Manifest } from './manifest.js';

export const sha256 = (data: string | Uint8Array) => createHash('sha256').update(data).digest('hex');

function hashFile(path: string): string {
  const hash = createHash('sha256');
  for (const piece of pieces(path)) hash.update(piece);
  return hash.digest('hex');
}

const besideThis = (name: string) => fileURLToPath(new URL(`./${name}`, import.meta.url));

/**
 * The hash of a model's file, or of those files of a folder that heed may read. It does not depend on the path. Workers
 * read them, too, so they must be local files.
 */
export function hashModel(source: string | null): string {
  const path = source ?? besideThis('model/model.safetensors');
  const status = statusOf(path);
  if (status?.isFile()) return hashFile(path);
  if (!status?.isDirectory())
    throw invalid(
      'model',
      "a model's folder or .safetensors file",
      `'${path}', which is neither. Download models of a hub first; name a worker's own copy by \`model\``,
      'NOT_FOUND',
    );
  const names = namesIn(path, { recursive: true }).sort();
  const files = names.filter((name) => /\.(json|safetensors)$/.test(name) && !/(^|[\\/])\./.test(name));
  return sha256(files.map((name) => `${name.replaceAll('\\', '/')}\0${hashFile(join(path, name))}\n`).join(''));
}

export const hashBuild = (build: Build) => hashFile(besideThis(`heed-${build}.wasm`));

/** Texts of several lengths, so that every kernel runs. */
const PROBES = [
  'a',
  'The quick brown fox jumps over the lazy dog.',
  'attention is all you need, 1234567890 '.repeat(12),
  'x'.repeat(64),
];

/** The width of the vectors of PROBES, and their hash. */
export async function probe(
  model: PretrainedModel,
  embedding: EmbeddingSettings,
): Promise<{ width: number; probe: string }> {
  const { data, shape } = await embedTexts(model, PROBES, embedding);
  return { width: shape[1]!, probe: sha256(new Uint8Array(data.buffer, data.byteOffset, data.byteLength)) };
}

export async function openModel({ build, model, dtype }: Pick<Manifest, 'build' | 'model' | 'dtype'>) {
  const heed = await load({ build }).catch((cause: Error) => {
    const got = `one that does not (${cause.message}). Plan with --build simd128, which every engine runs`;
    throw invalid('machine', `an engine that runs the plan's build ${build}`, got, 'UNSUPPORTED', { cause });
  });
  return heed.fromPretrained(model.source ?? undefined, { dtype });
}

/** The manifest for a worker that has the model at another path. */
export const withModel = (manifest: Manifest, path: string | undefined): Manifest =>
  path === undefined ? manifest : { ...manifest, model: { ...manifest.model, source: resolve(path) } };

/**
 * @throws HeedError UNSUPPORTED if heed or its build differs from the plan's; INVALID_FILE if the model's files differ
 */
export function requireSameFiles(manifest: Manifest): void {
  const { heed, build, wasm, model } = manifest;
  if (heed !== version) throw invalid('heed', `version ${heed}, with which the plan was made`, version, 'UNSUPPORTED');
  if (build !== 'simd128' && build !== 'relaxed-simd')
    throw invalid('build', 'simd128 or relaxed-simd', `'${build}' in the manifest`, 'UNSUPPORTED');
  if (hashBuild(build) !== wasm)
    throw invalid('heed', `the plan's module heed-${build}.wasm`, 'a different build of it', 'UNSUPPORTED');
  if (hashModel(model.source) !== model.sha256)
    throw invalidFile(
      `model ${model.source ?? 'in the package'}`,
      'the files that the plan was made with',
      "different files. Restore them, name a copy of the plan's model by `model`, or make a new plan in another folder",
    );
}

/** @throws HeedError UNSUPPORTED if this machine computes different vectors from the one that made the plan */
export async function requireSameVectors(manifest: Manifest, model: PretrainedModel): Promise<void> {
  const { probe: found } = await probe(model, manifest.embedding);
  if (found === manifest.probe) return;
  throw invalid(
    'machine',
    `the plan's vectors for a few fixed texts, bit for bit`,
    `different vectors with the build ${manifest.build}. The build simd128 computes the same on every machine: plan with --build simd128`,
    'UNSUPPORTED',
  );
}

/** Identifies a plan among those that share a queue server or a database. */
export const planId = (manifest: Manifest) => sha256(JSON.stringify(manifest)).slice(0, 16);
