/** The page's end of the worker. Started at once, awaited by nobody: the page paints first. */
import { computed, effect, signal } from '@preact/signals';
import { proxy, type Remote, wrap } from 'comlink';
import type { Info, LoadProgress } from 'heed';
import { choice } from '../state/codecs';
import { urlState } from '../state/url';
import { carryErrors } from './errors';
import type { ModelSummary } from './models';
import type { Build, Engine } from './worker';

export interface Failure {
  message: string;
  code?: string;
}

/** Which build to run; the link may ask for one, so that both can be seen. */
export const build = urlState<Build>('page', 'build', 'auto', choice('auto', 'relaxed-simd', 'simd128'));

export const info = signal<Info | undefined>(undefined);
export const failure = signal<Failure | undefined>(undefined);
export const shipped = signal<ModelSummary | undefined>(undefined);
export const shippedProgress = signal(0);
/** Whether everything that any room needs is in the tab: from then on the page asks for nothing. */
export const complete = signal(false);
export const ready = computed(() => info.value !== undefined && failure.value === undefined);

export let engine: Remote<Engine>;

export function startEngine(): void {
  carryErrors();
  const worker = new Worker(new URL('./worker.ts', import.meta.url), { type: 'module', name: 'heed' });
  worker.addEventListener('error', (event) => {
    failure.value = { message: event.message || 'The worker could not be started.', code: 'WORKER_FAILED' };
  });
  engine = wrap<Engine>(worker);
  void openShipped();
}

async function openShipped(): Promise<void> {
  try {
    info.value = await engine.start(build.peek());
    shipped.value = await engine.open(
      'shipped',
      { kind: 'shipped' },
      undefined,
      proxy((progress: LoadProgress) => {
        shippedProgress.value = share(progress);
      }),
    );
  } catch (reason) {
    failure.value = asFailure(reason);
    return;
  }
  const rest = await Promise.allSettled([engine.prepare(), import('@observablehq/plot')]);
  complete.value = rest.every(({ status }) => status === 'fulfilled');
}

/** Another build needs another module: the page starts anew. */
export function followBuild(): void {
  let current = build.peek();
  effect(() => {
    if (build.value === current) return;
    current = build.value;
    setTimeout(() => location.reload(), 400);
  });
}

export function asFailure(reason: unknown): Failure {
  const { message, code } = reason as Partial<Failure>;
  return { message: message ?? String(reason), ...(code !== undefined && { code }) };
}

/** Loaded bytes over all bytes, 0 to 1. */
export const share = ({ loaded, total }: LoadProgress): number => (total ? loaded / total : 0);
