/** A GPU device with its buffers and pipelines. A run submits many kernels at once and reads results back once. */
import { HeedError } from '../base/error.js';
import {
  type Adapter,
  type Binding,
  type GpuBuffer,
  type GpuDevice,
  type GpuPipeline,
  MAP_READ,
  USAGE,
} from './webgpu.js';

/**
 * Kinds of errors, in the order in which they are reported. A failed allocation also causes validation errors in all
 * commands that use the buffer, so it comes first.
 */
const SCOPES = ['out-of-memory', 'internal', 'validation'] as const;

/** The error for a GPU that cannot run the model or that has failed. */
export const failure = (how: string, code: 'GPU_FAILED' | 'OUT_OF_MEMORY' = 'GPU_FAILED', cause?: unknown): HeedError =>
  new HeedError(code, `device: ${how}. Load the model with device: 'auto' or 'wasm'`, { cause });

/** Records a run. Each `yield` submits what has been recorded and resumes once the requested values have been read. */
export type Recording<Result = void> = Generator<void, Result, void>;

/** Records the kernels of a run, which take effect in the order in which they are recorded. */
export interface Recorder {
  /** The buffer `name` with capacity for `count` values, which stay valid until the end of the run. */
  scratch(name: string, count: number): Binding;
  /**
   * Like `scratch`, filled with `data`. The values are written before the whole submission, not at this point of it.
   */
  write(name: string, data: Float32Array | Uint32Array): Binding;
  dispatch(code: string, bindings: Binding[], x: number, y?: number): void;
  /** Copies the binding's values at this point of the run and passes them to `use` after the submission. */
  read(binding: Binding, use: (values: Float32Array) => void): void;
}

interface Dispatch {
  pipeline: GpuPipeline;
  bindings: Binding[];
  x: number;
  y: number;
}
interface ReadBack {
  binding: Binding;
  use(values: Float32Array): void;
}

export class Device {
  readonly limits: GpuDevice['limits'];
  /** Name of the next upload, for error messages. */
  uploading = 'a table';
  readonly #device: GpuDevice;
  readonly #pipelines = new Map<string, GpuPipeline>();
  readonly #scratch = new Map<string, GpuBuffer>();
  #staging: GpuBuffer | null = null;
  /** Buffers that larger ones have replaced but that the next submission may still use. */
  #replaced: GpuBuffer[] = [];
  /** The last run. Runs are serialized because they share buffers. */
  #last: Promise<unknown> = Promise.resolve();
  #lost: string | null = null;
  #destroyed = false;

  private constructor(device: GpuDevice) {
    this.#device = device;
    this.limits = device.limits;
    device.lost.then(({ message }) => {
      this.#lost ??= `the GPU was lost (${message || 'unknown reason'})`;
    });
  }

  /** Requests the adapter's maximum buffer sizes, because tables and batches may exceed WebGPU's default limits. */
  static async open(adapter: Adapter): Promise<Device> {
    const { maxBufferSize, maxStorageBufferBindingSize } = adapter.limits;
    try {
      return new Device(
        await adapter.requestDevice({ requiredLimits: { maxBufferSize, maxStorageBufferBindingSize } }),
      );
    } catch (cause) {
      throw failure(`the adapter provides no device (${(cause as Error).message})`, 'GPU_FAILED', cause);
    }
  }

  /** Creates a buffer with the values of `data` that lives as long as the device. */
  upload(data: Float32Array | Uint32Array): Binding {
    const buffer = this.#buffer(data.byteLength, USAGE.storage | USAGE.copyTarget, this.uploading);
    this.#device.queue.writeBuffer(buffer, 0, data);
    return { buffer, offset: 0, size: data.byteLength };
  }

