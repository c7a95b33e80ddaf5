// Runs the tests: NYALA=/path/to/nyala npm test [-- words of names of tests]
import { runnerImport } from 'vite';

const { module } = await runnerImport(new URL('all.ts', import.meta.url).pathname, {
  configFile: false,
  logLevel: 'warn',
});
process.exit(await module.run(process.argv.slice(2)));
