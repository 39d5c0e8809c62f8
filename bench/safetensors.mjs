/** The F32 tensors of a safetensors file that this bench wrote itself; heed's own reader is the one that distrusts files. */
export function readSafetensors(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const headerLength = Number(view.getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + headerLength)));
  const tensors = {};
  for (const [name, { shape, data_offsets }] of Object.entries(header)) {
    const [begin, end] = data_offsets.map((o) => 8 + headerLength + o);
    tensors[name] = { shape, data: new Float32Array(Uint8Array.from(bytes.subarray(begin, end)).buffer) };
  }
  return tensors;
}
