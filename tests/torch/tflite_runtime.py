"""TensorFlow Lite's own interpreter as another opinion of TFLite files: npm's @tensorflow/tfjs-tflite, whose WebAssembly one process
of node drives.

Where TFJS_TFLITE names a folder in which `npm install @tensorflow/tfjs-tflite` was run (tflite_runtime.install() does that), find()
gives a Runtime; None elsewhere.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np

PACKAGE = "node_modules/@tensorflow/tfjs-tflite"

# Reads a line for each file, {model, runs: [{name: file of bytes}], out}, and answers with the outputs of each run, whose bytes it
# writes to files, or with what the interpreter says. The module is one for browsers: it is evaluated as a script of one.
SCRIPT = """
const fs = require('fs'), readline = require('readline'), wasm = process.argv[1] + '/wasm/tflite_web_api_cc';
let said = [];
function each(list, take) { for (let i = 0; i < list.size(); ++i) take(list.get(i), i); }
function run(module, job) {
  const bytes = fs.readFileSync(job.model), place = module._malloc(bytes.length);
  module.HEAPU8.set(bytes, place);
  let runner = null;
  try {
    const made = module.TFLiteWebModelRunner.CreateFromBufferAndOptions(place, bytes.length,
        {numThreads: 1, enableProfiling: false, maxProfilingBufferEntries: 1});
    if (!made.ok()) return {error: [...said, made.errorMessage()].join('; ')};
    runner = made.value();
    const runs = [];
    for (const [k, feeds] of job.runs.entries()) {
      each(runner.GetInputs(), t => {
        const data = t.data();
        new Uint8Array(data.buffer, data.byteOffset, data.byteLength).set(fs.readFileSync(feeds[t.name]));
      });
      if (!runner.Infer()) return {error: [...said, 'Infer failed'].join('; ')};
      const outputs = {};
      each(runner.GetOutputs(), (t, i) => {
        const data = t.data(), file = `${job.out}.${k}.${i}`;
        outputs[t.name] = {type: t.dataType, dims: t.shape === '' ? [] : t.shape.split(',').map(Number), file};
        fs.writeFileSync(file, data ? Buffer.from(data.buffer, data.byteOffset, data.byteLength) : '');
      });
      runs.push(outputs);
    }
    return {runs};
  } finally {
    if (runner) runner.delete();
    module._free(place);
  }
}
(async () => {
  const script = {exports: {}};
  new Function('module', 'exports', 'window', 'document', fs.readFileSync(wasm + '.js', 'utf8'))(script, script.exports, {}, undefined);
  const module = await script.exports({wasmBinary: fs.readFileSync(wasm + '.wasm'), print: s => said.push(s), printErr: s => said.push(s)});
  for await (const line of readline.createInterface({input: process.stdin})) {
    let answer;
    said = [];
    try { answer = run(module, JSON.parse(line)); } catch (e) { answer = {error: [...said, String(e.message || e)].join('; '), ended: true}; }
    process.stdout.write(JSON.stringify(answer) + '\\n');
    if (answer.ended) process.exit(0);
  }
})();
"""


def install(folder):
    """Asks npm's registry for it. False where there is no node or npm, or no registry."""
    if not shutil.which("node") or not shutil.which("npm"):
        return False
    os.makedirs(folder, exist_ok=True)
    done = subprocess.run(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--legacy-peer-deps", "--prefix", folder,
                           "@tensorflow/tfjs-tflite"], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        os.environ["TFJS_TFLITE"] = folder
    return done.returncode == 0


def find():
    home = os.environ.get("TFJS_TFLITE")
    if not home or not shutil.which("node") or not os.path.isdir(f"{home}/{PACKAGE}"):
        return None
    return Runtime(home)


class Refused(RuntimeError):
    """What the interpreter says of a file that it does not run."""


class Runtime:
    def __init__(self, home):
        self.home, self.process, self.folder = os.path.abspath(home), None, tempfile.TemporaryDirectory()

    def start(self):
        self.process = subprocess.Popen(["node", "-e", SCRIPT, f"{self.home}/{PACKAGE}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, stderr=subprocess.DEVNULL)

    def run(self, model, runs):
        """The outputs by name of each of several runs, between which variables keep their contents. Raises Refused."""
        jobs = []
        for k, inputs in enumerate(runs):
            jobs.append({name: f"{self.folder.name}/in.{k}.{i}" for i, name in enumerate(inputs)})
            for name, value in inputs.items():
                np.ascontiguousarray(value).tofile(jobs[-1][name])
        if self.process is None or self.process.poll() is not None:
            self.start()
        job = {"model": os.path.abspath(model), "runs": jobs, "out": f"{self.folder.name}/out"}
        try:
            self.process.stdin.write(json.dumps(job) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self.process.wait()
            raise Refused("it ended the process")
        answer = json.loads(line)
        if answer.get("ended"):
            self.process.wait()
        if "error" in answer:
            raise Refused(answer["error"] or "no message")
        kinds = {entry["type"] for outputs in answer["runs"] for entry in outputs.values()}
        if "unknown" in kinds:
            raise Refused("an output has a type that the interface does not pass")
        return [{name: np.fromfile(entry["file"], np.dtype(entry["type"])).reshape(entry["dims"]) for name, entry in outputs.items()}
                for outputs in answer["runs"]]


if __name__ == "__main__":
    print("installed" if install(sys.argv[1]) else "node, npm or its registry is not there")
