/** How the console is built: to dist/console/, with relative addresses, and nothing inline. */
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vite'

const HERE = dirname(fileURLToPath(import.meta.url))

export default defineConfig({
  root: HERE,
  // Relative: a proxy may serve the gateway below any path.
  base: './',
  publicDir: false,
  cacheDir: '../../node_modules/.cache/vite',
  build: {
    outDir: '../../dist/console',
    emptyOutDir: true,
    target: 'es2022',
    // The policy of the page lets nothing in that is inline, and data: URLs neither.
    assetsInlineLimit: 0,
    modulePreload: false,
    reportCompressedSize: false,
  },
  // `npx vite --config src/console/vite.config.mjs` serves the sources beside a gateway on port 8080.
  server: { proxy: { '/ojs': 'http://127.0.0.1:8080' } },
})
