"""ONNX Runtime as another opinion of ONNX files: npm's onnxruntime-node, driven by one process of node.

Where ONNXRUNTIME_NODE names a folder in which `npm install onnxruntime-node` was run (onnx_runtime.install() does that), find()
gives a Runtime; None elsewhere.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np

# Reads a line for each run, {model, inputs: {name: {type, dims, file}}, out}, and answers with the outputs, whose numbers it writes
# to files, or with what ONNX Runtime says.
SCRIPT = """
const ort = require('onnxruntime-node'), fs = require('fs'), readline = require('readline');
const arrays = {float32: Float32Array, float64: Float64Array, int8: Int8Array, uint8: Uint8Array, int16: Int16Array,
  uint16: Uint16Array, int32: Int32Array, uint32: Uint32Array, int64: BigInt64Array, uint64: BigUint64Array, bool: Uint8Array,
  float16: Uint16Array};
const read = path => { const b = fs.readFileSync(path); return b.buffer.slice(b.byteOffset, b.byteOffset + b.length); };
async function run(job) {
  const session = await ort.InferenceSession.create(job.model,
      {logSeverityLevel: 4, intraOpNumThreads: 1, interOpNumThreads: 1, graphOptimizationLevel: job.level});
  const feeds = {};
  for (const name of session.inputNames) {
    const {type, dims, file, texts} = job.inputs[name] || {};
    if (type === 'string') feeds[name] = new ort.Tensor('string', texts, dims);
    else if (type) feeds[name] = new ort.Tensor(type, new arrays[type](read(file)), dims);
  }
  const results = await session.run(feeds), outputs = {};
  for (const [i, name] of session.outputNames.entries()) {
    const {type, dims, data} = results[name], file = `${job.out}.${i}`;
    outputs[name] = {type, dims, file};
    if (type === 'string') outputs[name].texts = Array.from(data);
    else fs.writeFileSync(file, Buffer.from(data.buffer, data.byteOffset, data.byteLength));
  }
  await session.release();
  return {outputs};
}
(async () => {
  for await (const line of readline.createInterface({input: process.stdin})) {
    let answer;
    try { answer = await run(JSON.parse(line)); } catch (e) { answer = {error: String(e.message || e)}; }
    process.stdout.write(JSON.stringify(answer) + '\\n');
  }
})();
"""


def install(folder):
    """Asks npm's registry for it; libraries for GPUs are left out. False where there is no node or npm, or no registry."""
    if not shutil.which("node") or not shutil.which("npm"):
        return False
    os.makedirs(folder, exist_ok=True)
    done = subprocess.run(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", folder, "onnxruntime-node"],
                          capture_output=True, text=True, check=False)
    if done.returncode == 0:
        os.environ["ONNXRUNTIME_NODE"] = folder
    return done.returncode == 0


def find():
    home = os.environ.get("ONNXRUNTIME_NODE")
    if not home or not shutil.which("node") or not os.path.isdir(f"{home}/node_modules/onnxruntime-node"):
        return None
    return Runtime(home)


class Refused(RuntimeError):
    """What ONNX Runtime says of a file that it does not run."""


class Runtime:
    def __init__(self, home):
        self.home, self.process, self.folder = home, None, tempfile.TemporaryDirectory()
        with open(f"{home}/node_modules/onnxruntime-node/package.json", encoding="utf-8") as file:
            self.version = json.load(file)["version"]

    def start(self):
        self.process = subprocess.Popen(["node", "-e", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        stderr=subprocess.DEVNULL, env={**os.environ, "NODE_PATH": f"{self.home}/node_modules"})

    def run(self, model, inputs, level="all"):
        """The outputs of a file by name. Raises Refused. level: "disabled" leaves the graph as it is in the file."""
        feeds = {}
        for i, (name, value) in enumerate(inputs.items()):
            value = np.asarray(value)
            kind = {"object": "string", "str": "string"}.get(value.dtype.name, value.dtype.name)
            feeds[name] = {"type": kind, "dims": list(value.shape), "file": f"{self.folder.name}/in.{i}"}
            if kind == "string":
                feeds[name]["texts"] = [str(text) for text in value.flatten()]
            else:
                np.ascontiguousarray(value).tofile(feeds[name]["file"])
        if self.process is None or self.process.poll() is not None:
            self.start()
        job = {"model": os.path.abspath(model), "inputs": feeds, "out": f"{self.folder.name}/out", "level": level}
        try:
            self.process.stdin.write(json.dumps(job) + "\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise Refused("it ended the process")
        answer = json.loads(line)
        if "error" in answer:
            raise Refused(answer["error"].splitlines()[0] if answer["error"] else "no message")
        outputs = {}
        for name, entry in answer["outputs"].items():
            if entry["type"] == "string":
                outputs[name] = np.array(entry["texts"], object).reshape(entry["dims"])
            else:
                outputs[name] = np.fromfile(entry["file"], np.dtype(entry["type"])).reshape(entry["dims"])
        return outputs


if __name__ == "__main__":
    print("installed" if install(sys.argv[1]) else "node, npm or its registry is not there")
