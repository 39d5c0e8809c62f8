// Runs the package in a worker: ?kind=worker, service-module or service-classic.
const kind = new URL(location.href).searchParams.get('kind');

const answer = (target) =>
  new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = ({ data }) => resolve(data);
    target.postMessage('run', [port2]);
  });

const serviceWorker = async (script, options) => {
  await navigator.serviceWorker.register(script, options);
  return (await navigator.serviceWorker.ready).active;
};

globalThis.smokeResult = (async () => {
  if (kind === 'worker') return answer(new Worker('./answer.js', { type: 'module' }));
  if (kind === 'service-module') return answer(await serviceWorker('./answer.js', { type: 'module' }));
  return answer(await serviceWorker('./classic.js'));
})();
