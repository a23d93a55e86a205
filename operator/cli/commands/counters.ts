import {
  type Command,
  type CommandAction,
  type CommandOutput,
  exitCodes,
  UsageError,
} from '@tollway/chassis/command-line/command.ts'
import {
  aRule,
  choice,
  numberInRange,
  optionalText,
  withoutDefault,
} from '@tollway/chassis/command-line/option.ts'
import { parseWithSource, requireOption } from '@tollway/chassis/command-line/parse-options.ts'
import { escapeControls } from '@tollway/ratelimit/rules/problems.ts'
import { type DescriptorEntry, formatDescriptorEntries } from '../../api/entries.ts'
import type { CounterAnswer, CounterChangeAnswer, TapBatchEvent, TopKeysAnswer } from '../../api/shapes.ts'
import { callApi, followApi } from '../call-api.ts'
import { parseEntriesOption } from '../entries.ts'
import { type OperatorAddress, operatorSource } from '../find-operator.ts'
import { render, renderTable } from '../render.ts'
import type { SourceOf } from '../run-program.ts'
import { domainOption, entryOption, outputOption } from '../shared-options.ts'

const common = { output: outputOption() }
const rule = optionalText({ placeholder: 'RULE', help: 'the rule, such as checkout.user', completion: aRule })
const counterOptions = { domain: domainOption, entries: entryOption, ...common }
const by = withoutDefault(
  numberInRange(1, {
    min: 1,
    max: 2 ** 32 - 1,
    help: 'raise: the number of hits to grant, from 1 to 4294967295',
  }),
)
const order = choice(['rejected', 'hits'], {
  placeholder: 'ORDER',
  help: 'top: sort the keys by rejected hits or by all hits: rejected or hits',
})
/** Accepts `refused`, the deprecated name of `rejected`. */
const toOrder = (text: string) => (text === 'refused' ? 'rejected' : text)
const topOptions = {
  domain: domainOption,
  rule,
  entries: entryOption,
  by: { ...order, read: (texts: readonly string[]) => order.read(texts.map(toOrder)) },
  ...common,
}
const tapOptions = { domain: domainOption, rule, entries: entryOption, ...common }

export const createCounters = (source: SourceOf<OperatorAddress>): Command => ({
  name: 'counters',
  summary: 'read, reset or raise a counter; list the top keys; watch live decisions',
  subcommands: {
    get: createCounterAction('get', source),
    reset: createCounterAction('reset', source),
    raise: createCounterAction('raise', source),
    top: { options: { ...topOptions, ...source.options }, run: (args, output) => top(args, output, source) },
    tap: { options: { ...tapOptions, ...source.options }, run: (args, output) => tap(args, output, source) },
  },
  help: {
    usage: [
      'get --domain D --entries KEY=VALUE[,KEY=VALUE...]',
      'reset --domain D --entries KEY=VALUE[,KEY=VALUE...]',
      'raise --domain D --entries KEY=VALUE[,KEY=VALUE...] --by N',
      'top --domain D --rule RULE|--entries KEY=VALUE[,KEY=VALUE...] [--by rejected|hits]',
      'tap --domain D [--rule RULE] [--entries KEY=VALUE[,KEY=VALUE...]]',
    ],
    description: `\
Queries the rate limit processes through their operator.
  get    print the counter of a descriptor: its value, its limit, the seconds until its window ends, and the
         reservations of the Budgets service that are part of the value; for a rule with delivery: Quota also
         what each proxy wants and may use, and the part of each pod
  reset  set the counter to 0, also in the local caches of all processes; reservations stay
  raise  grant N more hits until the window ends, add N tokens to a token bucket, or release N held hits
  top    print the keys with the most hits of a rule, or of the rule that matches the entries; the first
         call starts the count
  tap    print sampled decisions until Ctrl-C; with --entries only those whose descriptor has all of them;
         the service must run with DECISION_TAP=true

In a cluster, get, top and tap need the right to get ratelimitconfigs/counters of tollway.dev in the namespace
of the resource, and reset and raise the right to update it.`,
    exitCodes:
      '0 done, 1 a pod did not answer or did not confirm, 2 the operator rejected the call or did not answer.',
    examples: [
      'tollway counters get --domain checkout --entries user=alice',
      'tollway counters get -d checkout -e user=alice -o json | jq .shares',
      'tollway counters reset -d checkout -e user=alice',
      'tollway counters raise -d checkout -e user=alice --by 50 -o json',
      'tollway counters top -d checkout --rule checkout.user',
      'tollway counters tap -d checkout',
      'tollway counters tap -d checkout -e user=alice',
      'kubectl create token alice > token',
      'tollway counters get -d checkout -e user=alice --operator http://localhost:8000 --token-file token',
    ],
  },
})

