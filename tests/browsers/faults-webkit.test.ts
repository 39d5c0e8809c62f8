/** The faults that the page once had, in WebKit; beside the file for Firefox, so that both run at once. */
import { testFaults } from '../demo/faults';
import { engines } from './engines.mjs';

testFaults('WebKit', engines.WebKit);
