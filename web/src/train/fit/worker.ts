/**
 * The script of a heed/train worker. It runs a pretrained model, as worker.js does, and trains it; or it runs one call
 * of `fit`, or assists another worker that does.
 */
import create from 'heed-glue/training';
import { HeedError } from '../../base/error.js';
import { abortable } from '../../base/event-loop.js';
import type { Runtime } from '../../base/owned.js';
import { instantiate, locate, type WasmModule } from '../../base/wasm/module.js';
import type { ModelFolder } from '../../io/files.js';
import type { ModelSource } from '../../io/source.js';
import { allLayers } from '../../layers/composition/composite.js';
import { loadPretrained } from '../../loading/load-pretrained.js';
import type { LoadModelOptions } from '../../models/loaded-model.js';
import type { PretrainedModel } from '../../models/model.js';
import type { LocalModel } from '../../models/pretrained.js';
import { Channel } from '../../worker/channel.js';
import { makeHandler } from '../../worker/handler.js';
import { listen, loadStore } from '../../worker/port.js';
import { type Message, packError } from '../../worker/protocol.js';
import { requireTrainable } from '../fine-tuning/encoder.js';
import type { Kit } from '../fine-tuning/head.js';
import { loadAdapter, save, trainClassifier, trainEmbedding } from '../fine-tuning/index.js';
import { addSave, type Savable } from '../fine-tuning.js';
import { recordingCalls } from '../graph/calls.js';
import { Parameter } from '../graph/parameters.js';
import { Tape } from '../graph/tape.js';
import type { TrainCore } from '../graph/train-core.js';
import { Optimizer } from '../optim/optimizer.js';
import { makeSchedule } from '../optim/schedules.js';
import { loadTrainable } from '../trainable/pretrained.js';
import type { TrainableOptions } from '../trainable/trainable-model.js';
import { checkpointsOf } from './checkpoint.js';
import { buildModel, type Description } from './description.js';
import { startFit } from './fit.js';
import type { CallbackEvents } from './fit-options.js';
import type { AssistantJob, FitEvent, FitJob, FitOutcome, PortLike, PortMessage } from './fit-worker.js';
import { type Assistant, buffersOf, remoteAssistant } from './parallel.js';

const glue = { create, loadThreaded: null };

/** Stops the running fit between two steps. */
let stop = new AbortController();
/** Ends the fit immediately, or this worker's part in another worker's fit. */
let release = new AbortController();
/** Continues or ends the running fit, which waits for the caller's callbacks. */
let answer: (goesOn: boolean) => void = () => {};
/** Ports to the other workers of the next fit, or to the worker that this one will assist. */
const ports: PortLike[] = [];

/** The objects for running or assisting a fit. */
interface Job extends ReturnType<typeof checkpointsOf> {
  tape: Tape;
  runtime: Runtime;
  model: ReturnType<typeof buildModel>;
  stop: AbortSignal;
  released: AbortSignal;
  ports: PortLike[];
}

/**
 * Runs `body` with a copy of the model that the caller described, and then frees everything, because a worker may run
 * several fits one after another.
 */
async function withModel<T>(wasm: WasmModule, description: Description, body: (job: Job) => Promise<T>): Promise<T> {
  [stop, release] = [new AbortController(), new AbortController()];
  const own = { stop: stop.signal, released: release.signal, ports: ports.splice(0) };
  const owned: Tape['owned'] = new Set();
  try {
    const plain = (await instantiate(glue, locate(wasm, 'wasm'))) as TrainCore;
    const tape = new Tape(plain, owned);
    const runtime = { core: plain, calls: recordingCalls(plain, tape), owned, hub: {} };
    const model = buildModel(tape, runtime, description);
    return await body({ ...own, tape, runtime, model, ...checkpointsOf(tape) });
  } finally {
    for (const port of own.ports) port.close();
    for (const raw of owned) raw.delete();
    owned.clear();
  }
}

async function fitModel(
  { stop, released, ports, tape, runtime, model, saveCheckpoint, loadCheckpoint }: Job,
  job: FitJob,
  onEvent: (event: FitEvent) => void,
): Promise<FitOutcome> {
  const layers = model[allLayers]();
  const groups = job.optimizer.groups.map(({ params, settings }) => ({
    ...settings,
    params: params.map(({ layer: at, index, name }) => {
      const [layer] = layers[at]!;
      return new Parameter(tape, layer, tape.stateOf(layer.raw), index, name, layer.raw.parameters()[index]!.shape);
    }),
  }));
  const optimizer = new Optimizer(runtime, tape, job.optimizer.kind, groups, {});
  const schedule = job.schedule && makeSchedule(optimizer, job.schedule.kind, job.schedule.options);
  const parts = { model, optimizer, ...(schedule && { schedule }) };
  loadCheckpoint(job.checkpoint, parts);
  const callbacks = job.events.map((name) => ({
    [name](event: CallbackEvents[typeof name]) {
      onEvent({ name, event } as FitEvent);
      if (!job.awaited.includes(name)) return true;
      const answered = new Promise<boolean>((resolve) => {
        answer = resolve;
      });
      return abortable(answered, stop);
    },
  }));
  const options = { ...job.options, optimizer, schedule, signal: stop, callbacks };
  const others = job.divided ? ports.map((port) => assistantAt(port, released)) : null;
  const { history, failure } = await startFit(tape, model, job.data, options, others).then(
    (history) => ({ history, failure: null }),
    (error: unknown) => ({ history: null, failure: packError(error) }),
  );
  return { history, failure, checkpoint: saveCheckpoint(parts) };
}

