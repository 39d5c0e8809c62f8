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

/** The file of `tensors`, which have the form that readSafetensors() returns. */
export function writeSafetensors(tensors) {
  const header = {};
  let size = 0;
  for (const [name, { shape, data }] of Object.entries(tensors)) {
    header[name] = { dtype: 'F32', shape, data_offsets: [size, size + data.byteLength] };
    size += data.byteLength;
  }
  const json = JSON.stringify(header);
  const text = new TextEncoder().encode(json.padEnd(Math.ceil(json.length / 8) * 8));
  const bytes = new Uint8Array(8 + text.length + size);
  new DataView(bytes.buffer).setBigUint64(0, BigInt(text.length), true);
  bytes.set(text, 8);
  for (const [name, { data }] of Object.entries(tensors)) {
    const at = 8 + text.length + header[name].data_offsets[0];
    bytes.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), at);
  }
  return bytes;
}
