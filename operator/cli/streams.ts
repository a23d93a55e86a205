import { defaultStateDir } from '../standalone/state-dir.ts'
import { mayRun, readStatusReport } from '../standalone/status-report.ts'
import { interrupt, readStreams } from './broker-pages.ts'
import { type Command, exitCodes, type Output, UsageError } from './command.ts'
import { parseFormat, parseOptions, parseSeconds } from './options.ts'
import { render } from './render.ts'
import { type BrokerLook, type Look, rowsOf } from './stream-rows.ts'
import { listTable } from './stream-table.ts'
import { remarks, watchInLines, watchOnScreen } from './watch-streams.ts'

export const streams: Command = {
  name: 'streams',
  summary: 'list, watch or interrupt the animation streams of running brokers',
  help: `Usage: tollway streams list [--all] [-o table|yaml|json]
       tollway streams watch [--all] [--every SECONDS]
       tollway streams interrupt STREAM [REQUEST]

Asks the debug servers of brokers what they carry. A request that several brokers know, because they share
their streams in a Redis, is one row:
  PRODUCERS   1 while its producer is connected to a broker that was asked
  CONSUMERS   those that are served it now; others of its stream may wait for their turn
  MESSAGES    what its producer has sent; in watch, how much a second
  BEHIND      what waits for its slowest consumer

watch shows a table again and again until Ctrl-C. Where the output is no terminal it prints a line for each
request that begins, ends, or gets or loses a producer or a consumer.

interrupt ends a request with INFO "interrupted" for its consumers and its producer, and refuses pushes of
the same ids for a minute, also when none has come yet. Without REQUEST it ends whatever runs in the
stream; the stream's next requests are welcome. STREAM is '' for a request without a stream id.

  --address URL        the debug server of a broker; again for another one (default: those of the operator
                       on this machine)
  --state-dir DIR      where that operator keeps its state (default ${defaultStateDir})
  --all                list, watch: also requests that have ended and are still kept
  --every SECONDS      watch: look again after so long (default 1)
  -o, --output FORMAT  list: table (default), yaml or json

Exit code: 0 done, 1 a broker did not answer, or nothing was there to interrupt, 2 no broker answered.

Examples:
  tollway streams list
  tollway streams watch --address http://127.0.0.1:6072 --address http://10.0.0.7:6072
  tollway streams interrupt session-7 utterance-3
  kubectl -n tollway port-forward pod/tollway-broker-abc 6072 & tollway streams list --address http://127.0.0.1:6072
`,
  async run([action = '', ...args], output) {
    if (action === 'list') return await list(args, output)
    if (action === 'watch') return await watch(args, output)
    if (action === 'interrupt') return await interruptRequest(args, output)
    throw new UsageError(`"${action}": must be one of list, watch, interrupt`)
  },
}

const placeOptions = {
  address: { type: 'string', multiple: true },
  'state-dir': { type: 'string', default: defaultStateDir },
} as const

async function list(args: readonly string[], output: Output): Promise<number> {
  const { values } = parseOptions(args, {
    ...placeOptions,
    all: { type: 'boolean', default: false },
    output: { type: 'string', short: 'o' },
  })
  const format = parseFormat(values.output, 'table')
  const look = await lookAt(findBrokers(values.address, values['state-dir']))
  output.printError(
    remarks(look)
      .map(line => `${line}\n`)
      .join(''),
  )
  const answered = look.brokers.flatMap(broker => ('page' in broker ? [broker.page] : []))
  if (answered.length === 0) return exitCodes.failed
  const rows = rowsOf(look).filter(({ state }) => values.all || state === 'running')
  const waitingPulls = answered.reduce((total, page) => total + page.waitingPulls, 0)
  if (format !== 'table') output.print(render({ requests: rows, waitingPulls }, format))
  else output.print(`${listTable(rows)}${waitingPulls === 0 ? '' : `\n${waiting(waitingPulls)}\n`}`)
  return answered.length < look.brokers.length ? exitCodes.wrong : exitCodes.ok
}