/** The worker behind a port. */
function assistantAt(port: PortLike, released: AbortSignal): Assistant {
  const channel = new Channel(
    (message) => port.postMessage(message, []),
    () => Promise.reject(),
  );
  port.onmessage = ({ data }: MessageEvent<Message>) => channel.receive(data);
  const close = () => channel.close(new HeedError('WORKER_FAILED', 'fit: its workers were released'));
  if (released.aborted) close();
  released.addEventListener('abort', close);
  return (task) => channel.call('compute', [task]);
}

/** Computes gradients for the worker behind the port until this worker is terminated or released. */
async function assist({ released, ports, tape, model, loadCheckpoint }: Job, job: AssistantJob): Promise<void> {
  loadCheckpoint(job.checkpoint, { model });
  model.train();
  const compute = remoteAssistant(tape, model, job.loss);
  const [port] = ports;
  const channel = new Channel(
    (message) => port!.postMessage(message, message.type === 'result' ? buffersOf(message.value as never) : []),
    (_, [task]) => compute(task!),
  );
  port!.onmessage = ({ data }: MessageEvent<Message>) => channel.receive(data);
  if (!released.aborted) await new Promise((resolve) => released.addEventListener('abort', resolve));
}

/** The model of this worker, and what trains it. */
let model: PretrainedModel & Savable;
let kit: Kit;

async function loadModel(
  { core: plain, owned, hub }: Runtime,
  source: ModelSource,
  options: LoadModelOptions = {},
  folder?: ModelFolder,
): Promise<PretrainedModel> {
  const tape = new Tape(plain as TrainCore, owned);
  const runtime = { core: plain, calls: recordingCalls(plain as TrainCore, tape), owned, hub };
  const { trainable } = options as Partial<TrainableOptions>;
  const loaded = await (trainable
    ? loadTrainable(runtime, tape, source, options as TrainableOptions)
    : loadPretrained(runtime, source, options, folder));
  kit = { runtime, tape };
  model = loaded as PretrainedModel & Savable;
  // A pool's workers do not have a source.
  if (!folder) addSave(kit, model as unknown as LocalModel, source, options, async () => ({ save, loadAdapter }));
  return model;
}

/** Training calls run one after another, even if the caller has stopped waiting for one. */
let last: Promise<unknown> = Promise.resolve();

function afterOthers<T>(body: () => Promise<T>): Promise<T> {
  const next = last.then(body, body);
  last = next;
  return next;
}

/** Converts the options of the caller's call to those of the training functions. */
function trainingOptions({ onProgress, ...options }: { onProgress?: ((progress: never) => void) | undefined }): object {
  return { ...options, ...(onProgress && { onStep: onProgress }) };
}

const training = {
  trainClassifier: (examples: never, options: object) =>
    afterOthers(() => trainClassifier(kit, model, examples, trainingOptions(options))),
  trainEmbedding: (examples: never, options: object) =>
    afterOthers(() => trainEmbedding(kit, model, examples, trainingOptions(options))),
  mergeLora: () =>
    afterOthers(async () => {
      requireTrainable('mergeLora', model).mergeLora();
    }),
  config: () => afterOthers(async () => model.config),
  // Returned as a list, because lists are not searched for tensors.
  save: (options: object) => afterOthers(async () => Object.entries(await model.save(options))),
};

listen((post) => {
  const control = {
    fit: (wasm: WasmModule, given: FitJob, { onProgress }: { onProgress: (event: FitEvent) => void }) =>
      withModel(wasm, given.model, (job) => fitModel(job, given, onProgress)),
    assist: (wasm: WasmModule, given: AssistantJob) => withModel(wasm, given.model, (job) => assist(job, given)),
    stop: async () => stop.abort(),
    answer: async (goesOn: boolean) => answer(goesOn),
    async release() {
      stop.abort();
      release.abort();
      for (const port of ports.splice(0)) port.close();
    },
  };
  const handle = makeHandler(glue, post, loadStore, { ...control, ...training }, loadModel);
  return (message: Message & Partial<PortMessage>) => {
    if (message?.port) ports.push(message.port);
    else handle(message);
  };
});
