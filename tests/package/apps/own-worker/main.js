const worker = new Worker(new URL('./own.js', import.meta.url), { type: 'module' });

globalThis.smokeResult = new Promise((resolve) => {
  worker.onmessage = ({ data }) => resolve(data);
  worker.onerror = ({ message }) => resolve({ failure: message });
});
