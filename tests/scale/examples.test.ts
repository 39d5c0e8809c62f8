/** The files of examples/scale, read by the tools that they are for, without a server of these tools. */
import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const folder = fileURLToPath(new URL('../../examples/scale/', import.meta.url));
const run = (program: string, ...args: string[]) =>
  execFileSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });

test('compose.yaml', () => {
  const file = `${folder}compose.yaml`;
  const services = run('docker-compose', '-f', file, 'config', '--services').trim().split('\n');
  expect(services.sort()).toEqual(['finish', 'plan', 'redis', 'worker']);
  expect(run('docker-compose', '-f', file, 'config')).toMatch(/replicas: 3/);
});

test('job.yaml', () => {
  const read = run('kubectl', 'kustomize', folder);
  expect(read).toMatch(/kind: Job/);
  // The object as the client decodes it.
  const [, completions] = /completions: (\d+)/.exec(read)!;
  expect(read).toContain('completionMode: Indexed');
  expect(read).toContain(`--shard "$JOB_COMPLETION_INDEX/${completions}"`);
});
