import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';

/** Of `npm run dev`: the Nyala server that answers what is not a file of the console. */
const SERVER = process.env.NYALA_URL ?? 'http://127.0.0.1:8090';
const paths = ['/api', '/metrics', '/debug', '/healthz', '/readyz'];

// The server embeds `dist` and serves it below /console/.
export default defineConfig({
  base: '/console/',
  plugins: [svelte()],
  server: { proxy: Object.fromEntries(paths.map((path) => [path, SERVER])) },
  build: {
    target: 'es2022',
    chunkSizeWarningLimit: 700,
    modulePreload: { polyfill: false },
    license: { fileName: 'licenses.md' },
  },
});
