// `output` only so that a static server can serve it; the package needs no configuration.
export default { output: 'export' };
