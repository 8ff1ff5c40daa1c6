// What `node:stream/web` has; all of it are globals too.
import * as standard from 'web-streams-polyfill';
import { CompressionStream, DecompressionStream } from './compression.js';
import { TextDecoderStream, TextEncoderStream } from './through.js';

export const web = { ...standard, TextEncoderStream, TextDecoderStream, CompressionStream, DecompressionStream };
