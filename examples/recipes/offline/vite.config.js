// The service worker is a separate entry without a hash in its name: browsers update a service worker by its URL.
const input = { index: 'index.html', about: 'about.html', sw: 'sw.js' };
const entryFileNames = ({ name }) => (name === 'sw' ? 'sw.js' : 'assets/[name]-[hash].js');

export default {
  build: { target: 'es2022', modulePreload: false, rollupOptions: { input, output: { entryFileNames } } },
};
