import type { Counter, CounterChange, TapBatchEvent, TopKeysAnswer } from '../../api/shapes.ts'
import { callApi, followApi } from '../api/call-api.ts'
import { findOperator, operatorOptions, operatorOptionsHelp } from '../api/find-operator.ts'
import { type Command, exitCodes, type Output, UsageError } from '../command.ts'
import { parseEntries } from '../entries.ts'
import { parseFormat, parseOptions } from '../options.ts'
import { printable, render, renderTable } from '../render.ts'

export const counters: Command = {
  name: 'counters',
  summary: 'read, reset or raise a counter; list the top keys; watch live decisions',
  help: `Usage: tollway counters get --domain D --entries KEY=VALUE[,KEY=VALUE...]
       tollway counters reset --domain D --entries KEY=VALUE[,KEY=VALUE...]
       tollway counters raise --domain D --entries KEY=VALUE[,KEY=VALUE...] --by N
       tollway counters top --domain D --rule RULE [--by refused|hits]
       tollway counters tap --domain D [--rule RULE]

Asks the rate limit processes through their operator.
  get    prints the counter of one descriptor: its value, its limit, and the seconds until its window ends
  reset  sets the counter to 0, also in the local caches of all processes
  raise  grants N more hits until the window ends
  top    prints the keys of a rule with the most hits; the first call starts the count
  tap    prints sampled decisions until Ctrl-C; the setting DECISION_TAP of the service allows it

In a cluster, get, top and tap need the right to get ratelimitconfigs/counters of tollway.dev in the namespace
of the resource, and reset and raise the right to update it.

  -d, --domain DOMAIN  the domain
  -e, --entries LIST   one descriptor: its keys and values. A comma in a value is written \\,
  --rule RULE          top, tap: the rule, such as checkout.user
  --by N               raise: the number of hits, from 1 to 4294967295
  --by WHAT            top: refused (default) or hits
${operatorOptionsHelp}

Exit code: 0 done, 1 a pod did not answer or has not confirmed, 2 the operator did not do it.

Examples:
  tollway counters get --domain checkout --entries user=alice
  tollway counters reset -d checkout -e user=alice
  tollway counters raise -d checkout -e user=alice --by 50 -o json
  tollway counters top -d checkout --rule checkout.user
  tollway counters tap -d checkout
  kubectl create token alice > token
  tollway counters get -d checkout -e user=alice --operator http://localhost:8000 --token-file token
`,
  async run([action = '', ...args], output) {
    if (action === 'get' || action === 'reset' || action === 'raise') return await one(action, args, output)
    if (action === 'top') return await top(args, output)
    if (action === 'tap') return await tap(args, output)
    throw new UsageError(`"${action}": must be one of get, reset, raise, top, tap`)
  },
}

const domainOption = { type: 'string', short: 'd' } as const

async function one(action: 'get' | 'reset' | 'raise', args: readonly string[], output: Output) {
  const { values } = parseOptions(withNegative(args), {
    ...operatorOptions,
    domain: domainOption,
    entries: { type: 'string', short: 'e' },
    by: { type: 'string' },
  })
  const format = parseFormat(values.output, 'table')
  const domain = required('--domain', values.domain)
  const entries = parseEntries(required('--entries', values.entries))
  if (action !== 'raise' && values.by !== undefined) throw new UsageError(`--by: ${action} does not use it`)
  const by = action === 'raise' ? { by: parseBy(required('--by', values.by)) } : {}
  const operator = await findOperator(values)
  const answer =
    action === 'get'
      ? await callApi<Counter>(operator, `/counters?${queryOf(domain, entries)}`)
      : await callApi<CounterChange>(operator, `/counters/${action}`, { domain, entries, ...by })
  output.print(format === 'table' ? counterTable(answer) : render(answer, format))
  return complain(answer.missing, 'confirmed' in answer ? 'has not confirmed' : 'did not answer', output)
}

function required(option: string, value: string | undefined): string {
  if (value === undefined) throw new UsageError(`${option} is missing`)
  return value
}

