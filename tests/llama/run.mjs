// run.mjs FILE IDS N [TEXT]: what llama.cpp makes of a gguf file, for tests/cli/llama.bats.
//
// Prints a line "logprob POSITION ID VALUE" for each of IDS but the first, a line "greedy ID..." with the N
// likeliest tokens that follow the first of IDS one after the other, and, of TEXT, "tokens ID..." and
// "text JSON", what these tokens say.
//
// DL_LLAMA is a directory in which
//     npm install --ignore-scripts --omit=optional node-llama-cpp @node-llama-cpp/linux-x64
// was run.
import path from "node:path";
import {pathToFileURL} from "node:url";

const {getLlama, LlamaLogLevel} = await import(pathToFileURL(
	path.join(process.env.DL_LLAMA, "node_modules/node-llama-cpp/dist/index.js")).href);
const [file, idList, count, text] = process.argv.slice(2);
const ids = idList.split(" ").map(Number);

const llama = await getLlama({build: "never", gpu: false, skipDownload: true, maxThreads: 1,
	logLevel: LlamaLogLevel.error});
const model = await llama.loadModel({modelPath: file});
const context = await model.createContext({contextSize: 256, flashAttention: false,
	experimentalKvCacheKeyType: "F32", experimentalKvCacheValueType: "F32"}); // f16 otherwise
const sequence = context.getSequence();
const all = {temperature: 1, topK: 0, topP: 1, minP: 0};

const outputs = await sequence.controlledEvaluate(
	ids.map((id) => [id, {generateNext: {probabilities: true, options: all}}]));
for (let i = 1; i < ids.length; i++)
	console.log("logprob", i, ids[i], Math.log(outputs[i - 1].next.probabilities.get(ids[i])));

await sequence.clearHistory();
const greedy = [];
for (let id = ids[0], i = 0; i < Number(count); i++) {
	const step = await sequence.controlledEvaluate([[id, {generateNext: {token: true, options: {temperature: 0}}}]]);
	greedy.push(id = step[0].next.token);
}
console.log("greedy", ...greedy);

if (text !== undefined) {
	const tokens = model.tokenize(text);
	console.log("tokens", ...tokens);
	console.log("text", JSON.stringify(model.detokenize(tokens)));
}
await llama.dispose();
