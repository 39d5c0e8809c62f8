/** The script of a worker of heed/train: it runs a pretrained model, as worker.js does, or one call of `fit`. */
import { instantiate, locate, type WasmModule } from '../module.js';
import { makeHandler } from '../worker/handler.js';
import { listen } from '../worker/port.js';
import { packError } from '../worker/protocol.js';
import { checkpointsOf } from './checkpoint.js';
import type { TrainCore } from './core.js';
import { buildModel } from './description.js';
import { type FitProgress, startFit } from './fit.js';
import type { FitJob, FitOutcome } from './fit-worker.js';
import { Optimizer } from './optimizer.js';
import { Parameter } from './parameters.js';
import { recordingCore } from './recording.js';
import { Schedule } from './schedules.js';
import { Tape } from './tape.js';
import { allLayers } from './tree.js';

const stop = new AbortController();

async function fit(
  wasm: WasmModule,
  job: FitJob,
  { onProgress }: { onProgress: (progress: FitProgress) => void },
): Promise<FitOutcome> {
  const plain = (await instantiate('simd128', locate(wasm, 'wasm'))) as TrainCore; // the name of the build is not used if the module is given
  const owned: Tape['owned'] = new Set();
  const tape = new Tape(plain, owned);
  const runtime = { core: recordingCore(plain, tape), owned };
  const model = buildModel(tape, runtime, job.model);
  const layers = model[allLayers]();
  const groups = job.optimizer.groups.map(({ params, settings }) => ({
    ...settings,
    params: params.map(({ layer: at, index, name }) => {
      const [layer] = layers[at]!;
      return new Parameter(tape, layer, tape.stateOf(layer.raw), index, name, layer.raw.parameters()[index]!.shape);
    }),
  }));
  const optimizer = new Optimizer(runtime, tape, job.optimizer.kind, groups, {});
  const schedule = job.schedule && new Schedule(optimizer, job.schedule.kind, job.schedule.options);
  const parts = { model, optimizer, ...(schedule && { schedule }) };
  const { saveCheckpoint, loadCheckpoint } = checkpointsOf(tape);
  loadCheckpoint(job.checkpoint, parts);
  const options = { ...job.options, optimizer, schedule, signal: stop.signal, onStep: onProgress };
  const { history, failure } = await startFit(tape, model, job.data, options).then(
    (history) => ({ history, failure: null }),
    (error: unknown) => ({ history: null, failure: packError(error) }),
  );
  return { history, failure, checkpoint: saveCheckpoint(parts) };
}

listen((post) => makeHandler(post, { fit, stop: async () => stop.abort() }));
