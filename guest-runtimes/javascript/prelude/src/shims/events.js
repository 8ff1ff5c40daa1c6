// The `events` module for packages that load it by CommonJS.
const { EventEmitter } = require('../node/events.js');

module.exports = EventEmitter;