  /** Creates a buffer of `count` uninitialized values that lives as long as the device. */
  allocate(count: number): Binding {
    return { buffer: this.#buffer(4 * count, USAGE.storage, this.uploading), offset: 0, size: 4 * count };
  }

  /** Runs what `record` records, with one submission and one read-back per `yield` and one at the end. */
  run(record: (recorder: Recorder) => Recording): Promise<void> {
    const run = this.#last.then(() => this.#run(record));
    this.#last = run.catch(() => {});
    return run;
  }

  /** Runs `body`, which creates buffers or submits work. Throws the first error that the device reports. */
  async checked<T>(body: () => T | Promise<T>): Promise<T> {
    this.#requireAlive();
    const device = this.#device;
    for (const scope of SCOPES) device.pushErrorScope(scope);
    let result: { value: T | Promise<T> } | { error: unknown };
    try {
      result = { value: body() };
    } catch (error) {
      result = { error };
    }
    const scopes = SCOPES.map(() => device.popErrorScope().catch(() => null)).reverse(); // the last one pushed is popped first
    const value = 'value' in result ? Promise.resolve(result.value) : Promise.reject(result.error);
    const outcome = value.then(
      (value) => ({ value }),
      (error: unknown) => ({ error }),
    );
    const lost = device.lost.then(() => null);
    const found = await Promise.race([Promise.all([outcome, ...scopes]), lost]);
    this.#requireAlive();
    const [settled, ...errors] = found!;
    errors.forEach((error, i) => {
      if (error)
        throw failure(
          `the GPU reported an error of kind ${SCOPES[i]} (${error.message})`,
          SCOPES[i] === 'out-of-memory' ? 'OUT_OF_MEMORY' : 'GPU_FAILED',
          error,
        );
    });
    if ('value' in settled) return settled.value;
    const { error } = settled;
    if (error instanceof HeedError) throw error;
    throw failure(
      `the GPU failed (${(error as Error).message})`,
      error instanceof RangeError ? 'OUT_OF_MEMORY' : 'GPU_FAILED',
      error,
    );
  }

  /** Frees all memory. Runs in progress fail with `DISPOSED`. */
  destroy(): void {
    this.#destroyed = true;
    this.#device.destroy();
  }

  /** Frees all memory of a device that has failed. Runs in progress fail with `GPU_FAILED`. */
  abandon(): void {
    this.#lost ??= 'the GPU failed in another call';
    this.#device.destroy();
  }

  #requireAlive(): void {
    if (this.#destroyed) throw new HeedError('DISPOSED', 'PretrainedModel: used after dispose()');
    if (this.#lost) throw failure(this.#lost);
  }

  #buffer(size: number, usage: number, purpose: string): GpuBuffer {
    const most = Math.min(this.limits.maxBufferSize, this.limits.maxStorageBufferBindingSize);
    if (size > most)
      throw failure(
        `the GPU's buffers have at most ${most} bytes, too few for ${purpose} (${size} bytes)`,
        'OUT_OF_MEMORY',
      );
    return this.#device.createBuffer({ size: Math.max(4, size), usage });
  }

  /**
   * Returns `buffer` if it is large enough, otherwise a buffer at least 1.5 times as large, so that growing texts
   * reallocate rarely.
   */
  #grown(buffer: GpuBuffer | null | undefined, size: number, usage: number): GpuBuffer {
    if (buffer && buffer.size >= size) return buffer;
    const most = Math.min(this.limits.maxBufferSize, this.limits.maxStorageBufferBindingSize);
    const larger = Math.max(size, Math.min(most, Math.ceil((buffer?.size ?? 0) * 0.375) * 4));
    const made = this.#buffer(larger, usage, 'values of a batch');
    if (buffer) this.#replaced.push(buffer);
    return made;
  }

  #destroyReplaced(): void {
    for (const buffer of this.#replaced.splice(0)) buffer.destroy();
  }

  /** Frees the buffers that runs share, any of which may be invalid after an error. */
  #releaseScratch(): void {
    this.#destroyReplaced();
    for (const buffer of this.#scratch.values()) buffer.destroy();
    this.#scratch.clear();
    this.#staging?.destroy();
    this.#staging = null;
  }