const waiting = (pulls: number) =>
  pulls === 1 ? '1 pull waits for a request' : `${pulls} pulls wait for a request`

async function watch(args: readonly string[], output: Output): Promise<number> {
  const { values } = parseOptions(args, {
    ...placeOptions,
    all: { type: 'boolean', default: false },
    every: { type: 'string', default: '1' },
  })
  const everyMs = parseSeconds('--every', values.every)
  if (everyMs < minEveryMs)
    throw new UsageError(`--every ${values.every}: must be at least ${minEveryMs / 1000}`)
  const brokers = findBrokers(values.address, values['state-dir'])
  const options = {
    look: () => lookAt(brokers),
    everyMs,
    all: values.all,
    signal: untilEnough(),
    print: output.print,
  }
  const { stdout } = process
  if (stdout.isTTY) await watchOnScreen(options, sizeOfTerminal)
  else await watchInLines(options, () => new Date().toISOString())
  return exitCodes.ok
}

const minEveryMs = 100

/** A terminal that does not know its size says 0. */
const sizeOfTerminal = () => ({ rows: process.stdout.rows || 24, columns: process.stdout.columns || 80 })

/** Aborted by Ctrl-C, and when the reader of the output has gone. */
function untilEnough(): AbortSignal {
  const enough = new AbortController()
  const end = () => enough.abort()
  process.once('SIGINT', end)
  process.once('SIGTERM', end)
  process.stdout.once('error', end)
  return enough.signal
}

async function interruptRequest(args: readonly string[], output: Output): Promise<number> {
  const { values, positionals } = parseOptions(args, placeOptions, true)
  const [streamId = '', requestId = '', ...more] = positionals
  if (streamId === '' && requestId === '')
    throw new UsageError('name the stream: tollway streams interrupt STREAM [REQUEST]')
  if (more.length > 0) throw new UsageError(`"${more.join(' ')}": one STREAM and one REQUEST is all it takes`)
  let ended = 0
  let failed = 0
  const brokers = findBrokers(values.address, values['state-dir'])
  // One after the other: where they share a Redis, the first one ends all, and nothing is counted twice.
  for (const broker of brokers) {
    try {
      ended += await interrupt(broker, streamId, requestId)
    } catch (error) {
      failed += 1
      output.printError(`${(error as Error).message}\n`)
    }
  }
  if (failed === brokers.length) return exitCodes.failed
  output.print(`${ended} running ${ended === 1 ? 'request was' : 'requests were'} interrupted\n`)
  return ended === 0 || failed > 0 ? exitCodes.wrong : exitCodes.ok
}

/** The debug servers to ask: those that are named, or those of the operator on this machine. */
function findBrokers(named: readonly string[] | undefined, stateDir: string): readonly URL[] {
  if (named !== undefined) return named.map(parseAddress)
  const report = readStatusReport(stateDir)
  if (report === undefined || !mayRun(report)) {
    const advice = 'start one with: tollway run -f FOLDER, or name a broker with --address'
    throw new Error(`no operator runs with the state in ${stateDir}; ${advice}`)
  }
  const brokers = report.replicas.filter(({ name }) => name.startsWith('broker-'))
  const found = brokers.flatMap(({ addresses }) => addresses['debug'] ?? [])
  if (found.length === 0) {
    throw new Error(
      'the operator on this machine runs no broker; it does with: tollway run --broker-replicas 1',
    )
  }
  return found.map(parseAddress)
}

function parseAddress(text: string): URL {
  const url = URL.parse(text)
  if (url?.protocol === 'http:' && url.search === '' && url.hash === '') return url
  throw new UsageError(`--address ${text}: must be http://HOST:PORT`)
}

async function lookAt(brokers: readonly URL[]): Promise<Look> {
  const looks = await Promise.all(
    brokers.map(async (broker): Promise<BrokerLook> => {
      try {
        return { address: broker.origin, page: await readStreams(broker) }
      } catch (error) {
        return { address: broker.origin, problem: (error as Error).message }
      }
    }),
  )
  return { atMs: performance.now(), brokers: looks }
}
