using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [(name = "main", worker = .main)],
  sockets = [(name = "http", address = "127.0.0.1:PORT", http = (), service = "main")]
);

const main :Workerd.Worker = (
  compatibilityDate = "2025-01-01",
  modules = [
    (name = "main.mjs", esModule = embed "main.mjs"),
    (name = "model.js", data = embed "model.safetensors"),
    MODULES
    (name = "heed.wasm", wasm = embed "heed.wasm")
  ]
);
