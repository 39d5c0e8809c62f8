export function encoderFiles(
  layers?: number,
  vocab?: number,
  size?: { width?: number; heads?: number; positions?: number },
): {
  vocab: number;
  config: Record<string, unknown>;
  tensors: Record<string, { shape: number[]; data: Float32Array }>;
  files: Record<string, Uint8Array>;
};
