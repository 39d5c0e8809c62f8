// `output` is set so that a static server can serve the app; the package itself needs no configuration.
export default { output: 'export' };
