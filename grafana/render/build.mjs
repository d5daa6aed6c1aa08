// Bundles the page. Grafana's packages are taken as CommonJS: their ES modules import defaults that esbuild finds elsewhere.
import { build } from 'esbuild';
import { cpSync } from 'node:fs';

const cjs = (name, file = 'index') => `./node_modules/@grafana/${name}/dist/cjs/${file}.cjs`;

await build({
  entryPoints: ['src/page.jsx'],
  outfile: 'built/page.js',
  bundle: true,
  minify: true,
  define: { 'process.env.NODE_ENV': '"production"', global: 'window' },
  loader: { '.svg': 'dataurl', '.woff2': 'dataurl', '.ttf': 'dataurl' },
  alias: {
    '@grafana/data/unstable': cjs('data', 'unstable'),
    '@grafana/data': cjs('data'),
    '@grafana/ui': cjs('ui'),
  },
  logLevel: 'error',
});
cpSync('src/page.html', 'built/index.html');
