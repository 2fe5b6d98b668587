import { fileURLToPath } from 'node:url'
import react from '@vitejs/plugin-react'
import type { Plugin } from 'vite'
import { defineConfig } from 'vitest/config'

// Where `assay serve` finds the built files; the wheel carries that folder.
const built = fileURLToPath(new URL('../src/assay/serve/dashboard/built', import.meta.url))
// What every page needs comes in one file: a page is then three or four files, not twenty small ones.
const shared =
  /node_modules.(react|scheduler|@tanstack|openapi-fetch|radix-ui|@radix-ui|get-nonce)|web.src.(app|api|parts|watching)./

// What several pages have in common; not what reads YAML, which few of them do.
const pages = /web.src.(charts|pages.(?!editor|job.Yaml))/
// Where which page is: known before anything else, so that its code is fetched beside what is shared.
const places = /web.src.pages.pages\.ts|vite.preload-helper/

/** The page itself names the files that its first script asks for, so that they come beside that script. */
const early: Plugin = {
  name: 'early',
  transformIndexHtml: {
    order: 'post',
    handler: (_, { bundle }) =>
      Object.values(bundle ?? {})
        .filter((one) => /^assets.(shared|main|rolldown-runtime)-/.test(one.fileName))
        .map(({ fileName }) => ({
          tag: 'link',
          injectTo: 'head', // behind <base>
          attrs: {
            rel: fileName.endsWith('.css') ? 'stylesheet' : 'modulepreload',
            crossorigin: true,
            href: `./${fileName}`,
          },
        })),
  },
}

export default defineConfig({
  plugins: [react(), early],
  // Addresses relative to <base>, which the server writes: the same build works under any sub-path.
  base: './',
  resolve: { alias: { '@': fileURLToPath(new URL('./src', import.meta.url)) } },
  build: {
    outDir: built,
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: false,
    chunkSizeWarningLimit: 1000,
    rolldownOptions: {
      output: {
        codeSplitting: {
          groups: [
            { name: 'places', test: places, priority: 2 },
            { name: 'shared', test: shared, priority: 1 },
            { name: 'pages', test: pages, minShareCount: 2 },
          ],
        },
      },
    },
  },
  // The drawings wear the style sheet of the HTML report, which lies outside this folder.
  server: { fs: { allow: ['.', '../src/assay/report/html'] } },
  test: { environment: 'jsdom', setupFiles: ['src/testing/setup.ts'], restoreMocks: true, testTimeout: 120_000 },
})
