/** Models in workers whose layers may run on a GPU. */
import { HeedError, invalid } from '../base/error.js';
import type { PageRuntime } from '../base/owned.js';
import { nodeOptions, start } from '../base/start-worker.js';
import { packaged } from '../base/wasm/packaged.js';
import { type Device, onCore } from '../models/device.js';
import type { WorkerModel } from './client.js';
import type { Method } from './protocol.js';

/** Bundlers recognize exactly these expressions, see inference.ts. */
const startWorker = () =>
  start(
    'gpu-worker.js',
    ({ Worker }) => new Worker(packaged('gpu-worker.js', new URL('./gpu-worker.js', import.meta.url)), nodeOptions),
    () => new Worker(new URL('./gpu-worker.js', import.meta.url), { type: 'module' }),
  );

type Request = 'webgpu' | 'auto';

function refusal(got: string, cause?: unknown): HeedError {
  const expected = "a worker that runs gpu-worker.js, for a `device` other than 'wasm'";
  return invalid('fromPretrained.worker', expected, got, 'UNSUPPORTED', { cause });
}

/** Loads a model with `load`, in a worker with heed's GPU code. With 'auto', a worker without that code is accepted. */
export async function loadOnGpu(
  runtime: PageRuntime,
  request: Request,
  load: (from: PageRuntime) => Promise<WorkerModel>,
): Promise<WorkerModel> {
  const against = runtime.gpu
    ? 'a `gpu` of load(), which cannot be sent to a worker'
    : 'TrainableEncoder' in runtime.core && 'a worker of heed/train';
  if (against && request === 'webgpu') throw refusal(against);
  const model = await load(against ? runtime : Object.create(runtime, { startWorker: { value: startWorker } }));
  try {
    return withDevice(model, await deviceOf(model));
  } catch (cause) {
    const isOther = cause instanceof HeedError && cause.code === 'INTERNAL'; // the worker's script has no method 'device'
    if (isOther && request === 'auto')
      return withDevice(model, { ...onCore, reason: "its worker lacks heed's GPU code" });
    model.dispose();
    throw isOther ? refusal('a worker that runs another script', cause) : cause;
  }
}

const deviceOf = (model: WorkerModel): Promise<Device> => model.call('device' as Method, []);

/**
 * Adds the worker's device to the model. With 'auto', the device may change from the GPU to WebAssembly during a call.
 */
function withDevice(model: WorkerModel, device: Device): WorkerModel {
  const call: WorkerModel['call'] = model.call.bind(model);
  const own = Object.assign(model, { device }); // set on the instance, so that pages without a GPU do not download this
  own.call = async <T>(...args: Parameters<WorkerModel['call']>) => {
    try {
      return await call<T>(...args);
    } finally {
      if (own.device.type === 'webgpu') own.device = await call<Device>('device' as Method, []).catch(() => own.device);
    }
  };
  return model;
}
