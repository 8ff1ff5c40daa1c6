// Members of `node:stream/web`, all of which are globals as well.
import * as standard from 'web-streams-polyfill';
import { CompressionStream, DecompressionStream } from './compression.js';
import { TextDecoderStream, TextEncoderStream } from './through.js';

export const web = { ...standard, TextEncoderStream, TextDecoderStream, CompressionStream, DecompressionStream };