export const countersCommand = createCounters(operatorSource)

function createCounterAction(
  action: 'get' | 'reset' | 'raise',
  source: SourceOf<OperatorAddress>,
): CommandAction {
  return {
    options: { ...counterOptions, ...(action === 'raise' && { by }), ...source.options },
    async run(args, output) {
      const { values, sourceValues } = parseWithSource(args, counterOptions, this.options)
      const format = values.output
      const domain = requireOption('--domain', values.domain)
      const entries = parseEntriesOption(requireOption('--entries', values.entries))
      const body = {
        domain,
        entries,
        ...(action === 'raise' && { by: requireOption('--by', sourceValues['by']) }),
      }
      const operator = await source.open(sourceValues, output)
      const answer =
        action === 'get'
          ? await callApi<CounterAnswer>(operator, `/counters?${toQuery(domain, entries)}`)
          : await callApi<CounterChangeAnswer>(operator, `/counters/${action}`, body)
      output.print(format === 'table' ? counterTables(answer) : render(answer, format))
      if (answer.reservationsProblem !== undefined)
        output.printError(`reservations could not be read: ${escapeControls(answer.reservationsProblem)}\n`)
      const { problem, missing: silent = [] } = answer.shares ?? {}
      if (problem !== undefined)
        output.printError(`the parts of the pods could not be read: ${escapeControls(problem)}\n`)
      const what = 'confirmed' in answer ? 'did not confirm' : 'did not answer'
      const others = silent.filter(pod => !answer.missing.includes(pod))
      const codes = [
        reportMissing(answer.missing, what, output),
        reportMissing(others, 'did not tell of its proxies', output),
      ]
      return Math.max(...codes)
    },
  }
}

function toQuery(
  domain: string,
  entries: readonly { readonly key: string; readonly value: string }[],
): string {
  const descriptors = entries.map(
    ({ key, value }) => `descriptor=${encodeURIComponent(key)}=${encodeURIComponent(value)}`,
  )
  return [`domain=${encodeURIComponent(domain)}`, ...descriptors].join('&')
}

function counterTables({ counters, reservations, shares }: CounterAnswer): string {
  const areHolds = counters.every(({ algorithm }) => algorithm === 'Concurrency')
  const heading = ['RULE', areHolds ? 'HELD' : 'VALUE', 'LIMIT', 'REMAINING', 'RESET', 'KEY']
  const table = renderTable(
    heading,
    counters.map(({ rule, value, limit, remaining, reset, key }) => [
      rule,
      `${value}`,
      `${limit}`,
      `${remaining}`,
      `${reset}s`,
      key,
    ]),
  )
  const reserved =
    reservations === undefined || reservations.count === 0 ? [] : [reservationTable(reservations)]
  return [table, ...reserved, ...(shares === undefined ? [] : [shareTables(shares)])].join('\n')
}

/** The table of what proxies have, and of what the pods have for them. Rates are per second. */
function shareTables(shares: NonNullable<CounterAnswer['shares']>): string {
  const { limitPerSecond, wantedPerSecond, grantedPerSecond, memberCount, members, pods } = shares
  const listed = members.length < memberCount ? ` (the ${members.length} with the most)` : ''
  const rate = (perSecond: number) => `${Number(perSecond.toFixed(perSecond < 10 ? 2 : 0))}`
  const rows = (holders: typeof members, first: (holder: (typeof members)[number]) => readonly string[]) =>
    holders.map(holder => [
      ...first(holder),
      rate(holder.wantedPerSecond),
      rate(holder.grantedPerSecond),
      `${Math.ceil(holder.expiresInMs / 1000)}s`,
    ])
  const amounts = ['WANTED/S', 'GRANTED/S', 'EXPIRES']
  const ofProxies = rows(members, ({ name, pod }) => [name, pod])
  const ofPods = rows(pods, ({ name, pod }) => [pod === '' ? `not connected: ${name}` : pod])
  return (
    `shares of ${memberCount} ${memberCount === 1 ? 'proxy' : 'proxies'}${listed}: ` +
    `${rate(grantedPerSecond)} of ${rate(limitPerSecond)} per second granted, ${rate(wantedPerSecond)} wanted\n` +
    `${renderTable(['PROXY', 'POD', ...amounts], ofProxies)}\n${renderTable(['PART OF POD', ...amounts], ofPods)}`
  )
}

