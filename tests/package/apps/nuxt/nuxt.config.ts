export default defineNuxtConfig({
  compatibilityDate: '2026-01-01',
  telemetry: false,
  devtools: { enabled: false },
  typescript: { includeWorkspace: false },
  // Nuxt 4.4 stores the payload of / under a key that unstorage 1.17.6, its storage, rejects: no page of any application could be prerendered.
  experimental: { payloadExtraction: false },
});
