import {
  type Command,
  type CommandOutput,
  exitCodes,
  UsageError,
} from '@tollway/chassis/command-line/command.ts'
import { noValues, seconds, toggle } from '@tollway/chassis/command-line/option.ts'
import { parseWithSource } from '@tollway/chassis/command-line/parse-options.ts'
import { askBrokers, type BrokerAddress, interrupt } from '../../broker-queries/broker-pages.ts'
import { mergeRows, type StreamsPoll } from '../../broker-queries/stream-rows.ts'
import { brokerSource } from '../broker-addresses.ts'
import { render } from '../render.ts'
import type { SourceOf } from '../run-program.ts'
import { outputOption } from '../shared-options.ts'
import { describeOmissions, listTable, watchInLines, watchOnScreen } from '../watch-streams.ts'

const all = toggle({ help: 'list, watch: include ended requests that the brokers still have' })
const listOptions = { all, output: outputOption() }
const watchOptions = {
  all,
  every: seconds(1, { min: 0.1, help: 'watch: the interval between two reads' }),
}

export const createStreams = (source: SourceOf<readonly BrokerAddress[]>): Command => ({
  name: 'streams',
  summary: 'list, watch or interrupt the animation streams of running brokers',
  subcommands: {
    list: {
      options: { ...source.options, ...listOptions },
      run: (args, output) => list(args, output, source),
    },
    watch: {
      options: { ...source.options, ...watchOptions },
      run: (args, output) => watch(args, output, source),
    },
    interrupt: {
      options: source.options,
      operands: noValues,
      run: (args, output) => interruptRequest(args, output, source),
    },
  },
  help: {
    usage: [
      'list [--all] [-o table|yaml|json]',
      'watch [--all] [--every SECONDS]',
      'interrupt STREAM [REQUEST]',
    ],
    description: `\
Reads the streams of brokers from their debug servers or admin API. Brokers that share their streams in a
Redis list all requests, and can interrupt each of them. Each request is one row:
  PRODUCERS   1 while its producer is connected to one of the brokers
  CONSUMERS   the consumers that the brokers serve now, without waiting ones
  MESSAGES    the messages of its producer; in watch, per second
  BEHIND      the messages and bytes that its slowest consumer has not received

watch repeats the table until Ctrl-C. If the output is not a terminal, it prints a line for each request that
begins, ends, or gains or loses a producer or a consumer. The line of an end has its status.

interrupt ends a request with INFO "interrupted" for its consumers and its producer, and rejects pushes of
the same ids for a minute, also if none has begun yet. Without REQUEST it ends all running requests of the
stream; the stream's next requests are accepted. STREAM is '' for a request without a stream id.`,
    exitCodes:
      '0 done, 1 a broker did not answer or the stream has no running request, 2 no broker answered.',
    examples: [
      'tollway streams list',
      'tollway streams watch --address http://127.0.0.1:6072 --address http://10.0.0.7:6072',
      'tollway streams interrupt session-7 utterance-3',
      'tollway streams list --address https://tollway-broker-admin:6075 --token-file tokens --ca ca.crt',
      'tollway streams watch --address https://tollway-broker-admin:6075 --token-file tokens --ca ca.crt',
      'tollway streams interrupt kiosk-7 --address https://tollway-broker-admin:6075 --token-file tokens --ca ca.crt',
      'kubectl -n tollway port-forward pod/tollway-broker-abc 6072 & tollway streams list --address http://127.0.0.1:6072',
    ],
  },
})

export const streamsCommand = createStreams(brokerSource)

type Brokers = SourceOf<readonly BrokerAddress[]>

async function list(args: readonly string[], output: CommandOutput, source: Brokers): Promise<number> {
  const { values, sourceValues } = parseWithSource(args, listOptions, source.options)
  const format = values.output
  const look = await pollBrokers(await source.open(sourceValues, output))
  output.printError(
    describeOmissions(look)
      .map(line => `${line}\n`)
      .join(''),
  )
  const answered = look.brokers.flatMap(broker => ('page' in broker ? [broker.page] : []))
  if (answered.length === 0) return exitCodes.failed
  const rows = mergeRows(look).filter(({ state }) => values.all || state === 'running')
  const waitingPulls = answered.reduce((total, page) => total + page.waitingPulls, 0)
  if (format !== 'table') output.print(render({ requests: rows, waitingPulls }, format))
  else output.print(`${listTable(rows)}${waitingPulls === 0 ? '' : `\n${waiting(waitingPulls)}\n`}`)
  return answered.length < look.brokers.length ? exitCodes.wrong : exitCodes.ok
}

const waiting = (pulls: number) =>
  pulls === 1 ? '1 pull waits for a request' : `${pulls} pulls wait for a request`

async function watch(args: readonly string[], output: CommandOutput, source: Brokers): Promise<number> {
  const { values, sourceValues } = parseWithSource(args, watchOptions, source.options)
  const brokers = await source.open(sourceValues, output)
  const options = {
    read: () => pollBrokers(brokers),
    everyMs: values.every,
    all: values.all,
    signal: untilStopped(),
    print: output.print,
  }
  const { stdout } = process
  if (stdout.isTTY) await watchOnScreen(options, sizeOfTerminal)
  else await watchInLines(options, () => new Date().toISOString())
  return exitCodes.ok
}

/** Returns the size of the terminal, with defaults because some terminals report 0. */
const sizeOfTerminal = () => ({ rows: process.stdout.rows || 24, columns: process.stdout.columns || 80 })

/** The signal is aborted by Ctrl-C, and when the output cannot be written any more. */
function untilStopped(): AbortSignal {
  const stop = new AbortController()
  const end = () => stop.abort()
  process.once('SIGINT', end)
  process.once('SIGTERM', end)
  process.stdout.once('error', end)
  return stop.signal
}

async function interruptRequest(
  args: readonly string[],
  output: CommandOutput,
  source: Brokers,
): Promise<number> {
  const { sourceValues, positionals } = parseWithSource(args, {}, source.options, true)
  const [streamId = '', requestId = '', ...more] = positionals
  if (streamId === '' && requestId === '') throw new UsageError('missing argument STREAM')
  if (more.length > 0) throw new UsageError(`unexpected argument ${JSON.stringify(more[0])}`)
  let ended = 0
  let failed = 0
  const brokers = await source.open(sourceValues, output)
  // Brokers are asked in sequence, so that those that share a Redis do not count the same request twice.
  for (const broker of brokers) {
    try {
      ended += await interrupt(broker, streamId, requestId)
    } catch (error) {
      failed += 1
      output.printError(`${(error as Error).message}\n`)
    }
  }
  if (failed === brokers.length) return exitCodes.failed
  output.print(`${describeInterruption(ended, requestId)}\n`)
  const isDone = ended > 0 || requestId !== ''
  return isDone && failed === 0 ? exitCodes.ok : exitCodes.wrong
}

/** Interrupting a request that has not begun succeeds, and prevents the request. */
function describeInterruption(ended: number, requestId: string): string {
  const count = `${ended} running ${ended === 1 ? 'request was' : 'requests were'} interrupted`
  if (ended > 0 || requestId === '') return count
  const consequence = 'has not begun, and its pushes are rejected for a minute'
  return `${count}; the request ${JSON.stringify(requestId)} ${consequence}`
}

async function pollBrokers(brokers: readonly BrokerAddress[]): Promise<StreamsPoll> {
  return { brokers: await askBrokers(brokers), atMs: performance.now() }
}
