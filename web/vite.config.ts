import { fileURLToPath } from 'node:url'
import react from '@vitejs/plugin-react'
import { defineConfig } from 'vitest/config'

// Where `assay serve` finds the built files; the wheel carries that folder.
const built = fileURLToPath(new URL('../src/assay/serve/dashboard/built', import.meta.url))
// What every page needs comes in one file: a page is then three or four files, not twenty small ones.
const shared =
  /node_modules.(react|scheduler|@tanstack|openapi-fetch|radix-ui|@radix-ui|get-nonce)|web.src.(app|api|parts|watching)./

export default defineConfig({
  plugins: [react()],
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
    rolldownOptions: { output: { codeSplitting: { groups: [{ name: 'shared', test: shared }] } } },
  },
  // The drawings wear the style sheet of the HTML report, which lies outside this folder.
  server: { fs: { allow: ['.', '../src/assay/report/html'] } },
  test: { environment: 'jsdom', setupFiles: ['src/testing/setup.ts'], restoreMocks: true },
})
