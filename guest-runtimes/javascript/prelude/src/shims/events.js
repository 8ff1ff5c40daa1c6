// For packages that take `events` the CommonJS way.
const { EventEmitter } = require('../node/events.js');

module.exports = EventEmitter;
