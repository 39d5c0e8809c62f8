/** Trains in a worker of its own. heed/train is downloaded with it, so only by readers who open the page “Learning”. */
import { type Build, load } from 'heed/train';
import { asFailure, type Failure } from '../failure';
import { Session, type SessionCommand, type SessionReport } from './session';

export type WorkerCommand = { type: 'start'; build: Build | 'auto' } | SessionCommand;
export type WorkerReport = { type: 'ready' } | { type: 'unavailable'; failure: Failure } | SessionReport;

const report = (message: WorkerReport): void => postMessage(message);

let session: Promise<Session> | undefined;

addEventListener('message', ({ data: command }: MessageEvent<WorkerCommand>) => {
  if (command.type === 'start') {
    session = load({ build: command.build }).then((heed) => new Session(heed, report));
    session.then(
      () => report({ type: 'ready' }),
      (reason: unknown) => report({ type: 'unavailable', failure: asFailure(reason) }),
    );
  } else
    session?.then(
      (started) => started.handle(command),
      () => {}, // reported above
    );
});
