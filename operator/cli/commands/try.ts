import { compile } from '@tollway/ratelimit/rules/compile.ts'
import { type Explanation, explain } from '@tollway/ratelimit/rules/explain.ts'
import { type LimitSettings, windowAt } from '@tollway/ratelimit/rules/limit.ts'
import { match } from '@tollway/ratelimit/rules/match.ts'
import { replacedLimits } from '@tollway/ratelimit/rules/replaces.ts'
import { type Command, exitCodes, UsageError } from '../command.ts'
import { parseEntries } from '../entries.ts'
import { parseWithSource, required } from '../options/parse-options.ts'
import { domainOption, entriesOption, outputOption } from '../options/shared-options.ts'
import { type FolderContent, folderSource } from '../read-folder.ts'
import { printable, render } from '../render.ts'
import type { SourceOf } from '../source-of-command.ts'
import { formatFinding, validateFolder } from '../validate-folder.ts'

const own = { domain: domainOption, entries: entriesOption, output: outputOption() }

/** Returns the command for the manifests of a folder, or for the resources of a cluster. */
export const createTry = (source: SourceOf<FolderContent>): Command => ({
  name: 'try',
  summary: 'say which rule a request matches, and why',
  options: { ...own, ...source.options },
  help: {
    usage: ['--domain DOMAIN --entries KEY=VALUE[,KEY=VALUE...] [-f FOLDER]'],
    description: `\
Says for each descriptor of a request which rule it matches, entry by entry, and which limit holds. It reads
the manifests and counts nothing. Without -f it answers as the operator on this machine decides now: where a
manifest is wrong, by its last good version.`,
    exitCodes:
      '0 when every descriptor has a limit, 1 when one has none, 2 when the manifests cannot be read.',
    examples: [
      'tollway try --domain checkout --entries user=alice',
      'tollway try -f examples/quickstart -d checkout -e path=/pay/card,plan=free -e user=alice',
    ],
  },
  async run(args, output) {
    const { values, sourceValues } = parseWithSource(args, own, source.options)
    const format = values.output
    const domain = required('--domain', values.domain)
    if (values.entries.length === 0) throw new UsageError('name the entries with --entries KEY=VALUE')
    const descriptors = values.entries.map(parseEntries)
    const { findings, domains } = await validateFolder(await source.open(sourceValues, output))
    output.printError(findings.map(formatFinding).join(''))
    const rules = compile(domains, { mergeDomainConfigs: false, attach: () => undefined })
    const replaced = replacedLimits(descriptors.map(entries => match(rules, domain, entries)))
    const explanations = descriptors.map(entries =>
      withReplacement(explain(rules, domain, entries), replaced),
    )
    const isAtomic =
      descriptors.length > 1 && domains.some(each => each.domain === domain && each.allOrNothing)
    const end = isAtomic ? '\nallOrNothing: every limit above counts the request, or none does\n' : ''
    output.print(
      format === 'table' ? explanations.map(describe).join('\n') + end : render(explanations, format),
    )
    return explanations.every(({ limit }) => limit !== undefined) ? exitCodes.ok : exitCodes.wrong
  },
})

export const tryCommand = createTry(folderSource)

/** Returns what a limit counts, and when it resets. Nothing is said of a plain fixed window. */
function describeCounting(limit: LimitSettings): readonly string[] {
  const { requestsPerUnit, unitSeconds, algorithm = 'FixedWindow', burst = requestsPerUnit } = limit
  if (algorithm === 'TokenBucket') {
    const drain = `a new request every ${showSeconds(unitSeconds / requestsPerUnit)}`
    const full = `full again ${showSeconds((burst * unitSeconds) / requestsPerUnit)} after it was empty`
    const rate = requestsPerUnit === 0 ? 'no request, because requestsPerUnit is 0' : `${drain}; ${full}`
    return [`holds ${burst} ${burst === 1 ? 'request' : 'requests'}, then ${rate}`, notCounted]
  }
  if (algorithm === 'SlidingWindow') {
    const share = `the previous ${showSeconds(unitSeconds)} count by the share that is not over yet`
    return [
      `${share}; without further requests it is empty after ${showSeconds(2 * unitSeconds)}`,
      notCounted,
    ]
  }
  const { start, end } = windowAt(limit, Math.floor(Date.now() / 1000))
  return [`window from ${showTime(start)} to ${showTime(end)}`]
}

