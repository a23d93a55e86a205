import { once } from 'node:events'
import {
  type Command,
  type CommandOutput,
  exitCodes,
  UsageError,
} from '@tollway/chassis/command-line/command.ts'
import {
  aFile,
  numberInRange,
  type OptionValues,
  optionalText,
  seconds,
  toggle,
  withoutDefault,
} from '@tollway/chassis/command-line/option.ts'
import { parseOptions } from '@tollway/chassis/command-line/parse-options.ts'
import { createGrpcClient } from '@tollway/grpc/client/client.ts'
import { Comparison, type ComparisonReport, describeReport, summarize } from '../compare/comparison.ts'
import {
  assertAnswers,
  formatAddress,
  openPeerTls,
  type Peer,
  type PeerAddress,
  parsePeerAddress,
} from '../compare/peer.ts'
import { readRequests, replayRequests } from '../compare/read-requests.ts'
import { startProxy } from '../compare/start-proxy.ts'
import {
  type ListenTls,
  listenTlsOptions,
  openListenTls,
  parsePeerTls,
  peerTlsOptions,
} from '../compare/tls-options.ts'
import { render } from '../render.ts'
import { outputOption } from '../shared-options.ts'

const progressMs = 10_000
const connectMs = 3_000
const maxProblems = 20

const options = {
  reference: optionalText({
    placeholder: 'ADDR',
    help: 'the gRPC address of the service whose answers are the reference',
  }),
  candidate: optionalText({ placeholder: 'ADDR', help: 'the gRPC address of the service to compare' }),
  requests: optionalText({
    placeholder: 'FILE',
    help:
      'a file with a request as JSON in each line, like the body of /json, with at most 1,000,000 bytes each; ' +
      '- is the standard input',
    completion: aFile,
  }),
  listen: optionalText({
    placeholder: 'ADDR',
    help: 'the address to listen on for calls; port 0 selects a free one',
  }),
  'shared-counters': toggle({
    help:
      'both services count in the same Redis with the same keys. The candidate gets 0 hits after the ' +
      "reference's answer, so that each call counts once",
  }),
  remaining: toggle({ help: 'also compare limitRemaining, and headers whose names end in -remaining' }),
  reset: toggle({ help: 'also compare durationUntilReset, and headers whose names end in -reset' }),
  'max-different': numberInRange(0, {
    min: 0,
    max: 999_999_999,
    help: 'the number of answers that may differ',
  }),
  timeout: seconds(2, {
    min: 0.001,
    help: 'the timeout of a call; with --listen, of the candidate only',
  }),
  duration: withoutDefault(seconds(0, { help: 'with --listen: end after this time' })),
  ...peerTlsOptions('reference'),
  ...peerTlsOptions('candidate'),
  ...listenTlsOptions,
  output: outputOption(),
}

export const compareCommand: Command = {
  name: 'compare',
  summary: 'send the same calls to two rate limit services and compare the answers',
  options,
  help: {
    usage: [
      '--reference HOST:PORT --candidate HOST:PORT --requests FILE [OPTIONS]',
      '--reference HOST:PORT --candidate HOST:PORT --listen HOST:PORT [OPTIONS]',
    ],
    description: `\
Sends the same rate limit calls to two services by gRPC, and reports the answers that differ by descriptor,
the latency and the errors of both. It compares codes, limits, headers, body and dynamic metadata.

With --requests it sends the requests of a file, one after the other. With --listen it passes connections to
the reference as they are, reads the calls in a copy of their bytes, and sends each call to the candidate
after the reference's answer, until Ctrl-C. The callers do not wait for the candidate, also when it is slow
or does not run: at most 64 calls run and 1,000 calls (16 MiB) wait for it. Further calls are not sent to
it; the report has their number.

Each of the three connections has TLS only if its options say so. Files are read again when they change. With
TLS the proxy ends the TLS of the callers, and shows the reference the certificate of --reference-cert instead
of theirs.`,
    remarks: 'Progress is printed to standard error every 10 s.',
    exitCodes: '0 when at most N answers differ, 1 when more differ, 2 when no request was answered by both.',
    examples: [
      'tollway compare --reference ratelimit:8081 --candidate tollway-ratelimit:8081 --requests calls.jsonl',
      'tollway compare --reference ratelimit:8081 --candidate tollway-ratelimit:8081 --listen 0.0.0.0:9081 -o json',
    ],
  },
  async run(args, output) {
    const { values } = parseOptions(args, options)
    const { output: format, 'max-different': maxDifferent } = values
    const { report, problem } = await runComparison(parseRun(values), output)
    output.print(format === 'table' ? describeReport(report) : render(report, format))
    if (problem !== undefined) throw new Error(problem)
    if (report.decidedByBoth === 0) throw new Error('no request was answered by both services')
    return report.different > maxDifferent ? exitCodes.wrong : exitCodes.ok
  },
}

type Run = ReturnType<typeof parseRun>

type Input = { readonly requests: string } | { readonly listen: PeerAddress; readonly listenTls: ListenTls }

