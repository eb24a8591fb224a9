// A front for tests: AG-UI's own client, told what to do by lines of JSON, each answered with one line.
// Arguments: the folder whose node_modules has the client, the client's name there, the agent's address, the thread, the token.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const [folder, client, url, threadId, token] = process.argv.slice(2);
const { HttpAgent, buildResumeArray } = createRequire(`${folder}/`)(client);
const open = (initialMessages) =>
  new HttpAgent({ url, threadId, initialMessages, headers: token ? { Authorization: `Bearer ${token}` } : {} });
let agent = open([]);
console.error = console.warn = () => {}; // it tells of errors, which the tests look at themselves

async function run({ say, id, resume, answers, cutAt }) {
  const events = [];
  if (say !== null) agent.addMessage({ id, role: "user", content: say });
  const entries = answers ? buildResumeArray(agent.pendingInterrupts, answers) : (resume ?? undefined);
  let error = null, leave;
  const gone = new Promise((done) => { leave = done; });
  const onEvent = ({ event }) => {
    events.push(event);
    if (event.type !== cutAt) return;
    agent.abortRun();
    leave(true);
  };
  const ended = agent.runAgent(entries ? { resume: entries } : {}, { onEvent }).then(
    () => false,
    (failure) => { error = String(failure.message ?? failure); return false; },
  );
  // A run that is cut off in the middle of a chunk may never settle. So whoever goes comes back as another agent.
  if (await Promise.race([ended, gone])) agent = open(agent.messages);
  return { events: [...events], error, messages: agent.messages, pending: agent.pendingInterrupts };
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write(JSON.stringify(await run(JSON.parse(line))) + "\n");
}
