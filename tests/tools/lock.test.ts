import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const exec = promisify(execFile);
const lock = new URL('../../tools/lock.mjs', import.meta.url).href;
const abandoned = fileURLToPath(new URL('../../build/lock-test.lock', import.meta.url));

it('admits one process at a time, also after an owner died without releasing the lock', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'heed-lock-'));
  const counter = join(folder, 'counter');
  writeFileSync(counter, '0');
  // Reads, waits, writes: increments are lost if two processes hold the lock at once.
  const script = `
    import { exclusively } from ${JSON.stringify(lock)};
    import { readFileSync, writeFileSync } from 'node:fs';
    for (let i = 0; i < 5; i++) await exclusively('lock-test', async () => {
      const count = Number(readFileSync(${JSON.stringify(counter)}, 'utf8'));
      await new Promise((resolve) => setTimeout(resolve, 5));
      writeFileSync(${JSON.stringify(counter)}, String(count + 1));
    });`;
  const died = await exec(process.execPath, ['-p', 'process.pid']);
  writeFileSync(abandoned, died.stdout.trim());
  try {
    await Promise.all([1, 2, 3].map(() => exec(process.execPath, ['--input-type=module', '-e', script])));
    expect(readFileSync(counter, 'utf8')).toBe('15');
  } finally {
    rmSync(folder, { recursive: true });
    rmSync(abandoned, { force: true });
  }
});
