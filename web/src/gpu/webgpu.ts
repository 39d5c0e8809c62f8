/**
 * Structural types for the part of WebGPU that heed uses, so that the package's declarations compile without WebGPU's
 * types.
 */
export interface GpuBuffer {
  readonly size: number;
  getMappedRange(offset?: number, size?: number): ArrayBuffer;
  mapAsync(mode: number, offset?: number, size?: number): Promise<void>;
  unmap(): void;
  destroy(): void;
}

/** A range of a buffer, in bytes. */
export interface Binding {
  buffer: GpuBuffer;
  offset: number;
  size: number;
  /** Name of a scratch buffer (`Recorder.scratch`); absent for parameters. */
  name?: string | undefined;
}

export interface GpuPipeline {
  getBindGroupLayout(index: number): object;
}

interface ComputePass {
  setPipeline(pipeline: GpuPipeline): void;
  setBindGroup(index: number, group: object): void;
  dispatchWorkgroups(x: number, y?: number): void;
  end(): void;
}

export interface CommandEncoder {
  beginComputePass(): ComputePass;
  copyBufferToBuffer(from: GpuBuffer, fromOffset: number, to: GpuBuffer, toOffset: number, size: number): void;
  finish(): object;
}

interface Limits {
  maxStorageBufferBindingSize: number;
  maxBufferSize: number;
  maxComputeWorkgroupsPerDimension: number;
}

export interface GpuDevice {
  readonly limits: Limits;
  readonly lost: Promise<{ reason?: string | undefined; message: string }>;
  readonly queue: {
    submit(commands: object[]): void;
    writeBuffer(buffer: GpuBuffer, offset: number, data: ArrayBufferView): void;
  };
  createBuffer(options: { size: number; usage: number; mappedAtCreation?: boolean | undefined }): GpuBuffer;
  createShaderModule(options: { code: string }): object;
  createComputePipeline(options: { layout: 'auto'; compute: { module: object } }): GpuPipeline;
  createBindGroup(options: { layout: object; entries: { binding: number; resource: Binding }[] }): object;
  createCommandEncoder(): CommandEncoder;
  pushErrorScope(filter: 'validation' | 'out-of-memory' | 'internal'): void;
  popErrorScope(): Promise<{ message: string } | null>;
  destroy(): void;
}

export interface Adapter {
  readonly limits: Limits;
  readonly info?:
    | {
        vendor?: string | undefined;
        architecture?: string | undefined;
        device?: string | undefined;
        description?: string | undefined;
        isFallbackAdapter?: boolean | undefined;
      }
    | undefined;
  /** In older browsers, instead of `info.isFallbackAdapter`. */
  readonly isFallbackAdapter?: boolean | undefined;
  requestDevice(options: { requiredLimits: Partial<Limits> }): Promise<GpuDevice>;
}

/** Flags of `GPUBufferUsage` and `GPUMapMode`, which are globals only in browsers. */
export const USAGE = { mapRead: 1, copySource: 4, copyTarget: 8, storage: 128 } as const;
export const MAP_READ = 1;

/** The name of a scratch buffer for rows [M,E] that none of `taken` uses. */
export const free = (...taken: Binding[]): string =>
  ['x0', 'x1', 'x2'].find((name) => taken.every((binding) => binding.name !== name))!;

export const bound = (bindings: (Binding | null | undefined)[]): Binding[] => bindings.filter((binding) => !!binding);
