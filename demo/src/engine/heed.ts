/** Loads the library and the shipped model. Nothing waits for them: the page is drawn first. */
import { computed, effect, signal } from '@preact/signals';
import type { Build, FromPretrainedOptions, Heed, LoadProgress, ModelSource, PretrainedModel } from 'heed';
import { choice } from '../state/codecs';
import { page, urlState } from '../state/url';
import { asFailure, type Failure } from './failure';

export { asFailure, type Failure };

export interface OpenModel {
  model: PretrainedModel;
  /** The time it took to load. */
  milliseconds: number;
}

/** The build to run; part of the link, so that both can be compared. */
export const build = urlState<Build | 'auto'>('all', 'build', 'auto', choice('auto', 'relaxed-simd', 'simd128'));

export const heed = signal<Heed | undefined>(undefined);
export const shipped = signal<OpenModel | undefined>(undefined);
/** The first layer alone, for sentences that are written while the model is being loaded; then undefined. */
export const firstLayer = signal<PretrainedModel | undefined>(undefined);
/** The model that the reader has opened on “Meaning” or “Inside”. */
export const own = signal<OpenModel | undefined>();
export const shippedProgress = signal(0);
/** Why the module or the model could not be loaded, until it is. */
export const failure = signal<Failure | undefined>(undefined);
/** Whether the module or the model is loaded once more after a failure. */
export const isRetrying = signal(false);
/** Whether the model's files have begun to arrive. */
export const isComing = signal(false);
/** Whether the page has loaded all that any of its parts needs; from then on it makes no request. */
export const complete = signal(false);
/** Whether the module is there; places that need no bundled model do without it. */
export const ready = computed(() => heed.value !== undefined);

/** Whether the reader has asked the browser to save data. Parts are then downloaded when they are shown, and nothing is kept for offline use. */
export const savesData = (navigator as { connection?: { saveData?: boolean } }).connection?.saveData === true;

/** Set by pages on which the model is needed only for what the reader does. */
export const wanted = signal(false);

const needsShipped = new Promise<void>((resolve) =>
  effect(() => {
    if (!savesData || page.value === 'meaning' || page.value === 'inside' || page.value === 'speed' || wanted.value)
      resolve();
  }),
);

let loading: (() => Promise<void>) | undefined;

/** Loads what failed once more: the model in place; the module with the page, whose address has what the reader sees. */
export function retry(): void {
  if (!heed.peek()) location.reload();
  else if (!isRetrying.peek() && failure.peek()) {
    isRetrying.value = true;
    void loading?.();
  }
}

/** `later` downloads the scripts that can wait for the model. */
export async function start(later: () => Promise<unknown>[]): Promise<void> {
  addEventListener('online', () => {
    if (failure.peek() && failure.peek()!.code !== 'UNSUPPORTED') retry();
  });
  try {
    const { load } = await library();
    heed.value = await load({ build: build.peek() });
  } catch (reason) {
    failure.value = asFailure(reason);
    return;
  }
  await needsShipped;
  loading = () => loadShipped(later);
  await loading();
}

async function loadShipped(later: () => Promise<unknown>[]): Promise<void> {
  try {
    firstLayer.value ??= await openFirstLayer();
    shipped.value = await untilStalled((signal, moved) =>
      openModel(undefined, {
        dtype: 'fp32', // what the pages show
        signal,
        onProgress: (progress) => {
          moved();
          isComing.value = true;
          shippedProgress.value = share(progress);
        },
      }),
    );
  } catch (reason) {
    failure.value = asFailure(reason);
    return;
  } finally {
    isRetrying.value = false;
  }
  failure.value = undefined;
  const first = firstLayer.peek();
  firstLayer.value = undefined;
  void inTurn(async () => first?.dispose()); // after what it computes
  if (savesData) return;
  const rest = await Promise.allSettled(later());
  complete.value = rest.every(({ status }) => status === 'fulfilled');
}

/** Milliseconds without progress after which a download is given up; it goes on from there when it is tried again. */
const patience = 45_000;

async function untilStalled<T>(task: (signal: AbortSignal, moved: () => void) => Promise<T>): Promise<T> {
  const stalled = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const moved = () => {
    clearTimeout(timer);
    timer = setTimeout(
      () => stalled.abort(new Error(`the download made no progress for ${patience / 1000} seconds`)),
      patience,
    );
  };
  moved();
  try {
    return await task(stalled.signal, moved);
  } finally {
    clearTimeout(timer);
  }
}

/** Limit for the first layer in bytes, as `onProgress` counts them. It takes 1.5 MB, but more if the server does not support range requests. */
const firstLayerBytes = 2e6;

/** Loads the model's first layer, on the page that shows it; not if the model itself is on this device already. */
async function openFirstLayer(): Promise<PretrainedModel | undefined> {
  if (page.peek() !== 'see' || navigator.serviceWorker?.controller) return undefined;
  const tooLarge = new AbortController();
  const onProgress = ({ done }: LoadProgress) => {
    isComing.value = true;
    if (done > firstLayerBytes) tooLarge.abort();
  };
  const given = { numLayers: 1, embeddings: 'paged', dtype: 'fp32' } as const;
  const options = { ...given, worker: true, signal: tooLarge.signal, onProgress };
  // Without it, the page waits for the whole model, which reports what is wrong.
  return heed
    .peek()!
    .fromPretrained(undefined, options)
    .catch(() => undefined);
}

/** Opens a model in a worker of its own; the page stays responsive while it computes. */
export async function openModel(source: ModelSource | undefined, options: FromPretrainedOptions): Promise<OpenModel> {
  const start = performance.now();
  const model = await heed.peek()!.fromPretrained(source, { ...options, worker: true });
  return { model, milliseconds: performance.now() - start };
}

/** Why this page has one thread; undefined if it may have more. */
export const noThreads: string | undefined = !globalThis.crossOriginIsolated
  ? 'this host does not send the two headers that isolate a page from other origins'
  : typeof SharedArrayBuffer !== 'function'
    ? 'this browser has no shared memory'
    : undefined;

/** The bundled model on several threads, in a worker; `runtime.dispose()` ends both. */
export async function openThreaded(threads: number | 'auto'): Promise<{ runtime: Heed; model: PretrainedModel }> {
  const { load } = await library();
  const runtime = await load({ build: build.peek(), threads });
  try {
    return { runtime, model: await runtime.fromPretrained(undefined, { dtype: 'fp32', worker: true }) };
  } catch (error) {
    runtime.dispose();
    throw error;
  }
}

/** The library is downloaded after the first page has been drawn, whose examples do not need it. */
const library = () => import('heed');

let last: Promise<unknown> = Promise.resolve();

/** Runs tasks one after the other, so that the times on the page are each task's own. */
export function inTurn<Result>(task: () => Promise<Result>): Promise<Result> {
  const result = last.then(task);
  last = result.catch(() => {});
  return result;
}

/** Reloads the page when another build is chosen. */
export function followBuild(): void {
  const running = build.peek();
  effect(() => {
    // The address has to change first.
    if (build.value !== running) setTimeout(() => location.reload(), 400);
  });
}

/** The loaded part of all bytes, 0 to 1. */
export const share = ({ done, total }: LoadProgress): number => (total ? done / total : 0);