function parseRun(values: OptionValues<typeof options>) {
  const { requests, listen, duration } = values
  const peer = (name: Peer['name']): Peer => ({
    name,
    ...parsePeerAddress(`--${name}`, values[name]),
    tls: parsePeerTls(name, values),
  })
  const [reference, candidate] = [peer('reference'), peer('candidate')]
  if ((requests === undefined) === (listen === undefined))
    throw new UsageError('exactly one of --requests and --listen is required')
  if (duration !== undefined && listen === undefined) throw new UsageError('--duration requires --listen')
  const given = Object.keys(listenTlsOptions).find(name => values[name as keyof typeof values] !== undefined)
  if (given !== undefined && listen === undefined) throw new UsageError(`--${given} requires --listen`)
  const input: Input =
    listen === undefined
      ? { requests: requests ?? '' }
      : { listen: parsePeerAddress('--listen', listen), listenTls: values }
  return {
    reference,
    candidate,
    timeoutMs: values.timeout,
    sharedCounters: values['shared-counters'],
    compared: { remaining: values.remaining, reset: values.reset },
    durationMs: duration,
    input,
  }
}

interface Result {
  readonly report: ComparisonReport
  /** Why the run ended early; undefined if it was complete. */
  readonly problem: string | undefined
}

async function runComparison(run: Run, output: CommandOutput): Promise<Result> {
  const { input } = run
  // Reads the whole file first, so that an invalid line is reported before any request is sent.
  if ('requests' in input && input.requests !== '-') for await (const _ of readRequests(input.requests));
  const opened = openFiles(run, createRateLimitedPrinter(output))
  const ended = createEndSignal(run.durationMs)
  try {
    await assertAnswers(run.reference, opened.reference, connectMs)
    if ('listen' in input) return await proxyCalls(run, input.listen, opened, ended.signal, output)
    await assertAnswers(run.candidate, opened.candidate, connectMs)
    const comparison = new Comparison(run.compared)
    const stopPrinting = printProgress(output, async () => comparison.report())
    const problem = await replayFile(run, input.requests, opened, comparison, ended.signal)
    stopPrinting()
    return { report: comparison.report(), problem }
  } finally {
    ended.release()
    opened.close()
  }
}

/** The opened TLS of each connection; undefined for a connection without TLS. */
type OpenedFiles = ReturnType<typeof openFiles>

/** @throws Error that names the options of missing or invalid files */
function openFiles({ reference, candidate, input }: Run, onProblem: (problem: unknown) => void) {
  const files = {
    reference: openPeerTls(reference, onProblem),
    candidate: openPeerTls(candidate, onProblem),
    listen: 'listen' in input ? openListenTls(input.listenTls, onProblem) : undefined,
  }
  return {
    ...files,
    onProblem,
    close() {
      for (const tls of Object.values(files)) tls?.close()
    },
  }
}

/** Prints the progress every 10 s until the returned function is called. */
function printProgress(output: CommandOutput, report: () => Promise<ComparisonReport>): () => void {
  // The error of a comparison that failed is reported elsewhere.
  const print = (progress: ComparisonReport) => output.printError(`${summarize(progress)}\n`)
  const progress = setInterval(() => void report().then(print, () => {}), progressMs)
  progress.unref()
  return () => clearInterval(progress)
}

async function replayFile(
  { reference, candidate, sharedCounters, timeoutMs }: Run,
  file: string,
  opened: OpenedFiles,
  comparison: Comparison,
  signal: AbortSignal,
): Promise<string | undefined> {
  const clients = {
    reference: createGrpcClient(formatAddress(reference), { tls: opened.reference }),
    candidate: createGrpcClient(formatAddress(candidate), { tls: opened.candidate }),
  }
  try {
    const requests = readRequests(file)
    return await replayRequests({ requests, ...clients, sharedCounters, timeoutMs, signal }, comparison)
  } finally {
    clients.reference.close()
    clients.candidate.close()
  }
}

async function proxyCalls(
  { reference, candidate, sharedCounters, timeoutMs, compared }: Run,
  listen: PeerAddress,
  opened: OpenedFiles,
  ended: AbortSignal,
  output: CommandOutput,
): Promise<Result> {
  const proxy = await startProxy({
    task: { candidate, sharedCounters, timeoutMs, compared },
    listen,
    listenTls: opened.listen,
    reference,
    referenceTls: opened.reference,
    onDefect: opened.onProblem,
  })
  const stopPrinting = printProgress(output, proxy.report)
  const { host, port } = proxy.address
  output.printError(`listening on ${host}:${port}; Ctrl-C ends the comparison and prints the report\n`)
  if (!ended.aborted) await once(ended, 'abort')
  stopPrinting()
  return { report: await proxy.close(), problem: undefined }
}

/** Returns a function that prints each problem at most once in 10 s, and at most 20 problems in that time. */
function createRateLimitedPrinter(output: CommandOutput): (problem: unknown) => void {
  const printed = new Set<string>()
  let sinceMs = performance.now()
  return problem => {
    const nowMs = performance.now()
    if (nowMs - sinceMs >= progressMs) {
      printed.clear()
      sinceMs = nowMs
    }
    const text = `${problem}`
    if (printed.has(text) || printed.size > maxProblems) return
    printed.add(text)
    const isOneTooMany = printed.size > maxProblems
    output.printError(`compare: ${isOneTooMany ? 'further problems are not printed for 10 s' : text}\n`)
  }
}

/** `release` removes the handlers of the process's signals. */
function createEndSignal(durationMs: number | undefined) {
  const ended = new AbortController()
  const end = () => ended.abort()
  process.once('SIGINT', end)
  process.once('SIGTERM', end)
  const timer = durationMs === undefined ? undefined : setTimeout(end, durationMs)
  const release = () => {
    process.removeListener('SIGINT', end)
    process.removeListener('SIGTERM', end)
    clearTimeout(timer)
  }
  return { signal: ended.signal, release }
}
