// util.inspect and util.format: Node's own, from the package that extracts them.
import extracted from 'node-inspect-extracted';

export const { inspect, format, formatWithOptions, stripVTControlCharacters, getStringWidth } = extracted;

// Later Nodes colour the parts of regular expressions one by one.
inspect.styles.regexp = 'red';
