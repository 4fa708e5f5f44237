/** Renders formulas, so that a slow one does not stop the page: the page ends this worker after a time limit. */
import type { Formula } from './queue';
import { toMathml } from './tex';

onmessage = ({ data }: MessageEvent<Formula>) => postMessage(toMathml(data.source, data.display));
toMathml('x', false); // so that the first formula is not the slow one
postMessage('ready');
