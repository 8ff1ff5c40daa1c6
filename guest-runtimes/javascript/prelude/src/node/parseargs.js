// util.parseArgs.
import { coded, invalidArgType, invalidArgValue, validateObject } from './errors.js';
import { process } from '../process.js';

const unknown = (text, positionals) =>
  coded(
    TypeError,
    'ERR_PARSE_ARGS_UNKNOWN_OPTION',
    `Unknown option '${text}'${positionals ? `. To specify a positional argument starting with a '-', place it at the end of the command after '--', as in '-- "${text}"` : ''}`,
  );

function tokenize(args, options) {
  const tokens = [];
  const longOf = (short) => Object.keys(options).find((name) => options[name].short === short);
  const rest = args.map((text, index) => ({ text, index }));
  let group = 0;
  while (rest.length > 0) {
    const { text: arg, index } = rest.shift();
    const next = rest[0]?.text;
    if (group > 0) group--;
    if (arg === '--') {
      tokens.push({ kind: 'option-terminator', index });
      for (const each of rest) tokens.push({ kind: 'positional', index: each.index, value: each.text });
      break;
    }
    if (/^-[^-]$/.test(arg)) {
      const name = longOf(arg[1]) ?? arg[1];
      let value;
      let inlineValue;
      if (options[name]?.type === 'string' && next !== undefined) {
        value = rest.shift().text;
        inlineValue = false;
      }
      tokens.push({ kind: 'option', name, rawName: arg, index, value, inlineValue });
    } else if (/^-[^-]./.test(arg) && options[longOf(arg[1]) ?? arg[1]]?.type !== 'string') {
      const expanded = [];
      for (let i = 1; i < arg.length; i++) {
        const name = longOf(arg[i]) ?? arg[i];
        if (options[name]?.type !== 'string' || i === arg.length - 1) expanded.push(`-${arg[i]}`);
        else {
          expanded.push(`-${arg.slice(i)}`);
          break;
        }
      }
      group = expanded.length;
      rest.unshift(...expanded.map((text) => ({ text, index })));
    } else if (/^-[^-]./.test(arg)) {
      const name = longOf(arg[1]) ?? arg[1];
      tokens.push({ kind: 'option', name, rawName: `-${arg[1]}`, index, value: arg.slice(2), inlineValue: true });
    } else if (/^--[^=]+$/.test(arg)) {
      const name = arg.slice(2);
      let value;
      let inlineValue;
      if (options[name]?.type === 'string' && next !== undefined) {
        value = rest.shift().text;
        inlineValue = false;
      }
      tokens.push({ kind: 'option', name, rawName: arg, index, value, inlineValue });
    } else if (/^--[^=]+=/.test(arg)) {
      const equals = arg.indexOf('=');
      const name = arg.slice(2, equals);
      tokens.push({ kind: 'option', name, rawName: `--${name}`, index, value: arg.slice(equals + 1), inlineValue: true });
    } else tokens.push({ kind: 'positional', index, value: arg });
  }
  return tokens;
}

export function parseArgs(config = {}) {
  validateObject(config, 'config');
  const { args = process.argv.slice(2), strict = true, allowPositionals = !strict, tokens: returnTokens = false, options = {}, allowNegative = false } = config;
  if (!Array.isArray(args)) throw invalidArgType('args', 'Array', args);
  for (const [name, option] of Object.entries(options)) {
    if (option.type !== 'string' && option.type !== 'boolean') throw invalidArgType(`options.${name}.type`, "('string|boolean')", option.type);
    if (option.short !== undefined && option.short.length !== 1) throw invalidArgValue(`options.${name}.short`, option.short, 'must be a single character');
  }
  const tokens = tokenize(args, options);
  const values = { __proto__: null };
  const positionals = [];
  for (const token of tokens) {
    if (token.kind === 'positional') {
      if (!allowPositionals) {
        throw coded(TypeError, 'ERR_PARSE_ARGS_UNEXPECTED_POSITIONAL', `Unexpected argument '${token.value}'. This command does not take positional arguments`);
      }
      positionals.push(token.value);
      continue;
    }
    if (token.kind !== 'option') continue;
    let { name, value } = token;
    let negated = false;
    if (allowNegative && name.startsWith('no-') && options[name] === undefined && options[name.slice(3)]?.type === 'boolean') {
      name = name.slice(3);
      negated = true;
    }
    const option = options[name];
    if (strict) {
      if (option === undefined) throw unknown(token.rawName, allowPositionals);
      const shown = option.short ? `-${option.short}, --${name}` : `--${name}`;
      if (option.type === 'string' && typeof value !== 'string') throw coded(TypeError, 'ERR_PARSE_ARGS_INVALID_OPTION_VALUE', `Option '${shown} <value>' argument missing`);
      if (option.type === 'boolean' && value !== undefined) throw coded(TypeError, 'ERR_PARSE_ARGS_INVALID_OPTION_VALUE', `Option '${shown}' does not take an argument`);
      if (option.type === 'string' && token.inlineValue === false && /^-./.test(value)) {
        const example = token.rawName.startsWith('--') ? `'${token.rawName}=-XYZ'` : `'--${name}=-XYZ' or '${token.rawName}-XYZ'`;
        throw coded(
          TypeError,
          'ERR_PARSE_ARGS_INVALID_OPTION_VALUE',
          `Option '${token.rawName}' argument is ambiguous.\nDid you forget to specify the option argument for '${token.rawName}'?\nTo specify an option argument starting with a dash use ${example}.`,
        );
      }
    }
    if (name === '__proto__') continue;
    const kept = value ?? !negated;
    if (option?.multiple) (values[name] ??= []).push(kept);
    else values[name] = kept;
  }
  for (const [name, option] of Object.entries(options)) if (option.default !== undefined && values[name] === undefined) values[name] = option.default;
  return returnTokens ? { values, positionals, tokens } : { values, positionals };
}
