/** tools/checkpoints.mjs: archives are taken only with the pinned digest, and fetched again only if they are not complete. */
import { createHash } from 'node:crypto';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { CHECKPOINTS, fetchArchive } from '../../tools/checkpoints.mjs';

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');
const archive = { name: 'some-package', version: '1.0', file: 'some.whl', sha256: sha256('the archive') };
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'heed-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

/** A client that writes `text`, and counts its calls. */
function client(text: string | null) {
  const calls = { count: 0 };
  const fetch = async (_: object, to: string) => {
    calls.count++;
    if (text !== null) writeFileSync(join(to, archive.file), text);
  };
  return { calls, fetch };
}

test('an archive that is there is not fetched again', async () => {
  const { calls, fetch } = client('the archive');
  const path = await fetchArchive(archive, folder, fetch);
  expect(readFileSync(path, 'utf8')).toBe('the archive');
  await fetchArchive(archive, folder, fetch);
  expect(calls.count).toBe(1);
});

test('what an interrupted download left is replaced', async () => {
  writeFileSync(join(folder, archive.file), 'the arch');
  const { calls, fetch } = client('the archive');
  expect(readFileSync(await fetchArchive(archive, folder, fetch), 'utf8')).toBe('the archive');
  expect(calls.count).toBe(1);
});

test('another digest is one clear error', async () => {
  await expect(fetchArchive(archive, folder, client('another').fetch)).rejects.toThrow(
    `some.whl: expected SHA-256 ${archive.sha256}, got ${sha256('another')}`,
  );
  rmSync(join(folder, archive.file));
  await expect(fetchArchive(archive, folder, client(null).fetch)).rejects.toThrow('got no such file');
  expect(existsSync(join(folder, archive.file))).toBe(false);
});

test('every archive has a digest of its own', () => {
  const digests = Object.values(CHECKPOINTS).flatMap(({ archives }) => archives.map(({ sha256 }) => sha256));
  for (const digest of digests) expect(digest).toMatch(/^[0-9a-f]{64}$/);
  expect(new Set(digests).size).toBe(digests.length);
});
