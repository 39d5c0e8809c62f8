export function makeGpuPage(folder: string, options?: { onnxruntime?: boolean }): Promise<void>;
