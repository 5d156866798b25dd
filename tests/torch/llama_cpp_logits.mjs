// What llama.cpp makes of tokens, as npm's node-llama-cpp runs it: JSON lines {"model": FILE, "tokens": [...]} come in, a line
// of each token's probabilities as the next one goes out: [[p of token 0, p of token 1, ...], ...].
// Usage: node llama_cpp_logits.mjs FOLDER     (FOLDER: where `npm install --ignore-scripts node-llama-cpp` ran)
import {createRequire} from "node:module";
import {createInterface} from "node:readline";
import {pathToFileURL} from "node:url";
import path from "node:path";

const require = createRequire(path.join(path.resolve(process.argv[2]), "package.json"));
const {getLlama} = await import(pathToFileURL(require.resolve("node-llama-cpp")).href);
const llama = await getLlama({gpu: false, build: "never", progressLogs: false, logLevel: "error"});
for await (const line of createInterface({input: process.stdin})) {
  const {model: file, tokens} = JSON.parse(line);
  try {
    const model = await llama.loadModel({modelPath: file, gpuLayers: 0});
    const context = await model.createContext({contextSize: 64, threads: 1, flashAttention: false});
    const sequence = context.getSequence();
    const asked = tokens.map((token) => [token, {generateNext: {probabilities: true, options: {temperature: 1, topK: 0, topP: 1, minP: 0}}}]);
    const given = await sequence.controlledEvaluate(asked);
    console.log(JSON.stringify(given.map(({next}) => [...next.probabilities.entries()])));
    await model.dispose();
  } catch (error) {
    console.log(JSON.stringify({error: String(error)}));
  }
}
