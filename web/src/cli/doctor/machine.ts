/** Properties of the machine and the JavaScript engine that matter to heed. */
import { readFileSync } from 'node:fs';
import * as os from 'node:os';
import { type Build, load } from '../../index.js';

export interface Machine {
  heed: string;
  node: string;
  v8: string;
  platform: string;
  cpu: string;
  cores: number;
  /** Vector instructions of the CPU; null if the system does not report them. */
  instructions: string[] | null;
  /** Bytes of memory, in total and free. */
  memory: number;
  freeMemory: number;
  build: Build;
  buildReason: string;
  /** Number of threads of `threads: 'auto'`, including the calling one. */
  threads: number;
  threadsReason: string;
}

const KNOWN = [
  'ssse3',
  'sse4_1',
  'avx',
  'avx2',
  'fma',
  'avx512f',
  'avx512_vnni',
  'avx_vnni',
  'asimd',
  'asimddp',
  'i8mm',
  'sve',
];

export async function describeMachine(): Promise<Machine> {
  using heed = await load({ threads: 'auto' });
  const { version, build, reason, threads, threadsReason } = heed.info;
  return {
    heed: version,
    node: process.versions.node,
    v8: process.versions.v8,
    platform: `${os.platform()} ${os.arch()}`,
    cpu: os.cpus()[0]?.model.trim() ?? 'unknown',
    cores: os.availableParallelism(),
    instructions: instructionsOf(),
    memory: os.totalmem(),
    freeMemory: os.freemem(),
    build,
    buildReason: reason,
    threads,
    threadsReason,
  };
}

/** Reads Linux's list. Other systems have no such file; every 64-bit ARM has NEON. */
function instructionsOf(): string[] | null {
  try {
    const [, flags] = /^(?:flags|Features)\s*:(.*)$/m.exec(readFileSync('/proc/cpuinfo', 'utf8'))!;
    const all = new Set(flags!.trim().split(/\s+/));
    return KNOWN.filter((name) => all.has(name));
  } catch {
    return os.arch() === 'arm64' ? ['asimd'] : null;
  }
}

/** Explains whether the engine uses the CPU's instructions for int8. */
export function int8Note({ instructions, build }: Machine): string | null {
  if (!instructions) return null;
  if (instructions.includes('avx_vnni'))
    return build === 'relaxed-simd'
      ? 'avx_vnni: versions of V8 that support it compute an int8 dot product in one instruction'
      : 'avx_vnni is not used: only the build relaxed-simd does so';
  if (instructions.includes('avx512_vnni'))
    return 'avx512_vnni is not used: WebAssembly has vectors of 128 bits, and V8 uses only AVX-VNNI for them';
  return null;
}
