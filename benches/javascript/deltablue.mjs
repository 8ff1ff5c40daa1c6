// DeltaBlue: keeps constraints of different strengths satisfied while variables are edited. Classes, small arrays, and
// methods that are found anew with every call.
import { measure } from './measure.mjs';

// The smaller, the stronger.
const REQUIRED = 0;
const PREFERRED = 2;
const STRONG_DEFAULT = 3;
const NORMAL = 4;
const WEAKEST = 6;

class Variable {
  constructor(value) {
    this.value = value;
    this.constraints = [];
    this.determinedBy = null;
    this.mark = 0;
    this.walkStrength = WEAKEST;
    this.stays = true;
  }

  // Those that are satisfied and take this variable as an input.
  consumers(found) {
    for (const constraint of this.constraints) {
      if (constraint !== this.determinedBy && constraint.isSatisfied()) found.push(constraint);
    }
    return found;
  }
}

class Constraint {
  constructor(strength, variables) {
    this.strength = strength;
    this.variables = variables;
  }

  isInput() {
    return false;
  }

  add(planner) {
    for (const variable of this.variables) variable.constraints.push(this);
    planner.add(this);
  }

  remove(planner) {
    if (this.isSatisfied()) planner.remove(this);
    else this.unlink();
  }

  unlink() {
    for (const variable of this.variables) {
      variable.constraints = variable.constraints.filter((constraint) => constraint !== this);
    }
    this.unsatisfy();
  }

  // Satisfies this constraint and gives the one that had to yield.
  satisfy(mark, planner) {
    this.choose(mark);
    if (!this.isSatisfied()) {
      if (this.strength === REQUIRED) throw new Error('a required constraint cannot be satisfied');
      return null;
    }
    for (const input of this.inputs()) input.mark = mark;
    const output = this.output();
    const yielding = output.determinedBy;
    if (yielding !== null) yielding.unsatisfy();
    output.determinedBy = this;
    if (!planner.propagate(this, mark)) throw new Error('the constraints form a cycle');
    output.mark = mark;
    return yielding;
  }

  inputsAreKnown(mark) {
    return this.inputs().every((input) => input.mark === mark || input.stays || input.determinedBy === null);
  }
}

class Stay extends Constraint {
  constructor(variable, strength) {
    super(strength, [variable]);
    this.satisfied = false;
  }

  choose(mark) {
    const [variable] = this.variables;
    this.satisfied = variable.mark !== mark && this.strength < variable.walkStrength;
  }

  isSatisfied() {
    return this.satisfied;
  }

  unsatisfy() {
    this.satisfied = false;
  }

  inputs() {
    return [];
  }

  output() {
    return this.variables[0];
  }

  recalculate() {
    const output = this.output();
    output.walkStrength = this.strength;
    output.stays = !this.isInput();
  }

  execute() {}
}

class Edit extends Stay {
  isInput() {
    return true;
  }
}

const NOWHERE = 0;
const FORWARD = 1;
const BACKWARD = 2;

class Equality extends Constraint {
  constructor(one, other, strength, more = []) {
    super(strength, [one, other, ...more]);
    this.one = one;
    this.other = other;
    this.direction = NOWHERE;
  }

  choose(mark) {
    const { one, other, strength } = this;
    const forward = other.mark !== mark && strength < other.walkStrength ? FORWARD : NOWHERE;
    const backward = one.mark !== mark && strength < one.walkStrength ? BACKWARD : NOWHERE;
    if (one.mark === mark) this.direction = forward;
    else if (other.mark === mark) this.direction = backward;
    else this.direction = one.walkStrength > other.walkStrength ? backward : forward;
  }

  isSatisfied() {
    return this.direction !== NOWHERE;
  }

  unsatisfy() {
    this.direction = NOWHERE;
  }

  input() {
    return this.direction === FORWARD ? this.one : this.other;
  }

  inputs() {
    return [this.input()];
  }

  output() {
    return this.direction === FORWARD ? this.other : this.one;
  }

  recalculate() {
    const output = this.output();
    output.walkStrength = Math.max(this.strength, this.input().walkStrength);
    output.stays = this.inputs().every((input) => input.stays);
    if (output.stays) this.execute();
  }

  execute() {
    this.output().value = this.input().value;
  }
}