const notCounted = 'refused requests are not counted'

/** `200 ms`, `1.5 s`, `3600 s`. */
function showSeconds(seconds: number): string {
  return seconds < 1 ? `${Number((1000 * seconds).toPrecision(3))} ms` : `${Number(seconds.toFixed(1))} s`
}

/** Windows can end beyond the times that Date has. */
function showTime(seconds: number): string {
  const date = new Date(seconds * 1000)
  return Number.isNaN(date.getTime()) ? `${seconds} s after 1970` : date.toISOString().replace('.000Z', 'Z')
}

/** A limit that another descriptor of the request replaces does not count. */
function withReplacement(explanation: Explanation, replaced: ReadonlySet<string>): Explanation {
  const { limit, stem: _, ...rest } = explanation
  if (limit === undefined || limit.unlimited) return explanation
  const names = (limit.limits ?? [limit]).map(({ name }) => name)
  const gone = names.filter(name => replaced.has(name))
  if (gone.length === 0) return explanation
  const why = `(named ${gone.join(', ')}) is replaced by another descriptor's`
  if (gone.length === names.length) return { ...rest, result: `no limit: ${limit.fullKey} ${why}` }
  const left = limit.limits?.filter(({ name }) => !replaced.has(name)) ?? []
  return { ...explanation, limit: { ...limit, limits: left }, result: `${explanation.result}; ${why}` }
}

/** The fields that a plain fixed window does not have. */
function isExtended({ unitMultiplier, calendar, algorithm, limits }: LimitSettings): boolean {
  return [unitMultiplier, calendar, algorithm, limits].some(field => field !== undefined)
}

function describeLimit(limit: LimitSettings, stem: string | undefined): readonly string[] {
  const { limits, unlimited, headers = true } = limit
  const lines = limits === undefined && isExtended(limit) ? describeCounting(limit) : []
  const mode = describeMode(limit)
  const hidden = headers ? [] : ['headers of answers do not mention it']
  const ofMembers =
    limits?.flatMap((member, index) => describeMember(member, `${member.name || index}`)) ?? []
  const together = limits === undefined ? [] : ['counted by all of its limits, or by none']
  const counted = stem === undefined || unlimited || limits ? [] : [`counted under ${stem}${keyEndOf(limit)}`]
  return [...lines, ...mode, ...hidden, ...together, ...ofMembers, ...counted].map(line => `     ${line}`)
}

function describeMember(member: LimitSettings, name: string): readonly string[] {
  const hidden = member.headers === false ? ['headers of answers do not mention it'] : []
  return [...describeCounting(member), ...describeMode(member), ...hidden].map(line => `${name}: ${line}`)
}

function describeMode({ shadowMode, quotaMode }: LimitSettings): readonly string[] {
  return [
    ...(shadowMode ? ['shadow mode: counted, but never refused'] : []),
    ...(quotaMode ? ['quota: refuses only when all quotas of the request are used up'] : []),
  ]
}

function keyEndOf({ algorithm, unitSeconds }: LimitSettings): string {
  return algorithm === undefined ? "<window's start>" : `${algorithm}:${unitSeconds}`
}

function describe({ entries, result, limit, stem }: Explanation): string {
  const lines = entries.map(({ key, value, how, rule, reason }) => {
    const found = rule === undefined ? how : `${how} match of ${rule}`
    return `  ${key}=${value}  ${found}${reason === undefined ? '' : `: ${reason}`}`
  })
  lines.unshift(entries.map(({ key, value }) => `${key}=${value}`).join(' '))
  lines.push(`  => ${result}`)
  if (limit !== undefined) lines.push(...describeLimit(limit, stem))
  return `${lines.map(printable).join('\n')}\n`
}