  async #run(record: (recorder: Recorder) => Recording): Promise<void> {
    let steps: (Dispatch | ReadBack)[] = [];
    const scratch = (name: string, count: number): Binding => {
      const usage = USAGE.storage | USAGE.copySource | USAGE.copyTarget;
      const buffer = this.#grown(this.#scratch.get(name), 4 * count, usage);
      this.#scratch.set(name, buffer);
      return { name, buffer, offset: 0, size: Math.max(4, 4 * count) };
    };
    const recording = record({
      scratch,
      write: (name, data) => {
        const binding = scratch(name, data.length);
        this.#device.queue.writeBuffer(binding.buffer, 0, data);
        return binding;
      },
      dispatch: (code, bindings, x, y = 1) => {
        const { maxComputeWorkgroupsPerDimension: most } = this.limits;
        if (Math.max(x, y) > most)
          throw failure(
            `the GPU runs at most ${most} workgroups at a time, ${Math.max(x, y)} rows need more`,
            'OUT_OF_MEMORY',
          );
        steps.push({ pipeline: this.#pipeline(code), bindings, x, y });
      },
      read: (binding, use) => void steps.push({ binding, use }),
    });
    try {
      for (let isDone = false; !isDone; steps = []) {
        isDone = await this.checked(() => {
          const { done = false } = recording.next();
          return this.#submit(steps).then(() => done);
        });
      }
    } catch (error) {
      this.#releaseScratch();
      throw error;
    }
  }

  async #submit(steps: readonly (Dispatch | ReadBack)[]): Promise<void> {
    const device = this.#device;
    const commands = device.createCommandEncoder();
    const reads = steps.filter((step) => 'use' in step);
    const total = reads.reduce((sum, { binding }) => sum + binding.size, 0);
    this.#staging = this.#grown(this.#staging, total, USAGE.mapRead | USAGE.copyTarget);
    const staging = this.#staging;
    let pass: ReturnType<typeof commands.beginComputePass> | null = null;
    let end = 0;
    for (const step of steps) {
      if ('use' in step) {
        const { buffer, offset, size } = step.binding;
        pass?.end();
        pass = null;
        commands.copyBufferToBuffer(buffer, offset, staging, end, size);
        end += size;
      } else {
        const { pipeline, bindings, x, y } = step;
        pass ??= commands.beginComputePass();
        pass.setPipeline(pipeline);
        const entries = bindings.map((resource, binding) => ({ binding, resource }));
        pass.setBindGroup(0, device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries }));
        pass.dispatchWorkgroups(x, y);
      }
    }
    pass?.end();
    device.queue.submit([commands.finish()]);
    this.#destroyReplaced();
    if (total === 0) return;
    const stop = hurry(device);
    try {
      await staging.mapAsync(MAP_READ, 0, total);
    } finally {
      stop();
    }
    const mapped = staging.getMappedRange(0, total);
    let begin = 0;
    const values = reads.map(({ binding: { size } }) => {
      begin += size;
      return new Float32Array(mapped.slice(begin - size, begin));
    });
    staging.unmap();
    reads.forEach(({ use }, i) => void use(values[i]!));
  }

  #pipeline(code: string): GpuPipeline {
    let pipeline = this.#pipelines.get(code);
    if (!pipeline) {
      const module = this.#device.createShaderModule({ code });
      pipeline = this.#device.createComputePipeline({ layout: 'auto', compute: { module } });
      this.#pipelines.set(code, pipeline);
    }
    return pipeline;
  }
}

/**
 * Firefox checks for finished work only every 100 ms unless something is submitted, so this submits empty work every
 * millisecond. Returns a function that stops it.
 */
function hurry(device: GpuDevice): () => void {
  if (typeof navigator !== 'object' || !/Firefox/.test(navigator.userAgent ?? '')) return () => {};
  const timer = setInterval(() => device.queue.submit([]), 1);
  return () => clearInterval(timer);
}
