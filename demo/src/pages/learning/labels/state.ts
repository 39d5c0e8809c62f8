/** The reader's examples, and what the worker has learned from them. */
import { computed, effect, signal } from '@preact/signals';
import { asFailure, type Failure } from '../../../engine/failure';
import type { Explanation, Taught, Tested } from '../../../engine/learning/classifier';
import { checkExamples, type LabelledText } from '../../../engine/learning/examples';
import type { TeacherMethod, WorkerReport } from '../../../engine/learning/learning-handler';
import { latest } from '../../../state/latest';
import { fitsLink } from '../../../state/url';
import { type Connection, connect } from '../connection';
import { loadedParts, ownExamples, ownTest, sample } from '../state';
import { samples } from './samples';

export const chosenSample = computed(() => samples.find(({ id }) => id === sample.value) ?? samples[0]!);
export const examples = computed(() => ownExamples.value ?? chosenSample.value.examples);
export const testText = computed(() => ownTest.value ?? chosenSample.value.test);

export const checked = computed(() => checkExamples(examples.value));

export interface Lesson {
  examples: LabelledText[];
  taught: Taught;
  /** The test sentence and its labels; null if there is none. */
  test: { text: string; tested: Tested } | null;
}

/** The last result that was computed, with its input. */
export const result = signal<Lesson | null>(null);
/** Which tokens of a text contribute to its label. */
export const explained = signal<{ of: Tested; explanation: Explanation } | null>(null);
export const failure = signal<Failure | null>(null);
export const unavailable = signal<Failure | null>(null);
export const saving = signal(false);

let connection: Connection | undefined;
let calls = 0;
const waiting = new Map<number, { resolve: (value: never) => void; reject: (reason: Failure) => void }>();

function call<Result>(method: TeacherMethod, argument: unknown): Promise<Result> {
  return new Promise((resolve, reject) => {
    if (!connection) return reject(unavailable.peek()!);
    const id = ++calls;
    waiting.set(id, { resolve: resolve as (value: never) => void, reject });
    connection.send({ type: 'call', id, method, argument });
  });
}

function receive(report: WorkerReport): void {
  if (report.type === 'ready')
    import('../../../engine/learning/learning-csv').then(
      () => {
        loadedParts.value = { ...loadedParts.value, labels: true };
      },
      () => {}, // it is loaded again when a file is dropped
    );
  if (report.type !== 'result' && report.type !== 'error') return;
  const { resolve, reject } = waiting.get(report.id)!;
  waiting.delete(report.id);
  if (report.type === 'result') resolve(report.value as never);
  else reject(report.failure);
}

export function start(): void {
  unavailable.value = null;
  connection = connect('teacher', receive, (reason) => {
    connection = undefined;
    unavailable.value = reason;
    for (const { reject } of waiting.values()) reject(reason);
    waiting.clear();
  });
}

export function retry(): void {
  start();
  const { usable, missing } = checked.peek();
  if (missing === null) learn({ usable, text: testText.peek().trim() });
}

interface Input {
  usable: LabelledText[];
  text: string;
}

const sameExamples = (a: LabelledText[], b: LabelledText[]) => JSON.stringify(a) === JSON.stringify(b);
/** What the worker has learned last. */
let known: { examples: LabelledText[]; taught: Taught } | undefined;

const learn = latest(
  async ({ usable, text }: Input): Promise<Lesson> => {
    if (!known || !sameExamples(known.examples, usable))
      known = { examples: usable, taught: await call<Taught>('teach', usable) };
    return { ...known, test: text ? { text, tested: await call<Tested>('test', text) } : null };
  },
  (lesson) => {
    failure.value = null;
    // The examples may have been removed meanwhile.
    if (checked.peek().missing === null) result.value = lesson;
  },
  (reason) => {
    known = undefined;
    if (!unavailable.peek()) failure.value = asFailure(reason);
  },
);

const explain = latest(
  async ({ text, tested }: NonNullable<Lesson['test']>) => ({
    of: tested,
    explanation: await call<Explanation>('explain', text),
  }),
  (found) => {
    explained.value = found;
  },
  (reason) => {
    if (!unavailable.peek()) failure.value = asFailure(reason);
  },
);

let isFollowed = false;

/** Starts the worker with the first call, and learns again whenever an example changes. */
export function follow(): void {
  if (isFollowed) return;
  isFollowed = true;
  keepLongExamples();
  start();
  effect(() => {
    const { usable, missing } = checked.value;
    const text = testText.value.trim();
    if (missing === null) learn({ usable, text });
    else result.value = null;
  });
  effect(() => {
    const test = result.value?.test;
    if (test) explain(test);
  });
}

const storageKey = 'heed-examples';

/**
 * Examples that are too long for the address are kept in this browser. Only the tab that keeps them replaces or removes them: one that has opened a link with other
 * examples leaves them alone. The session of that tab says at which address they belong to what is shown.
 */
function keepLongExamples(): void {
  let isOwner = false;
  try {
    const kept = localStorage.getItem(storageKey);
    const belongs = ownExamples.peek() === null || sessionStorage.getItem(storageKey) === location.hash;
    if (kept && belongs) {
      ownExamples.value = JSON.parse(kept) as LabelledText[];
      isOwner = true;
    }
  } catch {
    // Storage may be switched off.
  }
  effect(() => {
    const own = ownExamples.value;
    try {
      if (own && !fitsLink('teach')) {
        localStorage.setItem(storageKey, JSON.stringify(own));
        sessionStorage.setItem(storageKey, location.hash);
        isOwner = true;
      } else if (isOwner) {
        localStorage.removeItem(storageKey);
        sessionStorage.removeItem(storageKey);
        isOwner = false;
      }
    } catch {
      // As above, or full.
    }
  });
}

/** Downloads the model's folder with the classifier. */
export async function download(): Promise<void> {
  saving.value = true;
  try {
    const archive = await call<Uint8Array<ArrayBuffer>>('save', checked.peek().usable);
    const link = document.createElement('a');
    link.href = URL.createObjectURL(new Blob([archive], { type: 'application/zip' }));
    link.download = `${folderName}.zip`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // after the browser has read it
  } catch (reason) {
    failure.value = asFailure(reason);
  } finally {
    saving.value = false;
  }
}

export const folderName = 'my-labels';
