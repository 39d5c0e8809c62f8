/** The state of the training in the worker. */
import { computed, effect, signal } from '@preact/signals';
import type { Failure } from '../../../engine/failure';
import type { WorkerCommand, WorkerReport } from '../../../engine/learning/learning-handler';
import type { Frame } from '../../../engine/learning/session';
import { readDigits } from '../../../engine/learning/tasks';
import type { Ablation, TrainerSettings } from '../../../engine/learning/trainer';
import { type Connection, connect } from '../connection';
import { everyStep, lesson, linkedStep, loadedParts, ownDigits, startsTraining, trainerSettings } from '../state';

export const frame = signal<Frame | null>(null);
/** What the model computes without some heads, as the lens last asked for it. */
export const ablated = signal<{ off: string[]; ablation: Ablation } | null>(null);
/** Training has failed, for example because the loss is not finite. */
export const failure = signal<Failure | null>(null);
/** The worker could not be started. */
export const unavailable = signal<Failure | null>(null);
export const training = computed(() => frame.value?.training ?? false);
/** The latest measurement that is not after the step that is shown. */
export const measured = computed(() => {
  const { measures, snapshot } = frame.value ?? { measures: [] };
  return measures.filter(({ step }) => step <= snapshot!.step).at(-1);
});

let connection: Connection | undefined;
let run = 0;
let isFollowed = false;

const send = (command: WorkerCommand): void => connection?.send(command);

/** Starts the worker with the first call. Training starts over when a setting changes. */
export function follow(): void {
  if (isFollowed) return;
  isFollowed = true;
  start();
  // A link names the step to which its settings are trained.
  linkedStep.value ||= stepBefore();
  const target = linkedStep.peek();
  addEventListener('pagehide', keepStep);
  let isFirst = true;
  effect(() => {
    const settings = trainerSettings.value;
    if (!isFirst) linkedStep.value = 0;
    isFirst = false;
    reset(settings);
  });
  effect(() => send({ type: 'read', digits: ownExample.value }));
  effect(sendPace);
  if (target > 0) send({ type: 'train', until: target });
  effect(() => {
    if (!startsTraining.value) return;
    startsTraining.value = false;
    train();
  });
}

/** Where the tab keeps the step, so that a reload trains to it again: the same settings and seed give the same steps. */
const kept = 'heed-trained';

function keepStep(): void {
  try {
    const step = frame.peek()?.snapshot.step ?? 0;
    sessionStorage.setItem(kept, JSON.stringify({ step, settings: trainerSettings.peek() }));
  } catch {} // the reader has forbidden it
}

/** The step before the page was loaded again; 0 in other cases. */
function stepBefore(): number {
  const [navigation] = performance.getEntriesByType('navigation') as PerformanceNavigationTiming[];
  if (navigation?.type !== 'reload') return 0;
  try {
    const { step, settings } = JSON.parse(sessionStorage.getItem(kept) ?? '{}');
    return JSON.stringify(settings) === JSON.stringify(trainerSettings.peek()) ? step : 0;
  } catch {
    return 0;
  }
}

/** The reader's digits, if they make an example of the task. */
const ownExample = computed(() => {
  const read = readDigits(lesson.task.value, ownDigits.value);
  return Array.isArray(read) ? read : null;
});

function start(): void {
  unavailable.value = null;
  connection = connect('session', receive, (reason) => {
    connection = undefined;
    frame.value = null;
    unavailable.value = reason;
  });
}

function reset(settings: TrainerSettings): void {
  failure.value = null;
  ablated.value = null;
  send({ type: 'reset', run: ++run, settings, digits: ownExample.peek() });
}

export function retry(): void {
  start();
  sendPace();
  restart();
}

function receive(report: WorkerReport): void {
  if (report.type === 'ready') loadedParts.value = { ...loadedParts.value, tasks: true };
  else if (report.type === 'failed') {
    if (report.run === run) failure.value = report.failure;
  } else if (report.type === 'frame') {
    if (report.frame.run === run) frame.value = report.frame;
    afterDrawing(() => send({ type: 'drawn' }));
  } else if (report.type === 'ablated') {
    if (report.run === run) ablated.value = report;
  }
}

/** Those who prefer reduced motion see two frames per second, and training does not wait for them. */
export const calm = matchMedia('(prefers-reduced-motion: reduce)');
const calmInterval = 500;

function sendPace(): void {
  send({ type: 'pace', everyStep: everyStep.value && !calm.matches });
}

/** Calls `then` before the browser draws next, which it does not do while the page is in the background. */
function afterDrawing(then: () => void): void {
  const next = () => requestAnimationFrame(then);
  if (calm.matches && training.value) setTimeout(next, calmInterval);
  else next();
}

export function restart(): void {
  linkedStep.value = 0;
  reset(trainerSettings.peek());
}
export function train(): void {
  linkedStep.value = 0;
  send({ type: 'train' });
}
export const pause = (): void => send({ type: 'pause' });
export function step(): void {
  linkedStep.value = 0;
  send({ type: 'step' });
}
export const ablate = (off: string[]): void => send({ type: 'ablate', off });
export function rewind(target: number): void {
  failure.value = null;
  linkedStep.value = 0;
  send({ type: 'rewind', step: target });
}
