/** PyTorch in a process of its own, on one thread. */
import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { writeSafetensors } from '../safetensors.mjs';
import { ADAMW } from './task.mjs';

export async function torchTraining(task) {
  const { weights, positions, ...rest } = task;
  const child = spawn('/usr/bin/python3', [fileURLToPath(new URL('pytorch.py', import.meta.url))], {
    env: { ...process.env, OMP_NUM_THREADS: '1', MKL_NUM_THREADS: '1', OPENBLAS_NUM_THREADS: '1' },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  let errors = '';
  child.stderr.on('data', (bytes) => {
    errors += bytes;
  });
  child.stdin.on('error', () => {}); // the end of the process is reported by `ask`
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const ask = async (request) => {
    child.stdin.write(`${request}\n`);
    const { value, done } = await lines.next();
    if (done) throw new Error(errors.trim().split('\n').at(-1) || 'python3 ended');
    return JSON.parse(value);
  };
  const tensors = writeSafetensors({
    ...weights,
    positions: { shape: [task.length, task.width], data: positions },
  });
  const { version } = await ask(
    JSON.stringify({ ...rest, adamw: ADAMW, safetensors: Buffer.from(tensors).toString('base64') }),
  );
  return {
    about: `PyTorch ${version}`,
    step: () => ask('step'),
    peakMB: async () => (await ask('peak')).peakMB,
    dispose: () => child.kill(),
  };
}