// `other` is `one` times `scale` plus `offset`.
class Scale extends Equality {
  constructor(one, scale, offset, other) {
    super(one, other, REQUIRED, [scale, offset]);
    this.scale = scale;
    this.offset = offset;
  }

  inputs() {
    return [this.input(), this.scale, this.offset];
  }

  execute() {
    const { one, other, scale, offset } = this;
    if (this.direction === FORWARD) other.value = one.value * scale.value + offset.value;
    else one.value = (other.value - offset.value) / scale.value;
  }
}

class Planner {
  constructor() {
    this.mark = 0;
  }

  add(constraint) {
    this.mark++;
    const mark = this.mark;
    for (let next = constraint; next !== null; ) next = next.satisfy(mark, this);
  }

  remove(constraint) {
    const output = constraint.output();
    constraint.unlink();
    const freed = this.forget(output).sort((one, other) => one.strength - other.strength);
    for (const unsatisfied of freed) this.add(unsatisfied);
  }

  // Tells all that follow from a constraint how strong and how steady they are; false when that leads back to it.
  propagate(constraint, mark) {
    const todo = [constraint];
    while (todo.length > 0) {
      const next = todo.pop();
      if (next.output().mark === mark) {
        this.remove(constraint);
        return false;
      }
      next.recalculate();
      next.output().consumers(todo);
    }
    return true;
  }

  // Does so for a variable that nothing determines any more; gives the constraints that may now be satisfied.
  forget(variable) {
    variable.determinedBy = null;
    variable.walkStrength = WEAKEST;
    variable.stays = true;
    const unsatisfied = [];
    const todo = [variable];
    while (todo.length > 0) {
      const next = todo.pop();
      for (const constraint of next.constraints) if (!constraint.isSatisfied()) unsatisfied.push(constraint);
      for (const constraint of next.consumers([])) {
        constraint.recalculate();
        todo.push(constraint.output());
      }
    }
    return unsatisfied;
  }

  // Returns the constraints to execute, in order, whenever the input changes.
  plan(edit) {
    this.mark++;
    const plan = [];
    const todo = [edit];
    while (todo.length > 0) {
      const next = todo.pop();
      const output = next.output();
      if (output.mark !== this.mark && next.inputsAreKnown(this.mark)) {
        plan.push(next);
        output.mark = this.mark;
        output.consumers(todo);
      }
    }
    return plan;
  }
}

function change(planner, variable, values) {
  const edit = new Edit(variable, PREFERRED);
  edit.add(planner);
  const plan = planner.plan(edit);
  for (const value of values) {
    variable.value = value;
    for (const constraint of plan) constraint.execute();
  }
  edit.remove(planner);
}

const numbers = (count) => Array.from({ length: count }, (_, at) => at);

// A chain of equal variables.
function chain(length) {
  const planner = new Planner();
  const variables = numbers(length + 1).map(() => new Variable(0));
  for (let at = 0; at < length; at++) new Equality(variables[at], variables[at + 1], REQUIRED).add(planner);
  new Stay(variables[length], STRONG_DEFAULT).add(planner);
  change(planner, variables[0], numbers(100));
  return variables.reduce((sum, variable) => sum + variable.value, 0);
}

// Pairs of variables that are projections of each other.
function projection(count) {
  const planner = new Planner();
  const scale = new Variable(10);
  const offset = new Variable(1000);
  const pairs = numbers(count).map((at) => [new Variable(at), new Variable(at)]);
  for (const [from, to] of pairs) {
    new Stay(from, NORMAL).add(planner);
    new Scale(from, scale, offset, to).add(planner);
  }
  const [from, to] = pairs[count - 1];
  const seen = [];
  change(planner, from, Array(10).fill(17));
  seen.push(to.value);
  change(planner, to, Array(10).fill(1050));
  seen.push(from.value);
  const sum = () => pairs.reduce((sum, [, to]) => sum + to.value, 0);
  change(planner, scale, Array(10).fill(5));
  seen.push(sum());
  change(planner, offset, Array(10).fill(2000));
  seen.push(sum());
  return seen;
}

function repeated(times) {
  const seen = new Set();
  for (let at = 0; at < times; at++) seen.add([chain(100), ...projection(100)].join());
  return [...seen];
}

measure('deltablue', () => repeated(40), '9999,1170,5,124280,224280');
