// heed finds its .wasm file and its model beside its script, so the server imports it from node_modules instead of bundling it.
export default { serverExternalPackages: ['heed'] };
