// The service worker is a second entry, whose name has no hash: a browser updates a service worker by its URL.
const input = { index: 'index.html', sw: 'sw.js' };
const entryFileNames = ({ name }) => (name === 'sw' ? 'sw.js' : 'assets/[name]-[hash].js');

export default {
  build: { target: 'es2022', modulePreload: false, rollupOptions: { input, output: { entryFileNames } } },
};
