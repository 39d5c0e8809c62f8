/**
 * Trains in a worker: a task on sequences, or labels on the shipped model. heed/train is downloaded with it, so only by readers who open “Watch it learn”.
 */
import { type Build, load } from 'heed/train';
import { asFailure, type Failure } from '../failure';
import { Teacher } from './classifier';
import { Session, type SessionCommand, type SessionReport } from './session';

/** What the worker does; the first message says it. */
export type Role = 'session' | 'teacher';
export type TeacherMethod = 'teach' | 'test' | 'explain' | 'save';
export type WorkerCommand =
  | { type: 'start'; role: Role; build: Build | 'auto' }
  | { type: 'call'; id: number; method: TeacherMethod; argument: unknown }
  | SessionCommand;
export type WorkerReport =
  /** `fetched`: the addresses of the files that the worker has loaded. */
  | { type: 'ready'; fetched: string[] }
  | { type: 'unavailable'; failure: Failure }
  | { type: 'result'; id: number; value: unknown }
  | { type: 'error'; id: number; failure: Failure }
  | SessionReport;

const report = (message: WorkerReport): void => postMessage(message);

interface Roles {
  session?: Session;
  teacher?: Teacher;
}

async function start(role: Role, build: Build | 'auto'): Promise<Roles> {
  const heed = await load({ build });
  if (role === 'session') return { session: new Session(heed, report) };
  const model = await heed.fromPretrained(undefined, { trainable: true, dropout: 0 });
  // Whatever is needed later, so that the page makes no further requests.
  await import('./learning-zip');
  return { teacher: new Teacher(heed, model) };
}

let started: Promise<Roles> | undefined;
/** Calls of the teacher run one after the other. */
let last: Promise<unknown> = Promise.resolve();

export function handle(command: WorkerCommand): void {
  if (command.type === 'start') {
    started = start(command.role, command.build);
    started.then(
      () => report({ type: 'ready', fetched: performance.getEntriesByType('resource').map(({ name }) => name) }),
      (reason: unknown) => report({ type: 'unavailable', failure: asFailure(reason) }),
    );
  } else if (command.type === 'call') {
    const { id, method, argument } = command;
    last = last
      .then(async () => (await started!).teacher![method](argument as never))
      .then(
        (value) => report({ type: 'result', id, value }),
        (reason: unknown) => report({ type: 'error', id, failure: asFailure(reason) }),
      );
  } else
    started?.then(
      ({ session }) => session!.handle(command),
      () => {}, // reported above
    );
}
