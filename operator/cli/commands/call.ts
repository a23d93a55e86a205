import { setTimeout as pause } from 'node:timers/promises'
import { type Command, exitCodes, UsageError } from '@tollway/chassis/command-line/command.ts'
import { numberInRange, optionalText, seconds, textOr, toggle } from '@tollway/chassis/command-line/option.ts'
import { parseOptions, requireOption } from '@tollway/chassis/command-line/parse-options.ts'
import { describeConnectionError } from '@tollway/chassis/net/describe-connection-error.ts'
import { escapeControls } from '@tollway/ratelimit/rules/problems.ts'
import { requireEntries } from '../entries.ts'
import { render, renderTable } from '../render.ts'
import { domainOption, entriesOption, outputOption } from '../shared-options.ts'

const defaultAddress = 'http://127.0.0.1:8080'
const requestMs = 2_000
const pollMs = 200
const maxHits = 2 ** 32 - 1

/** The shown fields of a RateLimitResponse. JSON omits fields that are 0. */
interface Decision {
  readonly overallCode: string
  readonly statuses?: readonly DescriptorStatus[]
}

interface DescriptorStatus {
  readonly code?: string
  readonly currentLimit?: {
    readonly name?: string
    readonly requestsPerUnit?: number
    readonly unit?: string
  }
  readonly limitRemaining?: number
  readonly durationUntilReset?: string
}

type Answer = { readonly body: string } | { readonly problem: string }

const options = {
  domain: domainOption,
  entries: entriesOption,
  hits: numberInRange(1, {
    min: 0,
    max: maxHits,
    help: 'the hits of the call for each descriptor; 0 reads the counters without a hit',
  }),
  'give-back': toggle({ help: 'give the hits back instead of counting them' }),
  health: toggle({ help: 'only check whether the service accepts calls' }),
  http: textOr(defaultAddress, { placeholder: 'URL', help: 'the HTTP port of the service' }),
  grpc: optionalText({
    placeholder: 'ADDRESS',
    help: 'with --health: the gRPC address, host:port, of any service (grpc.health.v1)',
  }),
  service: optionalText({
    placeholder: 'NAME',
    help: 'with --grpc: the name of the service to check (default: the whole server)',
  }),
  wait: seconds(0, { help: 'retry for at most this time until the service answers' }),
  output: outputOption(),
}

export const callCommand: Command = {
  name: 'call',
  summary: 'request a decision of a running service, or check its health',
  options,
  help: {
    usage: [
      '--domain DOMAIN --entries KEY=VALUE[,KEY=VALUE...] [--http URL]',
      '--health [--http URL | --grpc ADDRESS [--service NAME]]',
    ],
    description: `\
Requests a decision of a running rate limit service, as Envoy does but by HTTP. The call counts its hits.
tollway try explains a decision and counts nothing.`,
    exitCodes: '0 when the call is within its limits, 1 when it is over a limit, 2 without a decision.',
    examples: [
      'tollway call --domain checkout --entries user=alice',
      'tollway call -d checkout -e path=/pay/card,plan=free -e user=alice --hits 5 -o json',
      'kubectl -n tollway exec deploy/tollway-operator -- tollway call --health --http http://tollway-ratelimit-http:8080',
    ],
  },
  async run(args, output) {
    const { values } = parseOptions(args, options)
    const { domain, entries, health, http, output: format, wait: waitMs } = values
    if (values.grpc !== undefined) {
      if (!health) throw new UsageError('--grpc requires --health')
      const { grpc, service = '' } = values
      const { checkHealth } = await import('../check-health.ts')
      const found = await retryUntilAnswered(() => checkHealth(grpc, service, requestMs), waitMs)
      if ('problem' in found) throw new Error(`${grpc}: ${escapeControls(found.problem)}`)
      output.print('OK\n')
      return exitCodes.ok
    }
    if (values.service !== undefined) throw new UsageError('--service requires --grpc')
    if (!URL.canParse(http)) throw new UsageError(`--http ${http}: must be a URL, such as ${defaultAddress}`)
    const wanted = health || requestBody(domain, entries, values.hits, values['give-back'])
    const [path, body] = wanted === true ? ['/healthcheck', undefined] : ['/json', wanted]
    const answer = await retryUntilAnswered(() => requestAnswer(new URL(path, http), body), waitMs)
    if ('problem' in answer) throw new Error(`${http}: ${answer.problem}`)
    if (body === undefined) {
      output.print(`${answer.body.trim()}\n`)
      return exitCodes.ok
    }
    const decision = JSON.parse(answer.body) as Decision
    output.print(format === 'table' ? describe(decision, entries) : render(decision, format))
    return decision.overallCode === 'OVER_LIMIT' ? exitCodes.wrong : exitCodes.ok
  },
}

function requestBody(
  domain: string | undefined,
  entries: readonly string[],
  hits: number,
  isNegativeHits: boolean,
): string {
  requireOption('--domain', domain)
  // The service counts a hitsAddend of 0 as 0 in a descriptor, but as 1 in the request.
  const descriptors = requireEntries(entries).map(each => ({
    ...{ entries: each, hitsAddend: `${hits}` },
    ...(isNegativeHits && { isNegativeHits }),
  }))
  return JSON.stringify({ domain, descriptors })
}

async function retryUntilAnswered<Found extends object>(
  attempt: () => Promise<Found>,
  waitMs: number,
): Promise<Found> {
  const endMs = performance.now() + waitMs
  for (;;) {
    const answer = await attempt()
    if (!('problem' in answer) || performance.now() >= endMs) return answer
    await pause(pollMs)
  }
}

/** Decisions are answered with the status 200 or 429, and health with 200. */
async function requestAnswer(url: URL, body: string | undefined): Promise<Answer> {
  try {
    const signal = AbortSignal.timeout(requestMs)
    const response = await fetch(url, body === undefined ? { signal } : { method: 'POST', body, signal })
    const text = await response.text()
    if (response.status === 200 || (response.status === 429 && body !== undefined)) return { body: text }
    const advice = body === undefined ? '' : '; see the log of the service (LOG_LEVEL=debug)'
    return { problem: `answered ${response.status} ${escapeControls(text.trim().slice(0, 200))}${advice}` }
  } catch (error) {
    return { problem: describeConnectionError(error) }
  }
}

function describe({ overallCode, statuses = [] }: Decision, entries: readonly string[]): string {
  const rows = statuses.map(({ code = 'UNKNOWN', currentLimit, limitRemaining = 0, ...status }, index) => {
    const { requestsPerUnit = 0, unit = '', name = '' } = currentLimit ?? {}
    const rate = unit === '' ? `${requestsPerUnit} at once` : `${requestsPerUnit}/${unit.toLowerCase()}`
    const limit = `${rate}${name === '' ? '' : ` (${name})`}`
    const counted = [limit, `${limitRemaining}`, status.durationUntilReset ?? '']
    return [entries[index] ?? '', code, ...(currentLimit === undefined ? ['none'] : counted)]
  })
  const heading = ['DESCRIPTOR', 'CODE', 'LIMIT', 'REMAINING', 'RESETS IN']
  return `${renderTable(heading, rows)}\n${escapeControls(overallCode)}\n`
}