/** `--by -1` reads like two options; joined, it gets the message about the allowed numbers. */
function withNegative(args: readonly string[]): readonly string[] {
  const index = args.indexOf('--by')
  const by = args[index + 1]
  return index >= 0 && by?.match(/^-\d+$/) ? args.toSpliced(index, 2, `--by=${by}`) : args
}

/** The operator judges the number. */
function parseBy(text: string): number {
  if (/^-?\d+$/.test(text)) return Number(text)
  throw new UsageError(`--by ${text}: must be a whole number from 1 to 4294967295`)
}

function queryOf(
  domain: string,
  entries: readonly { readonly key: string; readonly value: string }[],
): string {
  const descriptors = entries.map(
    ({ key, value }) => `descriptor=${encodeURIComponent(key)}=${encodeURIComponent(value)}`,
  )
  return [`domain=${encodeURIComponent(domain)}`, ...descriptors].join('&')
}

function counterTable({ counters }: Counter): string {
  const heading = ['RULE', 'VALUE', 'LIMIT', 'REMAINING', 'RESET', 'KEY']
  return renderTable(
    heading,
    counters.map(({ rule, value, limit, remaining, reset, key }) => [
      ...[rule, `${value}`, `${limit}`, `${remaining}`, `${reset}s`, key],
    ]),
  )
}

function complain(missing: readonly string[], what: string, output: Output): number {
  for (const pod of missing) output.printError(`${printable(pod)}: ${what}\n`)
  return missing.length > 0 ? exitCodes.wrong : exitCodes.ok
}

async function top(args: readonly string[], output: Output): Promise<number> {
  const { values } = parseOptions(args, {
    ...operatorOptions,
    domain: domainOption,
    rule: { type: 'string' },
    by: { type: 'string', default: 'refused' },
  })
  const format = parseFormat(values.output, 'table')
  const domain = required('--domain', values.domain)
  const query = new URLSearchParams({ rule: required('--rule', values.rule), by: values.by })
  const path = `/domains/${encodeURIComponent(domain)}/top?${query}`
  const answer = await callApi<TopKeysAnswer>(await findOperator(values), path)
  if (format !== 'table') output.print(render(answer, format))
  else {
    const rows = answer.keys.map(({ entries, count, error }) => [
      showEntries(entries),
      `${count}`,
      `${error}`,
    ])
    output.print(renderTable(['KEY', answer.by === 'hits' ? 'HITS' : 'REFUSED', 'ERROR'], rows))
    output.print(`counted for ${Math.round(answer.sinceMs / 1000)} s\n`)
  }
  return complain(answer.missing, 'did not answer', output)
}

const showEntries = (entries: readonly { readonly key: string; readonly value: string }[]) =>
  entries.map(({ key, value }) => `${key}=${value}`).join(',')

async function tap(args: readonly string[], output: Output): Promise<number> {
  const { values } = parseOptions(args, {
    ...operatorOptions,
    domain: domainOption,
    rule: { type: 'string' },
  })
  const format = parseFormat(values.output, 'table')
  const query = new URLSearchParams({ domain: required('--domain', values.domain) })
  if (values.rule !== undefined) query.set('rule', values.rule)
  const enough = new AbortController()
  const end = () => enough.abort()
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, end)
  process.stdout.once('error', end)
  const batches = followApi<TapBatchEvent>(await findOperator(values), `/tap?${query}`, enough.signal)
  try {
    for await (const { decisions } of batches) {
      const lines = decisions.map(one => (format === 'json' ? JSON.stringify(one) : describeDecision(one)))
      output.print(lines.map(line => `${line}\n`).join(''))
    }
  } catch (error) {
    if (!enough.signal.aborted) throw error
  }
  return exitCodes.ok
}

function describeDecision(decision: TapBatchEvent['decisions'][number]): string {
  const { atMs, pod, entries, rule, over, reason } = decision
  const time = new Date(atMs).toISOString()
  const answer = over ? 'OVER' : 'OK'
  return printable(`${time} ${pod} ${showEntries(entries)} ${rule || '-'} ${answer} ${reason}`.trimEnd())
}
