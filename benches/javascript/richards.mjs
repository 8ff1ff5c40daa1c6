// Richards: the scheduler of a small operating system, its tasks sending packets to each other. Classes and methods.
import { measure } from './measure.mjs';

const IDLE = 0;
const WORKER = 1;
const HANDLER_A = 2;
const HANDLER_B = 3;
const DEVICE_A = 4;
const DEVICE_B = 5;
const KIND_DEVICE = 0;
const KIND_WORK = 1;
const SIZE = 4;

class Packet {
  constructor(next, to, kind) {
    this.next = next;
    this.to = to;
    this.kind = kind;
    this.at = 0;
    this.letters = [0, 0, 0, 0];
  }

  // The queue with this packet at its end.
  appendedTo(queue) {
    this.next = null;
    if (queue === null) return this;
    let last = queue;
    while (last.next !== null) last = last.next;
    last.next = this;
    return queue;
  }
}

class Task {
  constructor(id, priority, queue) {
    this.id = id;
    this.priority = priority;
    this.queue = queue;
    this.waits = true;
    this.held = false;
    this.next = null;
  }
}

class Idle extends Task {
  constructor(count) {
    super(IDLE, 0, null);
    this.waits = false;
    this.bits = 1;
    this.count = count;
  }

  run(scheduler) {
    this.count--;
    if (this.count === 0) return scheduler.hold();
    const odd = this.bits & 1;
    this.bits >>= 1;
    if (odd === 0) return scheduler.release(DEVICE_A);
    this.bits ^= 0xd008;
    return scheduler.release(DEVICE_B);
  }
}

class Worker extends Task {
  constructor(queue) {
    super(WORKER, 1000, queue);
    this.to = HANDLER_A;
    this.letter = 0;
  }

  run(scheduler, packet) {
    if (packet === null) return scheduler.wait();
    this.to = this.to === HANDLER_A ? HANDLER_B : HANDLER_A;
    packet.to = this.to;
    packet.at = 0;
    for (let at = 0; at < SIZE; at++) {
      this.letter = this.letter === 26 ? 1 : this.letter + 1;
      packet.letters[at] = this.letter;
    }
    return scheduler.send(packet);
  }
}

class Handler extends Task {
  constructor(id, priority, queue) {
    super(id, priority, queue);
    this.works = null;
    this.devices = null;
  }

  run(scheduler, packet) {
    if (packet !== null) {
      if (packet.kind === KIND_WORK) this.works = packet.appendedTo(this.works);
      else this.devices = packet.appendedTo(this.devices);
    }
    const work = this.works;
    if (work === null) return scheduler.wait();
    if (work.at === SIZE) {
      this.works = work.next;
      return scheduler.send(work);
    }
    const device = this.devices;
    if (device === null) return scheduler.wait();
    this.devices = device.next;
    device.at = work.letters[work.at];
    work.at++;
    return scheduler.send(device);
  }
}

class Device extends Task {
  constructor(id, priority) {
    super(id, priority, null);
    this.pending = null;
  }

  run(scheduler, packet) {
    if (packet !== null) {
      this.pending = packet;
      return scheduler.hold();
    }
    const pending = this.pending;
    if (pending === null) return scheduler.wait();
    this.pending = null;
    return scheduler.send(pending);
  }
}

class Scheduler {
  constructor() {
    this.tasks = [];
    this.first = null;
    this.current = null;
    this.sent = 0;
    this.holds = 0;
  }

  add(task) {
    task.next = this.first;
    this.first = task;
    this.tasks[task.id] = task;
  }

  run() {
    let task = this.first;
    while (task !== null) {
      if (task.held || (task.waits && task.queue === null)) {
        task = task.next;
        continue;
      }
      this.current = task;
      const packet = task.waits ? task.queue : null;
      if (packet !== null) {
        task.queue = packet.next;
        task.waits = false;
      }
      task = task.run(this, packet);
    }
  }

  send(packet) {
    const to = this.tasks[packet.to];
    this.sent++;
    packet.next = null;
    packet.to = this.current.id;
    const urgent = to.queue === null && to.priority > this.current.priority;
    to.queue = packet.appendedTo(to.queue);
    return urgent ? to : this.current;
  }

  wait() {
    this.current.waits = true;
    return this.current;
  }

  hold() {
    this.holds++;
    this.current.held = true;
    return this.current.next;
  }

  release(id) {
    const task = this.tasks[id];
    task.held = false;
    return task.priority > this.current.priority ? task : this.current;
  }
}

function packets(count, to, kind) {
  let queue = null;
  for (let made = 0; made < count; made++) queue = new Packet(queue, to, kind);
  return queue;
}

function richards() {
  const scheduler = new Scheduler();
  scheduler.add(new Idle(10000));
  scheduler.add(new Worker(packets(2, WORKER, KIND_WORK)));
  scheduler.add(new Handler(HANDLER_A, 2000, packets(3, DEVICE_A, KIND_DEVICE)));
  scheduler.add(new Handler(HANDLER_B, 3000, packets(3, DEVICE_B, KIND_DEVICE)));
  scheduler.add(new Device(DEVICE_A, 4000));
  scheduler.add(new Device(DEVICE_B, 5000));
  scheduler.run();
  return [scheduler.sent, scheduler.holds];
}

function repeated(times) {
  const seen = new Set();
  for (let at = 0; at < times; at++) seen.add(richards().join());
  return [...seen];
}

measure('richards', () => repeated(9), '23246,9297');