function reservationTable({
  count,
  summed,
  amount,
  first,
}: NonNullable<CounterAnswer['reservations']>): string {
  const listed = first.length < count ? ` (the first ${first.length})` : ''
  const rows = first.map(({ id, amount, expiresAtMs }) => [
    id,
    `${amount}`,
    new Date(expiresAtMs).toISOString(),
  ])
  return `reserved: ${summed < count ? 'at least ' : ''}${amount} in ${count} ${count === 1 ? 'reservation' : 'reservations'}${listed}\n${renderTable(['RESERVATION', 'AMOUNT', 'EXPIRES'], rows)}`
}

function reportMissing(missing: readonly string[], what: string, output: CommandOutput): number {
  for (const pod of missing) output.printError(`${escapeControls(pod)}: ${what}\n`)
  return missing.length > 0 ? exitCodes.wrong : exitCodes.ok
}

async function top(
  args: readonly string[],
  output: CommandOutput,
  source: SourceOf<OperatorAddress>,
): Promise<number> {
  const { values, sourceValues } = parseWithSource(args, topOptions, source.options)
  const format = values.output
  const domain = requireOption('--domain', values.domain)
  const entries = values.entries === undefined ? undefined : parseEntriesOption(values.entries)
  if (entries && values.rule !== undefined)
    throw new UsageError('--rule and --entries cannot be used together')
  const named = entries ? '' : requireOption('--rule', values.rule)
  const operator = await source.open(sourceValues, output)
  const matched = entries && (await callApi<CounterAnswer>(operator, `/counters?${toQuery(domain, entries)}`))
  const rule = matched?.rule ?? named
  const query = new URLSearchParams({ rule, by: values.by })
  const path = `/domains/${encodeURIComponent(domain)}/top?${query}`
  const answer = await callApi<TopKeysAnswer>(operator, path)
  if (format !== 'table') output.print(render(answer, format))
  else {
    const rows = answer.keys.map(({ entries, count, error }) => [
      formatDescriptorEntries(entries),
      `${count}`,
      `${error}`,
    ])
    output.print(renderTable(['KEY', answer.by === 'hits' ? 'HITS' : 'REJECTED', 'ERROR'], rows))
    output.print(`counted for ${Math.round(answer.sinceMs / 1000)} s\n`)
  }
  if (answer.hashed) output.printError(hashedNote)
  return reportMissing(answer.missing, 'did not answer', output)
}

const hashedNote =
  'values are hashed, because the service runs with DECISION_KEYS_HASHED=true; --entries does not match hashes\n'

async function tap(
  args: readonly string[],
  output: CommandOutput,
  source: SourceOf<OperatorAddress>,
): Promise<number> {
  const { values, sourceValues } = parseWithSource(args, tapOptions, source.options)
  const format = values.output
  const query = new URLSearchParams({ domain: requireOption('--domain', values.domain) })
  if (values.rule !== undefined) query.set('rule', values.rule)
  const wanted = values.entries === undefined ? [] : parseEntriesOption(values.entries)
  const stop = new AbortController()
  const end = () => stop.abort()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, end)
  process.stdout.once('error', end)
  const batches = followApi<TapBatchEvent>(
    await source.open(sourceValues, output),
    `/tap?${query}`,
    stop.signal,
  )
  try {
    let isHashed = false
    for await (const { decisions, hashed } of batches) {
      if (hashed && wanted.length > 0) throw new UsageError(`--entries: ${hashedNote.trim()}`)
      if (hashed && !isHashed) output.printError(hashedNote)
      isHashed = hashed
      const shown = decisions.filter(({ entries }) => hasEntries(entries, wanted))
      const lines = shown.map(one => (format === 'json' ? JSON.stringify(one) : describeDecision(one)))
      output.print(lines.map(line => `${line}\n`).join(''))
    }
  } catch (error) {
    if (!stop.signal.aborted) throw error
  }
  return exitCodes.ok
}

const hasEntries = (entries: readonly DescriptorEntry[], wanted: readonly DescriptorEntry[]) =>
  wanted.every(({ key, value }) => entries.some(entry => entry.key === key && entry.value === value))

function describeDecision(decision: TapBatchEvent['decisions'][number]): string {
  const { atMs, pod, entries, rule, over, reason } = decision
  const time = new Date(atMs).toISOString()
  const answer = over ? 'OVER' : 'OK'
  return escapeControls(
    `${time} ${pod} ${formatDescriptorEntries(entries)} ${rule || '-'} ${answer} ${reason}`.trimEnd(),
  )
}
