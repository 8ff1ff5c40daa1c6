// N-body: a sun and four planets pull at each other. Floating-point numbers in properties.
import { measure } from './measure.mjs';

const SOLAR_MASS = 4 * Math.PI * Math.PI;
const DAYS = 365.24;

function body(mass, x, y, z, vx, vy, vz) {
  return { mass: mass * SOLAR_MASS, x, y, z, vx: vx * DAYS, vy: vy * DAYS, vz: vz * DAYS };
}

function system() {
  return [
    body(1, 0, 0, 0, 0, 0, 0),
    body(0.000955, 4.841, -1.16, -0.104, 0.00166, 0.0077, -0.000069),
    body(0.000286, 8.343, 4.125, -0.404, -0.00277, 0.005, 0.000023),
    body(0.0000437, 12.894, -15.111, -0.223, 0.00296, 0.00238, -0.00003),
    body(0.0000515, 15.38, -25.919, 0.179, 0.00268, 0.00163, -0.0000951),
  ];
}

function advance(bodies, time) {
  for (let at = 0; at < bodies.length; at++) {
    const one = bodies[at];
    for (let to = at + 1; to < bodies.length; to++) {
      const other = bodies[to];
      const [x, y, z] = [one.x - other.x, one.y - other.y, one.z - other.z];
      const square = x * x + y * y + z * z;
      const pull = time / (square * Math.sqrt(square));
      one.vx -= x * other.mass * pull;
      one.vy -= y * other.mass * pull;
      one.vz -= z * other.mass * pull;
      other.vx += x * one.mass * pull;
      other.vy += y * one.mass * pull;
      other.vz += z * one.mass * pull;
    }
  }
  for (const one of bodies) {
    one.x += time * one.vx;
    one.y += time * one.vy;
    one.z += time * one.vz;
  }
}

function energy(bodies) {
  let sum = 0;
  bodies.forEach((one, at) => {
    sum += (one.mass * (one.vx ** 2 + one.vy ** 2 + one.vz ** 2)) / 2;
    for (const other of bodies.slice(at + 1)) {
      sum -= (one.mass * other.mass) / Math.hypot(one.x - other.x, one.y - other.y, one.z - other.z);
    }
  });
  return sum;
}

function simulate(steps) {
  const bodies = system();
  for (let step = 0; step < steps; step++) advance(bodies, 0.01);
  return `${bodies[1].x.toFixed(9)} ${energy(bodies).toFixed(9)}`;
}

measure('nbody', () => simulate(30000), '-0.558048059 -0.169241623');
