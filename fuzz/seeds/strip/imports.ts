import type { A } from "a";
import fs = require("fs");
export = fs;
const f = <T,>(x: T): x is T => x as any satisfies T;
