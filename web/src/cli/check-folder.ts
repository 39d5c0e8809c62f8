/** Checks a model's folder, a cache of the Hub or heed's cache, and explains what is missing or damaged. */

import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import { basename, join } from 'node:path';
import { maxOf } from '../base/lists.js';
import { type Heed, load, type ModelConfig } from '../index.js';
import { invalid, readRange, safetensorsHeader, statusOf } from '../node/index.js';

export interface Finding {
  /** The file or part that was checked. */
  name: string;
  ok: boolean;
  message: string;
}

export interface FolderReport {
  folder: string;
  /** Whether everything that is needed exists. */
  ok: boolean;
  findings: Finding[];
}

/** Checks the folders of all snapshots if `path` is a cache of the Hub, else `path` itself. */
export async function checkFolder(path: string): Promise<FolderReport[]> {
  const status = statusOf(path);
  if (!status) throw invalid('folder', 'a folder', `'${path}', which does not exist`, 'NOT_FOUND');
  if (!status.isDirectory()) return [await checkModel(path)];
  const folders = snapshotsOf(path);
  if (folders.length === 0 && fs.readdirSync(path).some(isCached)) return [checkCache(path)];
  const reports: FolderReport[] = [];
  for (const folder of folders.length > 0 ? folders : [path]) reports.push(await checkModel(folder)); // one at a time, to bound memory
  return reports;
}

/** The snapshots of a folder `models--org--name`, or of all such folders in `path`; empty for other folders. */
function snapshotsOf(path: string): string[] {
  const models = fs.readdirSync(path).filter((name) => name.startsWith('models--'));
  if (models.length > 0) return models.flatMap((name) => snapshotsOf(join(path, name)));
  const snapshots = join(path, 'snapshots');
  return statusOf(snapshots)?.isDirectory() ? fs.readdirSync(snapshots).map((name) => join(snapshots, name)) : [];
}

async function checkModel(folder: string): Promise<FolderReport> {
  using heed = await load();
  const findings = statusOf(folder)!.isDirectory() ? await filesOf(heed, folder) : [];
  findings.push(await loadedFrom(heed, folder));
  return { folder, ok: findings.at(-1)!.ok, findings };
}

/** The findings of `inspect` for the folder, with advice for missing files. */
async function filesOf(heed: Heed, folder: string): Promise<Finding[]> {
  const names = fs.readdirSync(folder);
  try {
    const { files, missing, pooling, normalize } = await heed.inspect(folder);
    const findings = files.map(({ path, bytes }) => ({
      name: path,
      ok: true,
      message: bytes === null ? 'there' : `${bytes.toLocaleString('en')} bytes`,
    }));
    let poolingFound = `${pooling}${normalize ? ', normalized' : ''}`;
    for (const text of missing) {
      const [name = '', effect = ''] = text.split(': ');
      if (name === 'modules.json')
        poolingFound = `no modules.json: ${effect}. If the model was trained for another pooling, name it with --pooling`;
      else
        findings.push({ name, ok: false, message: `missing: ${effect}. ${adviceFor(name, names, basename(folder))}` });
    }
    return [...findings, { name: 'pooling', ok: true, message: poolingFound }];
  } catch (error) {
    const message = (error as Error).message;
    return [{ name: 'files', ok: false, message: `${message}. Download the folder with all of its files` }];
  }
}

/** Files with the same content in formats that heed does not read. */
const OTHER_TOKENIZER = /^(vocab\.(txt|json)|(sentencepiece\.bpe|spiece)\.model)$/;
const OTHER_WEIGHTS = /\.(bin|onnx|h5|pt|pth|msgpack|gguf)$/;

/** Advice on how to obtain a missing file. */
function adviceFor(file: string, names: string[], folder: string): string {
  const [kind, pattern] = file.endsWith('tokenizer.json')
    ? ['AutoTokenizer', OTHER_TOKENIZER]
    : ['AutoModel', OTHER_WEIGHTS];
  const other = names.find((name) => pattern.test(name));
  return other
    ? `There is ${other}, a format that heed does not read. In Python, ${kind}.from_pretrained('${folder}').save_pretrained('${folder}') writes the file`
    : 'Download it';
}

/** Tries to load the model. */
async function loadedFrom(heed: Heed, folder: string): Promise<Finding> {
  const name = 'loading';
  try {
    using model = await heed.fromPretrained(folder);
    return { name, ok: true, message: summaryOf(model.config) };
  } catch (error) {
    return { name, ok: false, message: (error as Error).message };
  }
}

const summaryOf = ({ family, numLayers, embedDim, parameterCount, pooling, normalize }: ModelConfig) =>
  `${family}, ${numLayers} layers of width ${embedDim}, ${parameterCount.toLocaleString('en')} parameters, ${pooling} pooling${normalize ? ', normalized' : ''}`;

// Names in heed's own cache are digests, with a UUID while a file is being written, or with .json for the record of a
// folder.
const isCached = (name: string) => /^[0-9a-f]{64}(\.[0-9a-f-]{36}|\.json)?$/.test(name);

function checkCache(folder: string): FolderReport {
  const names = fs.readdirSync(folder).filter(isCached);
  const whole = names.filter((name) => name.length === 64);
  const parts = names.filter((name) => name.length > 64 && !name.endsWith('.json'));
  const sizes = whole.map((name) => fs.statSync(join(folder, name)).size);
  const others = otherFiles(folder, names);
  const damaged = whole.filter(
    (name, i) => !others.has(name) && sizes[i]! > 0 && !isWhole(join(folder, name), sizes[i]!),
  );
  const bytes = sizes.reduce((sum, size) => sum + size, 0);
  const findings: Finding[] = [
    { name: 'files', ok: true, message: `${whole.length}, ${(bytes / 1e6).toFixed(1)} MB` },
    ...damaged.map((name) => ({ name, ok: false, message: 'damaged: delete it, and the next load fetches it again' })),
  ];
  if (parts.length > 0) {
    const message = `${parts.length} files of downloads that are running or were interrupted; if none is running, delete them`;
    findings.push({ name: 'unfinished', ok: true, message });
  }
  return { folder, ok: damaged.length === 0, findings };
}

/**
 * Files in formats that cannot be checked, such as the texts of an index, according to the records of their folders.
 */
function otherFiles(folder: string, names: string[]): Set<string> {
  const others = new Set<string>();
  for (const name of names.filter((name) => name.endsWith('.json')))
    try {
      const { files } = JSON.parse(fs.readFileSync(join(folder, name), 'utf8')) as {
        files: Record<string, { key: string } | null>;
      };
      for (const [path, file] of Object.entries(files))
        if (file?.key && !/\.(json|safetensors)$/.test(path))
          others.add(createHash('sha256').update(file.key).digest('hex'));
    } catch {} // a record of an earlier version
  return others;
}

/** Whether a file is valid JSON, or a .safetensors file with the size that its header specifies. */
function isWhole(path: string, size: number): boolean {
  try {
    const [first] = readRange(path, 0, 1);
    if (first === 0x7b || first === 0x5b) return JSON.parse(fs.readFileSync(path, 'utf8')) !== undefined;
    const { header, end } = safetensorsHeader(path);
    return maxOf([0, ...Object.values(header).map(({ data_offsets: at }) => at?.[1] ?? 0)]) === size - end;
  } catch {
    return false;
  }
}
