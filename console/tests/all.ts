import { runTests } from './harness';
import './api.spec';
import './cubes.spec';
import './downloads.spec';
import './failures.spec';
import './lib.spec';
import './load-file.spec';
import './load-parts.spec';
import './login.spec';
import './misses.spec';
import './password.spec';
import './saved.spec';
import './screens.spec';
import './served.spec';
import './shots.spec';
import './sql.spec';
import './users.spec';

export const run = runTests;
